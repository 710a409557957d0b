"""What the commands print."""

from __future__ import annotations

import dataclasses
import json

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from amalt import gym, plainjson
from amalt.posterior import Posterior
from amalt.tuning import Tuning

MOST_ROWS = 40
"""Variables in the table; a longer one is cut, and says so."""


def to_terminal(fit: Posterior) -> None:
    """Print the table of variables, what was learned, what it cost, and the judgment."""
    console = _console()
    console.print(_summary_table(fit))
    tuning, cost = fit.tuning, fit.cost
    if tuning is not None:
        console.print(f"[dim]learned[/dim]  {_learned(tuning)}")
    console.print(
        f"[dim]cost[/dim]     {cost.gradients_warmup:,} + {cost.gradients_settle:,} + "
        f"{cost.gradients_sampling:,} gradients per chain (warm-up, settling, sampling); "
        f"{cost.compile_seconds:.1f} s compiling, {cost.warmup_seconds:.1f} s warm-up, "
        f"{cost.sampling_seconds:.1f} s sampling"
    )
    style = "bold green" if fit.ok else "bold red"
    console.print(f"[{style}]{escape(fit.verdict.sentence)}[/{style}]")


def as_json(fit: Posterior) -> str:
    """Return one JSON object: judgment, summary, tuning and cost; what is not finite is null."""
    tuning = fit.tuning
    content = {
        "target": fit.attrs["target"],
        "ok": fit.ok,
        "verdict": fit.verdict.sentence,
        "random_seed": fit.attrs["random_seed"],
        "settings": json.loads(fit.attrs["settings"]),
        "tuning": None
        if tuning is None
        else {
            "step_size": tuning.step_size,
            "integration_time": tuning.integration_time,
            "damping": tuning.damping,
            "num_steps": tuning.num_steps,
        },
        "cost": dataclasses.asdict(fit.cost),
        "summary": fit.summary(round_to="none").to_dict(orient="index"),
    }
    return plainjson.dumps(content)


def models() -> None:
    """Print the built-in posteriors."""
    table = Table(box=None, header_style="bold")
    table.add_column("name", no_wrap=True)
    table.add_column("what it is")
    for name in gym.names():
        table.add_row(name, gym.describe(name))
    _console().print(table)


def _learned(tuning: Tuning) -> str:
    words = f"step size {tuning.step_size:.4g}"
    if tuning.integration_time is None:
        return words
    return (
        f"{words}, integration time {tuning.integration_time:.4g} ({tuning.num_steps} steps), "
        f"damping {tuning.damping:.4g}"
    )


def _summary_table(fit: Posterior) -> Table:
    frame = fit.summary()
    sizes = fit.posterior.sizes
    title = f"{fit.attrs['target']}: {sizes['chain']} chains x {sizes['draw']} draws"
    caption = None
    if len(frame) > MOST_ROWS:
        caption = f"the first {MOST_ROWS} of {len(frame)}; the judgment is about all"
    table = Table(
        title=escape(title), caption=caption, box=None, header_style="bold", padding=(0, 0, 0, 1)
    )
    table.add_column("", no_wrap=True)
    columns = [column for column in frame.columns if column != "mcse_sd"]
    for column in columns:
        table.add_column(str(column).removesuffix("_mean"), justify="right", no_wrap=True)
    for name, row in frame.head(MOST_ROWS)[columns].iterrows():
        table.add_row(escape(str(name)), *(_cell(c, row[c]) for c in columns))
    return table


def _cell(column: str, value: float) -> str:
    return f"{value:.0f}" if column.startswith("ess") else f"{value:.4g}"


def _console() -> Console:
    """Return a console as wide as the terminal; files and pipes get lines that are not cut."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=120)
