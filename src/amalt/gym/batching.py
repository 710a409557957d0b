"""Functions that see a batch of chains as the last axis of their arrays, not as the first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp


def chains_last(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return ``function`` with another rule for `jax.vmap`: the batch becomes the last axis.

    A scan over time then reads and writes the numbers of all chains side by side, and what happens
    between two scans happens in the same layout. With the batch in front, as `jax.vmap` has it,
    every step of the scan gathers them from all over the memory, or they are copied back and forth.

    Parameters
    ----------
    function
        Maps a pytree of arrays to a pytree of arrays, elementwise in any axes that all of its
        arguments have in the end.

    Examples
    --------
    >>> total = chains_last(lambda x: jnp.sum(x, axis=0))
    >>> total(jnp.arange(3.0)).item()
    3.0
    >>> jax.vmap(total)(jnp.ones((5, 3))).shape
    (5,)
    """
    # JAX does not type these decorators.
    batched = cast(Any, jax.custom_batching.custom_vmap(function))

    @batched.def_vmap
    def _(size: int, is_batched: list[Any], argument: Any) -> tuple[Any, Any]:
        def to_last(leaf: jax.Array, has_batch: bool) -> jax.Array:
            if has_batch:
                return jnp.moveaxis(leaf, 0, -1)
            return jnp.broadcast_to(leaf[..., None], (*leaf.shape, size))

        result = function(jax.tree.map(to_last, argument, is_batched[0]))
        to_first = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -1, 0), result)
        return to_first, jax.tree.map(lambda _: True, result)

    # Derivatives know nothing of the rule, which JAX cannot apply to tangents alone.
    differentiable = cast(Any, jax.custom_jvp(batched))
    differentiable.defjvp(lambda primals, tangents: jax.jvp(function, primals, tangents))
    return cast("Callable[[Any], Any]", differentiable)
