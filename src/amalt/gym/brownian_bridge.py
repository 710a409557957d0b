"""The Brownian bridge: a random walk seen at both ends, with two unknown scales."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from amalt.gym import data
from amalt.gym.gradients import with_gradient
from amalt.gym.transforms import logistic
from amalt.targets import Target

LOG_SCALE_SD = 2.0


class Path(NamedTuple):
    """A position: both scales before softplus, then the locations (the order of the gym)."""

    innovation_noise_scale: jax.Array
    observation_noise_scale: jax.Array
    locs: jax.Array


def build() -> Target:
    r"""Build the random walk with a missing middle and unknown scales, d = 32.

    .. math::
        s_i, s_o \sim \mathrm{LogNormal}(0, 2), \qquad x_t \mid x_{t-1} \sim N(x_{t-1}, s_i),
        \qquad y_t \sim N(x_t, s_o)

    with :math:`x_{-1} = 0`, t = 0, ..., 29, and :math:`y_t` observed but for t = 10, ..., 19. In
    the flat vector come ``innovation_noise_scale`` (:math:`s_i` = softplus), then
    ``observation_noise_scale`` (:math:`s_o`), then ``locs`` (:math:`x`). The truth is exact.
    """
    y = observations()
    return Target(
        with_gradient(value_and_gradient(y)),
        Path(jnp.zeros(()), jnp.zeros(()), jnp.zeros(y.size)),
        constrain=constrain,
        name="brownian-bridge",
        dims={"locs": ("time",)},
        coords={"time": range(y.size)},
        truth=data.read_truth("brownian_bridge_truth", Path._fields),
    )


def observations() -> np.ndarray:
    """Return the 30 observations in float64; missing ones are NaN."""
    return data.read("brownian_bridge")["observed"].astype(np.float64)


def constrain(position: Path) -> dict[str, jax.Array]:
    """Map both scales by softplus."""
    return {
        "innovation_noise_scale": logistic(position.innovation_noise_scale).softplus,
        "observation_noise_scale": logistic(position.observation_noise_scale).softplus,
        "locs": position.locs,
    }


def value_and_gradient(y: np.ndarray) -> Callable[[Path], tuple[jax.Array, Path]]:
    r"""Return the log density, all constants kept, together with its gradient.

    .. math::
        e_t &= (x_t - x_{t-1}) / s_i, \qquad f_t = (y_t - x_t) / s_o \quad (0 \text{ if missing}) \\
        L &= -\tfrac12 \textstyle\sum_t e_t^2 - 30 \log s_i
             - \tfrac12 \textstyle\sum_t f_t^2 - 20 \log s_o + p(u_i) + p(u_o) - c \\
        \partial L / \partial x_t &= (e_{t+1} - e_t) / s_i + f_t / s_o

    where :math:`p(u)` is the log density of :math:`u` that `log_normal` evaluates, and :math:`c`
    holds the 52 normalizers.
    """
    is_seen = np.isfinite(y)
    num_steps, num_seen = y.size, int(is_seen.sum())
    normalizers = 0.5 * (num_steps + num_seen + 2) * math.log(2.0 * math.pi)
    constant = normalizers + 2.0 * math.log(LOG_SCALE_SD)

    def evaluate(position: Path) -> tuple[jax.Array, Path]:
        u_i, u_o, x = (jnp.asarray(part) for part in position)
        seen = jnp.asarray(is_seen, x.dtype)
        observed = jnp.asarray(np.nan_to_num(y), x.dtype)
        i, o = log_normal(u_i), log_normal(u_o)
        e = (x - jnp.pad(x[:-1], (1, 0))) * i.inverse
        f = seen * (observed - x) * o.inverse
        sum_e, sum_f = jnp.sum(e * e), jnp.sum(f * f)
        value = (
            i.log_prior
            + o.log_prior
            - (0.5 * sum_e + num_steps * i.log + 0.5 * sum_f + num_seen * o.log + constant)
        )
        gradient = Path(
            i.slope + (sum_e - num_steps) * i.log_slope,
            o.slope + (sum_f - num_seen) * o.log_slope,
            (jnp.pad(e[1:], (0, 1)) - e) * i.inverse + f * o.inverse,
        )
        return value, gradient

    return evaluate


class Scale(NamedTuple):
    r"""A scale :math:`s = \log(1 + e^u)` with its prior, as functions of :math:`u`."""

    log: jax.Array
    log_slope: jax.Array
    inverse: jax.Array
    log_prior: jax.Array
    slope: jax.Array


def log_normal(u: jax.Array) -> Scale:
    r"""Evaluate :math:`\log s`, its slope, :math:`1/s`, and the prior of :math:`u` with slope.

    .. math::
        p(u) = -\log s - \tfrac12 (\log s / 2)^2 + \log \sigma(u), \qquad
        \frac{\mathrm{d} \log s}{\mathrm{d} u} = \frac{\sigma(u)}{s}
    """
    parts = logistic(u)
    inverse = 1.0 / parts.softplus
    # log s < u always, and equal to rounding far down, where s underflows.
    log = jnp.minimum(jnp.log(parts.softplus), u)
    log_slope = parts.sigmoid * inverse
    return Scale(
        log,
        log_slope,
        inverse,
        -log - 0.5 * (log / LOG_SCALE_SD) ** 2 - parts.softplus_of_minus,
        -(1.0 + log / LOG_SCALE_SD**2) * log_slope + parts.complement,
    )
