"""Progress over many runs: a bar on terminals, one line for each run elsewhere, silent under CI."""

from __future__ import annotations

import math
import os
import time
from types import TracebackType

from rich import progress
from rich.console import Console
from rich.markup import escape


def duration(seconds: float) -> str:
    """Return a time in words.

    Examples
    --------
    >>> duration(12.3), duration(754), duration(7500)
    ('12 s', '13 min', '2 h 05 min')
    """
    if seconds < 100.0:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60.0)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


class Pace:
    """Tell the time left for work whose parts are weighed, from the pace so far."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._done = 0.0

    def done(self, weight: float) -> None:
        """Count a part that is done."""
        self._done += weight

    def left(self, weight: float) -> float:
        """Return the seconds that this much takes; not a number before the first part is done."""
        return (time.monotonic() - self._began) / self._done * weight if self._done else math.nan


class Progress:
    """Show how many of ``total`` runs are done, what runs now, and the time left."""

    def __init__(self, total: int) -> None:
        self._console = Console(stderr=True, highlight=False, quiet=bool(os.environ.get("CI")))
        self._bar = progress.Progress(
            progress.BarColumn(bar_width=24),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[left]}"),
            progress.TextColumn("[dim]{task.description}[/dim]"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=total, left="")
        self._done, self._total = 0, total

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def skip(self) -> None:
        """Count a run that was done before."""
        self._done += 1
        self._bar.update(self._task, completed=self._done)

    def ended(self, title: str, words: str, left: float) -> None:
        """Say how a run went, and the seconds left for the others."""
        self.skip()
        words = "; ".join([words, *([_left(left)] if self._done < self._total else [])])
        line = f"{self._done}/{self._total} {title}: {words}"
        self._console.print(escape(line), soft_wrap=True)

    def show(self, active: list[str], left: float) -> None:
        """Show what runs now, and the seconds left."""
        names = ", ".join(active)
        words = _left(left) if active and math.isfinite(left) else ""
        self._bar.update(self._task, description=escape(names), left=words)


def _left(seconds: float) -> str:
    return f"about {duration(seconds)} left"
