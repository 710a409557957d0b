"""Results as a run would leave them, with figures that tests choose."""

from pathlib import Path
from typing import Any

import numpy as np

from amalt.bench.paper import results
from amalt.bench.paper.design import COLUMNS, ESS_PER_GRAD, ESS_PER_ITER, MODELS, Run, plan


def result(run: Run, **figures: Any) -> dict[str, Any]:
    per_grad = ESS_PER_GRAD[run.model][run.column]
    per_iter = ESS_PER_ITER[run.model][run.column]
    made = {
        "ess_per_grad": per_grad,
        "ess_per_iter": per_iter,
        "multi_chain_ess_per_grad": 0.5 * per_grad,
        "multi_chain_ess_per_iter": 0.5 * per_iter,
        "rhat": 1.002,
        "max_z": 2.5,
        "acceptance_rate": 0.8,
        "mean_num_steps": per_iter / per_grad,
        "gradients_sampling": 4000,
        "gradients_sampling_mean": 1000.0,
        "seconds": 30.0,
    }
    return {**run.facts, **made, **figures}


def save(out: Path, run: Run, **figures: Any) -> Path:
    out.mkdir(exist_ok=True)
    results.write(out / run.file_name, result(run, **figures))
    return out / run.file_name


def save_all(out: Path, seeds: int = 3) -> None:
    """Save results of all cells that scatter around the paper's by a twentieth."""
    rng = np.random.default_rng(1)
    for run in plan(tuple(MODELS), tuple(COLUMNS), seeds, 128, 1.0):
        noise = rng.normal(1.0, 0.05, 2)
        per_grad = ESS_PER_GRAD[run.model][run.column] * noise[0]
        per_iter = ESS_PER_ITER[run.model][run.column] * noise[1]
        save(out, run, ess_per_grad=per_grad, ess_per_iter=per_iter)
