"""Neal's funnel: a scale that is itself a parameter, without any data."""

from __future__ import annotations

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from amalt.gym.registry import check_integer
from amalt.targets import Target

SCALE = 3.0


def build(dim: int = 10) -> Target:
    r"""Build Neal's funnel.

    .. math::
        v \sim N(0, 3), \qquad x_i \mid v \sim N(0, e^{v/2}), \quad i = 1, \dots, d - 1

    All means are 0; the standard deviations are 3 and :math:`e^{9/4}`. In the order of the flat
    vector, ``log_variance`` (:math:`v`) comes first.

    Parameters
    ----------
    dim
        The dimension :math:`d`, at least 2.
    """
    dim = check_integer("funnel", "dim", dim, 2)
    zeros = np.zeros(dim - 1)
    return Target(
        logdensity,
        {"log_variance": jnp.zeros(()), "x": jnp.zeros(dim - 1)},
        name="funnel",
        dims={"x": ("component",)},
        truth={
            "log_variance": (np.zeros(()), np.array(SCALE), np.zeros(())),
            "x": (zeros, np.full(dim - 1, math.exp(SCALE**2 / 4.0)), zeros),
        },
    )


def logdensity(position: Mapping[str, jax.Array]) -> jax.Array:
    r"""Evaluate the normalized log density.

    .. math::
        -\tfrac12 (v / 3)^2 - \tfrac12 \textstyle\sum_i (x_i e^{-v/2})^2 - (d - 1)\, v / 2
        - \log 3 - \tfrac{d}{2} \log 2\pi
    """
    v, x = position["log_variance"], position["x"]
    # Scaling before squaring keeps float32 finite down the neck.
    standardized = x * jnp.exp(-0.5 * v)
    constant = math.log(SCALE) + 0.5 * (x.size + 1) * math.log(2.0 * math.pi)
    return -0.5 * (v / SCALE) ** 2 - 0.5 * jnp.sum(standardized**2) - 0.5 * x.size * v - constant
