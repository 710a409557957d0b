"""The figures of one run, by the paper's protocol.

Quality is the least effective sample size over coordinates of the centered squares (z - mu)^2 in
the unconstrained space: by the paper's estimator (each chain by itself) and by the multi-chain
estimator, both per chain. mu is the known mean where a coordinate is also a variable with known
moments, else the mean of all draws of the run.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np

from amalt.diagnostics.columns import column_blocks
from amalt.diagnostics.ess import ess, ess_per_chain
from amalt.diagnostics.rhat import rhat
from amalt.posterior import Posterior
from amalt.targets import Target


def measure(fit: Posterior, target: Target) -> dict[str, Any]:
    """Return the figures of a run; gradients are per chain, seconds those of `Posterior.cost`."""
    draws = fit.unconstrained.shape[1]
    per_chain, together, worst_rhat = quality(fit.unconstrained, known_center(fit, target))
    # The estimates that cannot be computed sort as the worst: argmin finds NaN first.
    worst, worst_together = int(np.argmin(per_chain)), int(np.argmin(together))
    least, least_together = float(per_chain[worst]), float(together[worst_together])
    gradients = fit.cost.gradients_sampling
    return {
        "ess_per_grad": least / gradients,
        "ess_per_iter": least / draws,
        "multi_chain_ess_per_grad": least_together / gradients,
        "multi_chain_ess_per_iter": least_together / draws,
        "worst": target.element(worst),
        "multi_chain_worst": target.element(worst_together),
        "rhat": float(worst_rhat.max()),
        "rhat_worst": target.element(int(np.argmax(worst_rhat))),
        **errors_of_means(fit, target),
        **learned(fit),
        "acceptance_rate": float(fit.sample_stats["acceptance_rate"].mean()),
        "diverging": int(fit.sample_stats["diverging"].sum()),
        "mean_num_steps": gradients / draws,
        "gradients_sampling_mean": gradients_by_mean(fit),
        **dataclasses.asdict(fit.cost),
        "verdict": fit.verdict.sentence,
        "settings": json.loads(fit.attrs["settings"]),
        "versions": {
            name: fit.attrs[name]
            for name in ("inference_library_version", "jax_version", "jaxlib_version")
        },
        "device": fit.attrs["device"],
    }


def quality(z: np.ndarray, center: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each coordinate both ESS of (z - mu)^2, per chain, and the larger R-hat of z, z^2.

    Parameters
    ----------
    z
        Draws ``[chain, draw, dim]``.
    center
        mu ``[dim]``; NaN where the mean of all draws stands for it.
    """
    chains, _, dim = z.shape
    per_chain, together, worst_rhat = np.empty(dim), np.empty(dim), np.empty(dim)
    for part, x in column_blocks(z):
        mean = np.where(np.isnan(center[part]), x.mean(axis=(0, 1)), center[part])
        square = (x - mean) ** 2
        per_chain[part] = ess_per_chain(square)
        together[part] = ess(square) / chains
        worst_rhat[part] = np.maximum(rhat(x), rhat(square))
    return per_chain, together, worst_rhat


def known_center(fit: Posterior, target: Target) -> np.ndarray:
    """Return the known mean of every unconstrained coordinate; NaN where there is none.

    It is known where a part of the position has known moments under its name and is shown to the
    reader as it was sampled.
    """
    center = np.full(target.dim, np.nan)
    truth, begin = target.truth or {}, 0
    for part in target.parts:
        where = slice(begin, begin + part.size)
        begin += part.size
        if part.name not in truth or part.name not in fit.posterior:
            continue
        shown = fit.posterior[part.name].values[0]
        sampled = fit.unconstrained[0, :, where]
        if shown.size == sampled.size and np.array_equal(shown.reshape(sampled.shape), sampled):
            center[where] = np.ravel(truth[part.name][0])
    return center


def errors_of_means(fit: Posterior, target: Target) -> dict[str, Any]:
    """Return the largest distance of a mean from the truth, in Monte Carlo errors of both sides."""
    worst, name = -1.0, None
    for variable in target.variables:
        if variable.name not in (target.truth or {}):
            continue
        assert target.truth is not None
        known, _, known_se = (np.ravel(moment) for moment in target.truth[variable.name])
        values = fit.posterior[variable.name].values
        for part, x in column_blocks(values.reshape(*values.shape[:2], -1)):
            with np.errstate(divide="ignore", invalid="ignore"):
                error = np.sqrt(x.var(axis=(0, 1)) / ess(x) + known_se[part] ** 2)
                z = np.abs(x.mean(axis=(0, 1)) - known[part]) / error
            z = np.nan_to_num(z, nan=np.inf)
            if z.max() > worst:
                worst, name = float(z.max()), variable.element(part.start + int(np.argmax(z)))
    return {"max_z": None if name is None else worst, "max_z_worst": name}


def learned(fit: Posterior) -> dict[str, Any]:
    """Return what the chains share in the end; null for a method that never stops learning."""
    names = ("step_size", "integration_time", "damping", "num_steps")
    return {name: getattr(fit.tuning, name, None) for name in names}


def gradients_by_mean(fit: Posterior) -> float:
    """Return the gradients of sampling by the mean over chains, not by the one that took most."""
    steps = fit.sample_stats["n_steps"].values
    most = steps.max(axis=0).sum(dtype=np.int64)
    return float(steps.mean(axis=0).sum() * fit.cost.gradients_sampling / most)
