"""Integrators: reversible, symplectic, of second order, and no dearer than they say."""

import functools

import blackjax.mcmc.integrators as blackjax_integrators
import blackjax.mcmc.metrics as blackjax_metrics
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from amalt.kernels.integrators import (
    INTEGRATORS,
    LEAPFROG,
    THREE_STAGE,
    TWO_STAGE,
    PhasePoint,
    integrate_step,
)
from amalt.kernels.metric import DiagonalMetric

pytestmark = pytest.mark.usefixtures("x64")
every_integrator = pytest.mark.parametrize("integrator", INTEGRATORS.values(), ids=INTEGRATORS)

PRECISION = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 0.7]])
SCALE = np.array([0.6, 1.0, 1.3])
X, V = np.array([0.9, -1.1, 0.4]), np.array([0.5, 1.2, -0.8])


def logdensity(x):
    return -0.5 * x @ jnp.asarray(PRECISION) @ x - jnp.sum(jnp.cosh(x))


value_and_grad = jax.value_and_grad(logdensity)


def metric():
    return DiagonalMetric(jnp.asarray(SCALE), jnp.asarray(1.0))


def phase_point(x=X, v=V):
    return PhasePoint(jnp.asarray(x), jnp.asarray(v), *value_and_grad(jnp.asarray(x)))


def energy(point):
    return -point.logdensity + 0.5 * jnp.dot(point.momentum, point.momentum)


@functools.partial(jax.jit, static_argnums=0)
def integrate(integrator, point, h, steps):
    """Return the end of a trajectory, and the largest energy error on its way."""

    def body(_, carry):
        moved = integrate_step(integrator, value_and_grad, metric(), h, carry[0])
        return moved, jnp.maximum(carry[1], jnp.abs(energy(moved) - energy(point)))

    return jax.lax.fori_loop(0, steps, body, (point, 0.0))


@every_integrator
def test_coefficients_are_palindromic_and_consistent(integrator):
    assert integrator.kicks == integrator.kicks[::-1]
    assert integrator.drifts == integrator.drifts[::-1]
    assert len(integrator.kicks) == len(integrator.drifts) + 1
    np.testing.assert_allclose([sum(integrator.kicks), sum(integrator.drifts)], 1.0, rtol=1e-15)


def test_two_stage_coefficient_is_the_minimal_norm_one():
    root = (2.0 * np.sqrt(326.0) + 36.0) ** (1.0 / 3.0)
    np.testing.assert_allclose(TWO_STAGE.kicks[0], 0.5 - root / 12.0 + 1.0 / (6.0 * root))


@every_integrator
def test_trajectory_is_reversible(integrator):
    start = phase_point()
    end, _ = integrate(integrator, start, 0.2, 15)
    assert np.linalg.norm(end.position - X) > 0.5
    back, _ = integrate(integrator, end._replace(momentum=-end.momentum), 0.2, 15)
    back = back._replace(momentum=-back.momentum)
    for found, wanted in zip(back, start, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11)


@every_integrator
def test_step_is_symplectic_in_the_preconditioned_space(integrator):
    def step(yv):
        point = phase_point(yv[:3] * SCALE, yv[3:])
        moved = integrate_step(integrator, value_and_grad, metric(), 0.7, point)
        return jnp.concatenate([moved.position / SCALE, moved.momentum])

    jacobian = jax.jacfwd(step)(jnp.concatenate([X / SCALE, V]))
    omega = np.kron([[0.0, 1.0], [-1.0, 0.0]], np.eye(3))
    np.testing.assert_allclose(jacobian.T @ omega @ jacobian, omega, atol=1e-12)


@every_integrator
def test_order_of_accuracy_is_two(integrator):
    def flow(_, xv):
        return np.concatenate([SCALE * xv[3:], -SCALE * (PRECISION @ xv[:3] + np.sinh(xv[:3]))])

    exact = solve_ivp(flow, (0.0, 2.0), [*X, *V], method="DOP853", rtol=1e-13, atol=1e-13).y[:, -1]
    steps = np.array([40, 80, 160, 320])
    errors = []
    for n in steps:
        end, energy_error = integrate(integrator, phase_point(), 2.0 / n, n)
        errors.append(
            [
                np.linalg.norm(end.position - exact[:3]),
                np.linalg.norm(end.momentum - exact[3:]),
                energy_error,
            ]
        )
    slopes = np.polyfit(np.log(2.0 / steps), np.log(errors), 1)[0]
    np.testing.assert_allclose(slopes, 2.0, atol=0.03)


@pytest.mark.parametrize("gradients", [6, 60])
def test_more_stages_err_less_at_the_same_cost(gradients):
    leapfrog, two_stage, three_stage = (
        integrate(scheme, phase_point(), 4.0 * cost / gradients, gradients // cost)[1]
        for cost, scheme in enumerate((LEAPFROG, TWO_STAGE, THREE_STAGE), start=1)
    )
    # Three stages are made for coarse steps; in the limit of fine ones two are better.
    coarse, fine = three_stage < two_stage < leapfrog, two_stage < three_stage < 0.3 * leapfrog
    assert coarse if gradients == 6 else fine


@every_integrator
def test_a_step_evaluates_the_gradient_once_per_drift(integrator):
    places = []

    def counted(x):
        places.append(x)
        return value_and_grad(x)

    with jax.disable_jit():
        point = phase_point()
        for _ in range(4):
            point = integrate_step(integrator, counted, metric(), 0.3, point)
    assert len(places) == 4 * integrator.gradients_per_step == 4 * len(integrator.drifts)
    np.testing.assert_array_equal(places[-1], point.position)
    np.testing.assert_array_equal(point.gradient, value_and_grad(point.position)[1])


@pytest.mark.usefixtures("lenient_promotion")
@pytest.mark.parametrize(
    ("integrator", "theirs"),
    [(LEAPFROG, "velocity_verlet"), (TWO_STAGE, "mclachlan"), (THREE_STAGE, "yoshida")],
    ids=INTEGRATORS,
)
def test_blackjax_takes_the_same_steps(integrator, theirs):
    """BlackJAX moves p = S^-1 v, so that the inverse mass is S S'."""
    kinetic_energy = blackjax_metrics.default_metric(jnp.asarray(SCALE**2)).kinetic_energy
    step = getattr(blackjax_integrators, theirs)(logdensity, kinetic_energy)
    ours = phase_point()
    peer = blackjax_integrators.IntegratorState(
        ours.position, ours.momentum / SCALE, ours.logdensity, ours.gradient
    )
    for _ in range(5):
        ours = integrate_step(integrator, value_and_grad, metric(), 0.4, ours)
        peer = step(peer, 0.4)
    np.testing.assert_allclose(ours.position, peer.position, rtol=1e-12)
    np.testing.assert_allclose(ours.momentum / SCALE, peer.momentum, rtol=1e-12)
    np.testing.assert_allclose(ours.logdensity, peer.logdensity, rtol=1e-12)
