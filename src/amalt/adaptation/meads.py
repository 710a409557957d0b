r"""MEADS (Hoffman and Sountsov, 2022): generalized HMC tuned by the other chains, for ever.

Chains are dealt into folds. With a = the positions of a fold over their standard deviations sd,
centered, and b = its gradients times sd, and

    lam(A) = [sum_ij (a_i . a_j)^2 / N^2] / [sum_i |a_i|^2 / N]

which estimates the largest eigenvalue of the second moments of the rows of A,

    h = min(1, 1/2 lam(b)^(-1/2)),        gamma = lam(a)^(-1/2)

A fold moves with h and sd of the fold before it and with its own gamma, as the authors do; early on
gamma h is at least 1/n. One fold rests in each step: then the others can be thought to move one
after the other, each before the fold that it takes h and sd from.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from amalt.adaptation.moments import keep_finite
from amalt.kernels.ghmc import GhmcState, GhmcTuning
from amalt.kernels.metric import DiagonalMetric
from amalt.randomness import ACCEPT, fold, uniform

FOLDS = 4

STANDSTILL = 1e-20
"""h and scales of a fold whose positions have overflowed."""


class FoldTuning(NamedTuple):
    """h, gamma and the metric that the chains of a fold suggest."""

    step_size: jax.Array
    damping: jax.Array
    metric: DiagonalMetric


def largest_eigenvalue(rows: jax.Array) -> jax.Array:
    """Return lam(A) of ``[row, dim]``; zero for rows of zeros."""
    # Fourth powers of gradients overflow, so the unit is the largest entry.
    unit = jnp.maximum(jnp.max(jnp.abs(rows)), jnp.finfo(rows.dtype).tiny)
    rows = rows / unit
    gram = rows @ rows.T
    total = jnp.trace(gram) / rows.shape[0]
    return unit**2 * jnp.mean(gram**2) / jnp.maximum(total, jnp.finfo(rows.dtype).tiny)


def deal(key: Any, n: jax.Array, chains: int) -> tuple[jax.Array, jax.Array]:
    """Return the order of the chains in step n = 0, 1, ..., and its inverse; the first fold rests.

    The order is drawn anew every `FOLDS` steps. In between it only turns by one fold in each step,
    which leaves neighbors what they are and lets every fold rest once.
    """
    address = fold(key, ACCEPT, n // FOLDS)  # no step has that number
    order = jnp.argsort(uniform(address, 0, (chains,), jnp.float32))
    order = jnp.roll(order, -(n % FOLDS) * (chains // FOLDS))
    return order, jnp.argsort(order)


def fold_tuning(positions: jax.Array, gradients: jax.Array) -> FoldTuning:
    """Return what one fold ``[chain, dim]`` suggests."""
    sd = jnp.std(positions, axis=0)
    # Scales of coordinates that do not move must not vanish, nor divide by zero.
    sd = jnp.maximum(sd, jnp.finfo(sd.dtype).eps * jnp.max(sd) + jnp.finfo(sd.dtype).tiny)
    a = (positions - jnp.mean(positions, axis=0)[None]) / sd[None]
    b = gradients * sd[None]
    h = jnp.clip(0.5 / jnp.sqrt(largest_eigenvalue(b)), jnp.finfo(sd.dtype).tiny, 1.0)
    # No correlation matrix has a largest eigenvalue below 1.
    damping = 1.0 / jnp.sqrt(jnp.maximum(largest_eigenvalue(a), 1.0))
    found = FoldTuning(h, damping, DiagonalMetric(sd, jnp.max(sd) ** 2))
    # On a flat density the chains run away, further each time, until squares overflow: stop them.
    return keep_finite(found, jax.tree.map(lambda leaf: jnp.full_like(leaf, STANDSTILL), found))


def tunings(states: GhmcState, floor: jax.Array) -> GhmcTuning:
    """Return how every fold moves ``[fold, ...]``, from the states ``[fold, chain, ...]``.

    ``floor`` is the least gamma h.
    """
    own = jax.vmap(fold_tuning)(states.position, states.gradient)
    before = jax.tree.map(lambda leaf: jnp.roll(leaf, 1, axis=0), own)
    h = before.step_size
    return GhmcTuning(h, jnp.maximum(own.damping * h, floor), before.metric)
