"""Identities of a trajectory, on tables of normals in place of keys: each holds path by path."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from amalt.kernels import malt
from amalt.kernels.integrators import LEAPFROG, PhasePoint, integrate_step

from .model import (
    DIM,
    SCALE,
    draw_starts,
    every_integrator,
    in_double,
    logdensity,
    make_tuning,
    potential,
    value_and_grad,
)


@functools.partial(jax.jit, static_argnums=(3, 4))
def step_on_table(table, x, tuning, integrator, value_and_grad=value_and_grad):
    state = malt.init(x, value_and_grad)
    return malt.step(table, state, tuning, value_and_grad, integrator)[1]


@pytest.fixture
def replay(monkeypatch):
    """Run the kernel on a table of normals in place of a key, and accept if Delta <= 0."""
    monkeypatch.setattr(malt, "normal", lambda table, i, shape, dtype: table[i])
    monkeypatch.setattr(malt, "exponential", lambda table, i, dtype: jnp.zeros((), dtype))
    return step_on_table


def make_noise(num_steps):
    return np.random.default_rng(num_steps).normal(size=(num_steps, DIM))


def follow(noise, x, tuning, integrator):
    """Return the refreshed momenta v'_{i-1}, the ends v_i and the energy error of every step."""
    eta = np.exp(-float(tuning.damping) * float(tuning.step_size))
    point = PhasePoint(x, jnp.zeros(DIM), *value_and_grad(x))
    refreshed, ends, errors = [], [], []
    for i, xi in enumerate(noise):
        v = jnp.asarray(xi) if i == 0 else eta * point.momentum + np.sqrt(1 - eta**2) * xi
        before = -point.logdensity + 0.5 * v @ v
        point = integrate_step(
            integrator, value_and_grad, tuning.metric, tuning.step_size, point._replace(momentum=v)
        )
        errors.append(float(-point.logdensity + 0.5 * point.momentum @ point.momentum - before))
        refreshed.append(np.asarray(v))
        ends.append(np.asarray(point.momentum))
    return np.array(refreshed), np.array(ends), np.array(errors)


@in_double
@every_integrator
@pytest.mark.parametrize("gamma", [0.0, 0.7, 3.0])
def test_trajectory_law_is_reversible(replay, integrator, gamma):
    r"""Backwards from (x_L, -v_L), with noise turned by the refresh, it returns to (x_0, -v'_0).

    A refresh (v, xi) -> (v', -s v + eta xi), s^2 = 1 - eta^2, is a rotation; read backwards its
    noise is eta xi - s v. Densities of the two readings differ by the factor exp(-Delta).
    """
    num_steps, h = 5, 0.6
    tuning, noise, x = make_tuning(h, num_steps, gamma), make_noise(num_steps), draw_starts(1)[0]
    _, ends, _ = follow(noise, x, tuning, integrator)
    forward = replay(noise, x, tuning, integrator)
    eta = np.exp(-gamma * h)
    turned = eta * noise[1:] - np.sqrt(1 - eta**2) * ends[:-1]
    noise_back = np.vstack([-ends[-1:], turned[::-1]])
    back = replay(noise_back, forward.proposal, tuning, integrator)

    np.testing.assert_allclose(back.proposal, x, rtol=1e-9)
    np.testing.assert_allclose(back.final_momentum, -forward.initial_momentum, rtol=1e-9)
    np.testing.assert_allclose(back.energy_error, -forward.energy_error, rtol=1e-9)
    log_ratio = logdensity(forward.proposal) - logdensity(x)
    log_ratio += 0.5 * np.sum(noise**2) - 0.5 * np.sum(noise_back**2)
    np.testing.assert_allclose(log_ratio, -forward.energy_error, rtol=1e-9)


@in_double
@every_integrator
def test_energy_error_is_the_change_of_the_hamiltonian(replay, integrator):
    noise, x = make_noise(5), draw_starts(1)[0]
    info = replay(noise, x, make_tuning(0.7, 5, 0.0), integrator)
    before = potential(np.asarray(x)) + 0.5 * np.sum(noise[0] ** 2)
    after = potential(np.asarray(info.proposal)) + 0.5 * np.sum(info.final_momentum**2)
    np.testing.assert_allclose(info.energy_error, after - before, rtol=1e-10)


@in_double
@every_integrator
def test_energy_error_telescopes_over_the_steps_alone(replay, integrator):
    noise, x, tuning = make_noise(5), draw_starts(1)[0], make_tuning(0.7, 5, 0.9)
    info = replay(noise, x, tuning, integrator)
    refreshed, ends, errors = follow(noise, x, tuning, integrator)
    np.testing.assert_allclose(info.energy_error, errors.sum(), rtol=1e-10)
    refreshes = 0.5 * np.sum(refreshed[1:] ** 2) - 0.5 * np.sum(ends[:-1] ** 2)
    assert abs(refreshes) > 0.1


@in_double
def test_permuted_coordinates_give_the_permuted_trajectory(replay):
    order = np.array([3, 0, 4, 1, 2])

    def permuted(x):
        return logdensity(x[np.argsort(order)])

    noise, x = make_noise(5), draw_starts(1)[0]
    plain = replay(noise, x, make_tuning(0.7, 5, 0.9), LEAPFROG)
    tuning = make_tuning(0.7, 5, 0.9, SCALE[order])
    other = replay(noise[:, order], x[order], tuning, LEAPFROG, jax.value_and_grad(permuted))
    np.testing.assert_allclose(other.proposal, plain.proposal[order], rtol=1e-10)
    np.testing.assert_allclose(other.final_momentum, plain.final_momentum[order], rtol=1e-10)
    np.testing.assert_allclose(other.energy_error, plain.energy_error, rtol=1e-10)


@in_double
def test_rescaled_coordinates_give_the_rescaled_trajectory(replay):
    unit = np.array([1e-3, 7.0, 1e3, 0.2, 1.0])

    def rescaled(x):
        return logdensity(x / unit)

    noise, x = make_noise(5), draw_starts(1)[0]
    plain = replay(noise, x, make_tuning(0.7, 5, 0.9), LEAPFROG)
    tuning = make_tuning(0.7, 5, 0.9, SCALE * unit)
    other = replay(noise, x * unit, tuning, LEAPFROG, jax.value_and_grad(rescaled))
    np.testing.assert_allclose(other.proposal, plain.proposal * unit, rtol=1e-10)
    np.testing.assert_allclose(other.final_momentum, plain.final_momentum, rtol=1e-10)
    np.testing.assert_allclose(other.energy_error, plain.energy_error, rtol=1e-10)


@in_double
def test_mass_counts_only_up_to_a_unit_of_time(replay):
    noise, x, unit = make_noise(5), draw_starts(1)[0], 10.0
    plain = replay(noise, x, make_tuning(0.7, 5, 0.9), LEAPFROG)
    tuning = make_tuning(0.7 / unit, 5, 0.9 * unit, SCALE * unit)
    other = replay(noise, x, tuning, LEAPFROG)
    np.testing.assert_allclose(other.proposal, plain.proposal, rtol=1e-10)
    np.testing.assert_allclose(other.energy_error, plain.energy_error, rtol=1e-10)


def test_positions_that_overflow_are_rejected_even_if_the_energy_is_finite(replay):
    def flat(x):
        return jnp.zeros((), x.dtype), jnp.zeros_like(x)

    noise, x = jnp.full((1, DIM), 3.0, jnp.float32), jnp.ones(DIM, jnp.float32)
    tuning = make_tuning(3e38, 1, 0.0, np.ones(DIM), jnp.float32)
    info = replay(noise, x, tuning, LEAPFROG, flat)
    assert float(info.energy_error) == 0.0
    assert np.all(np.isinf(info.proposal))
    assert bool(info.is_diverging)
    assert not bool(info.is_accepted)
    assert float(info.acceptance_rate) == 0.0


@pytest.mark.parametrize(("delta", "is_diverging"), [(900.0, False), (1100.0, True)])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_divergence_is_an_energy_error_beyond_a_thousand(replay, delta, is_diverging, sign):
    """A density without slope makes any jump of potential an energy error."""

    def cliff(x):
        return jnp.where(x[0] < 0.0, 0.0, -sign * delta), jnp.zeros_like(x)

    noise = jnp.ones((1, DIM), jnp.float32)
    x = jnp.full(DIM, -0.5, jnp.float32)
    tuning = make_tuning(1.0, 1, 0.0, np.ones(DIM), jnp.float32)
    info = replay(noise, x, tuning, LEAPFROG, cliff)
    assert float(info.energy_error) == sign * delta
    assert bool(info.is_diverging) == is_diverging
    assert bool(info.is_accepted) == (sign < 0.0)
