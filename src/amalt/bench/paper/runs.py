"""The driver: one process for each run, some side by side, each result kept as it comes.

A run that has its result already is left out, so whoever repeats a command goes on where it ended.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from amalt.bench.paper import results
from amalt.bench.paper.design import Run
from amalt.bench.paper.progress import Progress, duration

POLL_SECONDS = 0.1
GRACE_SECONDS = 5.0
"""How long a process may take to end when it is told to."""


class Failure(NamedTuple):
    """A run that gave no result, and what it said last."""

    run: Run
    message: str


@dataclasses.dataclass
class Child:
    """A process that makes one run; what it says stands in ``log`` until it has succeeded."""

    run: Run
    path: Path
    log: Path
    process: subprocess.Popen[bytes]
    began: float

    @property
    def elapsed(self) -> float:
        """Return the seconds since it began."""
        return time.monotonic() - self.began

    def is_over(self) -> bool:
        """Tell whether it has ended; if so, what it held open is closed."""
        if self.process.poll() is None:
            return False
        if self.process.stdin is not None:
            self.process.stdin.close()
        return True

    def failure(self) -> str | None:
        """Say why it left no result; None if it did."""
        code = self.process.returncode
        if code == 0 and results.find(self.path.parent, self.run) is not None:
            return None
        if code < 0:
            hint = "; is the memory large enough?" if -code == signal.SIGKILL else ""
            return f"killed by signal {-code} ({signal.strsignal(-code)}){hint}"
        try:
            said = self.log.read_text(encoding="utf-8", errors="replace").split("\n")
        except OSError:
            said = list[str]()
        last = [line.strip() for line in said if line.strip()][-1:]
        return f"{last[0]} (more in {self.log})" if last else f"it ended with code {code}"

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        self.process.terminate()
        try:
            self.process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.is_over()
        self.log.unlink(missing_ok=True)


class Estimate:
    """How long runs take: their guesses, corrected by what runs like them took.

    Examples
    --------
    >>> estimate, run = Estimate(), Run("german-credit", "malt", seed=1)
    >>> estimate.add(run, 3.0 * run.guessed_seconds)
    >>> other = Run("german-credit", "nuts", seed=2)
    >>> round(estimate.seconds(other) / other.guessed_seconds, 3)
    3.0
    """

    def __init__(self) -> None:
        self._taken: list[tuple[Run, float]] = []

    def add(self, run: Run, seconds: float) -> None:
        """Learn what a run took."""
        self._taken.append((run, seconds / run.guessed_seconds))

    def seconds(self, run: Run) -> float:
        """Return the guess, corrected by the same column's runs, else the model's, else all."""
        levels = [
            [ratio for r, ratio in self._taken if (r.model, r.column) == (run.model, run.column)],
            [ratio for r, ratio in self._taken if r.model == run.model],
            [ratio for _, ratio in self._taken],
            [1.0],
        ]
        return run.guessed_seconds * median(next(level for level in levels if level))

    def left(self, waiting: Iterable[Run], active: Iterable[Child], jobs: int) -> float:
        """Return the seconds until the last of these runs ends, ``jobs`` of them at a time."""
        rest = [max(0.0, self.seconds(child.run) - child.elapsed) for child in active]
        total = sum(rest) + sum(self.seconds(run) for run in waiting)
        return max([total / jobs, *rest])


def drive(runs: list[Run], out: Path, jobs: int) -> list[Failure]:
    """Make the runs that have no result in ``out`` yet, and return those that failed.

    Runs that fail do not keep others from running. When this function is left by an exception, as
    Ctrl-C raises one, the processes are ended.
    """
    out.mkdir(parents=True, exist_ok=True)
    estimate, failures = Estimate(), list[Failure]()
    waiting, active = list(runs), list[Child]()
    for run in runs:
        result = results.find(out, run)
        if result is not None:
            estimate.add(run, result["seconds"])
    with Progress(len(runs)) as progress:
        try:
            while waiting or active:
                while waiting and len(active) < jobs:
                    run = waiting.pop(0)
                    # Asked anew: another command may work in the same directory.
                    if results.find(out, run) is None:
                        active.append(start(run, out, jobs))
                    else:
                        progress.skip()
                for child in [child for child in active if child.is_over()]:
                    active.remove(child)
                    message = child.failure()
                    if message is None:
                        child.log.unlink(missing_ok=True)
                        estimate.add(child.run, child.elapsed)
                        words = f"done in {duration(child.elapsed)}"
                    else:
                        failures.append(Failure(child.run, message))
                        words = f"failed: {message}"
                    left = estimate.left(waiting, active, jobs)
                    progress.ended(child.run.title, words, left)
                left = estimate.left(waiting, active, jobs)
                progress.show([child.run.title for child in active], left)
                time.sleep(POLL_SECONDS)
        finally:
            for child in active:
                child.stop()
    return failures


def start(run: Run, out: Path, jobs: int) -> Child:
    """Start the process of a run."""
    path = out / run.file_name
    # Not one name for all: another command may work in the same directory.
    log = path.with_suffix(f".{os.getpid()}.log")
    command = [sys.executable, "-m", "amalt.bench.paper.one", "--end-with-stdin"]
    environment = dict(os.environ)
    if jobs > 1:
        # XLA sizes its pool of threads by NPROC: side by side they must share the cores.
        environment["NPROC"] = str(max(1, (os.cpu_count() or 1) // jobs))
    try:
        with log.open("wb") as said:
            process = subprocess.Popen(
                [*command, json.dumps(dataclasses.asdict(run)), str(path)],
                stdin=subprocess.PIPE,  # held open: the process ends when we do, however we do
                stdout=subprocess.DEVNULL,
                stderr=said,
                env=environment,
                start_new_session=True,  # so that Ctrl-C reaches us alone
            )
    except BaseException:
        log.unlink(missing_ok=True)
        raise
    return Child(run, path, log, process, time.monotonic())
