"""Sparse logistic regression of credit risk: every weight with a scale of its own."""

from __future__ import annotations

import math
from typing import TypedDict

import jax
import jax.numpy as jnp

from amalt.gym import data
from amalt.gym.german_credit import FEATURES, bernoulli_log_likelihood, design
from amalt.gym.transforms import logistic
from amalt.targets import Target


class Position(TypedDict):
    """A position; the scales are unconstrained."""

    global_scale: jax.Array
    local_scales: jax.Array
    unscaled_weights: jax.Array


def build() -> Target:
    r"""Build the logistic regression with scales of the weights to be learned, d = 51.

    .. math::
        g, t_i \sim \mathrm{Gamma}(\tfrac12, \tfrac12), \qquad v_i \sim N(0, 1), \qquad
        y_n \sim \mathrm{Bernoulli}(1 / (1 + e^{-x_n \cdot w})), \qquad w_i = g\, t_i\, v_i

    on the data of ``german-credit``; the second number of a Gamma is its rate. In the order of the
    flat vector: ``global_scale`` (:math:`g` = softplus), ``local_scales`` (:math:`t` = softplus),
    ``unscaled_weights`` (:math:`v`). The log density keeps all constants:

    .. math::
        L = \ell(w) - \tfrac12 |v|^2 - \tfrac{25}{2} \log 2\pi + p(u_g) + \textstyle\sum_i p(u_i)

    with the log likelihood :math:`\ell` of ``german-credit`` and the :math:`p` of
    `log_gamma_prior`.
    """
    log_likelihood = bernoulli_log_likelihood(*design())
    size = len(FEATURES)
    constant = 0.5 * size * math.log(2.0 * math.pi)

    def logdensity(position: Position) -> jax.Array:
        u_g, u_t, v = (jnp.asarray(position[name]) for name in Position.__annotations__)
        scale = constrain(position)
        w = scale["global_scale"] * scale["local_scales"] * v
        prior = log_gamma_prior(u_g) + jnp.sum(log_gamma_prior(u_t))
        return log_likelihood(w) - 0.5 * jnp.vdot(v, v) - constant + prior

    example = Position(
        global_scale=jnp.zeros(()), local_scales=jnp.zeros(size), unscaled_weights=jnp.zeros(size)
    )
    return Target(
        logdensity,
        example,
        constrain=constrain,
        name="sparse-german-credit",
        dims={"local_scales": ("feature",), "unscaled_weights": ("feature",)},
        coords={"feature": FEATURES},
        truth=data.read_truth("german_credit_sparse_truth", example),
    )


def constrain(position: Position) -> dict[str, jax.Array]:
    """Map all scales by softplus."""
    return {
        "global_scale": logistic(position["global_scale"]).softplus,
        "local_scales": logistic(position["local_scales"]).softplus,
        "unscaled_weights": position["unscaled_weights"],
    }


def log_gamma_prior(u: jax.Array) -> jax.Array:
    r"""Evaluate the log density of :math:`u` when :math:`s = \log(1 + e^u)` is Gamma(1/2, 1/2).

    .. math::
        p(u) = -\tfrac12 \log s - \tfrac12 s + \log \sigma(u) - \tfrac12 \log 2\pi
    """
    parts = logistic(u)
    s = parts.softplus
    # log s < u always, and equal to rounding far down, where s underflows.
    log_s = jnp.minimum(jnp.log(s), u)
    return -0.5 * (log_s + s) - parts.softplus_of_minus - 0.5 * math.log(2.0 * math.pi)
