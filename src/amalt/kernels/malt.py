r"""Metropolis Adjusted Langevin Trajectories: Algorithm 1 of the paper, for one chain.

With L steps of size h, damping gamma and eta = exp(-gamma h), momenta in the preconditioned space:

    (x_0, v_0) = (X, xi_0),  Delta = 0
    for i = 1..L:   v'_{i-1} = eta v_{i-1} + sqrt(1 - eta^2) xi_i
                    (x_i, v_i) = integrator step of (x_{i-1}, v'_{i-1})
                    Delta += (|v_i|^2 - |v'_{i-1}|^2) / 2
    Delta += Phi(x_L) - Phi(x_0)
    Z ~ Exp(1);  the next X is x_0 if Z < Delta, else x_L

All xi are independent N(0, I). gamma = 0 is Hamiltonian Monte Carlo. A partial refresh leaves
N(0, I) as it is, so v'_0 = xi_1 has the same law and saves a draw: L steps take L normals.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from amalt.kernels.integrators import Integrator, PhasePoint, ValueAndGrad, integrate_step
from amalt.kernels.metric import Metric
from amalt.randomness import ACCEPT, exponential, normal
from amalt.typed import fori_loop

DIVERGENCE = 1000.0
"""An energy error beyond this, in either direction, is no rounding or step-size effect."""


class MaltState(NamedTuple):
    """Where a chain is; the gradient is kept, so that no transition computes it twice."""

    position: jax.Array
    logdensity: jax.Array
    gradient: jax.Array


class MaltTuning(NamedTuple):
    """What all chains share: h, L, gamma and the metric."""

    step_size: jax.Array
    num_steps: jax.Array
    damping: jax.Array
    metric: Metric


class MaltInfo(NamedTuple):
    """What happened in one transition.

    `initial_momentum` is v'_0 and `final_momentum` v_L, the velocities at both ends of the
    trajectory from which the integration time is learned.
    """

    acceptance_rate: jax.Array
    energy_error: jax.Array
    is_accepted: jax.Array
    is_diverging: jax.Array
    proposal: jax.Array
    initial_momentum: jax.Array
    final_momentum: jax.Array


def init(position: jax.Array, value_and_grad: ValueAndGrad) -> MaltState:
    """Evaluate the density at a first position."""
    return MaltState(position, *value_and_grad(position))


def refresh(momentum: jax.Array, eta: jax.Array, xi: jax.Array) -> jax.Array:
    """Refresh a momentum in part: v' = eta v + sqrt(1 - eta^2) xi."""
    return eta * momentum + jnp.sqrt(1.0 - eta**2) * xi


def kinetic_difference(v: jax.Array, v_before: jax.Array) -> jax.Array:
    """Return (|v|^2 - |v_before|^2) / 2, free of the cancellation of two large squares."""
    return 0.5 * jnp.dot(v - v_before, v + v_before)


def step(
    key: jax.Array,
    state: MaltState,
    tuning: MaltTuning,
    value_and_grad: ValueAndGrad,
    integrator: Integrator,
) -> tuple[MaltState, MaltInfo]:
    """Run one trajectory and accept or reject its end.

    A trajectory that meets a non-finite number is rejected and flagged as diverging.
    """
    h, num_steps, gamma, metric = tuning
    eta = jnp.exp(-gamma * h)

    def noise(i: jax.Array | int) -> jax.Array:
        return normal(key, i, state.position.shape, state.position.dtype)

    def langevin_step(
        i: jax.Array, carry: tuple[PhasePoint, jax.Array]
    ) -> tuple[PhasePoint, jax.Array]:
        point, delta = carry
        v = refresh(point.momentum, jnp.where(i == 0, 0.0, eta), noise(i))
        point = integrate_step(integrator, value_and_grad, metric, h, point._replace(momentum=v))
        return point, delta + kinetic_difference(point.momentum, v)

    start = PhasePoint(state.position, jnp.zeros_like(state.position), *state[1:])
    carry = (start, jnp.zeros_like(state.logdensity))
    end, kinetic = fori_loop(0, num_steps, langevin_step, carry)

    delta = kinetic + state.logdensity - end.logdensity
    is_finite = jnp.isfinite(delta) & jnp.all(jnp.isfinite(end.position))
    z = exponential(key, ACCEPT, delta.dtype)
    is_accepted = is_finite & (z >= delta)
    proposed = MaltState(end.position, end.logdensity, end.gradient)
    accepted = jax.tree.map(lambda new, old: jnp.where(is_accepted, new, old), proposed, state)
    info = MaltInfo(
        acceptance_rate=jnp.where(is_finite, jnp.exp(-jnp.maximum(delta, 0.0)), 0.0),
        energy_error=delta,
        is_accepted=is_accepted,
        is_diverging=~is_finite | (jnp.abs(delta) > DIVERGENCE),
        proposal=end.position,
        initial_momentum=noise(0),
        final_momentum=end.momentum,
    )
    return accepted, info
