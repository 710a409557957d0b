"""The target on which the kernel is tested: a correlated density with tails like exp(-e^|x|)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from amalt.kernels import DiagonalMetric, MaltTuning
from amalt.kernels.integrators import INTEGRATORS

every_integrator = pytest.mark.parametrize("integrator", INTEGRATORS.values(), ids=INTEGRATORS)
in_double = pytest.mark.usefixtures("x64")

DIM = 5
KEY = np.array([20, 24], np.uint32)
PRECISION = np.diag([1.0, 2.0, 0.5, 1.5, 1.0]) + 0.3 * np.eye(DIM, k=1) + 0.3 * np.eye(DIM, k=-1)
SCALE = np.array([1.0, 0.5, 0.9, 0.7, 0.8])


def logdensity(x):
    return -0.5 * x @ jnp.asarray(PRECISION, x.dtype) @ x - jnp.sum(jnp.cosh(x))


value_and_grad = jax.value_and_grad(logdensity)


# The same by hand, in NumPy.


def potential(x):
    return 0.5 * x @ PRECISION @ x + np.cosh(x).sum()


def potential_gradient(x):
    return PRECISION @ x + np.sinh(x)


def make_tuning(h, num_steps, gamma, scale=SCALE, dtype=jnp.float64):
    metric = DiagonalMetric(jnp.asarray(scale, dtype), jnp.ones((), dtype))
    return MaltTuning(
        jnp.asarray(h, dtype), jnp.int32(num_steps), jnp.asarray(gamma, dtype), metric
    )


def draw_starts(count, dtype=np.float64):
    return jnp.asarray(np.random.default_rng(1).normal(size=(count, DIM)) * 0.8, dtype)
