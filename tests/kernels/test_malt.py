"""Algorithm 1 against an independent NumPy version, and the identities that it must obey."""

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
from amalt.kernels.integrators import INTEGRATORS, LEAPFROG, PhasePoint, integrate_step
from amalt.kernels.malt import MaltState, MaltTuning
from amalt.kernels.metric import DiagonalMetric
from amalt.randomness import ACCEPT, chain_keys, exponential, fold, normal
from amalt.run.block import advance

every_integrator = pytest.mark.parametrize("integrator", INTEGRATORS.values(), ids=INTEGRATORS)
in_double = pytest.mark.usefixtures("x64")

DIM = 5
KEY = np.array([20, 24], np.uint32)
PRECISION = np.diag([1.0, 2.0, 0.5, 1.5, 1.0]) + 0.3 * np.eye(DIM, k=1) + 0.3 * np.eye(DIM, k=-1)
SCALE = np.array([1.0, 0.5, 0.9, 0.7, 0.8])


def logdensity(x):
    return -0.5 * x @ jnp.asarray(PRECISION, x.dtype) @ x - jnp.sum(jnp.cosh(x))


value_and_grad = jax.value_and_grad(logdensity)


def potential(x):
    return 0.5 * x @ PRECISION @ x + np.cosh(x).sum()


def potential_gradient(x):
    return PRECISION @ x + np.sinh(x)


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


def make_tuning(h, num_steps, gamma, scale=SCALE, dtype=jnp.float64):
    metric = DiagonalMetric(jnp.asarray(scale, dtype), jnp.ones((), dtype))
    return MaltTuning(
        jnp.asarray(h, dtype), jnp.int32(num_steps), jnp.asarray(gamma, dtype), metric
    )


def draw_starts(count, dtype=np.float64):
    return jnp.asarray(np.random.default_rng(1).normal(size=(count, DIM)) * 0.8, dtype)


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


@pytest.mark.usefixtures("lenient_promotion")
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


@in_double
def test_chains_do_not_depend_on_how_many_run():
    states, tuning = init_chains(draw_starts(800)), make_tuning(0.8, 3, 0.5)
    few = jax.tree.map(lambda leaf: leaf[:10], states)
    of_many, _ = run_chains(KEY, 5, states, tuning, value_and_grad, LEAPFROG)
    of_few, _ = run_chains(KEY, 5, few, tuning, value_and_grad, LEAPFROG)
    np.testing.assert_allclose(of_few.position, of_many.position[:10], rtol=1e-12)
