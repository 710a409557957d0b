"""The two compiled blocks: many transitions of all chains in one call.

A block has room for ``capacity`` steps and runs ``count`` of them, so that one program serves every
length of run. Steps are numbered through the phase; where a block begins or ends changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from amalt.adaptation import malt as adaptive_malt
from amalt.adaptation.settings import MaltSettings
from amalt.kernels import malt
from amalt.kernels.integrators import Integrator, ValueAndGrad
from amalt.kernels.malt import MaltInfo, MaltState, MaltTuning
from amalt.randomness import chain_keys
from amalt.typed import fori_loop


class DrawRecord(NamedTuple):
    """What is kept of one step of all chains: ``[chain, dim]`` positions, ``[chain]`` others."""

    position: jax.Array
    logdensity: jax.Array
    acceptance_rate: jax.Array
    energy_error: jax.Array
    is_diverging: jax.Array


def advance(
    key: jax.Array,
    step: jax.Array,
    states: MaltState,
    tuning: MaltTuning,
    value_and_grad: ValueAndGrad,
    integrator: Integrator,
) -> tuple[MaltState, MaltInfo]:
    """Move all chains by one transition; they share the tuning, so L stays one number."""
    keys = chain_keys(key, step, states.logdensity.shape[0])

    def move(key: jax.Array, state: MaltState) -> tuple[MaltState, MaltInfo]:
        return malt.step(key, state, tuning, value_and_grad, integrator)

    return jax.vmap(move)(keys, states)


def warmup_block(
    value_and_grad: ValueAndGrad,
    integrator: Integrator,
    settings: MaltSettings,
    capacity: int,
    keep_draws: bool,
) -> Callable[..., Any]:
    """Return ``(key, states, adaptation, first, count) -> (states, adaptation, trace, draws)``."""

    def one_step(
        key: jax.Array, step: jax.Array, states: MaltState, adaptation: adaptive_malt.MaltAdaptation
    ) -> tuple[tuple[MaltState, adaptive_malt.MaltAdaptation], Any]:
        tuning = adaptive_malt.tuning(adaptation, settings)
        new, info = advance(key, step, states, tuning, value_and_grad, integrator)
        adaptation, trace = adaptive_malt.update(adaptation, tuning, states, new, info, settings)
        return (new, adaptation), (trace, _record(new, info) if keep_draws else None)

    def block(
        key: jax.Array,
        states: MaltState,
        adaptation: adaptive_malt.MaltAdaptation,
        first: jax.Array,
        count: jax.Array,
    ) -> Any:
        (states, adaptation), (trace, draws) = _loop(
            lambda step, carry: one_step(key, step, *carry),
            (states, adaptation),
            first,
            count,
            capacity,
        )
        return states, adaptation, trace, draws

    return block


def sampling_block(
    value_and_grad: ValueAndGrad, integrator: Integrator, capacity: int
) -> Callable[..., Any]:
    """Return ``(key, states, tuning, first, count) -> (states, draws)``, with frozen tuning."""

    def block(
        key: jax.Array,
        states: MaltState,
        tuning: MaltTuning,
        first: jax.Array,
        count: jax.Array,
    ) -> tuple[MaltState, DrawRecord]:
        def one_step(step: jax.Array, states: MaltState) -> tuple[MaltState, DrawRecord]:
            states, info = advance(key, step, states, tuning, value_and_grad, integrator)
            return states, _record(states, info)

        return _loop(one_step, states, first, count, capacity)

    return block


def _record(states: MaltState, info: MaltInfo) -> DrawRecord:
    return DrawRecord(
        position=states.position,
        logdensity=states.logdensity,
        acceptance_rate=info.acceptance_rate,
        energy_error=info.energy_error,
        is_diverging=info.is_diverging,
    )


def _loop(
    one_step: Callable[[jax.Array, Any], tuple[Any, Any]],
    carry: Any,
    first: jax.Array,
    count: jax.Array,
    capacity: int,
) -> tuple[Any, Any]:
    """Scan ``count`` steps from ``first``, with rows written into buffers of fixed length."""
    row = jax.eval_shape(one_step, first, carry)[1]
    buffers = jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), row)

    def body(i: jax.Array, both: tuple[Any, Any]) -> tuple[Any, Any]:
        carry, buffers = both
        carry, row = one_step(first + i, carry)
        return carry, jax.tree.map(lambda buffer, leaf: buffer.at[i].set(leaf), buffers, row)

    return fori_loop(0, count, body, (carry, buffers))
