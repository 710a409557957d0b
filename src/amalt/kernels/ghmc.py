r"""Generalized HMC with slice acceptance (Horowitz 1991, Neal 2020), one integrator step at a time.

With step size h, damping gamma and eta = exp(-gamma h), for a momentum v that is kept, and a number
u in (-1, 1) whose absolute value decides:

    v' = eta v + sqrt(1 - eta^2) xi
    (x_1, v_1) = integrator step of (x, v'),      Delta = energy of (x_1, v_1) - that of (x, v')
    if log |u| < -Delta:  go to (x_1, v_1),  u <- u exp(Delta)
    else:                 stay at x, with the momentum turned round, -v'
    u <- ((u + drift + 1) mod 2) - 1,             drift = (1 - eta^2) / 2

u is uniform and independent of (x, v); it moves slowly, so that rejections come in clusters.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from amalt.kernels.integrators import Integrator, PhasePoint, ValueAndGrad, integrate_step
from amalt.kernels.malt import DIVERGENCE, MaltState, kinetic_difference, refresh
from amalt.kernels.metric import Metric
from amalt.randomness import ACCEPT, normal, uniform


class GhmcState(NamedTuple):
    """Where a chain is, its momentum, and the number u that decides on acceptance."""

    position: jax.Array
    logdensity: jax.Array
    gradient: jax.Array
    momentum: jax.Array
    slice: jax.Array


class GhmcTuning(NamedTuple):
    """h, gamma h, and the metric."""

    step_size: jax.Array
    damping_per_step: jax.Array
    metric: Metric


class GhmcInfo(NamedTuple):
    """What happened in one step."""

    acceptance_rate: jax.Array
    energy_error: jax.Array
    is_diverging: jax.Array


def init(key: jax.Array, start: MaltState) -> GhmcState:
    """Draw a first momentum and a first u for an evaluated position."""
    x = start.position
    momentum = normal(key, 0, x.shape, x.dtype)
    return GhmcState(*start, momentum, 2.0 * uniform(key, ACCEPT, (), x.dtype) - 1.0)


def step(
    key: jax.Array,
    state: GhmcState,
    tuning: GhmcTuning,
    value_and_grad: ValueAndGrad,
    integrator: Integrator,
) -> tuple[GhmcState, GhmcInfo]:
    """Make one step; one that meets a non-finite number is rejected and flagged as diverging."""
    x, logdensity, gradient, v, u = state
    eta = jnp.exp(-tuning.damping_per_step)
    v = refresh(v, eta, normal(key, 0, x.shape, x.dtype))
    start = PhasePoint(x, v, logdensity, gradient)
    end = integrate_step(integrator, value_and_grad, tuning.metric, tuning.step_size, start)
    delta = kinetic_difference(end.momentum, v) + logdensity - end.logdensity
    is_finite = jnp.isfinite(delta) & jnp.all(jnp.isfinite(end.position))
    is_accepted = is_finite & (jnp.log(jnp.abs(u)) < -delta)
    proposed = GhmcState(
        end.position, end.logdensity, end.gradient, end.momentum, u * jnp.exp(delta)
    )
    rejected = state._replace(momentum=-v)
    new = jax.tree.map(lambda a, b: jnp.where(is_accepted, a, b), proposed, rejected)
    drift = 0.5 * (1.0 - eta**2)
    new = new._replace(slice=jnp.mod(new.slice + drift + 1.0, 2.0) - 1.0)
    info = GhmcInfo(
        acceptance_rate=jnp.where(is_finite, jnp.exp(-jnp.maximum(delta, 0.0)), 0.0),
        energy_error=delta,
        is_diverging=~is_finite | (jnp.abs(delta) > DIVERGENCE),
    )
    return new, info
