"""Quasi-random lengths: the sequence itself, what it averages to, and the steps made of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln

from amalt.adaptation.jitter import BITS, factor, quasi_random, steps_at

PERIOD = 2**BITS


def van_der_corput(n):
    """Write n + 1 in binary digits, read them backwards behind the point, add half a last bit."""
    digits = format((n + 1) % PERIOD, f"0{BITS}b")
    return int(digits[::-1], 2) / PERIOD + 0.5 / PERIOD


def of_all(function, steps):
    return np.asarray(jax.jit(jax.vmap(function))(jnp.arange(steps)), np.float64)


@pytest.fixture(scope="module")
def u():
    return of_all(lambda n: quasi_random(n, jnp.float32), 3 * PERIOD)


def test_sequence_is_that_of_van_der_corput(u):
    np.testing.assert_array_equal(u, [van_der_corput(n) for n in range(3 * PERIOD)])
    np.testing.assert_array_equal(u[:4] - 0.5 / PERIOD, [0.5, 0.25, 0.75, 0.125])


def test_a_period_takes_every_value_once_and_none_is_zero_or_one(u):
    np.testing.assert_array_equal(np.sort(u[:PERIOD]), (np.arange(PERIOD) + 0.5) / PERIOD)
    np.testing.assert_array_equal(u[:PERIOD], u[PERIOD : 2 * PERIOD])
    # The mean and the variance of the midpoints of 1024 cells.
    assert u[:PERIOD].mean() == 0.5
    np.testing.assert_allclose(u[:PERIOD].var(), (1.0 - PERIOD**-2) / 12.0, rtol=1e-12)


@pytest.mark.parametrize("bits", [1, 3, 6])
def test_short_stretches_are_even(u, bits):
    """Stretches of 2^k from a multiple of 2^k on, counted from 1, have one value in each cell."""
    cells = np.floor(u[2**bits - 1 : -1] * 2**bits).astype(int)
    for stretch in cells[: len(cells) // 2**bits * 2**bits].reshape(-1, 2**bits):
        np.testing.assert_array_equal(np.sort(stretch), np.arange(2**bits))


def test_jitter_has_mean_one():
    uniform = of_all(lambda n: factor("uniform", n, jnp.float32), PERIOD)
    assert uniform.mean() == 1.0
    assert uniform.min() > 0.0
    assert uniform.max() < 2.0
    none = of_all(lambda n: factor("none", n, jnp.float32), PERIOD)
    assert np.all(none == 1.0)


def test_exponential_jitter_has_the_moments_of_its_cells():
    jitter = of_all(lambda n: factor("exponential", n, jnp.float32), PERIOD)
    # prod (k + 1/2) = Gamma(N + 1/2) / Gamma(1/2); by Stirling the mean is 1 - log(2) / 2N.
    mean = np.log(PERIOD) - (gammaln(PERIOD + 0.5) - gammaln(0.5)) / PERIOD
    np.testing.assert_allclose(jitter.mean(), mean, rtol=1e-6)
    assert abs(mean - 1.0) < 1.0 / PERIOD
    # The cell next to zero, where the logarithm is not smooth, holds log(N)^2 / N of the variance.
    assert abs(jitter.var() - 1.0) < np.log(PERIOD) ** 2 / PERIOD
    assert jitter.min() > 0.0
    # The clip of adaptation/malt.py relies on this.
    assert jitter.max() < 8.0


@pytest.mark.parametrize("kind", ["uniform", "exponential", "none"])
def test_steps_are_the_jittered_time_rounded_up(kind):
    time, h = jnp.float32(1.7), jnp.float32(0.23)
    steps = of_all(lambda n: steps_at(kind, n, time, h), PERIOD)
    jitter = of_all(lambda n: factor(kind, n, jnp.float32), PERIOD)
    np.testing.assert_array_equal(steps, np.maximum(np.ceil(jitter * 1.7 / 0.23), 1.0))
    assert steps.min() >= 1.0


def test_a_whole_number_of_steps_is_not_one_more():
    h = jnp.float32(0.1)
    for whole in (1, 3, 7, 10, 500):
        assert int(steps_at("none", 0, jnp.float32(0.1) * whole, h)) == whole
    assert int(steps_at("uniform", 511, jnp.float32(1e-6), h)) == 1


def test_the_sequence_is_the_same_in_double_precision(x64, u):
    double = of_all(lambda n: quasi_random(n, jnp.float64), PERIOD)
    np.testing.assert_array_equal(double, u[:PERIOD])
