"""The example of docs/explanation/resonance.md: a length at which HMC fails and MALT does not."""

import jax.numpy as jnp
import numpy as np

import amalt
from amalt.diagnostics.ess import ess

SD = np.array([1.0, 0.9, 0.5, 0.3])


def run(damping: float) -> amalt.Posterior:
    sd = jnp.asarray(SD, jnp.float32)
    target = amalt.Target(lambda x: -0.5 * jnp.sum((x["x"] / sd) ** 2), {"x": jnp.zeros(4)})
    tuning = amalt.Tuning(step_size=0.1, integration_time=np.pi, damping=damping)
    return amalt.sample(target, chains=64, draws=1000, tuning=tuning, settle=0, random_seed=1)


def deviations_in_errors(fit: amalt.Posterior) -> np.ndarray:
    """Return (mean square - variance) over its Monte Carlo error as claimed by single chains."""
    square = fit.unconstrained.astype(np.float64) ** 2
    claimed = ess(square.reshape(1, -1, 4))
    return (square.mean(axis=(0, 1)) - SD**2) / (np.sqrt(2) * SD**2 / np.sqrt(claimed))


def test_hmc_of_fixed_length_resonates() -> None:
    fit = run(damping=0.0)
    # Nothing that is usually looked at warns: nearly everything is accepted, nothing diverges.
    assert float(fit.sample_stats["acceptance_rate"].mean()) > 0.98
    assert not fit.sample_stats["diverging"].values.any()
    # And yet the first coordinate keeps the squares that it started with.
    square = fit.unconstrained.astype(np.float64)[:, :, 0] ** 2
    assert ess(square) < 0.005 * square.size
    assert abs(fit.unconstrained[:, :, 0].std() - 1.0) > 0.1
    assert not fit.ok


def test_malt_of_the_same_length_does_not() -> None:
    fit = run(damping=1.0)
    assert np.all(ess(fit.unconstrained.astype(np.float64) ** 2) > 0.8 * 64_000)
    assert np.all(np.abs(deviations_in_errors(fit)) < 4.5)
    assert fit.ok
