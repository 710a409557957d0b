"""The host loop: call compiled blocks, hand over what they return, say how far we are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from amalt.methods import DrawRecord, Method
from amalt.run.progress import Reporter
from amalt.storage.memory import MemoryWriter

BLOCK_BYTES = 64 * 2**20
"""A block of draws on the device takes at most this much memory."""

BLOCK_STEPS = 100
"""Steps between two looks of the host at a run."""


class WarmupRecord(NamedTuple):
    """The history of a warm-up: scalars of every step, variances at block ends, kept draws."""

    trace: Any
    variances: np.ndarray
    variance_steps: np.ndarray
    draws: Any


def block_capacity(steps: int, bytes_per_step: int) -> int:
    """Return how many steps a block has room for."""
    return max(1, min(BLOCK_STEPS, steps, BLOCK_BYTES // max(1, bytes_per_step)))


def compile_block(block: Callable[..., Any], *example: Any) -> tuple[Callable[..., Any], float]:
    """Compile a block for arguments like these; return it with the seconds that took."""
    began = time.perf_counter()
    compiled = jax.jit(block).lower(*example).compile()
    return compiled, time.perf_counter() - began


def warm_up(
    block: Callable[..., Any],
    method: Method,
    key: Any,
    states: Any,
    adaptation: Any,
    steps: int,
    capacity: int,
    reporter: Reporter,
) -> tuple[Any, Any, WarmupRecord]:
    """Run the adaptive phase; every transition teaches the next."""
    traces, draws = MemoryWriter(steps, chain_first=False), MemoryWriter(steps, chain_first=True)
    variances: list[np.ndarray] = []
    edges: list[int] = []
    reporter.start("warm-up", steps)
    for first, count in block_edges(steps, capacity):
        states, adaptation, trace, kept = block(key, states, adaptation, first, count)
        traces.write(trace, count)
        if kept is not None:
            draws.write(kept, count)
        variances.append(np.asarray(method.variances(adaptation)))
        edges.append(first + count)
        last: Any = jax.tree.map(lambda leaf, i=count - 1: np.asarray(leaf)[i], trace)
        reporter.advance(
            count,
            f"accept {last.acceptance_rate:.2f}, step {last.step_size:.3g} x {last.num_steps}",
        )
    record = WarmupRecord(
        traces.result(),
        np.stack(variances),
        np.array(edges),
        draws.result() if draws.filled else None,
    )
    return states, adaptation, record


def draw(
    block: Callable[..., Any],
    key: Any,
    states: Any,
    tuning: Any,
    steps: int,
    capacity: int,
    reporter: Reporter,
    phase: str,
    writer: MemoryWriter | None,
) -> tuple[Any, int]:
    """Run the sampling block ``steps`` times; each block is stored while the next one computes.

    The states come back with the integrator steps that were taken, of the longest chain each time.
    """
    if steps:
        reporter.start(phase, steps)
    waiting: tuple[DrawRecord, int] | None = None
    taken = 0
    for first, count in block_edges(steps, capacity):
        states, record = block(key, states, tuning, first, count)
        if waiting is not None:
            taken += _hand_over(*waiting, writer, reporter)
        waiting = (record, count)
    if waiting is not None:
        taken += _hand_over(*waiting, writer, reporter)
    return states, taken


def block_edges(steps: int, capacity: int) -> Iterator[tuple[Any, Any]]:
    """Yield the first step and the length of every block."""
    for first in range(0, steps, capacity):
        yield np.int32(first), np.int32(min(capacity, steps - first))


def longest_steps(num_steps: Any) -> int:
    """Count integrator steps ``[step, chain]`` as they cost: the longest chain of every step."""
    return int(np.asarray(num_steps).max(axis=1).sum(dtype=np.int64))


def _hand_over(
    record: DrawRecord, count: int, writer: MemoryWriter | None, reporter: Reporter
) -> int:
    if writer is not None:
        writer.write(record, count)
    acceptance = float(np.mean(np.asarray(record.acceptance_rate)[:count]))
    diverging = int(np.sum(np.asarray(record.is_diverging)[:count]))
    reporter.advance(count, f"accept {acceptance:.2f}, diverging {diverging}")
    return longest_steps(np.asarray(record.num_steps)[:count])
