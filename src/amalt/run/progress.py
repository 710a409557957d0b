"""Progress on the terminal, fed by the host between blocks."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)


class Reporter(Protocol):
    """What the loop tells about its progress."""

    def start(self, phase: str, total: int) -> None:
        """Begin a phase of ``total`` steps."""
        ...

    def advance(self, steps: int, note: str) -> None:
        """Report steps done, with a few words about how they went."""
        ...


class Silent:
    """Say nothing."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def start(self, phase: str, total: int) -> None:
        """Begin a phase of ``total`` steps."""

    def advance(self, steps: int, note: str) -> None:
        """Report steps done."""


class Bar:
    """Show a bar for each phase, with rich."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description:>8}"),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def start(self, phase: str, total: int) -> None:
        """Begin a phase of ``total`` steps."""
        self._task = self._progress.add_task(phase, total=total, note="")

    def advance(self, steps: int, note: str) -> None:
        """Report steps done, with a few words about how they went."""
        if self._task is not None:
            self._progress.update(self._task, advance=steps, note=note)


def reporter(progressbar: bool) -> Bar | Silent:
    """Return a bar, or a silent reporter if none is wanted or a CI system runs us."""
    return Silent() if not progressbar or os.environ.get("CI") else Bar()
