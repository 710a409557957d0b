"""Algorithm 1 against an independent NumPy version, what it costs, and what it refuses."""

import functools

import blackjax.mcmc.integrators as blackjax_integrators
import blackjax.mcmc.metrics as blackjax_metrics
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.mcmc.hmc import hmc_proposal

import amalt
from amalt.kernels import malt
from amalt.kernels.integrators import LEAPFROG
from amalt.kernels.malt import MaltState
from amalt.methods.malt import advance
from amalt.randomness import ACCEPT, chain_keys, exponential, fold, normal

from .model import (
    DIM,
    KEY,
    SCALE,
    draw_starts,
    every_integrator,
    in_double,
    logdensity,
    make_tuning,
    potential,
    potential_gradient,
    value_and_grad,
)

# The schemes of the literature, written out with momenta p of mass M = diag(mass).


def leapfrog(x, p, h, mass):
    p = p - h / 2 * potential_gradient(x)
    x = x + h * p / mass
    return x, p - h / 2 * potential_gradient(x)


def two_stage(x, p, h, mass):
    b = 0.1931833275037836
    p = p - b * h * potential_gradient(x)
    x = x + h / 2 * p / mass
    p = p - (1 - 2 * b) * h * potential_gradient(x)
    x = x + h / 2 * p / mass
    return x, p - b * h * potential_gradient(x)


def three_stage(x, p, h, mass):
    a, b = 0.29619504261126, 0.11888010966548
    p = p - b * h * potential_gradient(x)
    x = x + a * h * p / mass
    p = p - (1 / 2 - b) * h * potential_gradient(x)
    x = x + (1 - 2 * a) * h * p / mass
    p = p - (1 / 2 - b) * h * potential_gradient(x)
    x = x + a * h * p / mass
    return x, p - b * h * potential_gradient(x)


NUMPY_STEP = {"leapfrog": leapfrog, "two-stage": two_stage, "three-stage": three_stage}


def algorithm_1(x_0, xi, z, numpy_step, h, gamma, mass):
    """The paper's Algorithm 1, with momenta xi ~ N(0, M) and v'_0 = xi[0]."""
    eta, x, v, delta = np.exp(-gamma * h), x_0, None, 0.0
    for i, noise in enumerate(xi):
        v_before = noise if i == 0 else eta * v + np.sqrt(1 - eta**2) * noise
        x, v = numpy_step(x, v_before, h, mass)
        delta += (v @ (v / mass) - v_before @ (v_before / mass)) / 2
    delta += potential(x) - potential(x_0)
    return (x_0 if z < delta else x), x, v, xi[0], delta


run_chains = jax.jit(advance, static_argnums=(4, 5))
init_chains = jax.vmap(functools.partial(malt.init, value_and_grad=value_and_grad))


@jax.jit
@jax.vmap
def numbers_of(key):
    """Return the first 7 normals of a transition and its exponential number."""
    normals = [normal(key, i, (DIM,), jnp.float64) for i in range(7)]
    return jnp.stack(normals), exponential(key, ACCEPT, jnp.float64)


@in_double
@every_integrator
@pytest.mark.parametrize("num_steps", [1, 2, 7])
@pytest.mark.parametrize("gamma", [0.0, 0.3, 2.0])
def test_step_is_algorithm_1(integrator, gamma, num_steps):
    chains, h, mass = 10, 0.6, 1.0 / SCALE**2
    states = init_chains(draw_starts(chains))
    tuning = make_tuning(h, num_steps, gamma)
    new, info = run_chains(KEY, 3, states, tuning, value_and_grad, integrator)
    noise, exponentials = map(np.asarray, numbers_of(chain_keys(KEY, 3, chains)))
    info, new = jax.tree.map(np.asarray, (info, new))
    for k in range(chains):
        xi, z = np.sqrt(mass) * noise[k, :num_steps], exponentials[k]
        x, proposal, v_last, v_first, delta = algorithm_1(
            np.asarray(states.position[k]), xi, z, NUMPY_STEP[integrator.name], h, gamma, mass
        )
        close = functools.partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-11)
        close(info.proposal[k], proposal)
        close(info.energy_error[k], delta)
        close(info.initial_momentum[k], SCALE * v_first)
        close(info.final_momentum[k], SCALE * v_last)
        close(info.acceptance_rate[k], np.exp(-max(0.0, delta)))
        close(new.position[k], x)
        close(new.logdensity[k], -potential(x))
        close(new.gradient[k], -potential_gradient(x))
        assert bool(info.is_accepted[k]) == (z >= delta)
        assert not info.is_diverging[k]


def numpy_hmc(x, momenta, z, h, num_steps, mass):
    """Textbook Hamiltonian Monte Carlo: half a kick, L drifts with kicks between, half a kick."""
    draws = []
    for p_0, z_n in zip(momenta, z, strict=True):
        q, p = x, p_0 - h / 2 * potential_gradient(x)
        for _ in range(num_steps - 1):
            q = q + h * p / mass
            p = p - h * potential_gradient(q)
        q = q + h * p / mass
        p = p - h / 2 * potential_gradient(q)
        before, after = potential(x) + p_0 @ (p_0 / mass) / 2, potential(q) + p @ (p / mass) / 2
        x = q if np.exp(-z_n) <= np.exp(before - after) else x
        draws.append(x)
    return np.array(draws)


@in_double
def test_without_damping_it_is_hmc_draw_for_draw():
    draws, h, num_steps, mass = 200, 0.8, 6, 1.0 / SCALE**2
    keys = jax.vmap(lambda n: fold(KEY, n, 0))(jnp.arange(draws))
    tuning = make_tuning(h, num_steps, 0.0)

    @jax.jit
    def run(state):
        def one(state, key):
            state, info = malt.step(key, state, tuning, value_and_grad, LEAPFROG)
            return state, (state.position, info.is_accepted)

        return jax.lax.scan(one, state, keys)[1]

    start = draw_starts(1)[0]
    positions, accepted = run(malt.init(start, value_and_grad))
    noise, z = map(np.asarray, numbers_of(keys))
    wanted = numpy_hmc(np.asarray(start), noise[:, 0] / SCALE, z, h, num_steps, mass)
    np.testing.assert_allclose(positions, wanted, rtol=1e-7, atol=1e-8)
    assert 0.5 < np.mean(accepted) < 0.99


@pytest.mark.usefixtures("x64", "lenient_promotion")
def test_without_damping_it_proposes_what_blackjax_hmc_does():
    chains, h, num_steps = 10, 0.8, 6
    kinetic_energy = blackjax_metrics.default_metric(jnp.asarray(SCALE**2)).kinetic_energy
    verlet = blackjax_integrators.velocity_verlet(logdensity, kinetic_energy)
    generate = jax.jit(jax.vmap(hmc_proposal(verlet, kinetic_energy, h, num_steps)))
    states = init_chains(draw_starts(chains))
    tuning = make_tuning(h, num_steps, 0.0)
    _, info = run_chains(KEY, 0, states, tuning, value_and_grad, LEAPFROG)
    start = blackjax_integrators.IntegratorState(
        states.position, info.initial_momentum / SCALE, states.logdensity, states.gradient
    )
    _, peer, _ = generate(jax.random.split(jax.random.key(0), chains), start)
    np.testing.assert_allclose(info.proposal, peer.proposal.position, rtol=1e-10)
    np.testing.assert_allclose(info.final_momentum / SCALE, -peer.proposal.momentum, rtol=1e-10)
    np.testing.assert_allclose(info.acceptance_rate, peer.acceptance_rate, rtol=1e-10)


def logistic(x):
    """Two independent logistic variables, the second with scale 1/2."""
    u = x * jnp.asarray([1.0, 2.0], x.dtype)
    return jnp.sum(-u - 2.0 * jax.nn.softplus(-u))


@in_double
@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_accepted_pairs_are_exchangeable(gamma):
    """X of the target and its successor X' swap roles: E[a(X) b(X')] = E[b(X) a(X')]."""
    chains, gradient = 50_000, jax.value_and_grad(logistic)
    x = jnp.asarray(np.random.default_rng(5).logistic(scale=[1.0, 0.5], size=(chains, 2)))
    states = MaltState(x, *jax.vmap(gradient)(x))
    tuning = make_tuning(1.1, 2, gamma, np.ones(2))
    new, info = run_chains(KEY, 0, states, tuning, gradient, LEAPFROG)
    assert 0.5 < np.mean(info.acceptance_rate) < 0.95
    x, y = np.asarray(x), np.asarray(new.position)
    differences = np.hstack([x**3 * y - x * y**3, y**2 - x**2, np.abs(y) - np.abs(x), y - x])
    errors = differences.std(axis=0) / np.sqrt(chains)
    assert np.max(np.abs(differences.mean(axis=0) / errors)) < 4.0


@every_integrator
def test_gradients_are_counted_exactly(integrator):
    """A trajectory of L steps costs L gradients per stage, accepted or not; only init adds one."""
    evaluated = []

    def counted(x):
        jax.debug.callback(lambda x: evaluated.append(x.shape), x)
        return value_and_grad(x)

    @jax.jit
    def run(x, tuning):
        states = jax.vmap(functools.partial(malt.init, value_and_grad=counted))(x)

        def one(n, carry):
            states, accepted = carry
            states, info = advance(KEY, n, states, tuning, counted, integrator)
            return states, accepted + jnp.sum(info.is_accepted)

        return jax.lax.fori_loop(0, transitions, one, (states, 0))

    chains, transitions, num_steps = 3, 5, 4
    tuning = make_tuning(1.3, num_steps, 0.5, dtype=jnp.float32)
    _, accepted = run(draw_starts(chains, np.float32), tuning)
    jax.effects_barrier()
    assert 0 < int(accepted) < chains * transitions
    stages = integrator.gradients_per_step
    assert len(evaluated) == chains * (1 + transitions * num_steps * stages)
    assert set(evaluated) == {(DIM,)}


def test_cost_of_a_run_is_what_the_density_saw():
    traced, evaluated = [], []

    def density(x):
        traced.append(x)
        jax.debug.callback(lambda _: evaluated.append(1), x)
        return logdensity(x)

    target = amalt.Target(density, jnp.zeros(DIM))

    def run(**options):
        traces, evaluations = len(traced), len(evaluated)
        fit = amalt.sample(
            target,
            chains=3,
            settle=4,
            draws=7,
            integrator="two-stage",
            random_seed=1,
            progressbar=False,
            **options,
        )
        jax.effects_barrier()
        cost = fit.cost
        assert cost.traces == len(traced) - traces <= 2
        assert len(evaluated) - evaluations == 3 * (
            cost.gradients_start
            + cost.gradients_warmup
            + cost.gradients_settle
            + cost.gradients_sampling
        )
        return fit

    fit = run(tune=30)
    assert fit.cost.gradients_sampling == 7 * fit.tuning.num_steps * 2
    again = run(tuning=fit.tuning)
    assert again.cost.gradients_warmup == 0
    assert again.cost.gradients_sampling == fit.cost.gradients_sampling


WALLS = {
    "nan": (np.nan, np.nan),
    "minus infinity": (-np.inf, 0.0),
    "plus infinity": (np.inf, 0.0),
    "infinite slope": (0.0, np.inf),
    "nan slope": (0.0, np.nan),
}


@jax.jit
def run_into_a_wall(x, value, slope):
    """Sample a normal density that has the given value and slope where x[0] > 1."""

    def evaluate(x):
        inside = x[0] < 1.0
        return jnp.where(inside, -0.5 * jnp.dot(x, x), value), jnp.where(inside, -x, slope)

    states = MaltState(x, *jax.vmap(evaluate)(x))
    tuning = make_tuning(0.9, 3, 0.5, np.ones(DIM), jnp.float32)
    return states, *advance(KEY, 0, states, tuning, evaluate, LEAPFROG)


@pytest.mark.parametrize("wall", WALLS.values(), ids=WALLS)
def test_non_finite_trajectories_are_rejected_and_flagged(wall):
    x = jnp.minimum(draw_starts(300, np.float32), 0.9)
    states, new, info = run_into_a_wall(x, *map(jnp.float32, wall))
    crossed = ~(np.asarray(info.proposal[:, 0]) < 1.0)
    assert 0.05 < crossed.mean() < 0.6
    np.testing.assert_array_equal(info.is_diverging, crossed)
    assert not np.any(np.asarray(info.is_accepted)[crossed])
    assert np.all(np.asarray(info.acceptance_rate)[crossed] == 0.0)
    assert np.all(np.asarray(info.acceptance_rate)[~crossed] > 0.0)
    for leaf, old in zip(new, states, strict=True):
        assert np.all(np.isfinite(leaf))
        np.testing.assert_array_equal(np.asarray(leaf)[crossed], np.asarray(old)[crossed])


@in_double
@pytest.mark.parametrize("h", [40.0, 1e20, 1e300])
def test_steps_that_explode_are_rejected_and_flagged(h):
    states = init_chains(draw_starts(10))
    tuning = make_tuning(h, 2, 0.5)
    new, info = run_chains(KEY, 0, states, tuning, value_and_grad, LEAPFROG)
    assert np.all(info.is_diverging)
    assert not np.any(info.is_accepted)
    np.testing.assert_array_equal(new.position, states.position)
    np.testing.assert_array_equal(info.acceptance_rate, 0.0)


@in_double
def test_chains_do_not_depend_on_how_many_run():
    states, tuning = init_chains(draw_starts(800)), make_tuning(0.8, 3, 0.5)
    few = jax.tree.map(lambda leaf: leaf[:10], states)
    of_many, _ = run_chains(KEY, 5, states, tuning, value_and_grad, LEAPFROG)
    of_few, _ = run_chains(KEY, 5, few, tuning, value_and_grad, LEAPFROG)
    np.testing.assert_allclose(of_few.position, of_many.position[:10], rtol=1e-12)
