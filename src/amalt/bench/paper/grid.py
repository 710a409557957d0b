"""MALT with tau and gamma given and h alone learned: what a point of a grid search needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from amalt.adaptation import adam, moments, step_size
from amalt.adaptation.jitter import steps_at
from amalt.adaptation.settings import MaltSettings
from amalt.kernels.integrators import LEAPFROG
from amalt.kernels.malt import MaltState, MaltTuning
from amalt.kernels.metric import diagonal
from amalt.methods.malt import advance
from amalt.randomness import Phase, phase_key
from amalt.targets import Target
from amalt.typed import fori_loop, jit

AVERAGE_DECAY = 4.0
"""log h is averaged over the last quarter or so of the iterations that learn it."""


class Explored(NamedTuple):
    """Draws ``[chain, draw, dim]`` at one (tau, gamma), and what h became."""

    positions: jax.Array
    step_size: jax.Array
    num_steps: jax.Array
    acceptance_rate: jax.Array


def explorer(
    target: Target, variances: np.ndarray, root: np.ndarray, tune: int, draws: int
) -> Callable[[MaltState, Any, Any, Any], Explored]:
    """Return ``(states, h, tau, gamma) -> Explored``, compiled once for all points.

    From the states and h it learns h in ``tune`` iterations, all with L = ceil(tau / h), and
    samples with the last one. All points use the same random numbers.

    Parameters
    ----------
    target
        What is sampled.
    variances
        s ``[dim]``; the mass matrix is max(s) diag(s)^-1.
    root
        The key of the search.
    tune, draws
        Iterations of both parts.
    """
    settings = MaltSettings()
    metric = diagonal(jnp.asarray(variances, target.dtype))

    @jit
    def explore(states: MaltState, h: jax.Array, tau: jax.Array, gamma: jax.Array) -> Explored:
        def tuning(log_h: jax.Array) -> MaltTuning:
            h = jnp.exp(log_h)
            return MaltTuning(h, steps_at("none", 0, tau, h), gamma, metric)

        def learn(
            n: jax.Array, carry: tuple[MaltState, adam.LogAdam, jax.Array]
        ) -> tuple[MaltState, adam.LogAdam, jax.Array]:
            states, adapted, mean = carry
            log_h = adapted.log_value
            key = phase_key(root, Phase.WARMUP)
            states, info = advance(key, n, states, tuning(log_h), target.value_and_grad, LEAPFROG)
            acceptance = step_size.mean_acceptance(
                info.acceptance_rate, settings.harmonic_acceptance
            )
            adapted = step_size.update(adapted, acceptance, settings.target_accept, rate)
            w = moments.weight(n + 1, AVERAGE_DECAY, mean.dtype)
            return states, adapted, moments.decay(mean, log_h, w)

        def draw(states: MaltState, n: jax.Array) -> tuple[MaltState, tuple[jax.Array, jax.Array]]:
            key = phase_key(root, Phase.SAMPLING)
            states, info = advance(key, n, states, frozen, target.value_and_grad, LEAPFROG)
            return states, (states.position, info.acceptance_rate)

        rate = jnp.asarray(settings.learning_rate, h.dtype)
        carry = (states, adam.init(adam.FOR_STEP_SIZE, h), jnp.log(h))
        states, _, log_h = fori_loop(0, tune, learn, carry)
        frozen = tuning(log_h)
        _, (positions, rates) = jax.lax.scan(draw, states, jnp.arange(draws))
        return Explored(
            jnp.swapaxes(positions, 0, 1), frozen.step_size, frozen.num_steps, jnp.mean(rates)
        )

    return explore
