"""Probit regression of credit risk on the numeric German credit data."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import chebyshev
from scipy import special

from amalt.gym import data
from amalt.gym.german_credit import FEATURES, design
from amalt.gym.gradients import with_gradient
from amalt.targets import Target

# Four factors, each above 1e-9 wherever |v| < 4e8, do not underflow in float32.
ROWS_PER_LOG = 4

# The degrees at which the polynomial of the tail is exact to rounding: 1e-8 and 6e-15.
CENTER = 3.5
DEGREES = {jnp.dtype(jnp.float32): 10, jnp.dtype(jnp.float64): 24}

SQRT_TWO_PI = math.sqrt(2.0 * math.pi)


def build() -> Target:
    r"""Build the probit regression of credit risk, d = 25.

    .. math::
        w_i \sim N(0, 1), \qquad y_n \sim \mathrm{Bernoulli}(\Phi(x_n \cdot w))

    on the data of ``german-credit``, with the distribution function :math:`\Phi` of N(0, 1). The
    log density keeps all constants:

    .. math::
        L(w) = \textstyle\sum_n \log \Phi((2 y_n - 1)\, x_n \cdot w)
               - \tfrac12 |w|^2 - \tfrac{25}{2} \log 2\pi
    """
    log_likelihood = probit_log_likelihood(*design())
    constant = 0.5 * len(FEATURES) * math.log(2.0 * math.pi)

    def logdensity(position: dict[str, jax.Array]) -> jax.Array:
        w = jnp.asarray(position["weights"])
        return log_likelihood(w) - 0.5 * jnp.vdot(w, w) - constant

    return Target(
        logdensity,
        {"weights": jnp.zeros(len(FEATURES))},
        name="probit-german-credit",
        dims={"weights": ("feature",)},
        coords={"feature": FEATURES},
        truth=data.read_truth("german_credit_probit_truth", ("weights",)),
    )


def probit_log_likelihood(x: np.ndarray, y: np.ndarray) -> Callable[[jax.Array], jax.Array]:
    r"""Return the log likelihood of a probit regression as a function of its weights.

    With :math:`v_n = (2 y_n - 1)\, x_n \cdot w`, the scaled tail :math:`R` of `scaled_tail` and
    :math:`e = e^{-v^2/2}`:

    .. math::
        \log \Phi(v) &= \log F - \tfrac12 v^2\, [v < 0], \qquad
            F = R(|v|) \text{ if } v < 0 \text{ else } 1 - e\, R(|v|) \\
        \frac{\mathrm{d} \log \Phi}{\mathrm{d} v} &= \frac{e^{[v \ge 0]}}{\sqrt{2 \pi}\, F}

    No term cancels in either tail, and nothing underflows that matters. Forward, reverse and
    second derivatives work.

    Parameters
    ----------
    x
        Design matrix [rows, features].
    y
        Labels 0 or 1 [rows].
    """
    signed = (2.0 * y - 1.0)[:, None] * x
    # A row of zeros adds log 1/2, which is taken off again.
    padding = -len(signed) % ROWS_PER_LOG
    signed = np.pad(signed, ((0, padding), (0, 0)))

    def value_and_gradient(w: jax.Array) -> tuple[jax.Array, jax.Array]:
        a = jnp.asarray(signed, w.dtype)
        v = w @ a.T
        is_negative = v < 0
        tail = scaled_tail(jnp.where(is_negative, -v, v))
        square = v * v
        e = jnp.exp(-0.5 * square)
        factor = jnp.where(is_negative, tail, 1.0 - e * tail)
        slope = jnp.where(is_negative, 1.0, e) / (SQRT_TWO_PI * factor)
        log_factors = jnp.log(jnp.prod(factor.reshape(ROWS_PER_LOG, -1), axis=0))
        value = jnp.sum(log_factors) - 0.5 * jnp.sum(jnp.where(is_negative, square, 0.0))
        return padding * math.log(2.0) + value, slope @ a

    return with_gradient(value_and_gradient)


def scaled_tail(a: jax.Array) -> jax.Array:
    r"""Evaluate :math:`R(a) = e^{a^2/2}\, \Phi(-a)` for :math:`a \ge 0`, elementwise.

    .. math::
        R(a) = \frac{P(z)}{a + c}, \qquad z = 1 - \frac{2 c}{a + c} \in [-1, 1)

    where the polynomial :math:`P` interpolates :math:`(a + c) R(a)` at Chebyshev points of
    :math:`z`, as SciPy computes it.

    Examples
    --------
    >>> [round(float(r), 5) for r in scaled_tail(jnp.array([0.0, 1.0, 1e4]))]
    [0.5, 0.26158, 4e-05]
    """

    def scaled(z: np.ndarray) -> np.ndarray:
        a = CENTER * (1.0 + z) / (1.0 - z)
        return 0.5 * (a + CENTER) * special.erfcx(a / math.sqrt(2.0))

    # NumPy's type of this function knows no function of arrays.
    interpolate = cast("Callable[..., np.ndarray]", chebyshev.chebinterpolate)
    polynomial: np.ndarray = chebyshev.cheb2poly(interpolate(scaled, DEGREES[a.dtype]))
    inverse = 1.0 / (a + CENTER)
    z = 1.0 - 2.0 * CENTER * inverse
    value = jnp.zeros_like(a)
    for coefficient in polynomial[::-1]:
        value = value * z + float(coefficient)
    return inverse * value
