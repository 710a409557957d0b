"""The principal component of the preconditioned positions, by CCIPCA (Weng and others, 2003).

    w <- beta w + (1 - beta) mean_k (z' y_k) y_k,     z = w / |w|,     beta = n / (n + a_w)

where y = diag(s)^(-1/2) (x - m). Then |w| estimates the largest eigenvalue of the covariance of y,
and z its direction. n counts the iterations since the preconditioner last changed much.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from amalt.adaptation.moments import decay, weight
from amalt.randomness import normal

FORGET = 2.0
"""When a variance has changed by this factor, w belongs to another space and is forgotten."""

SHORTEST = 0.1
"""w is not let become shorter than this."""


class PrincipalState(NamedTuple):
    """w ``[dim]``, the count n, and the variances at which the count began."""

    w: jax.Array
    n: jax.Array
    variance: jax.Array


def init(key: jax.Array, variance: jax.Array) -> PrincipalState:
    """Draw a first w: a random direction of length one."""
    w = normal(key, 0, variance.shape, variance.dtype)
    return PrincipalState(direction(w), jnp.asarray(0, jnp.int32), variance)


def norm(w: jax.Array) -> jax.Array:
    """Return |w|."""
    return jnp.sqrt(jnp.dot(w, w))


def direction(w: jax.Array) -> jax.Array:
    """Return z = w / |w|."""
    return w / norm(w)


def eigenvalue(w: jax.Array) -> jax.Array:
    """Return lambda = |w|; a covariance of standardized coordinates has one of at least 1."""
    return jnp.maximum(norm(w), 1.0)


def update(state: PrincipalState, y: jax.Array, variance: jax.Array, a: float) -> PrincipalState:
    """Merge a batch ``[chain, dim]`` of centered positions y, standardized by the variances."""
    w, n, reference = state
    ratio = variance / jnp.maximum(reference, jnp.finfo(variance.dtype).tiny)
    is_changed = jnp.any((ratio > FORGET) | (ratio < 1.0 / FORGET))
    # Forget down to as many draws as there are coordinates: fewer would be all noise.
    chains, dim = y.shape
    n = jnp.where(is_changed, jnp.minimum(n, int(a * dim / chains)), n) + 1
    new = decay(w, jnp.mean((y @ direction(w))[:, None] * y, axis=0), weight(n, a, w.dtype))
    # Chains that hardly move shrink w to nothing, and with it the direction: keep its length.
    new = new * jnp.maximum(1.0, SHORTEST / norm(new))
    return PrincipalState(new, n, jnp.where(is_changed, variance, reference))
