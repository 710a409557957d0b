"""Where chains begin: proposals, screening and redraws, and what is said if no point is good."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import amalt
from amalt.randomness import Phase, phase_key, root_key
from amalt.start import find, screen

KEY = phase_key(root_key(7)[0], Phase.START)
EXAMPLE = {"a": jnp.zeros(2), "b": jnp.zeros(())}


def gaussian(x):
    return -0.5 * jnp.sum(x["a"] ** 2) - 0.5 * x["b"] ** 2


def starts(logdensity=gaussian, init="uniform", chains=64, example=None):
    target = amalt.Target(logdensity, EXAMPLE if example is None else example, name="model")
    return find(target, init, KEY, chains)


def positions(*args, **options):
    return np.asarray(starts(*args, **options).states.position)


# --- proposals ---------------------------------------------------------------------------------


def test_uniform_fills_the_box_and_evaluates_the_density():
    found = starts(chains=512)
    x = np.asarray(found.states.position)
    assert found.attempts == 1
    assert x.shape == (512, 3)
    assert np.all(np.abs(x) < 2.0)
    np.testing.assert_allclose(x.mean(0), 0.0, atol=0.2)
    np.testing.assert_allclose(x.std(0), 4.0 / np.sqrt(12.0), rtol=0.1)
    np.testing.assert_allclose(found.states.logdensity, -0.5 * (x**2).sum(1), rtol=1e-5)
    np.testing.assert_allclose(found.states.gradient, -x, rtol=1e-5)


def test_chain_7_begins_at_the_same_point_whatever_the_number_of_chains():
    many = positions(chains=16)
    np.testing.assert_array_equal(positions(chains=8), many[:8])
    assert len(np.unique(many, axis=0)) == 16


def test_redraws_are_the_same_whatever_the_number_of_chains():
    def half(x):
        return jnp.where(x["b"] > 1.0, gaussian(x), -jnp.inf)

    np.testing.assert_array_equal(positions(half, chains=8), positions(half, chains=16)[:8])


def test_jitter_is_around_the_example():
    x = positions(init="jitter", example={"a": jnp.array([10.0, 20.0]), "b": jnp.array(-5.0)})
    assert np.all(np.abs(x - np.array([10.0, 20.0, -5.0])) < 1.0)
    assert x.std(0).min() > 0.3


@pytest.mark.parametrize(
    "init",
    [{"a": np.array([10.0, 20.0]), "b": -5}, np.array([10.0, 20.0, -5.0]), np.array([10, 20, -5])],
)
def test_one_position_is_jittered(init):
    x = positions(init=init)
    assert np.all(np.abs(x - np.array([10.0, 20.0, -5.0])) < 1.0)


@pytest.mark.parametrize("as_pytree", [True, False])
@pytest.mark.parametrize("chains", [1, 3])
def test_one_position_per_chain_is_taken_as_it_is(as_pytree, chains):
    points = np.arange(3.0 * chains).reshape(chains, 3)
    init = {"a": points[:, :2], "b": points[:, 2]} if as_pytree else points
    np.testing.assert_array_equal(positions(init=init, chains=chains), points)


def test_scalar_targets_take_points_with_and_without_an_axis():
    def logdensity(x):
        return -0.5 * x**2

    points = np.array([1.0, 2.0, 3.0])
    for init in (points, points[:, None]):
        found = positions(logdensity, init=init, chains=3, example=0.0)
        np.testing.assert_array_equal(found[:, 0], points)


@pytest.mark.parametrize(
    ("init", "message"),
    [
        ("unifrom", "init='unifrom' is not known; .* Did you mean 'uniform'?"),
        ("", "init='' is not known"),
        (None, "init has the structure"),
        ({"a": np.zeros(2)}, "init has the structure"),
        ({"a": np.zeros(2), "c": 0.0}, "init has the structure"),
        (np.zeros(4), "init has the structure"),
        (np.zeros((2, 3)), "init holds 2 points for 64 chains"),
        ({"a": np.zeros((2, 2)), "b": np.zeros(2)}, "init holds 2 points for 64 chains"),
        ({"a": np.zeros((64, 2)), "b": np.zeros(3)}, "different numbers of points"),
        ({"a": np.zeros((64, 2)), "b": 0.0}, "for every variable alike"),
        ({"a": np.zeros(3), "b": 0.0}, r"init has shape \(3,\) for 'a'; it must be \(2,\)"),
        ({"a": "text", "b": 0.0}, "init holds a str of dtype <U4: pass real numbers"),
        ({"a": np.zeros(2, bool), "b": 0.0}, "dtype bool"),
        ({"a": np.zeros(2, complex), "b": 0.0}, "dtype complex128"),
        ({"a": np.zeros(2, object), "b": 0.0}, "dtype object"),
        ({"a": jax.random.key(1), "b": 0.0}, "init holds a PRNGKeyArray"),
        (lambda: 0.0, "init has the structure|init holds a function"),
        ({"a": np.array([0.0, np.nan]), "b": 0.0}, r"init holds nan for 'a\[1\]'"),
        ({"a": np.array([0.0, 1e39]), "b": 0.0}, r"init holds inf for 'a\[1\]'.*float32"),
        (np.full((64, 3), -np.inf), r"init holds -inf for 'a\[0\]' of chain 0"),
    ],
)
def test_init_that_does_not_fit_is_refused(init, message):
    with pytest.raises(amalt.SettingsError, match=message):
        starts(init=init)


def test_jitter_around_an_example_that_is_not_finite_is_refused():
    with pytest.raises(amalt.SettingsError, match=r"example position.* holds nan for 'a\[1\]'"):
        starts(init="jitter", example={"a": jnp.array([0.0, jnp.nan]), "b": jnp.array(0.0)})
    # For other starting points the values of the example do not matter.
    starts(example={"a": jnp.array([0.0, jnp.nan]), "b": jnp.array(0.0)})


# --- screening ---------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bad_points_are_redrawn_and_good_ones_kept(bad):
    def logdensity(x):
        return jnp.where(x["b"] < 0.0, bad, gaussian(x))

    found = starts(logdensity)
    x, untouched = np.asarray(found.states.position), positions()
    assert 1 < found.attempts < 30
    assert np.all(x[:, 2] >= 0.0)
    was_good = untouched[:, 2] >= 0.0
    np.testing.assert_array_equal(x[was_good], untouched[was_good])
    assert len(np.unique(x, axis=0)) == 64
    np.testing.assert_allclose(found.states.logdensity, -0.5 * (x**2).sum(1), rtol=1e-5)


def test_a_gradient_that_is_not_finite_is_redrawn_too():
    def logdensity(x):
        # Finite everywhere, its derivative is not a number for b < 0.
        return gaussian(x) + 0.0 * jnp.sqrt(jnp.maximum(x["b"], 0.0))

    found = starts(logdensity)
    assert found.attempts > 1
    assert np.all(np.asarray(found.states.position)[:, 2] > 0.0)
    assert np.all(np.isfinite(found.states.gradient))


def test_chains_without_a_point_borrow_one_and_say_so(monkeypatch):
    monkeypatch.setattr(screen, "ATTEMPTS", 3)

    def logdensity(x):
        return jnp.where(x["b"] > 1.4, gaussian(x), jnp.nan)

    with pytest.warns(amalt.AmaltWarning, match="of 64 chains found no point of finite") as caught:
        found = starts(logdensity)
    assert [warning.message.kind for warning in caught] == ["starts"]
    assert found.attempts == 3
    x = np.asarray(found.states.position)
    assert np.all(x[:, 2] > 1.4)
    borrowed = 64 - len(np.unique(x, axis=0))
    assert str(caught[0].message).startswith(f"{borrowed} of 64 chains")
    np.testing.assert_allclose(found.states.logdensity, -0.5 * (x**2).sum(1), rtol=1e-5)


def test_the_warning_points_at_the_call_of_sample(monkeypatch):
    monkeypatch.setattr(screen, "ATTEMPTS", 1)
    target = amalt.Target(lambda x: jnp.where(x > 0.0, -(x**2), jnp.nan), 0.0)
    monkeypatch.setattr("amalt.sampling.Session", None)  # nothing needs to run after the starts
    with pytest.warns(amalt.AmaltWarning) as caught, contextlib.suppress(TypeError):
        amalt.sample(target, chains=16, random_seed=1)
    assert caught[0].filename == __file__


# --- what is said if there is none -------------------------------------------------------------


def message_of(logdensity, **options):
    with pytest.raises(amalt.StartError) as caught:
        starts(logdensity, **options)
    return str(caught.value)


@pytest.mark.parametrize(("bad", "shown"), [(jnp.nan, "nan"), (jnp.inf, "inf"), (-jnp.inf, "-inf")])
def test_a_bad_log_density_names_the_culprit(bad, shown):
    """The example, a = b = 0, is fine; b is fine only there."""

    def logdensity(x):
        return jnp.where(x["b"] == 0.0, gaussian(x), bad)

    message = message_of(logdensity)
    assert message.startswith("none of 64 x 100 starting points is usable: ")
    assert f"the log density of 'model' is {shown}." in message
    assert "The cause is 'b' (b = " in message
    assert "pass starting points with init=" in message
    value = float(message.split("b = ")[1].split(")")[0])
    assert 0.0 < abs(value) < 2.0


def test_a_density_bad_at_the_example_too_says_so():
    message = message_of(lambda x: gaussian(x) * jnp.nan)
    assert "It is not finite at the example position either (a = 0, b = 0)." in message


def test_variables_bad_only_together_are_not_blamed_alone():
    def logdensity(x):
        return jnp.where(x["b"] * x["a"][0] == 0.0, gaussian(x), jnp.nan)

    assert "No single variable does it: they are bad together." in message_of(logdensity)


def test_a_bad_gradient_names_the_entry_and_its_value():
    def logdensity(x):
        return gaussian(x) + 0.0 * jnp.sqrt(0.0 * x["a"][1])

    message = message_of(logdensity)
    assert "but the gradient is nan for 'a[1]' (at a[1] = " in message
    assert "0 * inf in masked branches" in message
    finite = float(message.split("there is ")[1].split(",")[0])
    assert np.isfinite(finite)


@pytest.mark.parametrize("chain", [0, 5])
def test_given_points_are_never_moved_but_refused(chain):
    points = np.zeros((8, 3))
    points[:, 1] = 1.0
    points[chain, 2] = -3.0

    def logdensity(x):
        return jnp.where(x["b"] < 0.0, -jnp.inf, gaussian(x))

    message = message_of(logdensity, init=points, chains=8)
    assert message.startswith(f"init has a bad point for chain {chain}: ")
    assert "The cause is 'b' (b = -3)." in message
    assert "Pass points where log density and gradient are finite." in message


def test_long_lists_of_variables_are_shortened():
    example = {f"v{i:02}": jnp.zeros(()) for i in range(20)}

    def logdensity(x):
        return sum(-(value**2) + 0.0 * jnp.sqrt(0.0 * value) for value in x.values())

    message = message_of(logdensity, example=example)
    assert "'v04' and 15 more" in message
