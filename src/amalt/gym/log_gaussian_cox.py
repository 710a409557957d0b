"""Log-Gaussian Cox process: counts on a grid, whose logarithmic rates are a Gaussian process."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypedDict

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from amalt.gym import data
from amalt.gym.gradients import with_gradient
from amalt.targets import Target

GRID = 10
HALF = GRID // 2
SIZE = GRID**2
OFFSET = 0.001
JITTER = 1e-6

# In roundings of the largest variance. Pivots above it cost float32 a digit or more of accuracy,
# but keep one; gradients below it were found with errors of several times their size.
MIN_PIVOT = 128.0

Pair = tuple[jax.Array, jax.Array]
"""K in blocks [block, row, column] and residuals in the same basis [block, copy, row]."""


class Position(TypedDict):
    """A position; amplitude and length scale are logarithms."""

    amplitude: jax.Array
    length_scale: jax.Array
    log_intensity: jax.Array


class Blocks(NamedTuple):
    """The covariance in a basis in which it falls into blocks; see `blocks`."""

    distances: np.ndarray
    """The different distances between cells, increasing from 0."""

    covariance: np.ndarray
    """What each distance contributes to each block, [distance, block, row, column]."""

    basis: np.ndarray
    """The vectors of each copy of each block, [block, copy, row, cell]; 0 for no copy."""

    copies: np.ndarray
    """How often each block occurs."""


def build() -> Target:
    r"""Build the log-Gaussian Cox process on a 10 x 10 grid, d = 102.

    .. math::
        \alpha \sim \mathrm{LogNormal}(-1, 0.5), \quad \ell \sim \mathrm{LogNormal}(-1, 1), \quad
        f \sim N(\mu, K), \quad y_k \sim \mathrm{Poisson}(e^{f_k}), \\
        K_{kl} = \phi(|x_k - x_l|) + 10^{-6} [k = l], \qquad
        \phi(r) = (\alpha + 0.001)^2 (1 + \rho)\, e^{-\rho}, \qquad
        \rho = \frac{\sqrt 3\, r}{\ell + 0.001}

    with :math:`\mu` the mean of :math:`\log y_k`. In the order of the flat vector: ``amplitude``
    (:math:`\alpha` = exp), ``length_scale`` (:math:`\ell` = exp), ``log_intensity`` (:math:`f`).
    The log density keeps all constants.

    Where K is not positive definite to rounding, the log density is NaN, and a sampler rejects: in
    float32 from length scales of about 40 on, far outside of the posterior (0.2, sd 0.1). Whoever
    explores there needs double precision.
    """
    y = counts()
    parts = blocks()
    log_y = np.log(y)
    mu = float(log_y.mean())
    # log Poisson(y | f) = y (d - expm1(d)) + a constant near 0, where d = f - log y: in float32 the
    # plain form y f - e^f would lose two digits.
    constant = float(np.sum(y * log_y - y - special.gammaln(y + 1.0)))
    constant -= 0.5 * (SIZE + 2) * math.log(2.0 * math.pi) + math.log(0.5)
    log_prior_of_blocks = with_gradient(gaussian_value_and_gradient(parts.copies))

    def logdensity(position: Position) -> jax.Array:
        log_alpha, log_ell, f = (jnp.asarray(position[name]) for name in Position.__annotations__)
        alpha, ell = jnp.exp(log_alpha) + OFFSET, jnp.exp(log_ell) + OFFSET
        rho = math.sqrt(3.0) * jnp.asarray(parts.distances, f.dtype) / ell
        phi = alpha**2 * (1.0 + rho) * jnp.exp(-rho)
        d = f - jnp.asarray(log_y, f.dtype)
        return (
            jnp.vdot(jnp.asarray(y, f.dtype), d - jnp.expm1(d))
            + log_prior_of_blocks(to_blocks(parts, phi, f - mu))
            - 2.0 * (log_alpha + 1.0) ** 2
            - 0.5 * (log_ell + 1.0) ** 2
            + constant
        )

    example = Position(
        amplitude=jnp.zeros(()), length_scale=jnp.zeros(()), log_intensity=jnp.zeros(SIZE)
    )
    return Target(
        logdensity,
        example,
        constrain=constrain,
        name="log-gaussian-cox",
        dims={"log_intensity": ("cell",)},
        truth=data.read_truth("log_gaussian_cox_truth", example),
    )


def counts() -> np.ndarray:
    """Return the counts of the cells in float64; cell 10 j + i lies at (i, j)."""
    return data.read("log_gaussian_cox")["counts"].astype(np.float64)


def constrain(position: Position) -> dict[str, jax.Array]:
    """Map amplitude and length scale by exp."""
    return {
        "amplitude": jnp.exp(position["amplitude"]),
        "length_scale": jnp.exp(position["length_scale"]),
        "log_intensity": position["log_intensity"],
    }


def blocks() -> Blocks:
    """Return the basis of functions on the grid that are even or odd in each coordinate.

    K depends on distances alone, so mirror images of the grid leave it as it is, and so does
    swapping its axes. Hence K mixes no parities, and "even in x, odd in y" has the same block as
    "odd in x, even in y": instead of 100 x 100 numbers there are three blocks of 25 x 25, and the
    density is a hundred times faster.
    """
    mirrored = np.eye(GRID)[:, ::-1]
    even, odd = ((np.eye(GRID) + sign * mirrored)[:HALF] / math.sqrt(2.0) for sign in (1, -1))
    swapped = np.kron(odd, even).reshape(HALF, HALF, SIZE).swapaxes(0, 1).reshape(-1, SIZE)
    none = np.zeros_like(swapped)
    basis = np.array(
        [
            [np.kron(even, even), none],
            [np.kron(odd, odd), none],
            [np.kron(even, odd), swapped],
        ]
    )
    y, x = np.divmod(np.arange(SIZE), GRID)
    squares, which = np.unique((x[:, None] - x) ** 2 + (y[:, None] - y) ** 2, return_inverse=True)
    at_distance = which.reshape(SIZE, SIZE) == np.arange(squares.size)[:, None, None]
    first = basis[:, 0]
    covariance = first @ at_distance[:, None].astype(np.float64) @ first.swapaxes(1, 2)
    return Blocks(np.sqrt(squares), covariance, basis, np.array([1.0, 1.0, 2.0]))


def to_blocks(parts: Blocks, phi: jax.Array, residual: jax.Array) -> Pair:
    """Return the covariance and the residuals in the basis, given phi at each distance."""
    covariance = jnp.asarray(parts.covariance, phi.dtype).reshape(phi.size, -1)
    basis = jnp.asarray(parts.basis, phi.dtype).reshape(-1, SIZE)
    jitter = JITTER * jnp.eye(HALF**2, dtype=phi.dtype)
    k = (phi @ covariance).reshape(parts.covariance.shape[1:]) + jitter[None]
    return k, (residual @ basis.T).reshape(parts.basis.shape[:3])


def gaussian_value_and_gradient(
    copies: np.ndarray,
) -> Callable[[Pair], tuple[jax.Array, Pair]]:
    r"""Return log densities of residuals in all blocks, without normalizers, with their gradient.

    .. math::
        g &= -\tfrac12 \textstyle\sum_{bc} r_{bc}^T K_b^{-1} r_{bc}
             - \tfrac12 \textstyle\sum_b n_b \log \det K_b, \qquad
             \alpha_{bc} = K_b^{-1} r_{bc} \\
        \partial g / \partial K_b &= \tfrac12 (\textstyle\sum_c \alpha_{bc} \alpha_{bc}^T
             - n_b K_b^{-1}), \qquad
        \partial g / \partial r_{bc} = -\alpha_{bc}

    for :math:`n_b` copies of block b, from :math:`K = L L^T` and :math:`W = L^{-1}`. The value is
    NaN if a block is not positive definite, or if a pivot :math:`L_{ii}^2` is so small against the
    entries of K that rounding makes it up.

    Parameters
    ----------
    copies
        How often each block occurs.
    """

    def evaluate(covariance_and_residuals: Pair) -> tuple[jax.Array, Pair]:
        k, r = covariance_and_residuals
        n = jnp.asarray(copies, k.dtype)
        identity = jnp.broadcast_to(jnp.eye(k.shape[-1], dtype=k.dtype), k.shape)
        w = jax.scipy.linalg.solve_triangular(
            jnp.linalg.cholesky(k, symmetrize_input=False), identity, lower=True
        )
        pivots = 1.0 / jnp.square(jnp.diagonal(w, axis1=1, axis2=2))
        largest = jnp.max(jnp.diagonal(k, axis1=1, axis2=2), axis=1)
        is_exact = jnp.all(jnp.min(pivots, axis=1) > MIN_PIVOT * jnp.finfo(k.dtype).eps * largest)
        white = jnp.einsum("bij,bcj->bci", w, r)
        alpha = jnp.einsum("bij,bci->bcj", w, white)
        value = -0.5 * (jnp.sum(white**2) + n @ jnp.sum(jnp.log(pivots), axis=1))
        inverse = n[:, None, None] * jnp.einsum("bki,bkj->bij", w, w)
        by_k = 0.5 * (jnp.einsum("bci,bcj->bij", alpha, alpha) - inverse)
        return jnp.where(is_exact, value, jnp.nan), (by_k, -alpha)

    return evaluate
