"""Adam (Kingma and Ba, 2014) climbing in the logarithm of a positive number.

    m' = b1 m + (1 - b1) g,   s' = b2 s + (1 - b2) g^2,   both divided by 1 - b^n
    log theta <- log theta + rate m' / (sqrt(s') + eps)

A gradient that is not finite counts as zero, so no number in here can stop being finite.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

LOG_BOUND = 80.0
"""|log theta| stays below this: exp(80) and its inverse are still normal float32 numbers."""

GRADIENT_BOUND = 1e3
"""Gradients, of the order of one, are cut here: a larger one would stop Adam for too long."""

FOR_STEP_SIZE = optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-8)
"""Adam as the paper uses it for log h: its standard setting."""

FOR_TIME = optax.scale_by_adam(b1=0.0, b2=0.95, eps=1e-8)
"""Adam as the paper uses it for log tau: no momentum, a short memory of the scale."""


class LogAdam(NamedTuple):
    """log theta and the moments of Adam."""

    log_value: jax.Array
    moments: optax.OptState


def init(optimizer: optax.GradientTransformation, value: jax.Array) -> LogAdam:
    """Start at a positive number."""
    log_value = jnp.log(value)
    return LogAdam(log_value, optimizer.init(log_value))


def update(
    optimizer: optax.GradientTransformation,
    state: LogAdam,
    gradient: jax.Array,
    learning_rate: jax.Array,
) -> LogAdam:
    """Climb by one step."""
    gradient = jnp.where(jnp.isfinite(gradient), gradient, 0.0)
    gradient = jnp.clip(gradient, -GRADIENT_BOUND, GRADIENT_BOUND)
    # Optax raises a float to an integer power, which users may have forbidden.
    with jax.numpy_dtype_promotion("standard"):
        ascent, moments = optimizer.update(gradient, state.moments)
    log_value = state.log_value + learning_rate * jnp.asarray(ascent)
    return LogAdam(jnp.clip(log_value, -LOG_BOUND, LOG_BOUND), moments)
