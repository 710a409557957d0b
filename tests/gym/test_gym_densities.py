"""Log densities and gradients of the posteriors on real data against their definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import amalt
from amalt import gym

from . import definitions
from .definitions import TERMS, points, slopes_of_terms, some_coordinates, value_and_grad

NAMES = list(TERMS)
every_model = pytest.mark.parametrize("name", NAMES)
every_spread = pytest.mark.parametrize("spread", [0.1, 1.0])

NUM_ROUNDINGS = dict.fromkeys(NAMES, 16) | {
    # Errors of the log volatility add up over the memory of its autoregression, and of the
    # Gaussian process by the condition of its covariance, up to 1e5.
    "stochastic-volatility": 128,
    "stochastic-volatility-small": 256,
    "log-gaussian-cox": 1024,
}
"""Errors in float32, in roundings of every term: a few, with room for numbers that meet in one."""


@every_model
@every_spread
def test_log_density_and_gradient_in_float64(name, spread):
    z = points(name, 3, spread).astype(float)
    with jax.enable_x64(True):
        value, gradient = value_and_grad(name, z)
    assert value.dtype == gradient.dtype == np.float64
    exact = np.array([TERMS[name](row).sum() for row in z])
    np.testing.assert_allclose(value, exact, rtol=1e-10)
    np.testing.assert_allclose(value - value[0], exact - exact[0], rtol=1e-10, atol=1e-9)
    slopes = np.array([slopes_of_terms(name, row).sum(0) for row in z])
    found = gradient[:, some_coordinates(name)]
    np.testing.assert_allclose(found, slopes, rtol=1e-10, atol=1e-12 * np.abs(slopes).max())


@every_model
@every_spread
def test_log_density_and_gradient_in_float32(name, spread):
    z = points(name, 3, spread)
    value, gradient = value_and_grad(name, z)
    assert value.dtype == gradient.dtype == np.float32
    unit = NUM_ROUNDINGS[name] * np.finfo(np.float32).eps
    for row, v, g in zip(z.astype(float), value, gradient[:, some_coordinates(name)], strict=True):
        exact, slopes = TERMS[name](row), slopes_of_terms(name, row)
        assert abs(v - exact.sum()) < unit * np.abs(exact).sum()
        assert np.all(np.abs(g - slopes.sum(0)) < unit * np.abs(slopes).sum(0))


@every_model
def test_starting_points_are_finite_and_exact_in_float32(name):
    dim = gym.load(name).dim
    count = 500 if dim < 600 else 50
    z = np.random.default_rng(1).uniform(-2, 2, (count, dim)).astype(np.float32)
    value, gradient = value_and_grad(name, z)
    assert np.isfinite(gradient).all()
    exact = np.array([TERMS[name](row).sum() for row in z[:20].astype(float)])
    rtol = 1e-4 if name == "log-gaussian-cox" else 1e-5
    np.testing.assert_allclose(value[:20], exact, rtol=rtol)


@every_model
def test_log_density_is_never_nan(name):
    """Where squares overflow it is -inf, and only there the gradient is lost."""
    rng = np.random.default_rng(2)
    dim = gym.load(name).dim
    count = 2000 if dim < 600 else 200
    z = rng.normal(size=(count, dim)) * 10.0 ** rng.uniform(-3, 3, (count, dim))
    value, gradient = value_and_grad(name, z.astype(np.float32))
    if name != "log-gaussian-cox":  # whose covariance is not positive definite to rounding
        assert not np.isnan(value).any()
    assert not np.isposinf(value).any()
    assert np.isfinite(gradient[np.isfinite(value)]).all()
    assert np.isfinite(value).mean() > 0.1 or "volatility" in name or "cox" in name


@every_model
def test_one_evaluation_is_that_of_a_batch(name):
    """Some posteriors compute batches in another layout, or again where numbers are large."""
    target = gym.load(name)
    z = points(name, 3, 1.0)
    z[1] *= 20.0
    value, gradient = value_and_grad(name, z)
    for i in (0, 2):
        v, g = target.value_and_grad(jnp.asarray(z[i]))
        assert v == pytest.approx(float(value[i]), rel=1e-4)
        np.testing.assert_allclose(g, gradient[i], atol=2e-4 * np.abs(gradient[i]).max())


@pytest.mark.parametrize("name", ["stochastic-volatility", "stochastic-volatility-small"])
def test_log_volatility_is_that_of_the_terms(name):
    """What a reader sees are not the shocks but their autoregression."""
    z = points(name, 2, 1.0)
    shown = gym.load(name).constrain(z)
    for row, h in zip(z.astype(float), shown["log_volatility"], strict=True):
        phi, (mu, s) = np.tanh(row[0] / 2), (row[1], definitions.softplus(row[2]))
        expected = [row[3] / np.sqrt(1 - phi**2)]
        for shock in row[4:]:
            expected.append(phi * expected[-1] + shock)
        np.testing.assert_allclose(h, mu + s * np.array(expected), rtol=1e-3, atol=1e-3)


def test_answers_and_prices():
    student, question, correct = definitions.answers()
    assert (len(student), correct.sum()) == (30012, 15399)
    assert (student.max(), question.max()) == (399, 99)
    # Which student answers which question was drawn like this.
    mask = np.random.RandomState(1).binomial(1, 0.75, size=40000)
    assert mask.sum() == len(student)
    prices = amalt.gym.data.read("sp500")["closing_price"]
    assert prices.shape == (2517,)
    assert prices.min() > 1000


def test_truth_of_the_cox_process_stands_in_the_order_of_its_counts():
    """Rates follow counts of about a hundred to a tenth; another order is no relation at all."""
    counts = amalt.gym.data.read("log_gaussian_cox")["counts"].astype(float)
    mean, sd, _ = gym.load("log-gaussian-cox").truth["log_intensity"]
    assert np.corrcoef(mean, np.log(counts))[0, 1] > 0.99
    assert np.all(np.abs(mean - np.log(counts)) < 4 * sd)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_sampler_finds_the_truth(name):
    """Chains leave the necks of some models slowly: a tenth of an sd there, else the errors."""
    is_neck = name in ("brownian-bridge", "radon-minnesota", "sparse-german-credit")
    chains = 32 if name == "stochastic-volatility" else 128
    # From uniform(-2, 2) the Cox process starts where float32 cannot tell its covariance's pivots.
    start = {"init": "advi"} if name.startswith(("stochastic", "log")) else {}
    fit = amalt.sample(
        name, chains=chains, tune=1500, draws=500, random_seed=1, progressbar=False, **start
    )
    for variable, (mean, sd, mean_se) in gym.load(name).truth.items():
        of_chains = fit.posterior[variable].mean("draw").values
        error = np.hypot(of_chains.std(0, ddof=1) / np.sqrt(len(of_chains)), mean_se)
        # One in seven runs has one of 2516 normal errors beyond 4, one in sixty beyond 4.5.
        errors = 4.5 if mean.size > 1000 else 4.0
        bound = 0.1 * sd if is_neck else errors * error
        assert np.all(np.abs(of_chains.mean(0) - mean) < bound), variable
