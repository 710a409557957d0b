"""Small Bayesian models whose parameters and data can both be drawn exactly.

Each prior is a map of independent standard normals: theta = transport(eps). A draw (theta, y) of
the joint therefore has scores, its eps and its residuals (y - mean(theta)) / sd(theta), that are
N(0, I) exactly; no reference sample and no tabulated moment is needed to test it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special, stats


class Model(NamedTuple):
    """A prior p(theta), by its density and as a map of normals, and y ~ N(mean, sd)(theta)."""

    name: str
    dim: int
    data: int
    transport: Callable[[np.ndarray], np.ndarray]
    inverse: Callable[[np.ndarray], np.ndarray]
    logprior: Callable[[jax.Array], jax.Array]
    predict: Callable[[jax.Array], tuple[jax.Array, jax.Array]]

    def logdensity(self, theta: jax.Array, y: jax.Array) -> jax.Array:
        """Evaluate log p(theta) + log p(y | theta), up to a constant."""
        mean, sd = self.predict(theta)
        return self.logprior(theta) - jnp.sum(0.5 * ((y - mean) / sd) ** 2 + jnp.log(sd))

    def simulate(self, noise: jax.Array, theta: jax.Array) -> jax.Array:
        """Draw y given theta from N(0, 1) noise."""
        mean, sd = self.predict(theta)
        return mean + sd * noise

    def draw_prior(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw ``[size, dim]`` parameters from the prior."""
        return self.transport(rng.standard_normal((size, self.dim))).astype(np.float32)

    def scores(self, theta: jax.Array, y: jax.Array) -> np.ndarray:
        """Map draws of the joint ``[size, ...]`` to standard normals ``[size, dim + data]``."""
        mean, sd = jax.vmap(self.predict)(theta)
        eps = self.inverse(np.asarray(theta, np.float64))
        return np.concatenate([eps, np.asarray((y - mean) / sd, np.float64)], axis=1)


def _curve() -> Model:
    """y_j ~ N(a + b tanh(c x_j), sigma) with a, b ~ t(5), c ~ N(0, 1), log sigma ~ N(-1/2, 0.3).

    Two modes, since (b, c) and (-b, -c) predict the same, and tails that are not Gaussian.
    """
    t, x = stats.t(5), jnp.array([-2.0, -1.0, 0.5, 1.0, 2.0])

    def transport(eps: np.ndarray) -> np.ndarray:
        heavy = t.ppf(special.ndtr(eps[:, :2]))
        return np.column_stack([heavy, eps[:, 2], -0.5 + 0.3 * eps[:, 3]])

    def inverse(theta: np.ndarray) -> np.ndarray:
        normal = special.ndtri(t.cdf(theta[:, :2]))
        return np.column_stack([normal, theta[:, 2], (theta[:, 3] + 0.5) / 0.3])

    def logprior(theta: jax.Array) -> jax.Array:
        heavy = -3.0 * jnp.sum(jnp.log1p(theta[:2] ** 2 / 5.0))
        return heavy - 0.5 * theta[2] ** 2 - 0.5 * ((theta[3] + 0.5) / 0.3) ** 2

    def predict(theta: jax.Array) -> tuple[jax.Array, jax.Array]:
        a, b, c, log_sigma = theta
        return a + b * jnp.tanh(c * x), jnp.full(x.shape, jnp.exp(log_sigma))

    return Model("curve", 4, 5, transport, inverse, logprior, predict)


def _hierarchy() -> Model:
    """y_j ~ N(theta_j, 1), theta_j ~ N(mu, tau), mu ~ N(0, 1), log tau ~ N(0, 0.7), 4 groups."""

    def transport(eps: np.ndarray) -> np.ndarray:
        mu, log_tau = eps[:, :1], 0.7 * eps[:, 1:2]
        return np.column_stack([mu, log_tau, mu + np.exp(log_tau) * eps[:, 2:]])

    def inverse(theta: np.ndarray) -> np.ndarray:
        mu, log_tau = theta[:, :1], theta[:, 1:2]
        return np.column_stack([mu, log_tau / 0.7, (theta[:, 2:] - mu) * np.exp(-log_tau)])

    def logprior(theta: jax.Array) -> jax.Array:
        mu, log_tau, effects = theta[0], theta[1], theta[2:]
        between = (effects - mu) * jnp.exp(-log_tau)
        top = mu**2 + (log_tau / 0.7) ** 2
        return -0.5 * (top + jnp.sum(between**2)) - 4.0 * log_tau

    def predict(theta: jax.Array) -> tuple[jax.Array, jax.Array]:
        return theta[2:], jnp.ones(4)

    return Model("hierarchy", 6, 4, transport, inverse, logprior, predict)


def _wall() -> Model:
    """y_j ~ N(p + q + sqrt(s) x_j, 1) with s ~ Exp(1), p ~ U(-1, 1), q ~ Laplace(0, 1/2).

    Beyond the wall of s everything is NaN. Beyond that of p only the density is -inf, so that a
    trajectory may cross and come back. Both densities are positive up to the wall; q has a kink.
    """
    laplace, x = stats.laplace(scale=0.5), jnp.array([-1.0, 0.0, 1.0, 2.0])

    def transport(eps: np.ndarray) -> np.ndarray:
        u = special.ndtr(eps)
        return np.column_stack([-np.log(u[:, 0]), 2.0 * u[:, 1] - 1.0, laplace.ppf(u[:, 2])])

    def inverse(theta: np.ndarray) -> np.ndarray:
        s, p, q = theta.T
        u = np.column_stack([np.exp(-s), 0.5 * (p + 1.0), laplace.cdf(q)])
        return special.ndtri(u)

    def logprior(theta: jax.Array) -> jax.Array:
        s, p, q = theta
        return jnp.where(jnp.abs(p) < 1.0, -s - 2.0 * jnp.abs(q), -jnp.inf)

    def predict(theta: jax.Array) -> tuple[jax.Array, jax.Array]:
        s, p, q = theta
        return p + q + jnp.sqrt(s) * x, jnp.ones(4)

    return Model("wall", 3, 4, transport, inverse, logprior, predict)


CURVE, HIERARCHY, WALL = _curve(), _hierarchy(), _wall()
