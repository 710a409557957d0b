"""One run: its two blocks, compiled once, and the phases that use them."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from amalt.adaptation import malt as adaptive_malt
from amalt.adaptation.settings import MaltSettings
from amalt.kernels.integrators import Integrator
from amalt.kernels.malt import MaltState
from amalt.kernels.metric import diagonal
from amalt.randomness import Phase, phase_key
from amalt.run import loop
from amalt.run.block import sampling_block, warmup_block
from amalt.run.progress import Reporter
from amalt.storage.memory import MemoryWriter
from amalt.targets import Target
from amalt.tuning import Tuning
from amalt.typed import jit


class Session:
    """Compile and drive the phases of one run, and keep the time that each takes.

    Parameters
    ----------
    target, settings, integrator
        What is sampled, how tuning is learned, how trajectories are integrated.
    root
        The key of the run.
    reporter
        Who is told about progress.
    """

    def __init__(
        self,
        target: Target,
        settings: MaltSettings,
        integrator: Integrator,
        root: np.ndarray,
        reporter: Reporter,
    ) -> None:
        self.target = target
        self.settings = settings
        self.integrator = integrator
        self.root = root
        self.reporter = reporter
        self.compile_seconds = 0.0
        self.warmup_seconds = 0.0
        self.sampling_seconds = 0.0

    def warm_up(
        self, states: MaltState, tune: int, keep_draws: bool
    ) -> tuple[MaltState, Tuning, loop.WarmupRecord]:
        """Learn the tuning in ``tune`` iterations."""
        began = time.perf_counter()
        start_learning = jit(adaptive_malt.init, static_argnums=2)
        key = phase_key(self.root, Phase.LEARNING)
        adaptation = start_learning(key, states.position, self.settings)
        self.compile_seconds += time.perf_counter() - began
        capacity = loop.block_capacity(tune, self._bytes_per_step(states) if keep_draws else 0)
        block = warmup_block(
            self.target.value_and_grad, self.integrator, self.settings, capacity, keep_draws
        )
        key = phase_key(self.root, Phase.WARMUP)
        compiled = self._compile(block, key, states, adaptation, np.int32(0), np.int32(0))
        began = time.perf_counter()
        states, adaptation, record = loop.warm_up(
            compiled, key, states, adaptation, tune, capacity, self.reporter
        )
        self.warmup_seconds = time.perf_counter() - began
        return states, self._tuning(adaptation), record

    def draw(self, states: MaltState, tuning: Tuning, settle: int, draws: int) -> Any:
        """Settle, then keep ``draws`` draws of every chain."""
        kernel_tuning = tuning.for_kernel(self.target.dim, self.target.dtype)
        capacity = loop.block_capacity(max(settle, draws), self._bytes_per_step(states))
        block = sampling_block(self.target.value_and_grad, self.integrator, capacity)
        key = phase_key(self.root, Phase.SETTLE)
        compiled = self._compile(block, key, states, kernel_tuning, np.int32(0), np.int32(0))
        writer = MemoryWriter(draws, chain_first=True)
        began = time.perf_counter()
        for phase, steps, sink in ((Phase.SETTLE, settle, None), (Phase.SAMPLING, draws, writer)):
            if steps:
                states = loop.draw(
                    compiled,
                    phase_key(self.root, phase),
                    states,
                    kernel_tuning,
                    steps,
                    capacity,
                    self.reporter,
                    phase.name.lower(),
                    sink,
                )
        self.sampling_seconds = time.perf_counter() - began
        return writer.result()

    def _tuning(self, adaptation: adaptive_malt.MaltAdaptation) -> Tuning:
        learned = adaptive_malt.finalize(adaptation, self.settings)
        metric = diagonal(adaptation.moments.variance)
        h, num_steps = float(learned.step_size), int(learned.num_steps)
        return Tuning(
            step_size=h,
            integration_time=num_steps * h,
            damping=float(learned.damping),
            # In double precision: the variance of a coordinate that never moved would vanish.
            variances=np.float64(metric.mass_scale) * np.asarray(metric.scale, np.float64) ** 2,
        )

    def _compile(self, block: Any, *example: Any) -> Any:
        compiled, seconds = loop.compile_block(block, *example)
        self.compile_seconds += seconds
        return compiled

    def _bytes_per_step(self, states: MaltState) -> int:
        return 2 * states.position.nbytes
