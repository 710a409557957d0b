"""Eight schools: the smallest hierarchical model, in its centered form."""

from __future__ import annotations

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from amalt.gym import data
from amalt.targets import Target

SCHOOLS = (
    "Choate",
    "Deerfield",
    "Phillips Andover",
    "Phillips Exeter",
    "Hotchkiss",
    "Lawrenceville",
    "St. Paul's",
    "Mt. Hermon",
)
# Rubin (1981), Estimation in parallel randomized experiments, table 1.
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
STANDARD_ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])

LOG_NORMALIZERS = (
    math.log(10.0) + float(np.log(STANDARD_ERRORS).sum()) + 0.5 * 18 * math.log(2.0 * math.pi)
)


def build() -> Target:
    r"""Build the eight schools model with centered effects, d = 10.

    .. math::
        \mu \sim N(0, 10), \quad \ell \sim N(5, 1), \quad
        \theta_j \mid \mu, \ell \sim N(\mu, e^\ell), \quad y_j \mid \theta_j \sim N(\theta_j, s_j)

    with :math:`\mu` called ``avg_effect``, :math:`\ell` ``log_stddev`` and :math:`\theta`
    ``school_effects``, in this order in the flat vector.
    """
    return Target(
        logdensity,
        {
            "avg_effect": jnp.zeros(()),
            "log_stddev": jnp.zeros(()),
            "school_effects": jnp.zeros(len(SCHOOLS)),
        },
        name="eight-schools",
        dims={"school_effects": ("school",)},
        coords={"school": SCHOOLS},
        truth=data.read_truth(
            "eight_schools_truth", ("avg_effect", "log_stddev", "school_effects")
        ),
    )


def logdensity(position: Mapping[str, jax.Array]) -> jax.Array:
    r"""Evaluate the log density of parameters and data together.

    .. math::
        -\tfrac12 (\mu/10)^2 - \tfrac12 (\ell - 5)^2 - \tfrac12 \textstyle\sum_j
        [((\theta_j - \mu) e^{-\ell})^2 + 2 \ell + ((y_j - \theta_j)/s_j)^2] - c
    """
    mu, ell = position["avg_effect"], position["log_stddev"]
    theta = jnp.asarray(position["school_effects"])
    y = jnp.asarray(EFFECTS, theta.dtype)
    s = jnp.asarray(STANDARD_ERRORS, theta.dtype)
    between = (theta - mu) * jnp.exp(-ell)
    within = (y - theta) / s
    prior = -0.5 * (mu / 10.0) ** 2 - 0.5 * (ell - 5.0) ** 2
    return prior - 0.5 * jnp.sum(between**2 + within**2) - len(SCHOOLS) * ell - LOG_NORMALIZERS
