"""What Adaptive MALT learns on Gaussians, against what theory and a grid say it should."""

import numpy as np
import pytest

import amalt

from .gaussians import make, solve

# Few chains see less per iteration, so they get more of them.
TUNE = {128: 2000, 4: 8000, 1: 30000}
DRAWS = {128: 100, 4: 1000, 1: 4000}

QUICK = [
    # dim, condition, decades of scale, chains, preset
    (2, 1.0, 0, 128, "paper"),
    (2, 1e4, 6, 128, "paper-rho"),
    (2, 1e4, 6, 1, "paper"),
    (50, 1.0, 6, 4, "paper"),
    (50, 100.0, 6, 128, "paper"),
    (50, 100.0, 6, 4, "paper-rho"),
    (50, 100.0, 0, 1, "paper"),
    (200, 1.0, 0, 128, "paper"),
]
SHAPES = [(2, 1.0, 0), (2, 1e4, 6), (50, 1.0, 6), (50, 100.0, 6), (50, 1e4, 0), (200, 1.0, 6)]
LONG = [
    (*shape, chains, preset)
    for shape in SHAPES
    for chains in (1, 4, 128)
    for preset in ("paper", "paper-rho")
    if (*shape, chains, preset) not in QUICK
]
LONG += [(200, 1e4, 0, 128, preset) for preset in ("paper", "paper-rho")]


def check(dim: int, condition: float, decades: float, chains: int, preset: str) -> None:
    gaussian = make(dim, condition, decades)
    fit = amalt.sample(
        gaussian.target,
        chains=chains,
        tune=TUNE[chains],
        draws=DRAWS[chains],
        preset=preset,
        random_seed=1,
    )
    answer = solve(gaussian, fit, adaptive_rho=preset == "paper-rho")
    tuning = fit.tuning

    eigenvalue = tuning.damping**-2
    assert abs(eigenvalue / answer.eigenvalue - 1) < 0.1

    rates = fit.sample_stats["acceptance_rate"].values
    error = rates.std() / np.sqrt(rates.size)
    assert abs(rates.mean() - 0.8) < 0.02 + 3 * error

    # A time is a whole number of steps, learned from the velocities of the continuous motion:
    # where trajectories have two to six steps, it is known to a step.
    miss = abs(tuning.integration_time - answer.best_time)
    assert miss < max(0.15 * answer.best_time, tuning.step_size)
    assert answer.share_of_best > 0.95 - 3 * answer.share_error


@pytest.mark.parametrize(("dim", "condition", "decades", "chains", "preset"), QUICK)
def test_learns_what_it_should(
    dim: int, condition: float, decades: float, chains: int, preset: str
) -> None:
    check(dim, condition, decades, chains, preset)


@pytest.mark.long
@pytest.mark.parametrize(("dim", "condition", "decades", "chains", "preset"), LONG)
def test_learns_what_it_should_everywhere(
    dim: int, condition: float, decades: float, chains: int, preset: str
) -> None:
    check(dim, condition, decades, chains, preset)


def test_integration_time_does_not_collapse_on_isotropic_targets() -> None:
    """With tau in the denominator instead of the realized time, L stays 1 for ever here."""
    gaussian = make(200, 1.0, 0)
    fit = amalt.sample(gaussian.target, chains=32, tune=1500, draws=10, random_seed=3)
    assert fit.warmup is not None
    late = fit.warmup["num_steps"].values[-500:]
    assert np.mean(late >= 2) > 0.95
    assert tuning_is_stationary(fit)


def tuning_is_stationary(fit: amalt.Posterior) -> bool:
    assert fit.warmup is not None
    time = np.log(fit.warmup["integration_time"].values)
    return bool(abs(time[-250:].mean() - time[-500:-250].mean()) < 0.2)
