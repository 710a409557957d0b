"""Results on disk, one small file for each run, and what is made of them: the cells of the tables.

A tenth percentile over runs stands in every cell, with three standard errors by bootstrap.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, cast

import numpy as np

from amalt import plainjson
from amalt.bench.paper.design import COLUMNS, ESS_PER_GRAD, ESS_PER_ITER, MODELS, Run, fullness

PERCENTILE = 10
RESAMPLES = 2000
FIGURES = (
    "ess_per_grad",
    "ess_per_iter",
    "multi_chain_ess_per_grad",
    "multi_chain_ess_per_iter",
)
NUMBERS = (*FIGURES, "rhat", "max_z", "acceptance_rate", "mean_num_steps", "seconds")
"""What a result must hold, as numbers or null, and a cell tells of each of its runs."""

GRADIENTS = ("gradients_sampling", "gradients_sampling_mean")
POSITIVE = (*GRADIENTS, "seconds")


def shipped() -> Path:
    """Return the directory of the results that come with amalt."""
    return Path(str(resources.files("amalt.bench"))) / "results" / "paper"


def write(path: Path, result: dict[str, Any]) -> None:
    """Keep the result of a run; the file appears whole or not at all."""
    scratch = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        scratch.write_text(plainjson.dumps(result, indent=1) + "\n", encoding="utf-8")
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


def read(path: Path) -> dict[str, Any] | None:
    """Return the result of a run made as runs are made now; None if it is not, or damaged."""
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        run = Run(**{field.name: content[field.name] for field in dataclasses.fields(Run)})
        is_whole = (
            path.name == run.file_name
            and type(run.seed) is type(run.chains) is int
            and all(content.get(key) == value for key, value in run.facts.items())
            and all(content[key] is None or content[key] >= 0.0 for key in NUMBERS)
            and all(content[key] > 0 for key in POSITIVE)
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return cast("dict[str, Any]", content) if is_whole else None


def find(directory: Path, run: Run) -> dict[str, Any] | None:
    """Return the result of a run if it has one."""
    return read(directory / run.file_name)


def load_results(directory: Path) -> list[dict[str, Any]]:
    """Return one row for each run and way to count it, in the order of the tables.

    A row is what the run's file holds, with ``method`` (a key of `COLUMNS`) added. A run of NUTS
    gives two: ``nuts``, and ``nuts-avg`` with gradients counted by their mean over chains. Files
    that are not results are left out.

    Parameters
    ----------
    directory
        As given to ``amalt bench paper --out``.
    """
    found = [read(path) for path in sorted(directory.glob("*.json"))]
    rows = [
        _counted(result, method)
        for result in found
        if result is not None
        for method, column in COLUMNS.items()
        if column.run == result["column"]
    ]
    models, methods = list(MODELS), list(COLUMNS)
    return sorted(
        rows,
        key=lambda row: (models.index(row["model"]), methods.index(row["method"]), row["seed"]),
    )


def cells(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each model and method that has runs, aggregated over its runs.

    Where runs of several lengths or numbers of chains exist, one protocol counts: the paper's, else
    the longest, then that with most chains. Errors are three standard errors, None for one run.

    Parameters
    ----------
    rows
        From `load_results`.
    """
    groups: dict[tuple[str, str], dict[tuple[float, int], list[dict[str, Any]]]] = {}
    for row in rows:
        protocols = groups.setdefault((row["model"], row["method"]), {})
        protocols.setdefault((row["scale"], row["chains"]), []).append(row)
    return [
        _cell(model, method, max(found.items(), key=lambda item: fullness(*item[0])))
        for (model, method), found in groups.items()
    ]


def tenth_percentile(values: Sequence[float]) -> float:
    """Return the tenth percentile, interpolated.

    Examples
    --------
    >>> float(tenth_percentile(range(11)))
    1.0
    """
    return float(np.percentile(np.asarray(values, float), PERCENTILE))


def three_standard_errors(values: Sequence[float]) -> float | None:
    """Return three standard errors of the tenth percentile over runs, by bootstrap."""
    if len(values) < 2:
        return None
    rng = np.random.default_rng(0)
    resampled = rng.choice(np.asarray(values, float), size=(RESAMPLES, len(values)))
    return float(3.0 * np.percentile(resampled, PERCENTILE, axis=1).std(ddof=1))


def _counted(result: dict[str, Any], method: str) -> dict[str, Any]:
    row = {**result, "method": method}
    if method != result["column"]:
        longest, mean = (result[key] for key in GRADIENTS)
        for name in ("ess_per_grad", "multi_chain_ess_per_grad"):
            row[name] = None if result[name] is None else result[name] * longest / mean
    return row


def _cell(
    model: str, method: str, group: tuple[tuple[float, int], list[dict[str, Any]]]
) -> dict[str, Any]:
    (scale, chains), rows = group
    cell: dict[str, Any] = {"model": model, "method": method}
    for name in FIGURES:
        # What could not be computed is null in the file; the cell says so too.
        values = [np.nan if row[name] is None else row[name] for row in rows]
        cell[name] = tenth_percentile(values)
        cell[f"{name}_error"] = three_standard_errors(values)
    for name, table in (("ess_per_grad", ESS_PER_GRAD), ("ess_per_iter", ESS_PER_ITER)):
        known = table[model].get(method)
        cell[f"paper_{name}"] = known
        cell[f"{name}_ratio"] = None if known is None else cell[name] / known
    cell["rhat"] = max(np.inf if row["rhat"] is None else row["rhat"] for row in rows)
    errors = [row["max_z"] for row in rows]
    cell["max_z"] = None if None in errors else max(errors)
    each = [{key: row[key] for key in ("seed", *NUMBERS)} for row in rows]
    return {**cell, "runs": len(rows), "chains": chains, "scale": scale, "each_run": each}
