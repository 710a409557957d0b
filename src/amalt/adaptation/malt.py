"""Adaptive MALT: Algorithm 2 of the paper, all chains learning one tuning.

Each iteration n = 1, 2, ... takes h, tau, lambda and s as the iterations before left them, runs one
transition of every chain, and feeds the outcome to five small learners: the moments m and s, the
principal component w, the step size h, the integration time tau and, if rho is adaptive, the
autocorrelation of the squared projection.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from amalt.adaptation import adam, jitter, principal, step_size, trajectory
from amalt.adaptation import moments as moments_of
from amalt.adaptation.settings import MaltSettings
from amalt.kernels.malt import MaltInfo, MaltState, MaltTuning
from amalt.kernels.metric import diagonal


class MaltAdaptation(NamedTuple):
    """All that is learned: five learners, and the averages of log h and of the time."""

    n: jax.Array
    moments: moments_of.Moments
    principal: principal.PrincipalState
    projection: trajectory.ProjectionMoments
    step_size: adam.LogAdam
    time: adam.LogAdam
    mean_log_step_size: jax.Array
    mean_time: jax.Array


class WarmupTrace(NamedTuple):
    """What one iteration used and saw: scalars, kept for every iteration."""

    step_size: jax.Array
    integration_time: jax.Array
    damping: jax.Array
    rho: jax.Array
    acceptance_rate: jax.Array
    num_steps: jax.Array
    num_diverging: jax.Array


def init(key: Any, positions: jax.Array, settings: MaltSettings) -> MaltAdaptation:
    """Start learning from the first positions ``[chain, dim]``."""
    h = jnp.asarray(settings.initial_step_size, positions.dtype)
    moments = moments_of.init(positions)
    return MaltAdaptation(
        n=jnp.asarray(0, jnp.int32),
        moments=moments,
        principal=principal.init(key, moments.variance),
        projection=trajectory.init_projection(h),
        step_size=adam.init(adam.FOR_STEP_SIZE, h),
        time=adam.init(adam.FOR_TIME, h),
        mean_log_step_size=jnp.log(h),
        mean_time=h,
    )


def tuning(state: MaltAdaptation, settings: MaltSettings) -> MaltTuning:
    """Return what the next iteration uses: L = ceil(tau / h), 1 in the first, MALA iterations."""
    log_h, log_tau = _log_step_size_and_time(state, settings)
    one = jnp.ones_like(log_h)
    num_steps = jitter.steps_at(settings.jitter, state.n, jnp.exp(log_tau - log_h), one)
    return _make_tuning(state, log_h, num_steps, settings)


def finalize(state: MaltAdaptation, settings: MaltSettings) -> MaltTuning:
    """Freeze what was learned, with h and the time averaged.

    tau hovers where the best T = L h lies between two whole L; the mean of T is that best one.
    Where lengths are jittered anyway, it is tau that is averaged.
    """
    log_h = state.mean_log_step_size
    return _make_tuning(state, log_h, jnp.round(state.mean_time / jnp.exp(log_h)), settings)


def update(
    state: MaltAdaptation,
    used: MaltTuning,
    before: MaltState,
    after: MaltState,
    info: MaltInfo,
    settings: MaltSettings,
) -> tuple[MaltAdaptation, WarmupTrace]:
    """Learn from one transition of all chains (leading axis) made with the tuning ``used``."""
    n = state.n + 1
    dtype = before.position.dtype
    rate = settings.learning_rate_at(n, before.position.shape[0], dtype)
    w_moments = moments_of.weight(n, settings.moment_decay, dtype)
    w_projection = moments_of.weight(state.principal.n + 1, settings.moment_decay, dtype)
    w_average = moments_of.weight(n, settings.average_decay, dtype)
    log_h, log_tau = _log_step_size_and_time(state, settings)

    jump, projection_after = _project(state, used, before, after, info)
    rho = _rho(state, settings)
    time = used.num_steps.astype(dtype) * used.step_size
    # In units of lambda^2, so that Adam sees numbers of the order of one.
    gradient = trajectory.criterion_gradient(jump, time, rho, settings.two_directional)
    gradient = gradient / principal.eigenvalue(state.principal.w) ** 2
    if settings.is_jittered:
        # The criterion is a mean over times T = jitter tau, each with its own T^(-(1 + rho) / 2).
        gradient = gradient * (time * jnp.exp(-log_tau)) ** (-0.5 * (1.0 + rho))
    tau = adam.update(adam.FOR_TIME, state.time._replace(log_value=log_tau), gradient, rate)
    acceptance = step_size.mean_acceptance(info.acceptance_rate, settings.harmonic_acceptance)
    moments = moments_of.update(state.moments, after.position, w_moments)
    y = _standardize(used, after.position, moments.mean)

    new = MaltAdaptation(
        n=n,
        moments=moments,
        principal=principal.update(
            state.principal, y, state.moments.variance, settings.principal_decay
        ),
        projection=trajectory.update_projection(
            state.projection, projection_after**2, jump.before**2, w_projection
        ),
        step_size=step_size.update(state.step_size, acceptance, settings.target_accept, rate),
        time=trajectory.bound(tau, log_h, settings.max_steps),
        mean_log_step_size=moments_of.decay(state.mean_log_step_size, log_h, w_average),
        mean_time=moments_of.decay(
            state.mean_time, jnp.exp(log_tau) if settings.is_jittered else time, w_average
        ),
    )
    trace = WarmupTrace(
        step_size=used.step_size,
        integration_time=jnp.exp(log_tau),
        damping=used.damping,
        rho=rho,
        acceptance_rate=jnp.mean(info.acceptance_rate),
        num_steps=used.num_steps,
        num_diverging=jnp.sum(info.is_diverging),
    )
    return new, trace


def _log_step_size_and_time(
    state: MaltAdaptation, settings: MaltSettings
) -> tuple[jax.Array, jax.Array]:
    """Return log h and log tau of the next iteration, tau = h in the first ones."""
    log_h = state.step_size.log_value
    return log_h, jnp.where(state.n < settings.mala_steps, log_h, state.time.log_value)


def _make_tuning(
    state: MaltAdaptation, log_h: jax.Array, num_steps: jax.Array, settings: MaltSettings
) -> MaltTuning:
    """Return h, L within its bounds, gamma = lambda^(-1/2) and M = max(s) diag(s)^-1."""
    metric = diagonal(state.moments.variance)
    eigenvalue = metric.mass_scale * principal.eigenvalue(state.principal.w)
    # The bound is one of tau; the longest jitter of all is below 8.
    longest = settings.max_steps * (8 if settings.is_jittered else 1)
    num_steps = jnp.clip(num_steps, 1, longest).astype(jnp.int32)
    damping = jnp.zeros_like(log_h) if settings.is_jittered else 1.0 / jnp.sqrt(eigenvalue)
    return MaltTuning(jnp.exp(log_h), num_steps, damping, metric)


def _rho(state: MaltAdaptation, settings: MaltSettings) -> jax.Array:
    if settings.adaptive_rho:
        return trajectory.autocorrelation(state.projection)
    return jnp.ones_like(state.projection.mean)


def _standardize(used: MaltTuning, positions: jax.Array, mean: jax.Array) -> jax.Array:
    """Return y = M^(1/2) (x - m), divided by the standard deviation that all its entries share."""
    unit = 1.0 / jnp.sqrt(used.metric.mass_scale)
    return jax.vmap(lambda x: unit * used.metric.whiten(x - mean))(positions)


def _project(
    state: MaltAdaptation,
    used: MaltTuning,
    before: MaltState,
    after: MaltState,
    info: MaltInfo,
) -> tuple[trajectory.Jump, jax.Array]:
    """Project the ends of each trajectory, and the states after it, on the component z."""
    z = principal.direction(state.principal.w)
    speed = z / jnp.sqrt(used.metric.mass_scale)

    def project(x: jax.Array) -> jax.Array:
        return _standardize(used, x, state.moments.mean) @ z

    jump = trajectory.Jump(
        before=project(before.position),
        after=project(info.proposal),
        speed_before=info.initial_momentum @ speed,
        speed_after=info.final_momentum @ speed,
        acceptance=info.acceptance_rate,
    )
    return jump, project(after.position)
