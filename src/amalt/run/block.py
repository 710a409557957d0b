"""The two compiled blocks: many transitions of all chains in one call.

A block has room for ``capacity`` steps and runs ``count`` of them, so that one program serves every
length of run. Steps are numbered through the phase; where a block begins or ends changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from amalt.methods.base import Method
from amalt.typed import fori_loop


def warmup_block(method: Method, capacity: int, keep_draws: bool) -> Callable[..., Any]:
    """Return ``(key, states, adaptation, first, count) -> (states, adaptation, trace, draws)``."""

    def block(
        key: jax.Array, states: Any, adaptation: Any, first: jax.Array, count: jax.Array
    ) -> Any:
        def one_step(step: jax.Array, carry: tuple[Any, Any]) -> tuple[tuple[Any, Any], Any]:
            states, adaptation, trace, record = method.learn(key, step, *carry)
            return (states, adaptation), (trace, record if keep_draws else None)

        (states, adaptation), (trace, draws) = _loop(
            one_step, (states, adaptation), first, count, capacity
        )
        return states, adaptation, trace, draws

    return block


def sampling_block(method: Method, capacity: int) -> Callable[..., Any]:
    """Return ``(key, states, tuning, first, count) -> (states, draws)``, with frozen tuning."""

    def block(
        key: jax.Array, states: Any, tuning: Any, first: jax.Array, count: jax.Array
    ) -> tuple[Any, Any]:
        return _loop(
            lambda step, states: method.move(key, step, states, tuning),
            states,
            first,
            count,
            capacity,
        )

    return block


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
