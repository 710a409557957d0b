"""The gradient that drives tau: right in mean, in either direction, and half as noisy in both."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from amalt.adaptation.trajectory import Jump, criterion_gradient, jump_derivative
from amalt.kernels import malt
from amalt.kernels.integrators import LEAPFROG
from amalt.kernels.malt import MaltTuning
from amalt.kernels.metric import DiagonalMetric
from amalt.methods.malt import advance

pytestmark = pytest.mark.usefixtures("x64")

KEY = np.array([3, 1], np.uint32)
SD, SCALE = 1.3, 2.0
WIDTH = SD / SCALE
"""Standard deviation of the one coordinate, in the preconditioned space."""


def value_and_grad(x):
    return -0.5 * jnp.dot(x, x) / SD**2, -x / SD**2


@functools.partial(jax.jit, static_argnums=0)
def make_jumps(chains, h, num_steps, gamma):
    """Run trajectories of a stationary Gaussian from exact draws; y = x / scale."""
    metric = DiagonalMetric(jnp.full(1, SCALE), jnp.ones(()))
    x = SD * jax.random.normal(jax.random.key(8), (chains, 1))
    states = jax.vmap(functools.partial(malt.init, value_and_grad=value_and_grad))(x)
    tuning = MaltTuning(h, num_steps, gamma, metric)
    _, info = advance(KEY, 0, states, tuning, value_and_grad, LEAPFROG)
    return Jump(
        before=x[:, 0] / SCALE,
        after=info.proposal[:, 0] / SCALE,
        speed_before=info.initial_momentum[:, 0],
        speed_after=info.final_momentum[:, 0],
        acceptance=info.acceptance_rate,
    )


def correlation(tau, gamma):
    """Return c(tau) of the stationary Langevin diffusion in a Gaussian well, and its slope."""
    omega = np.sqrt(1.0 / WIDTH**2 - gamma**2 / 4.0)
    sine, cosine = np.sin(omega * tau), np.cos(omega * tau)
    fade = np.exp(-gamma * tau / 2.0)
    return fade * (cosine + gamma / (2.0 * omega) * sine), -fade * sine / (omega * WIDTH**2)


def mean_and_error(x):
    return np.mean(x), np.std(x) / np.sqrt(len(x))


def deltas(jump):
    """Return delta forwards, delta backwards and their average, with their weight."""
    forward = jump_derivative(jump, two_directional=False)
    both = jump_derivative(jump, two_directional=True)
    weighted = (jump.acceptance * forward, jump.acceptance * (2.0 * both - forward))
    return *map(np.asarray, weighted), np.asarray(jump.acceptance * both)


@pytest.mark.parametrize("tau", [0.4, 1.0, 1.6])
@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_mean_is_the_derivative_of_the_expected_squared_jump(gamma, tau):
    """For phi = y^2 of a Gaussian of variance s^2, ESJD(tau) = 4 s^4 (1 - c(tau)^2)."""
    h = 0.02
    jump = make_jumps(200_000, h, round(tau / h), gamma)
    c, slope = correlation(tau, gamma)
    # v_L lacks the half refresh that ends a step of the diffusion, which would shrink it.
    wanted = -8.0 * WIDTH**4 * c * slope * np.exp(gamma * h / 2.0)
    for found in deltas(jump):
        mean, error = mean_and_error(found)
        assert abs(mean - wanted) < 4.0 * error
        assert error < 0.05
    gain = np.asarray(jump.after**2 - jump.before**2)
    mean, error = mean_and_error(gain**2)
    assert abs(mean - 4.0 * WIDTH**4 * (1.0 - c**2)) < 4.0 * error


@pytest.mark.parametrize(("h", "num_steps", "gamma"), [(0.5, 2, 1.5), (0.8, 3, 0.4), (1.1, 1, 1.0)])
def test_both_directions_have_the_same_mean(h, num_steps, gamma):
    """Exactly so, however coarse the step: weighted by acceptance, the law is reversible."""
    jump = make_jumps(200_000, h, num_steps, gamma)
    assert np.mean(jump.acceptance) < 0.99
    forward, backward, both = deltas(jump)
    mean, error = mean_and_error(forward - backward)
    assert abs(mean) < 4.0 * error
    assert abs(np.mean(both)) > 8.0 * mean_and_error(both)[1]


def variance_ratio(forward, both, blocks=50):
    """Return Var(g) / Var(delta), and its error by leaving out one block at a time."""
    kept = ~np.kron(np.eye(blocks, dtype=bool), np.ones(len(both) // blocks, dtype=bool))
    ratios = np.array([np.var(both[rows]) / np.var(forward[rows]) for rows in kept])
    error = np.sqrt((blocks - 1) * np.mean((ratios - ratios.mean()) ** 2))
    return np.var(both) / np.var(forward), error


def test_two_directions_halve_the_variance_of_long_trajectories():
    """The supplement's proposition: Var(g) / Var(delta) tends to 1/2 as tau grows."""
    forward, _, both = deltas(make_jumps(1_000_000, 0.2, 50, 1.5))
    ratio, error = variance_ratio(forward, both)
    assert error < 0.01
    assert abs(ratio - 0.5) < 4.0 * error
    forward, _, both = deltas(make_jumps(200_000, 0.2, 2, 1.5))
    ratio, error = variance_ratio(forward, both)
    assert ratio - 4.0 * error > 0.6


def some_jump(chains=6):
    ends = jnp.asarray(np.random.default_rng(0).normal(size=(4, chains)))
    return Jump(*ends, acceptance=jnp.linspace(0.1, 1.0, chains))


def read_backwards(jump):
    return Jump(jump.after, jump.before, -jump.speed_after, -jump.speed_before, jump.acceptance)


@pytest.mark.parametrize("rho", [0.0, 0.4, 1.0])
def test_gradient_is_that_of_the_criterion(rho):
    """g = T^((1 + rho) / 2) dC / dlog(tau), with the free end of the trajectory moving on."""
    jump, time = some_jump(), jnp.asarray(1.7)

    def criterion(log_tau, jump):
        tau = jnp.exp(log_tau)
        end = jump.after + jump.speed_after * (tau - time)
        squared_jumps = (end**2 - jump.before**2) ** 2
        return jnp.mean(jump.acceptance * squared_jumps) / tau ** (0.5 * (1.0 + rho))

    factor = time ** (0.5 * (1.0 + rho))
    forward = factor * jax.grad(criterion)(jnp.log(time), jump)
    backward = factor * jax.grad(criterion)(jnp.log(time), read_backwards(jump))
    one, two = (criterion_gradient(jump, time, jnp.asarray(rho), both) for both in (False, True))
    np.testing.assert_allclose(one, forward, rtol=1e-12)
    np.testing.assert_allclose(two, 0.5 * (forward + backward), rtol=1e-12)


def test_two_directional_gradient_is_the_same_read_backwards():
    jump, numbers = some_jump(), (jnp.asarray(0.7), jnp.asarray(0.3))
    there = criterion_gradient(jump, *numbers, two_directional=True)
    back = criterion_gradient(read_backwards(jump), *numbers, two_directional=True)
    np.testing.assert_allclose(there, back, rtol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
@pytest.mark.parametrize("field", ["after", "speed_after"])
@pytest.mark.parametrize("two_directional", [False, True])
def test_non_finite_trajectories_count_as_zero(two_directional, field, bad):
    jump, numbers = some_jump(), (jnp.asarray(0.7), jnp.asarray(1.0), two_directional)
    broken = jump._replace(acceptance=jump.acceptance.at[2].set(0.0))
    wanted = criterion_gradient(broken, *numbers)
    broken = broken._replace(**{field: getattr(jump, field).at[2].set(bad)})
    np.testing.assert_array_equal(criterion_gradient(broken, *numbers), wanted)
