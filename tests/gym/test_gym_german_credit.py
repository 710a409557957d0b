"""The German credit posterior: its data, its truth, and its hand-written derivative."""

import hashlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special

from amalt import gym
from amalt.gym import data
from amalt.gym.german_credit import bernoulli_log_likelihood, design

SHA256 = "2752b044394958ab6dd193a0b56ca0f0b3a2d8bc7cb8c008e35a5e84bbec02f8"


def test_shipped_arrays_print_as_the_original_file():
    arrays = data.read("german_credit")
    table = np.column_stack([arrays["attributes"], arrays["bad"] + 1])
    text = "".join("".join(f"{value:4d}" for value in row) + " \n" for row in table)
    assert hashlib.sha256(text.encode()).hexdigest() == SHA256


def test_columns_are_standardized_and_labels_count_bad_risks():
    x, y = design()
    assert x.shape == (1000, 25)
    assert x.dtype == y.dtype == np.float64
    np.testing.assert_allclose(x[:, :24].mean(0), 0, atol=1e-13)
    np.testing.assert_allclose(x[:, :24].std(0), 1, rtol=1e-13)
    np.testing.assert_array_equal(x[:, 24], 1)
    assert ((y == 1).sum(), (y == 0).sum()) == (300, 700)


def test_truth_against_importance_sampling():
    """A Gaussian at the mode as proposal, 30,000 draws: about 0.01 sd of error in each mean."""
    x, y = design()
    signed = (1 - 2 * y)[:, None] * x

    def negative(w):
        return -special.log_expit(-(signed @ w)).sum() + 0.5 * w @ w

    def gradient(w):
        return special.expit(signed @ w) @ signed + w

    mode = optimize.minimize(negative, np.zeros(25), jac=gradient, method="BFGS").x
    sigma = special.expit(signed @ mode)
    factor = np.linalg.cholesky(np.linalg.inv((x.T * (sigma * (1 - sigma))) @ x + np.eye(25)))
    e = np.random.default_rng(0).normal(size=(30_000, 25))
    draws = mode + e @ factor.T
    log_target = special.log_expit(-(draws @ signed.T)).sum(1) - 0.5 * (draws**2).sum(1)
    weight = special.softmax(log_target + 0.5 * (e**2).sum(1))
    assert 1 / (weight**2).sum() > 10_000
    mean, sd, _ = gym.load("german-credit").truth["weights"]
    found = weight @ draws
    np.testing.assert_allclose((found - mean) / sd, 0, atol=0.06)
    np.testing.assert_allclose(np.sqrt(weight @ (draws - found) ** 2) / sd, 1, atol=0.06)


def test_value_and_gradient_share_one_exponential():
    target = gym.load("german-credit")
    program = str(jax.make_jaxpr(jax.value_and_grad(target.logdensity))(jnp.zeros(25)))
    assert program.count(" exp ") == 1


def all_derivatives(f):
    """Return value, gradient both ways, Hessian, and the derivative of value_and_grad along d."""

    def at(w, d):
        along = jax.jvp(jax.value_and_grad(f), (w,), (d,))
        return f(w), jax.grad(f)(w), jax.jacfwd(f)(w), jax.hessian(f)(w), along

    return jax.jit(at)


@pytest.mark.parametrize("rows", [1, 8, 13])
def test_log_likelihood_and_all_derivatives_against_plain_autodiff(rows):
    rng = np.random.default_rng(rows)
    x, y = rng.normal(size=(rows, 4)), rng.integers(0, 2, rows).astype(float)
    with jax.enable_x64(True):
        x_, y_ = jnp.asarray(x), jnp.asarray(y)
        fast = all_derivatives(bernoulli_log_likelihood(x, y))
        plain = all_derivatives(
            lambda w: jnp.vdot(y_, x_ @ w) - jnp.sum(jnp.logaddexp(x_ @ w, 0.0))
        )
        for scale in (0.0, 1.0, 50.0):
            w, d = jnp.asarray(scale * rng.normal(size=4)), jnp.asarray(rng.normal(size=4))
            found, expected = jax.tree.leaves(fast(w, d)), jax.tree.leaves(plain(w, d))
            assert len(found) == 8
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)


def test_far_away_values_are_finite_and_exact():
    target = gym.load("german-credit")
    x, y = design()
    w = np.random.default_rng(1).normal(size=25).astype(np.float32) * np.float32(1e4)
    value, gradient = target.value_and_grad(jnp.asarray(w))
    v = (1 - 2 * y) * (x @ w.astype(float))
    expected = -np.logaddexp(0, v).sum() - 0.5 * (w.astype(float) ** 2).sum()
    np.testing.assert_allclose(value, expected - 12.5 * np.log(2 * np.pi), rtol=1e-6)
    assert np.isfinite(gradient).all()
