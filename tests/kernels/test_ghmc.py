"""Generalized HMC with slice acceptance: against NumPy, exact on its extended space, its cost.

Exactness is tested on all that a state holds: from exact draws of (x, v, u) any number of steps
leads to exact draws again, so positions (as scores, see `statistical.models`), momenta and slices
(as normal quantiles) of independent chains stay N(0, I), and their products have mean zero.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from amalt.kernels import LEAPFROG, TWO_STAGE, DiagonalMetric, ghmc, malt
from amalt.kernels.ghmc import GhmcState, GhmcTuning
from amalt.kernels.malt import MaltState
from amalt.randomness import fold, normal

from ..statistical.broken import Mistake
from ..statistical.joint import THRESHOLD, Finding, joint_test, normal_comparisons
from ..statistical.models import CURVE, HIERARCHY
from ..statistical.test_joint import params
from .model import (
    DIM,
    KEY,
    SCALE,
    draw_starts,
    in_double,
    potential,
    potential_gradient,
    value_and_grad,
)


def make_tuning(h, damping, scale=SCALE, dtype=jnp.float64):
    metric = DiagonalMetric(jnp.asarray(scale, dtype), jnp.ones((), dtype))
    return GhmcTuning(jnp.asarray(h, dtype), jnp.asarray(h * damping, dtype), metric)


# --- against NumPy -----------------------------------------------------------------------------


def numpy_step(x, v, u, xi, h, gamma, scale):
    """One step as the paper of Neal has it, with momenta N(0, I) and moves h diag(scale)."""
    v = np.exp(-gamma * h) * v + np.sqrt(1.0 - np.exp(-2.0 * gamma * h)) * xi
    p = v - 0.5 * h * scale * potential_gradient(x)
    y = x + h * scale * p
    p = p - 0.5 * h * scale * potential_gradient(y)
    ratio = np.exp(potential(x) - potential(y) + 0.5 * (v @ v - p @ p))
    is_accepted = abs(u) < ratio
    x, v, u = (y, p, u / ratio) if is_accepted else (x, -v, u)
    u = u + 0.5 * (1.0 - np.exp(-2.0 * gamma * h))
    return x, v, u - 2.0 if u >= 1.0 else u, ratio, is_accepted


@in_double
def test_a_path_is_that_of_numpy():
    steps, h, gamma = 60, 0.9, 0.7
    keys = jax.vmap(lambda n: fold(jnp.asarray(KEY), n, 0))(jnp.arange(steps))
    tuning = make_tuning(h, gamma)

    @jax.jit
    def run(state):
        def one(state, key):
            state, info = ghmc.step(key, state, tuning, value_and_grad, LEAPFROG)
            return state, (state, info, normal(key, 0, (DIM,), jnp.float64))

        return jax.lax.scan(one, state, keys)[1]

    start = ghmc.init(jnp.asarray(KEY), malt.init(draw_starts(1)[0], value_and_grad))
    states, info, noise = jax.tree.map(np.asarray, run(start))
    x, v, u = (np.asarray(leaf) for leaf in (start.position, start.momentum, start.slice))
    accepted = np.zeros(steps, bool)
    for n in range(steps):
        x, v, u, ratio, accepted[n] = numpy_step(x, v, u, noise[n], h, gamma, SCALE)
        close = functools.partial(np.testing.assert_allclose, rtol=1e-7, atol=1e-9)
        close(states.position[n], x)
        close(states.momentum[n], v)
        close(states.slice[n], u)
        close(states.logdensity[n], -potential(x))
        close(states.gradient[n], -potential_gradient(x))
        close(info.energy_error[n], -np.log(ratio))
        close(info.acceptance_rate[n], min(1.0, ratio))
    assert 0.3 < accepted.mean() < 0.95
    assert not np.any(info.is_diverging)


def test_gradients_are_counted_exactly():
    evaluated = []

    def counted(x):
        jax.debug.callback(lambda x: evaluated.append(x.shape), x)
        return value_and_grad(x)

    tuning = make_tuning(1.0, 0.5, dtype=jnp.float32)

    @jax.jit
    def run(state):
        def one(n, state):
            return ghmc.step(fold(jnp.asarray(KEY), n, 0), state, tuning, counted, TWO_STAGE)[0]

        return jax.lax.fori_loop(0, 9, one, state)

    x = draw_starts(1, np.float32)[0]
    run(ghmc.init(jnp.asarray(KEY), MaltState(x, *value_and_grad(x))))
    jax.effects_barrier()
    assert evaluated == [(DIM,)] * (9 * 2)


@jax.jit
@functools.partial(jax.vmap, in_axes=(0, 0, None))
def step_into_a_wall(key, x, value):
    """Step on a normal density that is no number where x[0] > 1."""

    def walled(x):
        inside = x[0] < 1.0
        return jnp.where(inside, -0.5 * jnp.dot(x, x), value), jnp.where(inside, -x, value)

    # No noise and an open slice: the momentum of the step is that of the state.
    state = ghmc.init(key, MaltState(x, *walled(x)))._replace(slice=jnp.zeros((), x.dtype))
    tuning = make_tuning(1.5, 0.0, np.ones(DIM), jnp.float32)
    return state, *ghmc.step(key, state, tuning, walled, LEAPFROG)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_steps_that_meet_no_number_are_rejected_and_turned_round(value):
    x = jnp.minimum(draw_starts(300, np.float32), 0.9)
    keys = jax.vmap(lambda n: fold(jnp.asarray(KEY), n, 0))(jnp.arange(300))
    states, new, info = step_into_a_wall(keys, x, np.float32(value))
    crossed = np.asarray(info.is_diverging)
    assert 0.1 < crossed.mean() < 0.9
    np.testing.assert_array_equal(new.position[crossed], states.position[crossed])
    np.testing.assert_array_equal(new.momentum[crossed], -states.momentum[crossed])
    np.testing.assert_array_equal(info.acceptance_rate[crossed], 0.0)
    assert np.all(np.asarray(new.position)[:, 0] < 1.0)
    assert np.all(np.any(new.position[~crossed] != states.position[~crossed], axis=1))
    assert all(np.all(np.isfinite(leaf)) for leaf in new)


# --- exactness ---------------------------------------------------------------------------------

CHAINS, STEPS = 2**15, 25
SCALES = np.array([0.9, 0.6, 1.0, 0.9, 0.8, 0.7])


@functools.cache
def exact_starts():
    """Draw positions from the prior of the hierarchy, momenta from N(0, I), u from (-1, 1)."""
    rng = np.random.default_rng(40)
    x = jnp.asarray(HIERARCHY.draw_prior(rng, CHAINS))
    logdensity, gradient = jax.vmap(jax.value_and_grad(HIERARCHY.logprior))(x)
    momentum = rng.standard_normal(x.shape, np.float32)
    u = rng.uniform(-1.0, 1.0, CHAINS).astype(np.float32)
    return GhmcState(x, logdensity, gradient, jnp.asarray(momentum), jnp.asarray(u))


@functools.cache
def program(step, integrator=LEAPFROG):
    """Return ``(states, keys [step, chain], tuning) -> (states, mean acceptance rate)``."""
    evaluate = jax.value_and_grad(HIERARCHY.logprior)

    @jax.jit
    def run(states, keys, tuning):
        def one(states, keys):
            return jax.vmap(lambda k, s: step(k, s, tuning, evaluate, integrator))(keys, states)

        states, info = jax.lax.scan(one, states, keys)
        return states, jnp.mean(info.acceptance_rate)

    return run


def run_from_exact_starts(run, damping, h=0.5):
    """Make some steps of every chain and compare all that the states hold with what it should."""
    keys = np.random.default_rng(41).integers(2**32, size=(STEPS, CHAINS, 2), dtype=np.uint32)
    states, acceptance = run(exact_starts(), keys, make_tuning(h, damping, SCALES, jnp.float32))
    u = np.asarray(states.slice, np.float64)
    if not np.all((u >= -1.0) & (u < 1.0)):
        return Finding(np.array([np.inf]), ["slices outside of (-1, 1)"], float(acceptance))
    columns = [
        HIERARCHY.inverse(np.asarray(states.position, np.float64)),
        np.asarray(states.momentum, np.float64),
        # Half a rounding inwards: the quantile of 0 is infinite.
        special.ndtri((u + 1.0 + 2.0**-24) / (2.0 + 2.0**-23))[:, None],
    ]
    return Finding(*normal_comparisons(np.hstack(columns)), float(acceptance))


# Momenta that are kept, half forgotten and all forgotten; 119 comparisons each.
@pytest.mark.parametrize("damping", [0.02, 0.5, 20.0])
@pytest.mark.parametrize(
    ("integrator", "h"), [(LEAPFROG, 0.5), (TWO_STAGE, 0.8)], ids=["leapfrog", "two-stage"]
)
def test_exact_draws_stay_exact(damping, integrator, h):
    found = run_from_exact_starts(program(ghmc.step, integrator), damping, h)
    assert found.worst < THRESHOLD, found
    assert 0.6 < found.acceptance < 0.95, found


REJECTED = "rejected = state._replace(momentum=-v)"
SLICE = "u * jnp.exp(delta)"
ACCEPT = "(jnp.log(jnp.abs(u)) < -delta)"
REFRESH = "v = refresh(v, eta, normal(key, 0, x.shape, x.dtype))"
WRAP = "jnp.mod(new.slice + drift + 1.0, 2.0) - 1.0"

MISTAKES = [
    Mistake("momentum kept on rejection", ghmc, ((REJECTED, REJECTED.replace("-v", "v")),)),
    Mistake(
        "momentum flipped on acceptance",
        ghmc,
        (("end.momentum, u", "-end.momentum, u"),),
        is_variant=True,
    ),
    Mistake("slice without exp(Delta)", ghmc, ((SLICE, "u"),)),
    Mistake("slice with exp(-Delta)", ghmc, ((SLICE, "u * jnp.exp(-delta)"),), is_variant=True),
    Mistake("sign of Delta", ghmc, ((ACCEPT, ACCEPT.replace("-delta", "delta")),)),
    Mistake(
        "noise of scale sqrt(1 - eta)",
        ghmc,
        ((REFRESH, REFRESH.replace("refresh(v, eta, ", "eta * v + jnp.sqrt(1.0 - eta) * (")),),
    ),
    Mistake(
        "slice stopped at its end",
        ghmc,
        ((WRAP, "jnp.minimum(new.slice + drift, 1.0 - 2.0**-24)"),),
        is_variant=True,
    ),
]


@pytest.mark.parametrize("mistake", params(MISTAKES))
def test_broken_kernel_fails(mistake):
    found = run_from_exact_starts(program(mistake.module_with_it().step), 0.02)
    assert found.worst > 2.0 * THRESHOLD, found


# --- positions alone, with data: the joint-distribution test -----------------------------------


@functools.cache
def joint_kernel(model, module=ghmc):
    """Return a round of the test: a fresh momentum and slice, then a few steps with both kept."""

    def kernel(keys, tuning, theta, y):
        evaluate = jax.value_and_grad(lambda x: model.logdensity(x, y))
        tuning = GhmcTuning(tuning.step_size, tuning.step_size * tuning.damping, tuning.metric)
        state = module.init(fold(keys[0], 7, 7), malt.init(theta, evaluate))

        def body(state, key):
            state, info = module.step(key, state, tuning, evaluate, LEAPFROG)
            return state, info.acceptance_rate

        state, acceptance = jax.lax.scan(body, state, keys)
        return state.position, jnp.mean(acceptance)

    return kernel


def joint_tuning(model, h):
    scale = {"curve": np.array([1.0, 0.9, 0.8, 0.4]), "hierarchy": SCALES}[model.name]
    metric = DiagonalMetric(jnp.asarray(scale, jnp.float32), jnp.float32(1.0))
    return malt.MaltTuning(jnp.float32(h), jnp.int32(1), jnp.float32(0.5), metric)


@pytest.mark.parametrize(
    ("model", "h"),
    [
        pytest.param(CURVE, 0.35, id="curve"),
        pytest.param(HIERARCHY, 0.5, id="hierarchy", marks=pytest.mark.long),
    ],
)
def test_joint_distribution(model, h):
    found = joint_test(model, joint_kernel(model), joint_tuning(model, h), 42)
    assert found.worst < THRESHOLD, found
    assert 0.6 < found.acceptance < 0.95, found


@pytest.mark.long
@pytest.mark.parametrize("mistake", [MISTAKES[0], MISTAKES[4], MISTAKES[5]], ids=lambda m: m.label)
def test_joint_distribution_of_a_broken_kernel(mistake):
    kernel = joint_kernel(HIERARCHY, mistake.module_with_it())
    found = joint_test(HIERARCHY, kernel, joint_tuning(HIERARCHY, 0.5), 42)
    assert found.worst > THRESHOLD, found
