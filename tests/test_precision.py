"""Single and double precision: kept as given, promoted where mixed, refused where truncated."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import amalt


def gaussian(x):
    return -0.5 * jnp.sum(x**2)


def test_double_precision_is_kept(x64):
    target = amalt.Target(lambda x: gaussian(x["x"] / 1e-3) + 1e8, {"x": jnp.zeros(2)})
    fit = amalt.sample(target, chains=32, tune=300, draws=200, random_seed=1)
    assert fit.unconstrained.dtype == np.float64
    assert fit.sample_stats["lp"].dtype == np.float64
    assert fit.attrs["precision"] == "float64"
    assert fit.ok, fit.verdict.sentence
    np.testing.assert_allclose(fit.unconstrained.std((0, 1)), 1e-3, rtol=0.1)


def test_mixed_precisions_are_promoted(x64):
    example = {"a": jnp.zeros(2, jnp.float32), "b": jnp.zeros(1, jnp.float64)}
    target = amalt.Target(
        lambda x: -0.5 * jnp.sum(x["a"].astype(float) ** 2) - 0.5 * jnp.sum(x["b"] ** 2), example
    )
    tuning = amalt.Tuning(step_size=1.0, integration_time=1.0, damping=0.5)
    fit = amalt.sample(target, chains=4, draws=10, tuning=tuning, random_seed=1)
    assert fit.posterior["a"].dtype == np.float32
    assert fit.posterior["b"].dtype == np.float64


def test_a_double_precision_target_is_refused_where_jax_would_truncate_it():
    with jax.enable_x64(True):
        target = amalt.Target(gaussian, jnp.zeros(2))
    with pytest.raises(amalt.TargetError, match="made in float64, but JAX now computes in float32"):
        amalt.sample(target, chains=2)
