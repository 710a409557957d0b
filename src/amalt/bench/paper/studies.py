"""The data of the evolution figure and of the variance figure, kept as they come.

Both studies look at warm-ups of Adaptive MALT with rho = 1: where tau and gamma go on the surface
of ESS per gradient, and how much tau trembles near convergence under each gradient estimator.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from amalt import gym
from amalt.adaptation.settings import MaltSettings
from amalt.bench.paper import results
from amalt.bench.paper.design import CHAINS, INIT, TUNE, fullness, suffix
from amalt.bench.paper.grid import explorer
from amalt.bench.paper.measure import known_center, quality
from amalt.bench.paper.progress import Pace, Progress
from amalt.errors import AmaltError
from amalt.kernels import malt
from amalt.posterior import Posterior
from amalt.randomness import root_key
from amalt.sampling import sample
from amalt.targets import Target

MODEL = "radon-indiana"
"""The paper's choice for both."""

EVERY = 5
"""Iterations between two points of a trace, as in the paper."""

POINTS = 10
"""Values of tau and of gamma on the grid; the authors had 25."""

GRID_TUNE, GRID_DRAWS = 200, 400
"""Iterations at each point, from draws of the posterior; the authors had 1000 and 1000."""

PAPER_VARIANCES = (0.11, 0.057)
"""Of tau near convergence, with one and with two directions, on radon."""


class Ranges(NamedTuple):
    """The shortest and longest tau of a grid, and its strongest gamma; the weakest is 0."""

    shortest: float
    longest: float
    strongest: float


GRIDS: dict[str, Ranges] = {
    "german-credit": Ranges(0.05, 2.0, 5.0),
    "sparse-german-credit": Ranges(0.1, 12.0, 1.0),
    "radon-indiana": Ranges(0.1, 10.0, 1.0),
    "item-response": Ranges(0.1, 6.0, 2.0),
}
"""What the authors searched."""


def evolution(model: str, out: Path, chains: int, scale: float) -> dict[str, Any]:
    """Trace tau and gamma of one warm-up, and measure MALT on a grid of both.

    On the grid tau, gamma and the variances (those of the warm-up) are given, and h is learned.
    What the warm-up learned is measured in the same way. Every point is kept as it comes.
    """
    check_grid(model)
    shortest, longest, strongest = GRIDS[model]
    settings: dict[str, Any] = {
        **_facts("evolution", model, chains, scale),
        "seed": 1,
        "tune": _scaled(TUNE, scale),
        "grid_tune": _scaled(GRID_TUNE, scale),
        "grid_draws": _scaled(GRID_DRAWS, scale),
        "integration_times": np.linspace(shortest, longest, POINTS).tolist(),
        "dampings": np.linspace(0.0, strongest, POINTS).tolist(),
    }
    path = study_path(out, "evolution", model, chains, scale)
    data = _begun(path, settings) or {**settings, "points": []}
    if _missing(data):
        # Its last states are where the grid starts, so a study that goes on makes it again.
        fit = _warm_up(model, chains, settings["tune"], settings["seed"], two_directional=True)
        if "trace" not in data:
            data |= _learned(fit)
        _search(data, path, fit, gym.load(model))
    return data


def variance(model: str, out: Path, chains: int, scale: float, seeds: int) -> dict[str, Any]:
    """Trace tau near convergence, with gradients from one end of a trajectory and from both.

    Near convergence is the second half of a warm-up. Every run is kept as it comes.
    """
    tune = _scaled(TUNE, scale)
    settings = {**_facts("variance", model, chains, scale), "tune": tune}
    path = study_path(out, "variance", model, chains, scale)
    data = _begun(path, settings) or {**settings, "runs": []}
    done = {(run["seed"], run["two_directional"]) for run in data["runs"]}
    wanted = [(seed, two) for seed in range(1, seeds + 1) for two in (False, True)]
    todo = [both for both in wanted if both not in done]
    pace = Pace()
    with Progress(len(todo)) as progress:
        for i, (seed, two_directional) in enumerate(todo):
            title = f"seed {seed}, {'two directions' if two_directional else 'one direction'}"
            progress.show([title], pace.left(len(todo) - i))
            fit = _warm_up(model, chains, tune, seed, two_directional=two_directional)
            assert fit.warmup is not None
            tau = fit.warmup["integration_time"].values[tune // 2 :].astype(np.float64)
            run: dict[str, Any] = {"seed": seed, "two_directional": two_directional}
            run |= {"mean": float(tau.mean()), "variance": float(tau.var()), "trace": _thin(tau)}
            data["runs"].append(run)
            results.write(path, data)
            pace.done(1.0)
            left = pace.left(len(todo) - i - 1)
            progress.ended(title, f"variance of tau {tau.var():.3g}", left)
    return data


STUDIES: dict[str, Callable[..., dict[str, Any]]] = {"evolution": evolution, "variance": variance}


def check_grid(model: str) -> None:
    """Refuse a posterior that the authors did not search."""
    if model not in GRIDS:
        raise AmaltError(f"{model} has no grid to search; choose from {', '.join(GRIDS)}.")


def study_path(out: Path, study: str, model: str, chains: int = CHAINS, scale: float = 1.0) -> Path:
    """Return the file of a study."""
    return out / f"{study}-{model}-{chains}chains{suffix(scale)}.json"


def load_study(
    out: Path, study: str, model: str, chains: int | None = None, scale: float | None = None
) -> dict[str, Any] | None:
    """Return the data of a study, None if it has none to show or they are damaged.

    Where chains or scale are None and several studies exist, the paper's protocol counts, else the
    longest, then that with most chains.
    """
    found = [
        data
        for path in out.glob(f"{study}-{model}-*.json")
        if (data := _begun(path, {"study": study, "model": model})) is not None
        and chains in (None, data.get("chains"))
        and scale in (None, data.get("scale"))
        and _is_whole(data)
    ]
    return max(found, key=lambda data: fullness(data["scale"], data["chains"]), default=None)


def _is_whole(data: dict[str, Any]) -> bool:
    """Tell whether a study has all that is said and drawn of it."""
    try:
        fullness(float(data["scale"]), int(data["chains"]))
        if data["study"] == "variance":
            return {run["two_directional"] for run in data["runs"]} == {False, True} and all(
                run["variance"] >= 0.0 and run["seed"] >= 1 and run["trace"] for run in data["runs"]
            )
        learned = (data["learned"]["integration_time"], data["learned"]["damping"])
        done = {(p["integration_time"], p["damping"]): p["ess_per_grad"] for p in data["points"]}
        has_best = any(value for place, value in done.items() if place != learned)
        return bool(done[learned] and has_best and data["trace"]["integration_time"])
    except (KeyError, TypeError, ValueError):
        return False


def _facts(study: str, model: str, chains: int, scale: float) -> dict[str, Any]:
    return {"study": study, "model": model, "init": INIT, "chains": chains, "scale": scale}


def sentence(data: dict[str, Any]) -> str:
    """Say what a study shows."""
    if data["study"] == "variance":
        one, two = mean_variances(data)
        runs = len({run["seed"] for run in data["runs"]})
        first, second = PAPER_VARIANCES
        return (
            f"{data['model']}: the variance of tau in the second half of {data['tune']} iterations "
            f"is {one:.3g} with gradients from one direction and {two:.3g} from two, a ratio of "
            f"{two / one:.2f} (means over {runs} runs; the paper, on radon: {first}, {second})."
        )
    points = {(p["integration_time"], p["damping"]): p["ess_per_grad"] for p in data["points"]}
    learned = (data["learned"]["integration_time"], data["learned"]["damping"])
    at_learned = points.pop(learned)
    best = max(points, key=lambda place: points[place] or 0.0)
    return (
        f"{data['model']}: learned tau = {learned[0]:.3g} and gamma = {learned[1]:.3g} reach "
        f"{at_learned:.3g} effective samples per gradient, {at_learned / points[best]:.0%} of the "
        f"best of {len(points)} points of the grid (tau = {best[0]:.3g}, gamma = {best[1]:.3g})."
    )


def mean_variances(data: dict[str, Any]) -> tuple[float, float]:
    """Return the mean variance of tau over runs with one and with two directions."""
    both = [
        [run["variance"] for run in data["runs"] if run["two_directional"] == two]
        for two in (False, True)
    ]
    one, two = (float(np.mean(some)) if some else np.nan for some in both)
    return one, two


def _search(data: dict[str, Any], path: Path, fit: Posterior, target: Target) -> None:
    """Measure the points that are missing, short trajectories first."""
    assert fit.tuning is not None
    variances, root = np.asarray(data["variances"]), root_key(data["seed"])[0]
    explore = explorer(target, variances, root, data["grid_tune"], data["grid_draws"])
    number = functools.partial(jnp.asarray, dtype=target.dtype)
    h = number(data["learned"]["step_size"])
    start = functools.partial(malt.init, value_and_grad=target.value_and_grad)
    states = jax.vmap(start)(jnp.asarray(fit.unconstrained[:, -1]))
    center, todo, pace = known_center(fit, target), _missing(data), Pace()
    with Progress(len(todo)) as progress:
        for i, (tau, gamma) in enumerate(todo):
            title = f"tau {tau:.3g}, gamma {gamma:.3g}"
            # A point takes about as long as its trajectories are.
            progress.show([title], pace.left(sum(tau for tau, _ in todo[i:])))
            point = explore(states, h, number(tau), number(gamma))
            per_chain, together, _ = quality(np.asarray(point.positions), center)
            gradients = data["grid_draws"] * int(point.num_steps)
            figures = {
                "integration_time": tau,
                "damping": gamma,
                "step_size": float(point.step_size),
                "num_steps": int(point.num_steps),
                "acceptance_rate": float(point.acceptance_rate),
                "ess_per_grad": float(per_chain.min()) / gradients,
                "multi_chain_ess_per_grad": float(together.min()) / gradients,
            }
            data["points"].append(figures)
            results.write(path, data)
            pace.done(tau)
            words = f"{figures['ess_per_grad']:.3g} effective samples per gradient"
            progress.ended(title, words, pace.left(sum(tau for tau, _ in todo[i + 1 :])))


def _missing(data: dict[str, Any]) -> list[tuple[float, float]]:
    """Return the points that have no figures, that of the warm-up included."""
    wanted = [(tau, gamma) for tau in data["integration_times"] for gamma in data["dampings"]]
    if "learned" in data:
        wanted.append((data["learned"]["integration_time"], data["learned"]["damping"]))
    done = {(point["integration_time"], point["damping"]) for point in data["points"]}
    return sorted(point for point in wanted if point not in done)


def _learned(fit: Posterior) -> dict[str, Any]:
    """Return the trace of a warm-up, and what was frozen in its end."""
    assert fit.warmup is not None
    assert fit.tuning is not None
    names = ("integration_time", "damping")
    return {
        "trace": {name: _thin(fit.warmup[name].values) for name in names},
        "learned": {
            "step_size": fit.tuning.step_size,
            "integration_time": fit.tuning.integration_time,
            "damping": fit.tuning.damping,
        },
        "variances": np.asarray(fit.tuning.variances).tolist(),
    }


def _warm_up(model: str, chains: int, tune: int, seed: int, *, two_directional: bool) -> Posterior:
    """Run Adaptive MALT as the paper does; of the draws, only where they end is of interest."""
    return sample(
        gym.load(model),
        chains=chains,
        tune=tune,
        draws=100,
        settle=0,
        preset=MaltSettings(two_directional=two_directional),
        init=INIT,
        random_seed=seed,
        progressbar=False,
    )


def _begun(path: Path, settings: dict[str, Any]) -> dict[str, Any] | None:
    """Return what a study with these settings has so far; None if that is nothing or damaged."""
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    is_same = isinstance(data, dict) and all(
        cast("dict[str, Any]", data).get(key) == value for key, value in settings.items()
    )
    return cast("dict[str, Any]", data) if is_same else None


def _scaled(steps: int, scale: float) -> int:
    return max(20, round(steps * scale))


def _thin(trace: np.ndarray) -> list[float]:
    """Return every fifth number with five digits: files stay small."""
    return [float(f"{value:.5g}") for value in trace[::EVERY]]
