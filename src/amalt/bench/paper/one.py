"""One run in a process of its own: ``python -m amalt.bench.paper.one RUN FILE``.

``RUN`` is the JSON of a `Run`. With ``--end-with-stdin`` the process ends when its standard input
does, so that no run outlives the command that started it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from amalt import gym
from amalt.bench.paper import results
from amalt.bench.paper.design import COLUMNS, INIT, Run
from amalt.bench.paper.measure import measure
from amalt.errors import AmaltError
from amalt.sampling import sample


def execute(run: Run) -> dict[str, Any]:
    """Sample once by the protocol and return what is kept of it."""
    began = time.perf_counter()
    target, column = gym.load(run.model), COLUMNS[run.column]
    fit = sample(
        target,
        chains=run.chains,
        tune=run.tune,
        settle=run.settle,
        draws=run.draws,
        method=column.method,
        preset=column.preset,
        init=INIT,
        random_seed=run.seed,
        progressbar=False,
    )
    figures = measure(fit, target)
    return {**run.facts, **figures, "seconds": time.perf_counter() - began}


def main() -> int:
    """Run, and keep the result; an error meant for people is shown without a traceback."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=lambda text: Run(**json.loads(text)))
    parser.add_argument("file", type=Path)
    parser.add_argument("--end-with-stdin", action="store_true")
    options = parser.parse_args()
    if options.end_with_stdin:
        threading.Thread(target=_wait_for_end, daemon=True).start()
    try:
        results.write(options.file, execute(options.run))
    except (AmaltError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _wait_for_end() -> None:
    # Not through sys.stdin: a thread that waits there breaks the end of the interpreter.
    while os.read(0, 1024):
        continue
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
