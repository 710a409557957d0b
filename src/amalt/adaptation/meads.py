r"""MEADS (Hoffman and Sountsov, 2022): generalized HMC tuned by the other chains, for ever.

Chains are dealt into folds. With a = the positions of a fold over their standard deviations sd,
centered, and b = its gradients times sd, and

    lam(A) = [sum_ij (a_i . a_j)^2 / N^2] / [sum_i |a_i|^2 / N]

which estimates the largest eigenvalue of the second moments of the rows of A,

    h = min(1, 1/2 lam(b)^(-1/2)),        gamma h = max(1/n, h lam(a)^(-1/2))

A fold moves with what the fold before it found, so that no chain decides on its own moves.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from amalt.kernels.ghmc import GhmcState, GhmcTuning
from amalt.kernels.metric import DiagonalMetric
from amalt.randomness import ACCEPT, fold, uniform

FOLDS = 4


def largest_eigenvalue(rows: jax.Array) -> jax.Array:
    """Return lam(A) of ``[row, dim]``; zero for rows of zeros."""
    count = rows.shape[0]
    gram = rows @ rows.T
    total = jnp.trace(gram) / count
    return jnp.sum(gram**2) / count**2 / jnp.maximum(total, jnp.finfo(rows.dtype).tiny)


def deal(key: Any, round_number: jax.Array, chains: int) -> tuple[jax.Array, jax.Array]:
    """Return a random order of the chains and its inverse: an order of independent numbers."""
    address = fold(key, ACCEPT, round_number)  # no step has that number
    order = jnp.argsort(uniform(address, 0, (chains,), jnp.float32))
    return order, jnp.argsort(order)


def fold_tuning(positions: jax.Array, gradients: jax.Array) -> GhmcTuning:
    """Return h, h lam(a)^(-1/2) and the scales of one fold ``[chain, dim]``."""
    sd = jnp.std(positions, axis=0)
    # Scales of coordinates that do not move must not vanish, nor divide by zero.
    sd = jnp.maximum(sd, jnp.finfo(sd.dtype).eps * jnp.max(sd) + jnp.finfo(sd.dtype).tiny)
    centered = (positions - jnp.mean(positions, axis=0)) / sd
    steepness = largest_eigenvalue(gradients * sd)
    h = jnp.minimum(1.0, 0.5 / jnp.sqrt(steepness))
    damping = h / jnp.sqrt(jnp.maximum(largest_eigenvalue(centered), 1.0))
    return GhmcTuning(h, damping, DiagonalMetric(sd, jnp.max(sd) ** 2))


def tunings(states: GhmcState, floor: jax.Array) -> GhmcTuning:
    """Return the tuning of every fold ``[fold, ...]`` from states ``[fold, chain, ...]``.

    Each fold takes h and scales of the fold before it, and its own damping, as the authors do.
    """
    own = jax.vmap(fold_tuning)(states.position, states.gradient)
    h, _, metric = jax.tree.map(lambda leaf: jnp.roll(leaf, 1, axis=0), own)
    damping = own.damping_per_step / own.step_size * h
    return GhmcTuning(h, jnp.maximum(damping, floor), metric)
