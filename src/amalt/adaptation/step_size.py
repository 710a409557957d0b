"""The step size h: Adam on log h, driven by the acceptance rate.

    g_h = alpha - alpha*,     log h <- log h + Adam(g_h)

where alpha is the mean over chains of exp(-Delta^+), zero for a trajectory that met a non-finite
number. g_h is bounded, so nothing that happens to a chain can break Adam.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

HARMONIC_FLOOR = 1e-5
"""Acceptance rates count for at least this in a harmonic mean, as in the authors' code."""

LOG_BOUND = 80.0
"""|log h| stays below this: exp(80) and its inverse are still normal float32 numbers."""


class StepSizeState(NamedTuple):
    """log h and the moments of Adam."""

    log_step_size: jax.Array
    adam: optax.OptState


def optimizer() -> optax.GradientTransformation:
    """Return Adam in its standard setting, as the paper uses it for log h."""
    return optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-8)


def init(step_size: jax.Array) -> StepSizeState:
    """Start at a given step size."""
    log_step_size = jnp.log(step_size)
    return StepSizeState(log_step_size, optimizer().init(log_step_size))


def mean_acceptance(acceptance_rates: jax.Array, harmonic: bool) -> jax.Array:
    """Average the acceptance rates of all chains, arithmetically or harmonically."""
    if harmonic:
        return 1.0 / jnp.mean(1.0 / jnp.maximum(acceptance_rates, HARMONIC_FLOOR))
    return jnp.mean(acceptance_rates)


def update(
    state: StepSizeState, acceptance: jax.Array, target_accept: float, learning_rate: jax.Array
) -> StepSizeState:
    """Move log h up if more is accepted than aimed at, else down."""
    ascent, adam = optimizer().update(acceptance - target_accept, state.adam)
    log_step_size = state.log_step_size + learning_rate * jnp.asarray(ascent)
    return StepSizeState(jnp.clip(log_step_size, -LOG_BOUND, LOG_BOUND), adam)
