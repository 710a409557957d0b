"""Stochastic volatility of the S&P 500: an autoregressive log variance, not centered."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from amalt.gym import data
from amalt.gym.batching import chains_last
from amalt.gym.gradients import with_gradient
from amalt.gym.transforms import logistic
from amalt.targets import Target

BETA_A, BETA_B = 20.0, 1.5
MEAN_SCALE = 5.0
SHOCK_SCALE = 2.0


class Position(NamedTuple):
    """A position: three unconstrained parameters, then the shocks (the order of the gym)."""

    persistence: jax.Array
    mean_log_volatility: jax.Array
    white_noise_shock_scale: jax.Array
    std_log_volatility: jax.Array


def build() -> Target:
    """Build the model that `build_series` describes: ten years of daily returns, d = 2519."""
    return build_series("stochastic-volatility", returns(), "stochastic_volatility_truth")


def build_series(name: str, r: np.ndarray, truth: str) -> Target:
    r"""Build the model of a series of returns.

    .. math::
        \phi = 2 B - 1, \quad B \sim \mathrm{Beta}(20, 1.5), \qquad
        \mu \sim \mathrm{Cauchy}(0, 5), \qquad s \sim \mathrm{HalfCauchy}(0, 2), \qquad
        e_t \sim N(0, 1), \\
        h_0 = e_0 / \sqrt{1 - \phi^2}, \qquad h_t = \phi h_{t-1} + e_t, \qquad
        r_t \sim N(0, e^{(\mu + s h_t) / 2})

    In the flat vector come ``persistence`` (:math:`\phi = \tanh(u/2)`), ``mean_log_volatility``
    (:math:`\mu`), ``white_noise_shock_scale`` (:math:`s` = softplus), ``std_log_volatility``
    (:math:`e`). What a reader sees instead of the last is ``log_volatility``, :math:`\mu + s h_t`.

    Parameters
    ----------
    name
        What the target is called.
    r
        The returns [day].
    truth
        The data file of the known moments.
    """
    variables = (*Position._fields[:3], "log_volatility")
    return Target(
        with_gradient(chains_last(value_and_gradient(r))),
        Position(jnp.zeros(()), jnp.zeros(()), jnp.zeros(()), jnp.zeros(r.size)),
        constrain=constrain,
        name=name,
        dims={"log_volatility": ("day",)},
        truth=data.read_truth(truth, variables),
    )


def returns(last: int | None = None) -> np.ndarray:
    """Return the differences of closing prices in dollars, or the last of them, minus their mean.

    Parameters
    ----------
    last
        How many of the 2516; all if not given.
    """
    differences = np.diff(data.read("sp500")["closing_price"])
    chosen = differences if last is None else differences[-last:]
    return chosen - chosen.mean()


def constrain(position: Position) -> dict[str, jax.Array]:
    """Map the parameters, and the shocks to the log volatility of each day."""
    u, mu, v, e = (jnp.asarray(part) for part in position)
    phi, c, s = dynamics(u, v)
    return {
        "persistence": phi,
        "mean_log_volatility": mu,
        "white_noise_shock_scale": s,
        "log_volatility": mu + s * autoregression(phi, c, e),
    }


def dynamics(u: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    r"""Return :math:`\phi`, the stationary sd :math:`c = 1/\sqrt{1 - \phi^2}` of h, and s."""
    b = logistic(u)
    return b.sigmoid - b.complement, 0.5 / jnp.sqrt(b.sigmoid * b.complement), logistic(v).softplus


def autoregression(phi: jax.Array, c: jax.Array, e: jax.Array) -> jax.Array:
    r"""Return :math:`h_0 = c e_0,\ h_t = \phi h_{t-1} + e_t` along the first axis of e."""

    def step(h: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        e, is_first = now
        h = phi * h + jnp.where(is_first, c, 1.0) * e
        return h, h

    return jax.lax.scan(step, jnp.zeros_like(phi), (e, np.arange(len(e)) == 0))[1]


def adjoint(
    phi: jax.Array, c: jax.Array, w: jax.Array, h: jax.Array, e: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    r"""Return the derivatives of :math:`\sum_t (w_t h_t - \tfrac12 e_t^2)`, w held fixed.

    .. math::
        \lambda_t = w_t + \phi \lambda_{t+1}, \qquad
        \frac{\partial}{\partial e_t} = c^{[t = 0]} \lambda_t - e_t, \qquad
        \frac{\partial}{\partial \phi} = \textstyle\sum_t \lambda_{t+1} h_t
        + \lambda_0 \frac{\partial h_0}{\partial \phi}

    Returns
    -------
    tuple
        :math:`\partial / \partial e`, the sum in :math:`\partial / \partial \phi`, and
        :math:`\lambda_0`.
    """

    def step(
        carry: tuple[jax.Array, jax.Array],
        now: tuple[jax.Array, jax.Array, jax.Array, jax.Array],
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        (later, total), (w, h, e, is_first) = carry, now
        total = total + later * h
        lam = w + phi * later
        return (lam, total), jnp.where(is_first, c, 1.0) * lam - e

    carry = (jnp.zeros_like(phi), jnp.zeros_like(phi))
    series = (w, h, e, np.arange(len(e)) == 0)
    (first, total), of_e = jax.lax.scan(step, carry, series, reverse=True)
    return of_e, total, first


def value_and_gradient(r: np.ndarray) -> Callable[[Position], tuple[jax.Array, Position]]:
    r"""Return the log density, all constants kept, together with its gradient.

    With :math:`B = \sigma(u)` and the log Jacobians of :math:`\phi` and s included:

    .. math::
        g_t &= \tfrac12 (r_t^2 e^{-\mu - s h_t} - 1) \\
        L &= 20 \log B + 1.5 \log(1 - B) - \log(1 + (\mu/5)^2) - \log(1 + (s/2)^2)
             + \log \sigma(v) \\
          &\quad - \textstyle\sum_t [g_t + \tfrac12 (\mu + s h_t) + \tfrac12 (e_t^2 - 1)] - c \\
        \partial_\mu L &= \textstyle\sum_t g_t - \frac{2 \mu}{25 + \mu^2}, \qquad
        \partial_s L = \textstyle\sum_t g_t h_t - \frac{2 s}{4 + s^2}

    and the derivatives in u and e by `adjoint`, with :math:`w_t = s g_t`. The position may have
    any further axes behind those of one chain.
    """
    num_days = r.size
    log_beta = math.lgamma(BETA_A) + math.lgamma(BETA_B) - math.lgamma(BETA_A + BETA_B)
    normalizers = log_beta + 2.0 * math.log(math.pi) + math.log(MEAN_SCALE)
    normalizers += math.log(0.5 * SHOCK_SCALE) + num_days * (1.0 + math.log(2.0 * math.pi))

    def evaluate(position: Position) -> tuple[jax.Array, Position]:
        u, mu, v, e = (jnp.asarray(part) for part in position)
        b, shock = logistic(u), logistic(v)
        phi, c, s = dynamics(u, v)
        h = autoregression(phi, c, e)
        half_r2 = jnp.asarray(0.5 * r**2, e.dtype).reshape(num_days, *(1,) * mu.ndim)
        # Saturated, so that no infinities of either sign meet in the sums of the gradient; there
        # the density is -inf.
        largest = math.sqrt(jnp.finfo(e.dtype).max)
        g = jnp.minimum(half_r2 * jnp.exp(-(mu[None] + s[None] * h)), largest) - 0.5
        sum_g, sum_h = jnp.sum(g, axis=0), jnp.sum(h, axis=0)
        of_e, of_phi, first = adjoint(phi, c, s[None] * g, h, e)
        value = (
            -(BETA_A * b.softplus_of_minus + BETA_B * b.softplus)
            - jnp.log1p((mu / MEAN_SCALE) ** 2)
            - jnp.log1p((s / SHOCK_SCALE) ** 2)
            - shock.softplus_of_minus
            - sum_g
            - 0.5 * (num_days * mu + s * sum_h + jnp.sum(e * e - 1.0, axis=0))
            - normalizers
        )
        of_s = jnp.sum(g * h, axis=0) - 2.0 * s / (SHOCK_SCALE**2 + s**2)
        gradient = Position(
            BETA_A * b.complement
            - BETA_B * b.sigmoid
            + 2.0 * b.sigmoid * b.complement * of_phi
            + 0.5 * phi * first * h[0],
            sum_g - 2.0 * mu / (MEAN_SCALE**2 + mu**2),
            shock.sigmoid * of_s + shock.complement,
            of_e,
        )
        return jnp.where(sum_g >= largest, -jnp.inf, value), gradient

    return evaluate
