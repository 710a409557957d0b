"""The diagonal metric: S, its transpose and its inverse, made from variances of any scale."""

import hypothesis.extra.numpy as hnp
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amalt.kernels.metric import DiagonalMetric, diagonal

# Standard deviations over six decades, the widest spread that a metric must carry. Few shapes,
# because JAX compiles for each.
VARIANCES = hnp.arrays(
    np.float32, st.sampled_from([1, 4]), elements=st.floats(2**-20, 2**20, width=32)
)


def vectors(dim, count=2):
    return jnp.asarray(np.random.default_rng(dim).normal(size=(count, dim)), jnp.float32)


@given(VARIANCES)
def test_mass_is_the_papers(variances):
    metric = diagonal(jnp.asarray(variances))
    s = variances.astype(np.float64)
    np.testing.assert_allclose(1.0 / np.asarray(metric.scale) ** 2, s.max() / s, rtol=1e-5)
    np.testing.assert_allclose(metric.mass_scale * metric.scale**2, s, rtol=1e-5)
    np.testing.assert_allclose(np.max(metric.scale), 1.0, rtol=1e-6)


@given(VARIANCES)
def test_transpose_and_inverse(variances):
    metric = diagonal(jnp.asarray(variances))
    v, g = vectors(variances.size)
    forward, back = jnp.dot(metric.apply(v), g), jnp.dot(v, metric.apply_transpose(g))
    np.testing.assert_allclose(forward, back, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(metric.whiten(metric.apply(v)), v, rtol=1e-6)


def test_apply_multiplies_by_the_scale():
    metric = DiagonalMetric(jnp.array([1.0, 0.5]), jnp.array(4.0))
    v = jnp.array([2.0, 6.0])
    np.testing.assert_array_equal(metric.apply(v), [2.0, 3.0])
    np.testing.assert_array_equal(metric.apply_transpose(v), [2.0, 3.0])
    np.testing.assert_array_equal(metric.whiten(v), [2.0, 12.0])


def test_common_factor_goes_to_the_mass_scale_alone():
    variances = jnp.array([0.3, 2.0, 5.0])
    metric, scaled = diagonal(variances), diagonal(1024.0 * variances)
    np.testing.assert_array_equal(metric.scale, scaled.scale)
    assert float(scaled.mass_scale) == 1024.0 * float(metric.mass_scale)


@pytest.mark.parametrize("variances", [[0.0, 1.0], [1e-38, 1e38], [0.0, 0.0], [0.0], [1e-45]])
def test_degenerate_variances_leave_an_invertible_metric(variances):
    metric = diagonal(jnp.array(variances, jnp.float32))
    v = jnp.ones(len(variances))
    for image in (metric.apply(v), metric.apply_transpose(v), metric.whiten(v)):
        assert np.all(np.isfinite(image) & (np.asarray(image) > 0.0))
    assert float(metric.mass_scale) > 0.0
