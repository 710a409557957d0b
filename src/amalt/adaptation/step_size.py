"""The step size h: Adam on log h, driven by the acceptance rate.

    g_h = alpha - alpha*,     log h <- log h + Adam(g_h)

where alpha is the mean over chains of exp(-Delta^+), zero for a trajectory that met a non-finite
number. g_h is bounded, so nothing that happens to a chain can break Adam.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from amalt.adaptation import adam

HARMONIC_FLOOR = 1e-5
"""Acceptance rates count for at least this in a harmonic mean, as in the authors' code."""


def mean_acceptance(acceptance_rates: jax.Array, harmonic: bool) -> jax.Array:
    """Average the acceptance rates of all chains, arithmetically or harmonically."""
    if harmonic:
        return 1.0 / jnp.mean(1.0 / jnp.maximum(acceptance_rates, HARMONIC_FLOOR))
    return jnp.mean(acceptance_rates)


def update(
    state: adam.LogAdam, acceptance: jax.Array, target_accept: float, learning_rate: jax.Array
) -> adam.LogAdam:
    """Move log h up if more is accepted than aimed at, else down."""
    return adam.update(adam.FOR_STEP_SIZE, state, acceptance - target_accept, learning_rate)
