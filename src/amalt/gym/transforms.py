"""The logistic function and softplus, from one exponential and safe at every number."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Logistic(NamedTuple):
    r"""What belongs to :math:`\sigma(u) = 1 / (1 + e^{-u})`; all four numbers are positive."""

    sigmoid: jax.Array
    r""":math:`\sigma(u)`."""

    complement: jax.Array
    r""":math:`1 - \sigma(u) = \sigma(-u)`, without cancellation."""

    softplus: jax.Array
    r""":math:`\log(1 + e^u) = -\log \sigma(-u)`."""

    softplus_of_minus: jax.Array
    r""":math:`\log(1 + e^{-u}) = -\log \sigma(u)`."""


def logistic(u: jax.Array) -> Logistic:
    r"""Evaluate sigmoid and softplus at :math:`u` and at :math:`-u`, elementwise.

    .. math::
        \sigma(u) = \frac{t^{[u < 0]}}{1 + t}, \qquad
        \log(1 + e^u) = \max(u, 0) + \log(1 + t), \qquad t = e^{-|u|}

    Where :math:`t` would underflow it is the smallest normal number, so that quotients of these
    numbers stay finite.

    Examples
    --------
    >>> [round(float(x), 6) for x in logistic(jnp.array(-2.0))]
    [0.119203, 0.880797, 0.126928, 2.126928]
    """
    # `where` and not `abs` and `max`: at 0 its derivatives are those of one smooth branch.
    is_positive = u >= 0
    t = jnp.exp(jnp.where(is_positive, -u, u))
    t = jnp.maximum(t, jnp.finfo(t.dtype).tiny)
    log_factor = jnp.log1p(t)
    return Logistic(
        jnp.where(is_positive, 1.0, t) / (1.0 + t),
        jnp.where(is_positive, t, 1.0) / (1.0 + t),
        jnp.where(is_positive, u, 0.0) + log_factor,
        jnp.where(is_positive, 0.0, -u) + log_factor,
    )
