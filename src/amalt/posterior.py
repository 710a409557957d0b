"""Posterior: what a run returns. One xarray DataTree, and the questions people ask of it."""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import os
import warnings
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from amalt.diagnostics.verdict import Verdict, judge, judge_shown
from amalt.errors import AmaltError
from amalt.storage.archive import read_tree, write_tree
from amalt.tuning import Tuning


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a run cost. Gradients are per chain: of the longest, for which all others wait (NUTS).

    Only `gradients_shared` are not: those of an ADVI start serve all chains together. So a run took
    chains x (start + warm-up + settle + sampling) + shared gradients. The evaluation of the
    starting points is counted in `gradients_start` alone. `traces` counts how often the log density
    was traced by JAX, `compile_seconds` includes that.
    """

    gradients_start: int
    gradients_warmup: int
    gradients_settle: int
    gradients_sampling: int
    compile_seconds: float
    warmup_seconds: float
    sampling_seconds: float
    traces: int
    gradients_shared: int = 0


JUDGED = ("lp", "acceptance_rate", "diverging")
"""Statistics that a judgment needs."""


class Posterior:
    """Draws, statistics and cost of one run.

    Parameters
    ----------
    tree
        A DataTree with the groups ``posterior``, ``sample_stats``, ``unconstrained_posterior`` and,
        after a warm-up, ``warmup``; made by `amalt.sample` or read by `amalt.load`.
    """

    def __init__(self, tree: xr.DataTree) -> None:
        self._tree = tree

    def __repr__(self) -> str:
        sizes = self.posterior.sizes
        return (
            f"Posterior of {self.attrs['target']!r}: {sizes['chain']} chains x {sizes['draw']} "
            f"draws. {self.verdict.sentence}"
        )

    @property
    def posterior(self) -> xr.Dataset:
        """The constrained variables, with dimensions chain and draw in front."""
        return self._group("posterior")

    @property
    def sample_stats(self) -> xr.Dataset:
        """Per draw: lp (of the unconstrained space), acceptance_rate, n_steps, diverging,
        energy_error. Once: step_size, int_time, damping, inv_metric.
        """  # noqa: D205
        return self._group("sample_stats")

    @property
    def warmup(self) -> xr.Dataset | None:
        """The history of the warm-up: step_size, integration_time, damping, rho and acceptance_rate
        of every step, and the variances at block ends.
        """  # noqa: D205
        return self._group("warmup") if "warmup" in self._tree.children else None

    @property
    def unconstrained(self) -> np.ndarray:
        """The draws in the space that was sampled, ``[chain, draw, dim]``."""
        return self._group("unconstrained_posterior")["z"].values

    @property
    def attrs(self) -> dict[str, Any]:
        """Seed, settings, versions, device, precision and times of the run."""
        return {str(key): value for key, value in self._tree.attrs.items()}

    @cached_property
    def cost(self) -> Cost:
        """Gradients, seconds and traces that the run took."""
        return Cost(**json.loads(self._tree.attrs["cost"]))

    @cached_property
    def tuning(self) -> Tuning | None:
        """What the chains were sampled with; pass it as ``tuning=`` to skip a warm-up.

        None for a method that never stops learning, as ``"ghmc"``.
        """
        stats = self.sample_stats
        if "step_size" not in stats:
            return None
        time = float(stats["int_time"])
        return Tuning(
            step_size=float(stats["step_size"]),
            integration_time=None if math.isnan(time) else time,
            damping=float(stats["damping"]),
            variances=np.asarray(stats["inv_metric"], dtype=np.float64),
        )

    @cached_property
    def verdict(self) -> Verdict:
        """A judgment of the run: whether it can be trusted, and why, in one sentence."""
        stats = self.sample_stats
        names = [str(name) for name in self._group("unconstrained_posterior")["entry"].values]
        shown = judge_shown({str(k): v.values for k, v in self.posterior.data_vars.items()})
        return shown or judge(
            self.unconstrained,
            stats["diverging"].values,
            names,
            float(stats["acceptance_rate"].mean()),
            stats["lp"].values,
        )

    @property
    def ok(self) -> bool:
        """Whether the checks passed."""
        return self.verdict.ok

    def _group(self, name: str) -> xr.Dataset:
        return self._tree.children[name].to_dataset()

    def summary(self, var_names: list[str] | None = None, **options: Any) -> Any:
        """Return ArviZ's table of means, deviations, ESS and R-hat, one row per scalar.

        ``options`` are passed to ``arviz.summary``.
        """
        with warnings.catch_warnings():
            # ArviZ divides by the variance of variables that may be constant, as indicators are.
            warnings.filterwarnings("ignore", "invalid value|divide by zero", RuntimeWarning)
            return _arviz().summary(self.posterior, var_names=var_names, **options)

    def to_datatree(self) -> xr.DataTree:
        """Return a copy of everything as a DataTree in the ArviZ schema."""
        return self._tree.copy(deep=True)

    def to_inferencedata(self) -> Any:
        """Return ArviZ's own type: InferenceData up to 0.23; from 1.0 on, that is the DataTree."""
        arviz = _arviz()
        if not hasattr(arviz, "InferenceData"):
            return self.to_datatree()
        groups = {name: node.to_dataset() for name, node in self._tree.children.items()}
        warmup = groups.pop("warmup", None)
        data = arviz.InferenceData(attrs=self.attrs, **groups)
        if warmup is not None:
            data.add_groups({"warmup": warmup}, warn_on_custom_groups=False)
        return data

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the posterior to the directory ``path``, in zarr; read it by `amalt.load`.

        The directory appears whole or not at all. ``overwrite=True`` replaces a saved posterior,
        and nothing else.
        """
        return write_tree(self._tree, path, overwrite=overwrite)


def _arviz() -> Any:
    """Import ArviZ, whose version 0.23 warns of version 1 once a day; that is not news to users."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return importlib.import_module("arviz")


def load(path: str | os.PathLike[str]) -> Posterior:
    """Read a posterior written by `Posterior.save`."""
    posterior = Posterior(read_tree(path))
    try:
        _ = posterior.cost, posterior.tuning, posterior.attrs["target"]
        _ = posterior.unconstrained, [posterior.sample_stats[name] for name in JUDGED]
    except (KeyError, TypeError, ValueError) as error:
        raise AmaltError(f"{path} is damaged: {error}. Restore it from a copy.") from error
    return posterior
