"""One run: its two blocks, compiled once, and the phases that use them."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from amalt.kernels.malt import MaltState
from amalt.methods import Method
from amalt.randomness import Phase, phase_key
from amalt.run import loop
from amalt.run.block import sampling_block, warmup_block
from amalt.run.progress import Reporter
from amalt.storage.memory import MemoryWriter
from amalt.tuning import Tuning
from amalt.typed import jit


class Session:
    """Compile and drive the phases of one run, and keep the time that each takes.

    Parameters
    ----------
    method
        The sampler, with its target.
    root
        The key of the run.
    reporter
        Who is told about progress.
    """

    def __init__(self, method: Method, root: np.ndarray, reporter: Reporter) -> None:
        self.method = method
        self.root = root
        self.reporter = reporter
        self.compile_seconds = 0.0
        self.warmup_seconds = 0.0
        self.sampling_seconds = 0.0

    def begin(self, starts: MaltState) -> Any:
        """Return the states of all chains before their first step."""
        began = time.perf_counter()
        states = jit(self.method.begin)(phase_key(self.root, Phase.LEARNING), starts)
        self.compile_seconds += time.perf_counter() - began
        return states

    def warm_up(
        self, states: Any, tune: int, keep_draws: bool
    ) -> tuple[Any, Tuning | None, loop.WarmupRecord]:
        """Learn the tuning in ``tune`` iterations."""
        began = time.perf_counter()
        adaptation = jit(self.method.init)(phase_key(self.root, Phase.LEARNING), states)
        self.compile_seconds += time.perf_counter() - began
        capacity = loop.block_capacity(tune, self._bytes_per_step(states) if keep_draws else 0)
        block = warmup_block(self.method, capacity, keep_draws)
        key = phase_key(self.root, Phase.WARMUP)
        compiled = self._compile(block, key, states, adaptation, np.int32(0), np.int32(0))
        began = time.perf_counter()
        states, adaptation, record = loop.warm_up(
            compiled, self.method, key, states, adaptation, tune, capacity, self.reporter
        )
        self.warmup_seconds = time.perf_counter() - began
        return states, self.method.finalize(adaptation), record

    def draw(self, states: Any, tuning: Tuning | None, settle: int, draws: int) -> tuple[Any, int]:
        """Settle, then keep ``draws`` draws of every chain; also count the steps of settling."""
        prepared = self.method.prepare(tuning)
        capacity = loop.block_capacity(max(settle, draws), self._bytes_per_step(states))
        block = sampling_block(self.method, capacity)
        key = phase_key(self.root, Phase.SETTLE)
        compiled = self._compile(block, key, states, prepared, np.int32(0), np.int32(0))
        writer = MemoryWriter(draws, chain_first=True)
        began = time.perf_counter()
        taken: list[int] = []
        for phase, steps, sink in ((Phase.SETTLE, settle, None), (Phase.SAMPLING, draws, writer)):
            states, count = loop.draw(
                compiled,
                phase_key(self.root, phase),
                states,
                prepared,
                steps,
                capacity,
                self.reporter,
                phase.name.lower(),
                sink,
            )
            taken.append(count)
        self.sampling_seconds = time.perf_counter() - began
        return writer.result(), taken[0]

    def _compile(self, block: Any, *example: Any) -> Any:
        compiled, seconds = loop.compile_block(block, *example)
        self.compile_seconds += seconds
        return compiled

    def _bytes_per_step(self, states: Any) -> int:
        return 2 * states.position.nbytes
