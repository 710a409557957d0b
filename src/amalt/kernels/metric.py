r"""The metric: the linear map that makes the target rounder, M^-1 = S S'.

Momenta live in the preconditioned space, where they are N(0, I). With v = S' p for the momentum p
of mass M, the equations of motion become dx = S v dt and dv = -S' grad(Phi) dt, so a kernel needs
only S and S', and no mass matrix is ever formed.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp


class Metric(Protocol):
    """What a kernel and its adaptation ask of a metric."""

    @property
    def mass_scale(self) -> jax.Array:
        """Return c such that c S S' is the covariance that the metric was made from."""
        ...

    def apply(self, v: jax.Array) -> jax.Array:
        """Return S v: a preconditioned vector in the space of positions."""
        ...

    def apply_transpose(self, g: jax.Array) -> jax.Array:
        """Return S' g: a gradient in the preconditioned space."""
        ...

    def whiten(self, x: jax.Array) -> jax.Array:
        """Return y = S^-1 x: a displacement of positions in the preconditioned space."""
        ...


class DiagonalMetric(NamedTuple):
    """S = diag(scale), so M = diag(scale)^-2.

    Attributes
    ----------
    scale
        ``[dim]``, positive; the largest is 1 when made by `diagonal`.
    mass_scale
        The largest variance, by which the mass is normalized.
    """

    scale: jax.Array
    mass_scale: jax.Array

    def apply(self, v: jax.Array) -> jax.Array:
        """Return S v."""
        return self.scale * v

    def apply_transpose(self, g: jax.Array) -> jax.Array:
        """Return S' g."""
        return self.scale * g

    def whiten(self, x: jax.Array) -> jax.Array:
        """Return y = S^-1 x."""
        return x / self.scale


def diagonal(variances: jax.Array) -> DiagonalMetric:
    """Make the paper's metric M = max(s) diag(s)^-1 of the variances s.

    A variance of zero (a coordinate that has not moved) is raised to a tiny share of the largest,
    so that S can be inverted.
    """
    tiny = jnp.asarray(jnp.finfo(variances.dtype).eps, variances.dtype) ** 2
    largest = jnp.maximum(jnp.max(variances), jnp.finfo(variances.dtype).tiny)
    return DiagonalMetric(jnp.sqrt(jnp.maximum(variances / largest, tiny)), largest)
