"""Measure which difference to the authors' code makes which trajectory length.

``python scripts/experiments/lengths.py [MODEL ...]`` learns the tuning of MALT (rho = 1) with the
preset of the paper, and with one thing after the other done as the authors' code does it: the mean
of acceptance rates, the direction of the criterion, the weight of a jump, its denominator. Then it
measures effective samples per gradient, also at the length that the paper's tables imply.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

import jax.numpy as jnp
import numpy as np

import amalt
from amalt.adaptation import malt as adaptive_malt
from amalt.adaptation import trajectory
from amalt.bench.paper.design import ESS_PER_GRAD, ESS_PER_ITER, INIT
from amalt.bench.paper.measure import measure

CHAINS, TUNE, DRAWS, SEED = 128, 3000, 800, 1
HARMONIC = {"harmonic_acceptance": True, "target_accept": 0.7}
MODELS = ("brownian-bridge", "sparse-german-credit")


def main() -> None:
    """Print a table for each model."""
    for model in sys.argv[1:] or MODELS:
        target = amalt.gym.load(model)
        base = learn(target)
        show(model, "arithmetic 0.8, preconditioned direction (amalt)", base, target)
        direction = raw_direction(base)
        variants: list[tuple[str, dict[str, Any], list[Any]]] = [
            ("harmonic 0.7", HARMONIC, []),
            ("raw direction", {}, [raw(direction)]),
            ("sign of the weight flipped", {}, [flipped()]),
            ("tau + h in the denominator", {}, [plus_one_step()]),
            (
                "all four (the authors' code)",
                HARMONIC,
                [raw(direction, flip=True), plus_one_step()],
            ),
        ]
        for title, settings, patches in variants:
            with contextlib.ExitStack() as stack:
                for patch in patches:
                    stack.enter_context(patch)
                fit = learn(target, **settings)
            show(model, title, fit, target)
        steps = round(ESS_PER_ITER[model]["malt"] / ESS_PER_GRAD[model]["malt"])
        show(model, "the length of the paper's tables", at_length(target, base, steps), target)


def learn(target: amalt.Target, **settings: Any) -> amalt.Posterior:
    """Run the protocol, shortened."""
    return amalt.sample(
        target,
        chains=CHAINS,
        tune=TUNE,
        draws=DRAWS,
        preset=amalt.MaltSettings(**settings),
        init=INIT,
        random_seed=SEED,
        progressbar=False,
    )


def at_length(target: amalt.Target, base: amalt.Posterior, steps: int) -> amalt.Posterior:
    """Sample with all that was learned but the length."""
    assert base.tuning is not None
    h = base.tuning.step_size
    tuning = amalt.Tuning(h, steps * h, base.tuning.damping, base.tuning.variances)
    return amalt.sample(
        target,
        chains=CHAINS,
        tuning=tuning,
        settle=200,
        draws=DRAWS,
        init=base.unconstrained[:, -1],
        random_seed=SEED,
        progressbar=False,
    )


def raw_direction(fit: amalt.Posterior) -> np.ndarray:
    """Return the principal component of the positions, of length 1 / sd along itself."""
    x = fit.unconstrained.reshape(-1, fit.unconstrained.shape[-1]).astype(np.float64)
    values, vectors = np.linalg.eigh(np.cov(x.T))
    return (vectors[:, -1] / np.sqrt(values[-1])).astype(np.float32)


def raw(direction: np.ndarray, *, flip: bool = False) -> Any:
    """Project on a direction of the raw space."""
    z = jnp.asarray(direction)

    def project(state: Any, used: Any, before: Any, after: Any, info: Any) -> Any:
        mean = state.moments.mean
        jump = trajectory.Jump(
            before=(before.position - mean[None]) @ z,
            after=(info.proposal - mean[None]) @ z,
            speed_before=used.metric.apply(info.initial_momentum) @ z,
            speed_after=used.metric.apply(info.final_momentum) @ z,
            acceptance=weight(info) if flip else info.acceptance_rate,
        )
        return jump, (after.position - mean[None]) @ z

    return mock.patch.object(adaptive_malt, "_project", project)


def flipped() -> Any:
    """Weigh jumps by exp(min(0, Delta))."""
    original: Any = adaptive_malt._project

    def project(state: Any, used: Any, before: Any, after: Any, info: Any) -> Any:
        jump, projected = original(state, used, before, after, info)
        return jump._replace(acceptance=weight(info)), projected

    return mock.patch.object(adaptive_malt, "_project", project)


def weight(info: Any) -> Any:
    """Return the authors' weight; trajectories that are never accepted still count as nothing."""
    usable = info.acceptance_rate > 0.0
    return jnp.where(usable, jnp.exp(jnp.minimum(info.energy_error, 0.0)), 0.0)


@contextlib.contextmanager
def plus_one_step() -> Iterator[None]:
    """Divide the squared jump by tau + h: the gradient in log tau of ESJD / (T + h)."""
    original, used = trajectory.criterion_gradient, list[Any]()
    update: Any = adaptive_malt.update

    def remember(state: Any, tuning: Any, *rest: Any) -> Any:
        used[:] = [tuning.step_size]
        return update(state, tuning, *rest)

    def gradient(jump: Any, time: Any, rho: Any, two_directional: bool) -> Any:
        # T delta - (1 + rho) / 2 T / (T + h) jump^2, by a rho that makes it so.
        share = time / (time + used[0])
        return original(jump, time, (1.0 + rho) * share - 1.0, two_directional)

    with (
        mock.patch.object(trajectory, "criterion_gradient", gradient),
        mock.patch.object(adaptive_malt, "update", remember),
    ):
        yield


def show(model: str, title: str, fit: amalt.Posterior, target: amalt.Target) -> None:
    """Print one line."""
    figures = measure(fit, target)
    print(
        f"{model:22}{title:50} h {figures['step_size']:.4f}  L {figures['num_steps']:3d}  accepted "
        f"{figures['acceptance_rate']:.3f}  ESS/grad {figures['ess_per_grad']:.5f}  ESS/iter "
        f"{figures['ess_per_iter']:.4f}  multi-chain ESS/grad "
        f"{figures['multi_chain_ess_per_grad']:.6f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
