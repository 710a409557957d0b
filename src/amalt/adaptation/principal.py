"""The principal component of the preconditioned positions, by CCIPCA (Weng and others, 2003).

    w <- beta w + (1 - beta) mean_k (z' y_k) y_k,     z = w / |w|,     beta = n / (n + a_w)

where y = M^(1/2) (x - m). Then |w| estimates the largest eigenvalue lambda, z its direction.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from amalt.adaptation.moments import decay
from amalt.randomness import normal


def init(key: jax.Array, dim: int, dtype: jnp.dtype) -> jax.Array:
    """Draw a first w: a random direction of length one."""
    w = normal(key, 0, (dim,), dtype)
    return direction(w)


def direction(w: jax.Array) -> jax.Array:
    """Return z = w / |w|."""
    return w / eigenvalue(w)


def eigenvalue(w: jax.Array) -> jax.Array:
    """Return lambda = |w|, never zero."""
    return jnp.maximum(jnp.linalg.norm(w), jnp.finfo(w.dtype).tiny ** 0.5)


def update(w: jax.Array, y: jax.Array, new_weight: jax.Array) -> jax.Array:
    """Merge a batch ``[chain, dim]`` of centered, preconditioned positions."""
    z = direction(w)
    return decay(w, jnp.mean((y @ z)[:, None] * y, axis=0), new_weight)
