"""Gaussians with known answers, and the criterion of the integration time on a grid."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import amalt
from amalt.kernels import LEAPFROG, malt
from amalt.randomness import chain_keys

GRID_CHAINS = 8192


class Gaussian(NamedTuple):
    target: amalt.Target
    covariance: np.ndarray
    factor: np.ndarray


class Answer(NamedTuple):
    """What the chains should have learned, given the step size and the variances they found.

    `share_of_best` is the criterion at the learned number of steps over that at the best one, and
    `share_error` its standard error: both are estimated from the same random trajectories.
    """

    eigenvalue: float
    best_steps: int
    best_time: float
    share_of_best: float
    share_error: float


def make(dim: int, condition: float, decades: float, seed: int = 0) -> Gaussian:
    """Rotate eigenvalues from 1 to 1/condition, then stretch the axes over decades of scale."""
    rng = np.random.default_rng(seed)
    eigenvalues = np.logspace(0, -np.log10(condition), dim)
    rotation = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    scales = 10 ** np.linspace(-decades / 2, decades / 2, dim)
    rng.shuffle(scales)
    covariance = scales[:, None] * (rotation * eigenvalues @ rotation.T) * scales[None]
    sd = np.sqrt(np.diag(covariance))
    factor = np.linalg.cholesky(covariance)
    whiten = jnp.asarray(np.linalg.inv(factor / sd[:, None]), jnp.float32)
    inverse_sd = jnp.asarray(1 / sd, jnp.float32)

    def logdensity(x: jax.Array) -> jax.Array:
        return -0.5 * jnp.sum((whiten @ (x * inverse_sd)) ** 2)

    target = amalt.Target(
        lambda position: logdensity(position["x"]), {"x": jnp.zeros(dim)}, name=f"gaussian-{dim}"
    )
    return Gaussian(target, covariance, factor)


def solve(gaussian: Gaussian, fit: amalt.Posterior, *, adaptive_rho: bool) -> Answer:
    """Find the maximizer of the criterion with the kernel itself, from exact starting points.

    rho = 1: ESJD / T.  Adaptive rho: (1 - r) / (1 + r) / T with r the autocorrelation of phi.
    """
    target, covariance, factor = gaussian
    variances = np.asarray(fit.tuning.variances)
    scale = np.sqrt(variances / variances.max())
    eigenvalues, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    eigenvalue, component = float(eigenvalues[-1]), vectors[:, -1] / scale
    component32 = jnp.asarray(component, jnp.float32)
    tuning = fit.tuning.for_kernel(target.dim, np.dtype(np.float32))
    h, learned = fit.tuning.step_size, fit.tuning.num_steps
    points = np.random.default_rng(9).normal(size=(GRID_CHAINS, target.dim)) @ factor.T
    states = jax.vmap(lambda x: malt.init(x, target.value_and_grad))(
        jnp.asarray(points, jnp.float32)
    )
    keys = chain_keys(np.array([1, 2], np.uint32), 0, GRID_CHAINS)

    @jax.jit
    def squared_jumps(num_steps: jax.Array) -> jax.Array:
        def jump(key: jax.Array, state: malt.MaltState) -> jax.Array:
            fixed = tuning._replace(num_steps=num_steps)
            _, info = malt.step(key, state, fixed, target.value_and_grad, LEAPFROG)
            gain = (info.proposal @ component32) ** 2 - (state.position @ component32) ** 2
            return info.acceptance_rate * gain**2

        return jax.vmap(jump)(keys, states)

    around = np.round(learned * np.geomspace(0.4, 2.5, 17)).astype(int)
    grid = np.unique(np.concatenate([np.arange(1, 9), around]) if learned < 20 else around)
    grid = grid[grid >= 1]
    samples = np.array([np.asarray(squared_jumps(np.int32(steps)), float) for steps in grid])
    jumps = samples.mean(axis=1)
    times = grid * h
    slope = np.ones(len(grid))  # d log criterion / d log jump
    if adaptive_rho:
        r = 1 - jumps / (2 * 2 * eigenvalue**2)
        criterion = (1 - r) / (1 + r) / times
        slope = 2 / (1 + r)
    else:
        criterion = jumps / times
    best = int(np.argmax(criterion))
    # Few steps: a parabola through the best and its neighbors. Many: smooth over the noise.
    reach = 1 if learned < 20 else 2
    near = slice(max(0, best - reach), best + reach + 1)
    best_time = float(times[best])
    if 0 < best < len(grid) - 1:
        curvature, rise, _ = np.polyfit(np.log(times[near]), criterion[near], 2)
        best_time = float(np.exp(-rise / (2 * curvature)))
    at = int(np.flatnonzero(grid == learned)[0])
    share = float(criterion[at] / criterion[best])
    relative = (samples / jumps[:, None] - 1) * slope[:, None]
    error = share * float(np.std(relative[at] - relative[best])) / np.sqrt(GRID_CHAINS)
    return Answer(eigenvalue, int(grid[best]), best_time, share, error)
