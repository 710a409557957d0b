r"""The integration time tau: Adam on log tau, driven by a criterion of squared jumps.

For phi(x) = (z' y)^2, the squared projection on the principal component z, the criterion is

    C_rho(tau) = ESJD(tau) / tau^((1 + rho) / 2),     ESJD = E[alpha (phi(x_L) - phi(x_0))^2]

with alpha = exp(-Delta^+), the chance that the jump is made. Its gradient in log tau, up to a
positive factor, is estimated on every trajectory of realized time T = L h by

    g = alpha (T delta - (1 + rho) / 2 (phi(x_L) - phi(x_0))^2)
    delta(x_L, x_0, v_L) = 2 (phi(x_L) - phi(x_0)) dphi(x_L)/dt,  along the velocity v_L.

A trajectory read backwards is as likely, so delta(x_0, x_L, -v_0) has the same mean: the average of
both is the two-directional estimator.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from amalt.adaptation import adam
from amalt.adaptation.moments import decay


class Jump(NamedTuple):
    """Projections on the principal component at both ends of each trajectory, ``[chain]``.

    `before` and `after` are z'y at x_0 and at the proposal x_L, `speed_before` and `speed_after`
    their derivatives in time along v'_0 and v_L, `acceptance` the chance of the jump.
    """

    before: jax.Array
    after: jax.Array
    speed_before: jax.Array
    speed_after: jax.Array
    acceptance: jax.Array


class ProjectionMoments(NamedTuple):
    """Mean m2 and variance s2 of phi, and its covariance c between successive states."""

    mean: jax.Array
    variance: jax.Array
    covariance: jax.Array


def init_projection(like: jax.Array) -> ProjectionMoments:
    """Start with phi of mean and variance one, successive values uncorrelated."""
    one = jnp.ones_like(like)
    return ProjectionMoments(one, one, jnp.zeros_like(like))


def jump_derivative(jump: Jump, two_directional: bool) -> jax.Array:
    """Return the estimator delta of dESJD/dtau for each chain, in one or both directions."""
    gain = jump.after**2 - jump.before**2
    forward = 2.0 * gain * (2.0 * jump.after * jump.speed_after)
    if not two_directional:
        return forward
    reverse = 2.0 * (-gain) * (2.0 * jump.before * (-jump.speed_before))
    return 0.5 * (forward + reverse)


def criterion_gradient(
    jump: Jump, time: jax.Array, rho: jax.Array, two_directional: bool
) -> jax.Array:
    """Return the mean of g over chains; one that met a non-finite number counts as zero."""
    gain = jump.after**2 - jump.before**2
    delta = jump_derivative(jump, two_directional)
    g = jump.acceptance * (time * delta - 0.5 * (1.0 + rho) * gain**2)
    return jnp.mean(jnp.where(jnp.isfinite(g), g, 0.0))


def bound(state: adam.LogAdam, log_step_size: jax.Array, max_steps: int) -> adam.LogAdam:
    """Keep tau between half a step and ``max_steps`` steps, whatever the criterion says.

    Below one step tau has no effect, so it must not wander off to where it cannot come back from.
    """
    low, high = log_step_size + math.log(0.5), log_step_size + math.log(max_steps)
    return state._replace(log_value=jnp.clip(state.log_value, low, high))


def update_projection(
    moments: ProjectionMoments, phi: jax.Array, phi_before: jax.Array, w: jax.Array
) -> ProjectionMoments:
    """Merge phi at the new states and at the states before them, ``[chain]`` each."""
    m2, s2, c = moments
    return ProjectionMoments(
        mean=decay(m2, jnp.mean(phi), w),
        variance=decay(s2, jnp.mean((phi - m2) ** 2), w),
        covariance=decay(c, jnp.mean((phi - m2) * (phi_before - m2)), w),
    )


def autocorrelation(moments: ProjectionMoments) -> jax.Array:
    """Return rho = c^+ / s2, between 0 and 1."""
    tiny = float(jnp.finfo(moments.variance.dtype).tiny)
    return jnp.clip(moments.covariance / jnp.maximum(moments.variance, tiny), 0.0, 1.0)
