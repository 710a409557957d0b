"""What the paper ran, and what it found: posteriors, methods, protocol and both tables."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from amalt.adaptation.settings import PRESETS

INIT = "advi"
"""Where every run starts, as in the paper."""

CHAINS, TUNE = 128, 5000
PAPER_RUNS = 20


class Model(NamedTuple):
    """A posterior of the paper: its row in the tables, its protocol, what a gradient costs.

    The paper says 400 and 1600 for all; its published code has half of that for stochastic
    volatility, which is what was run.
    """

    title: str
    settle: int
    draws: int
    gradient_milliseconds: float
    """Roughly, of 128 chains on two cores: only to run the quick ones first."""


MODELS: dict[str, Model] = {
    "german-credit": Model("Logistic Regression", 400, 1600, 0.5),
    "brownian-bridge": Model("Brownian Bridge", 400, 1600, 0.1),
    "sparse-german-credit": Model("Sparse Logistic Regression", 400, 1600, 0.5),
    "radon-indiana": Model("Hierarchical Linear Model", 400, 1600, 0.2),
    "item-response": Model("Item Response Theory", 400, 1600, 2.0),
    "stochastic-volatility": Model("Stochastic Volatility", 200, 800, 4.0),
}
"""In the order of the tables, by the names of `amalt.gym`."""


class Column(NamedTuple):
    """A column of the tables: how `amalt.sample` is called, and how gradients are counted."""

    title: str
    method: str
    preset: str
    run: str
    """The column whose runs these are."""

    revision: int = 1
    """One more whenever the sampler draws or counts otherwise: older results are then made anew."""


COLUMNS: dict[str, Column] = {
    "malt": Column("MALT ρ=1", "malt", "paper", "malt"),
    "malt-rho": Column("MALT ρ*", "malt", "paper-rho", "malt-rho"),
    "rhmc-unif": Column("RHMC Unif", "rhmc", "paper", "rhmc-unif"),
    "rhmc-exp": Column("RHMC Exp", "rhmc", "paper-exponential", "rhmc-exp"),
    "ghmc": Column("GHMC", "ghmc", "paper", "ghmc"),
    "nuts": Column("NUTS", "nuts", "paper", "nuts", revision=2),
    "nuts-avg": Column("NUTS avg", "nuts", "paper", "nuts", revision=2),
}
"""NUTS is run once and counted twice: by the chain with most gradients, and by their mean."""

Figures = dict[str, dict[str, float]]


def _table(columns: tuple[str, ...], *rows: tuple[float, ...]) -> Figures:
    return {
        model: dict(zip(columns, row, strict=True)) for model, row in zip(MODELS, rows, strict=True)
    }


_ORDER = ("malt-rho", "malt", "rhmc-exp", "rhmc-unif", "ghmc", "nuts", "nuts-avg")

ESS_PER_GRAD = _table(
    _ORDER,
    (9.98e-2, 1.10e-1, 9.81e-2, 1.30e-1, 5.88e-2, 1.36e-2, 5.31e-2),
    (1.06e-2, 1.15e-2, 1.08e-2, 1.30e-2, 7.14e-3, 1.02e-3, 3.06e-3),
    (5.34e-3, 5.32e-3, 5.20e-3, 6.85e-3, 6.45e-3, 1.98e-3, 4.04e-3),
    (5.61e-3, 5.76e-3, 4.57e-3, 5.81e-3, 2.80e-3, 7.50e-4, 2.48e-3),
    (8.97e-3, 7.72e-3, 8.81e-3, 1.04e-2, 4.66e-3, 4.10e-3, 5.86e-3),
    (1.23e-2, 1.28e-2, 1.31e-2, 1.69e-2, 7.42e-3, 1.13e-2, 1.13e-2),
)
"""The paper's table of ESS per gradient: tenth percentiles over 20 runs."""

ESS_PER_ITER = _table(
    _ORDER[:-1],
    (5.99e-1, 4.78e-1, 3.05e-1, 3.77e-1, 5.88e-1, 4.36e-1),
    (7.20e-2, 6.88e-2, 8.33e-2, 7.02e-2, 7.14e-2, 8.24e-2),
    (2.69e-1, 1.91e-1, 2.33e-1, 2.06e-1, 6.45e-2, 2.77e-1),
    (5.61e-1, 4.20e-1, 2.43e-1, 2.78e-1, 2.80e-2, 8.31e-2),
    (3.59e-1, 2.39e-1, 2.02e-1, 2.13e-1, 4.66e-2, 2.60e-1),
    (3.56e-1, 2.55e-1, 2.21e-1, 2.33e-1, 7.42e-2, 3.51e-1),
)
"""The paper's table of ESS per iteration."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One run: what is sampled how, and how much of the protocol.

    Parameters
    ----------
    model, column
        Keys of `MODELS` and `COLUMNS`.
    seed
        1, 2, ...
    chains
        128 in the paper.
    scale
        Multiplies the lengths of warm-up, settling and sampling.

    Examples
    --------
    >>> run = Run("german-credit", "malt", seed=3, scale=0.2)
    >>> run.file_name, run.tune, run.settle, run.draws
    ('german-credit-malt-128chains-seed3-scale0.2.json', 1000, 80, 320)
    """

    model: str
    column: str
    seed: int
    chains: int = CHAINS
    scale: float = 1.0

    @property
    def title(self) -> str:
        """Name the run to people."""
        return f"{self.model} {self.column} seed {self.seed}"

    @property
    def file_name(self) -> str:
        """Name the file that keeps the result."""
        scale = suffix(self.scale)
        return f"{self.model}-{self.column}-{self.chains}chains-seed{self.seed}{scale}.json"

    @property
    def facts(self) -> dict[str, Any]:
        """Return all that a result must agree with to be one of this run."""
        lengths = {"tune": self.tune, "settle": self.settle, "draws": self.draws}
        column = COLUMNS[self.column]
        sampler = {
            "revision": column.revision,
            "preset": dataclasses.asdict(PRESETS[column.method][column.preset]),
        }
        return {**dataclasses.asdict(self), "init": INIT, **lengths, **sampler}

    @property
    def tune(self) -> int:
        """Count the iterations that learn."""
        return max(1, round(TUNE * self.scale))

    @property
    def settle(self) -> int:
        """Count the iterations with frozen tuning before the draws."""
        return round(MODELS[self.model].settle * self.scale)

    @property
    def draws(self) -> int:
        """Count the draws of each chain."""
        return max(4, round(MODELS[self.model].draws * self.scale))

    @property
    def guessed_seconds(self) -> float:
        """Guess how long the run takes, from the paper's gradients per iteration."""
        per_grad, per_iter = ESS_PER_GRAD[self.model], ESS_PER_ITER[self.model]
        gradients = per_iter[self.column] / per_grad[self.column]
        iterations = self.tune + self.settle + self.draws
        milliseconds = MODELS[self.model].gradient_milliseconds * self.chains / CHAINS
        return 15.0 + 1e-3 * milliseconds * gradients * iterations


def suffix(scale: float) -> str:
    """Return what ends the names of files of shorter or longer runs."""
    return "" if scale == 1.0 else f"-scale{scale!r}"


def fullness(scale: float, chains: int) -> tuple[bool, float, int]:
    """Sort protocols: the paper's above all others, then the longest, then most chains."""
    return (scale, chains) == (1.0, CHAINS), scale, chains


def plan(
    models: tuple[str, ...], columns: tuple[str, ...], seeds: int, chains: int, scale: float
) -> list[Run]:
    """Return the runs for some rows and columns of the tables, quick ones first."""
    wanted = {COLUMNS[column].run for column in columns}
    runs = [
        Run(model, column, seed, chains, scale)
        for model in models
        for seed in range(1, seeds + 1)
        for column in wanted
    ]
    rows = {
        model: sum(Run(model, c, 1).guessed_seconds for c in COLUMNS if c != "nuts-avg")
        for model in models
    }
    return sorted(runs, key=lambda run: (rows[run.model], run.seed, run.guessed_seconds))
