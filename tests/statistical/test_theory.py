"""What the paper says about MALT and its criterion, checked on Gaussians where all is known.

The fourth claim, that two directions halve the variance, is in adaptation/test_trajectory_gradient.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

import amalt
from amalt.kernels import LEAPFROG, malt
from amalt.kernels.malt import MaltTuning
from amalt.kernels.metric import DiagonalMetric
from amalt.randomness import chain_keys

KEY = np.array([5, 7], np.uint32)


def standard(x):
    return -0.5 * jnp.dot(x, x), -x


def trajectories(chains, dim, h, num_steps, gamma, positions=None, key=KEY):
    """Run one trajectory of each chain on N(0, I), from exact draws if no positions are given."""
    if positions is None:
        positions = jax.random.normal(jax.random.key(3), (chains, dim))
    metric = DiagonalMetric(jnp.ones(dim, positions.dtype), jnp.ones((), positions.dtype))
    tuning = MaltTuning(*(jnp.asarray(x, positions.dtype) for x in (h, 0, gamma)), metric)
    tuning = tuning._replace(num_steps=jnp.asarray(num_steps, jnp.int32))

    def move(key, x):
        return malt.step(key, malt.init(x, standard), tuning, standard, LEAPFROG)

    return jax.jit(jax.vmap(move))(chain_keys(key, 0, chains), positions)


def correlation(tau, gamma):
    """Return c(tau) = Cov(x_tau, x_0) of the Langevin diffusion in N(0, 1)."""
    omega = np.sqrt(1.0 - gamma**2 / 4.0)
    decay = np.exp(-gamma * tau / 2.0)
    return decay * (np.cos(omega * tau) + gamma / (2.0 * omega) * np.sin(omega * tau))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_malt_accepts_a_trajectory_more_often_than_ghmc_all_of_its_steps(gamma):
    """exp(-sum of delta_i^+) <= exp(-(sum of delta_i)^+), trajectory by trajectory.

    The first i steps of a trajectory are the trajectory of i steps with the same random numbers.
    """
    h, length = 0.7, 8
    errors = [
        np.asarray(trajectories(4000, 30, h, i, gamma)[1].energy_error)
        for i in range(1, length + 1)
    ]
    deltas = np.diff(np.array([np.zeros(4000), *errors]), axis=0)
    by_steps = np.exp(-np.maximum(deltas, 0.0).sum(axis=0))
    info = trajectories(4000, 30, h, length, gamma)[1]
    at_once = np.asarray(info.acceptance_rate)
    np.testing.assert_allclose(at_once, np.exp(-np.maximum(deltas.sum(0), 0.0)), rtol=1e-9)
    assert np.all(by_steps <= at_once + 1e-12)
    # And by far, where energy errors of many steps cancel.
    assert by_steps.mean() < 0.7 * at_once.mean()


@pytest.mark.parametrize("gamma", [0.5, 1.0, 1.5])
def test_autocorrelations_decay_geometrically(gamma):
    """On a Gaussian Corr(phi_k, phi_0) = c(tau)^(2 k) for phi = x^2, k trajectories of time tau."""
    chains, h, num_steps = 200_000, 0.05, 12
    c = correlation(h * num_steps, gamma)
    first = jax.random.normal(jax.random.key(8), (chains, 1))
    x = first
    for k in range(1, 6):
        state, _ = trajectories(chains, 1, h, num_steps, gamma, x, KEY + np.uint32(k))
        x = state.position
        products = np.asarray((first**2 - 1.0) * (x**2 - 1.0), float)[:, 0] / 2.0
        error = products.std() / np.sqrt(chains)
        # Leapfrog moves the correlation by a share of h^2.
        assert abs(products.mean() - c ** (2 * k)) < 4.0 * error + h**2 * k * c ** (2 * k)


def best_time(rho, gamma):
    """Return the maximizer of (1 - c^2) / tau^((1 + rho) / 2)."""

    def loss(log_tau):
        tau = np.exp(log_tau)
        return 0.5 * (1.0 + rho) * log_tau - np.log(1.0 - correlation(tau, gamma) ** 2)

    return np.exp(optimize.minimize_scalar(loss, bounds=(-3, 1.5), method="bounded").x)


def best_time_of_all(gamma):
    """Return tau*, the maximizer of ESS / tau = (1 - c^2) / (1 + c^2) / tau."""

    def loss(log_tau):
        c2 = correlation(np.exp(log_tau), gamma) ** 2
        return log_tau - np.log((1.0 - c2) / (1.0 + c2))

    return np.exp(optimize.minimize_scalar(loss, bounds=(-3, 1.5), method="bounded").x)


@pytest.mark.parametrize("gamma", [0.6, 1.0, 1.4])
def test_best_time_is_the_attracting_fixed_point(gamma):
    """s -> argmax of the criterion with rho = rho(s), from both ends of the interval."""
    wanted = best_time_of_all(gamma)
    shortest, longest = best_time(1.0, gamma), best_time(0.0, gamma)
    assert shortest < wanted < longest
    for s in (shortest, longest):
        for _ in range(40):
            s = best_time(correlation(s, gamma) ** 2, gamma)
        assert s == pytest.approx(wanted, rel=1e-3)


def test_adaptive_rho_finds_the_best_time_of_the_diffusion():
    """N(0, I) in 50 dimensions, gamma near 1, steps so short that nearly all is accepted."""
    target = amalt.Target(lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(50), name="standard normal")
    found = {}
    for preset in ("paper", "paper-rho"):
        fit = amalt.sample(
            target,
            chains=128,
            tune=2000,
            draws=10,
            preset=preset,
            target_accept=0.99,
            random_seed=2,
        )
        tuning = fit.tuning
        gamma = tuning.damping
        wanted = best_time(1.0, gamma) if preset == "paper" else best_time_of_all(gamma)
        assert tuning.step_size < 0.3
        assert abs(tuning.integration_time - wanted) < 0.1 * wanted + 0.5 * tuning.step_size
        found[preset] = tuning.integration_time
    assert found["paper-rho"] > found["paper"] + 0.1
