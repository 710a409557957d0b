"""The banana: a Gaussian bent along a parabola."""

from __future__ import annotations

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from amalt.targets import Target

SCALE = 10.0
CURVATURE = 0.03


def build() -> Target:
    r"""Build the banana, a curved density in two dimensions.

    .. math::
        x_0 \sim N(0, 10), \qquad x_1 \mid x_0 \sim N(0.03\,(x_0^2 - 100),\ 1)

    Both means are 0; the standard deviations are 10 and
    :math:`\sqrt{1 + 2\,(0.03 \cdot 100)^2} = \sqrt{19}`.
    """
    sd = np.array([SCALE, math.sqrt(1.0 + 2.0 * (CURVATURE * SCALE**2) ** 2)])
    return Target(
        logdensity,
        {"x": jnp.zeros(2)},
        name="banana",
        dims={"x": ("component",)},
        truth={"x": (np.zeros(2), sd, np.zeros(2))},
    )


def logdensity(position: Mapping[str, jax.Array]) -> jax.Array:
    r"""Evaluate the normalized log density.

    .. math::
        -\tfrac12 (x_0 / 10)^2 - \tfrac12 (x_1 - 0.03\,(x_0^2 - 100))^2 - \log 10 - \log 2\pi
    """
    x0, x1 = position["x"]
    bend = CURVATURE * (x0**2 - SCALE**2)
    return -0.5 * (x0 / SCALE) ** 2 - 0.5 * (x1 - bend) ** 2 - math.log(SCALE * 2.0 * math.pi)
