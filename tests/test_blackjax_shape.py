"""The kernel in BlackJAX's shape, run by BlackJAX's own programs and against its HMC."""

import functools
import subprocess
import sys

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.mcmc import hmc, integrators, metrics
from blackjax.util import run_inference_algorithm

from amalt import blackjax as ours
from amalt.errors import SettingsError
from amalt.kernels import LEAPFROG, TWO_STAGE
from amalt.randomness import key_words, normal

pytestmark = pytest.mark.usefixtures("lenient_promotion")

MEAN = {"a": np.array([1.0, -2.0]), "b": np.array(0.5)}
SD = {"a": np.array([0.3, 2.0]), "b": np.array(1.0)}
INVERSE_MASS = np.array([0.3, 2.0, 1.0]) ** 2
START = {"a": jnp.zeros(2), "b": jnp.zeros(())}


def logdensity_fn(x):
    z = jax.tree.map(lambda leaf, mean, sd: (leaf - mean) / sd, x, MEAN, SD)
    return -0.5 * (jnp.sum(z["a"] ** 2) + z["b"] ** 2)


def make(step_size=0.8, inverse_mass_matrix=INVERSE_MASS, steps=2, damping=1.0, **options):
    return ours.as_top_level_api(
        logdensity_fn, step_size, inverse_mass_matrix, steps, damping, **options
    )


def check_moments(positions, batch=50):
    """Compare draws ``[..., draw]`` with the truth, in errors estimated from batches of draws."""
    for name, draws in positions.items():
        z = (np.asarray(draws, np.float64) - MEAN[name]) / SD[name]
        for f, wanted in ((z, 0.0), (z**2, 1.0)):
            means = f.reshape(-1, batch, *MEAN[name].shape).mean(axis=1)
            error = means.std(axis=0) / np.sqrt(len(means))
            assert np.all(np.abs(means.mean(axis=0) - wanted) < 4.0 * error), name
            assert np.all(error < 0.05)


@pytest.mark.parametrize(
    ("make_key", "integrator", "step_size"),
    [(jax.random.key, LEAPFROG, 0.8), (jax.random.PRNGKey, TWO_STAGE, 1.8)],
    ids=["new key, leapfrog", "old key, two-stage"],
)
def test_blackjax_runs_it_as_it_is(make_key, integrator, step_size):
    algorithm = make(step_size, integrator=integrator)
    final, (states, info) = run_inference_algorithm(
        make_key(1), algorithm, 4000, initial_position=START
    )
    assert jax.tree.structure(final.position) == jax.tree.structure(START)
    check_moments({name: leaf[500:] for name, leaf in states.position.items()})
    assert 0.7 < np.mean(info.acceptance_rate) < 0.999
    assert abs(np.mean(info.is_accepted) - np.mean(info.acceptance_rate)) < 0.03
    np.testing.assert_array_equal(info.num_integration_steps, 2)
    assert not np.any(info.is_divergent)


def test_chains_run_under_vmap():
    algorithm = make()
    states = jax.vmap(algorithm.init)(jax.tree.map(lambda x: jnp.zeros((40, *x.shape)), START))

    @jax.jit
    def one_step(states, key):
        states, _ = jax.vmap(algorithm.step)(jax.random.split(key, 40), states)
        return states, states.position

    _, positions = jax.lax.scan(one_step, states, jax.random.split(jax.random.key(2), 220))
    by_chain = {name: jnp.moveaxis(leaf[20:], 0, 1) for name, leaf in positions.items()}
    check_moments(by_chain)


def test_without_damping_it_is_blackjax_hmc():
    """The same momentum gives the same proposal, and the acceptance rate that goes with it."""
    x, inverse_mass, h, steps = jnp.array([0.4, -0.3]), jnp.array([0.5, 2.0]), 0.7, 5

    def density(x):
        return -jnp.sum(jnp.cosh(x))

    kernel = jax.jit(ours.build_kernel(), static_argnums=2)
    kinetic_energy = metrics.default_metric(inverse_mass).kinetic_energy
    verlet = integrators.velocity_verlet(density, kinetic_energy)
    generate = jax.jit(hmc.hmc_proposal(verlet, kinetic_energy, h, steps))
    accepted = []
    for seed in range(8):
        key = jax.random.key(seed)
        new, info = kernel(key, ours.init(x, density), density, h, inverse_mass, steps, 0.0)
        momentum = normal(key_words(key), 0, x.shape, x.dtype) / jnp.sqrt(inverse_mass)
        state = integrators.new_integrator_state(density, x, momentum)
        peer = generate(key, state)[1]
        np.testing.assert_allclose(info.acceptance_rate, peer.acceptance_rate, rtol=1e-4)
        accepted.append(bool(info.is_accepted))
        if accepted[-1]:
            np.testing.assert_allclose(new.position, peer.proposal.position, rtol=1e-4)
    assert any(accepted)


def test_blackjax_window_adaptation_tunes_it():
    warmup = blackjax.window_adaptation(
        ours, logdensity_fn, integrator=LEAPFROG, num_integration_steps=3, damping=1.0
    )
    (state, parameters), _ = warmup.run(jax.random.key(3), START, num_steps=600)
    np.testing.assert_allclose(parameters["inverse_mass_matrix"], INVERSE_MASS, rtol=0.5)
    algorithm = ours.as_top_level_api(logdensity_fn, **parameters)
    _, (states, info) = run_inference_algorithm(
        jax.random.key(4), algorithm, 2000, initial_state=state
    )
    check_moments(states.position)
    assert 0.6 < np.mean(info.acceptance_rate) < 0.97


def test_traced_and_static_numbers_give_the_same_step():
    state, key = ours.init(START, logdensity_fn), jax.random.key(5)
    kernel = functools.partial(ours.build_kernel(), logdensity_fn=logdensity_fn)
    numbers = {
        "step_size": 0.8,
        "inverse_mass_matrix": INVERSE_MASS,
        "num_integration_steps": 3,
        "damping": 0.5,
    }
    traced = jax.jit(lambda key, state, numbers: kernel(key, state, **numbers))(key, state, numbers)
    static = jax.jit(lambda key, state: kernel(key, state, **numbers))(key, state)
    eager = kernel(key, state, **numbers)
    for a, b in ((traced, static), (traced, eager)):
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5), a, b)


def test_state_holds_position_density_and_gradient():
    position = {"a": jnp.array([0.1, 0.2]), "b": 0.3}
    state = ours.init(position, logdensity_fn)
    value, gradient = jax.value_and_grad(logdensity_fn)(position)
    assert state._fields == ("position", "logdensity", "logdensity_grad")
    assert state._fields == hmc.HMCState._fields
    np.testing.assert_allclose(state.logdensity, value, rtol=1e-6)
    for name in position:
        np.testing.assert_array_equal(state.position[name], jnp.float32(position[name]))
        np.testing.assert_allclose(state.logdensity_grad[name], gradient[name], rtol=1e-6)


def test_inverse_mass_may_be_one_number():
    key, state = jax.random.key(6), ours.init(START, logdensity_fn)
    one, many = make(inverse_mass_matrix=0.49), make(inverse_mass_matrix=jnp.full(3, 0.49))
    one, many = one.step(key, state), many.step(key, state)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-6), one, many)


def test_double_precision_is_kept():
    with jax.enable_x64(True):
        algorithm = ours.as_top_level_api(lambda x: -jnp.sum(jnp.cosh(x["a"])), 0.8, 1.0, 2, 1.0)
        state, info = algorithm.step(jax.random.key(7), algorithm.init({"a": jnp.ones(2)}))
    for leaf in jax.tree.leaves((state, info.energy_error, info.acceptance_rate)):
        assert leaf.dtype == np.float64


def test_divergence_is_reported_and_leaves_the_state():
    state = ours.init(START, logdensity_fn)
    new, info = make(step_size=1e4, steps=5).step(jax.random.key(8), state)
    assert bool(info.is_divergent)
    assert not bool(info.is_accepted)
    jax.tree.map(np.testing.assert_array_equal, new, state)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"step_size": 0.0}, "step_size=0.0"),
        ({"step_size": np.nan}, "step_size=nan"),
        ({"damping": -1.0}, "damping=-1.0"),
        ({"damping": np.inf}, "damping=inf"),
        ({"steps": 0}, "num_integration_steps=0"),
        ({"steps": 2.5}, "num_integration_steps=2.5"),
        ({"inverse_mass_matrix": np.array([1.0, 0.0, 1.0])}, "inverse_mass_matrix=.* positive"),
        ({"inverse_mass_matrix": np.ones(2)}, r"shape \(2,\): .* 3"),
        ({"inverse_mass_matrix": np.eye(3)}, r"shape \(3, 3\): .* diagonal"),
    ],
)
def test_numbers_that_cannot_be_used_are_named(wrong, message):
    state = ours.init(START, logdensity_fn)
    with pytest.raises(SettingsError, match=message):
        jax.jit(make(**wrong).step)(jax.random.key(0), state)


def test_integrators_of_blackjax_are_refused():
    with pytest.raises(SettingsError, match="LEAPFROG"):
        ours.build_kernel(integrators.velocity_verlet)


@pytest.mark.parametrize("leaf", [1, jnp.array([1, 2]), True, 1j])
def test_positions_that_are_not_real_are_named(leaf):
    with pytest.raises(SettingsError, match="'b'"):
        ours.init({"a": 0.0, "b": leaf}, lambda x: -(x["a"] ** 2))


def test_blackjax_need_not_be_installed():
    program = "import sys; sys.modules['blackjax'] = None; import amalt.blackjax"
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
