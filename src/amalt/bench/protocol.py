"""The paper's protocol on one posterior: ``python -m amalt.bench.protocol german-credit``.

128 chains, 5000 adaptive iterations, 400 with frozen tuning, 1600 draws. Per run the least
effective sample size over coordinates of the centered squares (z - mu)^2, where mu is the known
mean: by the paper's estimator (each chain by itself) and by the multi-chain estimator, both per
chain, divided by gradients and by iterations. Every run is saved as it ends; a command that is
repeated goes on.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from amalt import gym
from amalt.diagnostics.ess import ess, ess_per_chain
from amalt.diagnostics.rhat import rhat
from amalt.posterior import Posterior
from amalt.sampling import sample
from amalt.targets import Target

CHAINS, TUNE, SETTLE, DRAWS = 128, 5000, 400, 1600
COLUMNS = (
    "seed",
    "ess_per_grad",
    "multi_chain_ess_per_grad",
    "ess_per_iter",
    "rhat",
    "max_z",
    "num_steps",
    "step_size",
    "integration_time",
    "damping",
    "acceptance_rate",
    "gradients_warmup",
)


def known_mean(target: Target) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and its standard error for every entry of the flat vector.

    The variables of the posteriors measured here are the unconstrained coordinates themselves.
    """
    if target.truth is None:
        raise SystemExit(f"{target.name} has no known moments to measure against.")
    flat = [(np.ravel(mean), np.ravel(se)) for mean, _, se in target.truth.values()]
    return np.concatenate([m for m, _ in flat]), np.concatenate([s for _, s in flat])


def measure(fit: Posterior, target: Target) -> dict[str, float]:
    """Return the figures of one run."""
    mean, mean_se = known_mean(target)
    z = fit.unconstrained.astype(np.float64)
    square = (z - mean) ** 2
    chains, draws = z.shape[:2]
    per_chain, together = float(ess_per_chain(square).min()), float(ess(square).min()) / chains
    error = np.sqrt(z.var(axis=(0, 1)) / ess(z) + mean_se**2)
    gradients = fit.cost.gradients_sampling
    return {
        "ess_per_grad": per_chain / gradients,
        "multi_chain_ess_per_grad": together / gradients,
        "ess_per_iter": per_chain / draws,
        "rhat": float(max(rhat(square).max(), rhat(z).max())),
        "max_z": float(np.max(np.abs(z.mean(axis=(0, 1)) - mean) / error)),
        "num_steps": fit.tuning.num_steps,
        "step_size": fit.tuning.step_size,
        "integration_time": fit.tuning.integration_time,
        "damping": fit.tuning.damping,
        "acceptance_rate": float(fit.sample_stats["acceptance_rate"].mean()),
        "gradients_warmup": fit.cost.gradients_warmup,
        "compile_seconds": fit.cost.compile_seconds,
        "warmup_seconds": fit.cost.warmup_seconds,
        "sampling_seconds": fit.cost.sampling_seconds,
    }


def run(target: Target, preset: str, seed: int) -> dict[str, float]:
    """Sample once by the protocol and return the figures."""
    fit = sample(
        target,
        chains=CHAINS,
        tune=TUNE,
        settle=SETTLE,
        draws=DRAWS,
        preset=preset,
        random_seed=seed,
    )
    return measure(fit, target)


def main() -> None:
    """Run what is missing, save it, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a built-in posterior with known moments")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    target = gym.load(options.model)
    rows: list[dict[str, Any]] = []
    for seed in range(1, options.seeds + 1):
        path = options.out / f"{options.model}-{options.preset}-{seed}.json"
        if not path.exists():
            figures = {"seed": seed, **run(target, options.preset, seed)}
            scratch = path.with_suffix(".part")
            scratch.write_text(json.dumps(figures, indent=1) + "\n")
            scratch.rename(path)
        rows.append(json.loads(path.read_text()))
    Console(width=150).print(_table(options.model, options.preset, rows))


def _table(model: str, preset: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(title=f"{model}, preset {preset}: {CHAINS} chains, {TUNE} + {SETTLE} + {DRAWS}")
    for column in COLUMNS:
        table.add_column(column.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(f"{row[column]:.4g}" for column in COLUMNS))
    return table


if __name__ == "__main__":
    main()
