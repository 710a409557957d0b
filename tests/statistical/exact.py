"""Built-in posteriors that can be drawn exactly, as maps of independent standard normals.

``forward`` maps normals ``[size, dim]`` to draws of the flat vector, ``inverse`` maps draws to the
normals that they come from; draws of the right law have N(0, I) scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from amalt.gym import banana, eight_schools, funnel, gaussian

Map = Callable[[np.ndarray], np.ndarray]


class Exact(NamedTuple):
    """An exact sampler of a built-in posterior, and its inverse."""

    name: str
    options: dict[str, int]
    dim: int
    forward: Map
    inverse: Map


def _gaussian(dim: int) -> Exact:
    root = np.linalg.cholesky(gaussian.covariance(dim))
    return Exact(
        "gaussian",
        {"dim": dim},
        dim,
        lambda eps: eps @ root.T,
        lambda x: np.linalg.solve(root, x.T).T,
    )


def _banana() -> Exact:
    def bend(x0: np.ndarray) -> np.ndarray:
        return banana.CURVATURE * (x0**2 - banana.SCALE**2)

    def forward(eps: np.ndarray) -> np.ndarray:
        x0 = banana.SCALE * eps[:, 0]
        return np.column_stack([x0, bend(x0) + eps[:, 1]])

    def inverse(x: np.ndarray) -> np.ndarray:
        return np.column_stack([x[:, 0] / banana.SCALE, x[:, 1] - bend(x[:, 0])])

    return Exact("banana", {}, 2, forward, inverse)


def _funnel(dim: int) -> Exact:
    def forward(eps: np.ndarray) -> np.ndarray:
        v = funnel.SCALE * eps[:, :1]
        return np.column_stack([v, np.exp(0.5 * v) * eps[:, 1:]])

    def inverse(x: np.ndarray) -> np.ndarray:
        v = x[:, :1]
        return np.column_stack([v / funnel.SCALE, np.exp(-0.5 * v) * x[:, 1:]])

    return Exact("funnel", {"dim": dim}, dim, forward, inverse)


def _eight_schools() -> Exact:
    """Given l = log_stddev all is Gaussian; l itself has a density known up to its constant.

    p(l | y) is integrated on a grid; mu | l, y and then every theta_j | mu, l, y follow by the
    usual product of Gaussians.
    """
    y, s = eight_schools.EFFECTS, eight_schools.STANDARD_ERRORS

    def average(ell: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and precision of mu given l, with prior N(0, 10)."""
        weights = 1.0 / (s**2 + np.exp(2.0 * ell)[:, None])
        precision = weights.sum(axis=1) + 0.01
        return weights @ y / precision, precision

    def effects(mu: np.ndarray, ell: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means and standard deviations of theta given mu and l."""
        precision = 1.0 / s**2 + np.exp(-2.0 * ell)[:, None]
        mean = (y / s**2 + (mu * np.exp(-2.0 * ell))[:, None]) / precision
        return mean, precision**-0.5

    grid = np.linspace(-3.0, 9.0, 24001)
    mean, precision = average(grid)
    weights = 1.0 / (s**2 + np.exp(2.0 * grid)[:, None])
    log_density = 0.5 * (np.log(weights).sum(axis=1) - weights @ y**2)
    log_density += 0.5 * (precision * mean**2 - np.log(precision)) - 0.5 * (grid - 5.0) ** 2
    cells = np.exp(log_density - log_density.max())
    cdf = np.concatenate([[0.0], np.cumsum(0.5 * (cells[1:] + cells[:-1]))])
    cdf /= cdf[-1]

    def forward(eps: np.ndarray) -> np.ndarray:
        ell = np.interp(special.ndtr(eps[:, 1]), cdf, grid)
        mean, precision = average(ell)
        mu = mean + eps[:, 0] / np.sqrt(precision)
        mean, sd = effects(mu, ell)
        return np.column_stack([mu, ell, mean + sd * eps[:, 2:]])

    def inverse(x: np.ndarray) -> np.ndarray:
        mu, ell = x[:, 0], x[:, 1]
        average_mean, precision = average(ell)
        mean, sd = effects(mu, ell)
        top = np.column_stack(
            [(mu - average_mean) * np.sqrt(precision), special.ndtri(np.interp(ell, grid, cdf))]
        )
        return np.column_stack([top, (x[:, 2:] - mean) / sd])

    return Exact("eight-schools", {}, 10, forward, inverse)


GAUSSIAN, BANANA, EIGHT_SCHOOLS = _gaussian(10), _banana(), _eight_schools()
FUNNEL, FUNNEL_2 = _funnel(5), _funnel(2)
