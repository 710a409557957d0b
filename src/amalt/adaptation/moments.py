"""Decaying moments: averages that forget the beginning of the run.

Every statistic psi of Algorithm 2 follows

    psi <- beta psi + (1 - beta) mean_k f(X_k),    beta = n / (n + a),    n = 1, 2, ...

which weighs the last n / a iterations. Input that is not finite leaves a statistic as it was.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp

Tree = TypeVar("Tree")


def keep_finite(new: Tree, old: Tree) -> Tree:
    """Return ``new`` where all its numbers are finite, else ``old``."""
    leaves = jax.tree.leaves(new)
    is_finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]))
    return jax.tree.map(lambda a, b: jnp.where(is_finite, a, b), new, old)


def weight(n: jax.Array, a: float, dtype: jnp.dtype) -> jax.Array:
    """Return 1 - beta = a / (n + a), the weight of the newest batch."""
    return jnp.asarray(a, dtype) / (n.astype(dtype) + a)


def decay(average: jax.Array, value: jax.Array, w: jax.Array) -> jax.Array:
    """Return (1 - w) average + w value, or the old average if that is not finite."""
    return keep_finite(average + w * (value - average), average)


class Moments(NamedTuple):
    """The running mean m and variances s of the positions, ``[dim]`` each."""

    mean: jax.Array
    variance: jax.Array


def init(positions: jax.Array) -> Moments:
    """Start at the mean of the first positions, with variances of one."""
    return Moments(jnp.mean(positions, axis=0), jnp.ones_like(positions[0]))


def update(moments: Moments, positions: jax.Array, w: jax.Array) -> Moments:
    """Merge the batch ``[chain, dim]`` with weight w.

    m' = m + w (xbar - m);   s' = s + w (batch variance - s) + w (1 - w) (xbar - m)^2

    so that s' is the variance of the mixture of old and new, whatever the mean did.
    """
    m, s = moments
    batch_mean = jnp.mean(positions, axis=0)
    batch_variance = jnp.var(positions, axis=0)
    jump = batch_mean - m
    new = Moments(m + w * jump, s + w * (batch_variance - s) + w * (1.0 - w) * jump**2)
    return keep_finite(new, moments)
