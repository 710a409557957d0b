"""What NUTS learns in the paper's experiments: h and the variances, shared by all chains.

Both as in Adaptive MALT: decaying moments of the positions, Adam on log h, and an average of log h
that is frozen in the end. There is no trajectory length to learn.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from amalt.adaptation import adam, step_size
from amalt.adaptation import moments as moments_of
from amalt.adaptation.settings import MaltSettings


class NutsAdaptation(NamedTuple):
    """The two learners, and the average of log h."""

    n: jax.Array
    moments: moments_of.Moments
    step_size: adam.LogAdam
    mean_log_step_size: jax.Array


def init(positions: jax.Array, settings: MaltSettings) -> NutsAdaptation:
    """Start learning from the first positions ``[chain, dim]``."""
    h = jnp.asarray(settings.initial_step_size, positions.dtype)
    return NutsAdaptation(
        n=jnp.asarray(0, jnp.int32),
        moments=moments_of.init(positions),
        step_size=adam.init(adam.FOR_STEP_SIZE, h),
        mean_log_step_size=jnp.log(h),
    )


def update(
    state: NutsAdaptation,
    positions: jax.Array,
    acceptance_rates: jax.Array,
    settings: MaltSettings,
) -> NutsAdaptation:
    """Learn from one transition of all chains: where they are, and how well they got there."""
    n, dtype = state.n + 1, positions.dtype
    rate = settings.learning_rate_at(n, positions.shape[0], dtype)
    acceptance = step_size.mean_acceptance(acceptance_rates, settings.harmonic_acceptance)
    log_h = state.step_size.log_value
    return NutsAdaptation(
        n=n,
        moments=moments_of.update(
            state.moments, positions, moments_of.weight(n, settings.moment_decay, dtype)
        ),
        step_size=step_size.update(state.step_size, acceptance, settings.target_accept, rate),
        mean_log_step_size=moments_of.decay(
            state.mean_log_step_size, log_h, moments_of.weight(n, settings.average_decay, dtype)
        ),
    )
