r"""Randomized lengths: L = ceil(jitter tau / h), with one jitter of mean one for all chains.

    uniform:  jitter = 2 u_n          exponential:  jitter = -log u_n          none:  jitter = 1

with quasi-random u_n, the radical inverse of n + 1 to base 2: 0.5, 0.25, 0.75, 0.125, ... of 10
bits, so that it repeats after 1024 steps. Half a unit of the last bit is added: the sequence of the
authors' code has a zero, which means no step at all or an infinite time. n begins at 0 in each
phase of a run (theirs goes on counting): the draws do not depend on how long the warm-up was, and
the first 1, 3, 7, ... of them have the most even lengths there are.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

KINDS = ("none", "uniform", "exponential")
BITS = 10


def quasi_random(n: Any, dtype: Any) -> jax.Array:
    """Return u_n in (0, 1), for n = 0, 1, ..."""
    index = (jnp.asarray(n).astype(jnp.uint32) + jnp.uint32(1)) % jnp.uint32(2**BITS)
    u = jnp.full((), 0.5**BITS / 2, dtype)
    for bit in range(BITS):
        digit = (index >> jnp.uint32(bit)) & jnp.uint32(1)
        u = u + digit.astype(dtype) * 0.5 ** (bit + 1)
    return u


def factor(kind: str, n: Any, dtype: Any) -> jax.Array:
    """Return the jitter of iteration n."""
    if kind == "uniform":
        return 2.0 * quasi_random(n, dtype)
    if kind == "exponential":
        return -jnp.log(quasi_random(n, dtype))
    return jnp.ones((), dtype)


def steps_at(kind: str, n: Any, time: jax.Array, step_size: jax.Array) -> jax.Array:
    """Return L = ceil(jitter tau / h), at least one."""
    # A time that equals whole steps up to rounding is not one step more.
    steps = jnp.ceil(factor(kind, n, time.dtype) * time / step_size * (1.0 - 1e-5))
    return jnp.maximum(steps, 1.0).astype(jnp.int32)
