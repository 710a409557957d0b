"""Both tables of the paper with our figures below its own, and one about the runs behind them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from amalt.bench.paper.design import CHAINS, COLUMNS, MODELS, PAPER_RUNS, TUNE

Cell = dict[str, Any]
Line = tuple[str, Callable[[Cell], str]]

WIDTH = 100
"""The tables fit terminals of this width."""

ESTIMATORS = (
    "Both estimators stand side by side: the paper's takes each chain by itself, the multi-chain "
    "estimator also sees that chains disagree. On the Brownian bridge and sparse logistic "
    "regression the paper's overstates, because some chains sit in necks: judge by the other."
)
RUNS = (
    f"Every figure is the tenth percentile over runs, as in the paper ({PAPER_RUNS} runs), "
    "± three standard errors by bootstrap. R-hat is the largest of all runs; the largest error is "
    "of a mean against its known value, in Monte Carlo errors. An iteration of GHMC is ten steps."
)
REDUCED = (
    f"* not the paper's protocol of {CHAINS} chains and {TUNE} iterations of warm-up. Fewer chains "
    "also learn with a rate that falls."
)


def tables(cells: Iterable[Cell], source: str) -> Group:
    """Return what ``amalt bench paper --show`` prints.

    Parameters
    ----------
    cells
        From `amalt.bench.paper.results.cells`.
    source
        Where they come from.
    """
    found = {(cell["model"], cell["method"]): cell for cell in cells}
    methods = [method for method in COLUMNS if any(m == method for _, m in found)]
    per_grad = _table("ESS per gradient", found, methods, _lines("ess_per_grad"))
    per_iter = _table("ESS per iteration", found, methods, _lines("ess_per_iter"))
    runs = _table("The runs", found, methods, LINES_OF_RUNS)
    notes = [ESTIMATORS, RUNS, *([REDUCED] if any(map(is_reduced, found.values())) else [])]
    parts: list[RenderableType] = [per_grad, "", per_iter, "", runs, ""]
    return Group(*parts, *(Text(note) for note in notes), Text(f"Results: {source}"))


def console() -> Console:
    """Return a console as wide as the terminal, or wide enough where there is none."""
    terminal = Console(highlight=False)
    # A narrower one breaks lines, which is better than to cut numbers.
    width = max(WIDTH, terminal.width) if terminal.is_terminal else WIDTH
    return Console(highlight=False, width=width)


def is_reduced(cell: Cell) -> bool:
    """Tell whether a cell's runs had other chains or iterations than the paper's."""
    return cell["chains"] != CHAINS or cell["scale"] != 1.0


def _table(
    title: str, found: dict[tuple[str, str], Cell], methods: list[str], lines: tuple[Line, ...]
) -> Table:
    table = Table(
        title=title,
        title_style="bold",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        header_style="bold",
        padding=(0, 1, 0, 0),
        show_lines=True,
        show_edge=False,
    )
    table.add_column("", width=13)
    table.add_column("", width=13, no_wrap=True)
    for method in methods:
        table.add_column(COLUMNS[method].title, justify="right", min_width=8, no_wrap=True)
    for model in MODELS:
        row = [found.get((model, method)) for method in methods]
        if any(row):
            columns = ["\n".join("-" if c is None else say(c) for _, say in lines) for c in row]
            labels = "\n".join(label for label, _ in lines)
            table.add_row(escape(MODELS[model].title), labels, *columns)
    return table


def _lines(name: str) -> tuple[Line, ...]:
    return (
        ("paper", lambda cell: _number(cell[f"paper_{name}"])),
        ("amalt", lambda cell: _number(cell[name]) + _mark(cell)),
        ("  ±", lambda cell: _number(cell[f"{name}_error"], 2)),
        ("  ratio", lambda cell: _number(cell[f"{name}_ratio"])),
        ("multi-chain", lambda cell: _number(cell[f"multi_chain_{name}"]) + _mark(cell)),
    )


LINES_OF_RUNS: tuple[Line, ...] = (
    ("runs", lambda cell: str(cell["runs"])),
    ("chains", lambda cell: f"{cell['chains']}{'*' * (cell['chains'] != CHAINS)}"),
    ("length", lambda cell: f"{cell['scale']:g}{'*' * (cell['scale'] != 1.0)}"),
    ("R-hat", lambda cell: f"{cell['rhat']:.3f}"),
    ("largest error", lambda cell: _number(cell["max_z"], 2)),
)


def _mark(cell: Cell) -> str:
    return "*" if is_reduced(cell) else ""


def _number(value: float | None, digits: int = 3) -> str:
    if value is None or not math.isfinite(value):
        return "-"
    return f"{value:#.{digits}g}".rstrip(".")
