"""The call: every argument is checked before anything is compiled, in words that help."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import amalt
from amalt.arguments import FOREIGN, HINTS
from amalt.kernels import TWO_STAGE
from amalt.randomness import root_key

TUNING = amalt.Tuning(step_size=1.0, integration_time=1.0, damping=0.5)


def evaluated(_):
    """Stand for a log density of which an argument error must be independent."""
    raise AssertionError("the log density was traced before the arguments were checked")


def target(logdensity=evaluated):
    return amalt.Target(logdensity, jnp.zeros(2))


def gaussian(x):
    return -0.5 * jnp.sum(x**2)


# --- keywords ----------------------------------------------------------------------------------


@pytest.mark.parametrize("word", FOREIGN)
def test_words_of_other_libraries_are_translated(word):
    library, ours = FOREIGN[word]
    with pytest.raises(TypeError, match=rf"{library}'s {word} is '{ours}' here"):
        amalt.sample(target(), **{word: 3})


@pytest.mark.parametrize("word", HINTS)
def test_words_without_a_translation_are_explained(word):
    with pytest.raises(TypeError, match=f"sample.. got '{word}': "):
        amalt.sample(target(), **{word: 3})


@pytest.mark.parametrize(
    ("word", "hint"), [("drws", "draws"), ("chain", "chains"), ("n_chains", "chains")]
)
def test_misspelled_keywords_get_a_hint(word, hint):
    with pytest.raises(TypeError, match=f"unexpected keyword '{word}'. Did you mean '{hint}'?"):
        amalt.sample(target(), **{word: 3})


def test_keywords_like_nothing_known_get_none():
    with pytest.raises(TypeError, match=r"unexpected keyword 'zzz'\.$"):
        amalt.sample(target(), zzz=3)


# --- values ------------------------------------------------------------------------------------

BAD_COUNTS = [2.0, 3.5, True, "8", None, -1, 2**31, np.float32(2.0), [4], float("nan"), jnp.ones(1)]


@pytest.mark.parametrize("name", ["chains", "draws"])
@pytest.mark.parametrize("value", [*BAD_COUNTS, 0])
def test_counts_must_be_whole_and_positive(name, value):
    with pytest.raises(amalt.SettingsError, match=f"^{name}="):
        amalt.sample(target(), **{name: value})


@pytest.mark.parametrize("name", ["tune", "settle"])
@pytest.mark.parametrize("value", [value for value in BAD_COUNTS if value is not None])
def test_counts_of_steps_must_be_whole(name, value):
    with pytest.raises(amalt.SettingsError, match=f"^{name}="):
        amalt.sample(target(), **{name: value})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tune": 0}, "tune=0 leaves step size and trajectory length unknown: pass tuning="),
        ({"tune": 100, "tuning": TUNING}, "tune=100 and tuning= were both given"),
        ({"tuning": {"step_size": 1.0}}, "tuning is a dict: pass fit.tuning"),
        ({"method": "nutz"}, "method='nutz' is not known.*Did you mean 'nuts'"),
        ({"method": None}, "method=None is not known"),
        ({"preset": "papre"}, "preset='papre' is not known.*Did you mean 'paper'"),
        ({"preset": None}, "preset=None is a NoneType: pass a name such as 'paper'"),
        ({"preset": {"max_steps": 3}}, "is a dict: pass a name"),
        ({"preset": amalt.MaltSettings}, "is a type: pass a name"),
        ({"target_accept": 0.0}, "target_accept=0.0: it must be between 0 and 1"),
        ({"target_accept": 1.0}, "target_accept=1.0: it must be between 0 and 1"),
        ({"target_accept": 80}, "target_accept=80.0: it must be"),
        ({"target_accept": float("nan")}, "target_accept=nan: it must be"),
        ({"target_accept": "0.8"}, "target_accept='0.8' is a str: pass a number"),
        ({"target_accept": True}, "target_accept=True is a bool: pass a number"),
        ({"target_accept": np.ones(2)}, "is a ndarray: pass a number"),
        ({"integrator": "leapfog"}, "integrator='leapfog' is not known.*Did you mean 'leapfrog'"),
        ({"integrator": None}, "integrator=None is not known"),
        ({"integrator": ["leapfrog"]}, "is not known; choose from"),
        ({"keep_warmup": "no"}, "keep_warmup='no' is a str: pass True or False"),
        ({"progressbar": 1}, "progressbar=1 is a int: pass True or False"),
        ({"random_seed": -1}, "random_seed=-1: it must be between 0 and"),
        ({"random_seed": 2**64}, "random_seed=18446744073709551616: it must be"),
        ({"random_seed": 1.0}, "random_seed=1.0 is a float: pass an integer"),
        ({"random_seed": True}, "random_seed=True is a bool"),
        ({"random_seed": "1"}, "random_seed='1' is a str"),
        ({"random_seed": np.random.default_rng(1)}, "pass an integer"),
        ({"random_seed": [1, 2]}, "is a list: pass an integer"),
        ({"random_seed": jax.random.split(jax.random.key(1))}, "has shape .2,.: pass one key"),
        ({"random_seed": jax.random.PRNGKey(1)}, "a key from jax.random.key, or None"),
        ({"draws": 2**31 - 1, "chains": 10**6}, "draws=2147483647 of 2 numbers take .* GiB"),
        ({"chains": 2**31 - 1}, "chains=2147483647 and draws=250 of 2 numbers take"),
        ({"tune": 2**31 - 1, "chains": 10**6, "keep_warmup": True}, "lower draws or chains"),
    ],
)
def test_values_that_cannot_be_used_are_refused(options, message):
    with pytest.raises(amalt.SettingsError, match=message):
        amalt.sample(target(), **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 1.0, 0.0), "step_size=0.0: it must be positive and finite"),
        ((1.0, -1.0, 0.0), "integration_time=-1.0: it must be positive"),
        ((1.0, 1.0, -0.1), "damping=-0.1: it must be zero or positive"),
        ((1.0, 1.0, float("inf")), "damping=inf"),
        ((float("nan"), 1.0, 0.0), "step_size=nan"),
        (("1", 1.0, 0.0), "step_size='1' is a str: pass a number"),
        ((None, 1.0, 0.0), "step_size=None is a NoneType"),
        ((1e-9, 1.0, 0.0), "a trajectory of over a million steps"),
        ((1.0, 1.0, 0.0, 0.0), "variances holds 0.0: all must be positive"),
        ((1.0, 1.0, 0.0, [1.0, np.nan]), "variances holds nan"),
        ((1.0, 1.0, 0.0, np.ones((2, 2))), r"variances has shape \(2, 2\)"),
        ((1.0, 1.0, 0.0, "many"), "variances is a str"),
        ((1.0, 1.0, 0.0, None), "variances holds nan"),
        ((1.0, 1.0, 0.0, [[1.0], [1.0, 2.0]]), "variances is a list"),
    ],
)
def test_tunings_that_no_trajectory_can_use_are_refused(arguments, message):
    with pytest.raises(amalt.SettingsError, match=message):
        amalt.Tuning(*arguments)


def test_a_tuning_of_another_dimension_is_refused():
    tuning = amalt.Tuning(1.0, 1.0, 0.0, np.ones(3))
    with pytest.raises(
        amalt.SettingsError, match=r"variances has shape \(3,\); the target has dim"
    ):
        amalt.sample(target(gaussian), tuning=tuning, chains=2)


# --- what is good ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return target(gaussian)


def draws_of(model, **options):
    options = {"chains": 4, "draws": 8, "tuning": TUNING, "settle": 0} | options
    return amalt.sample(model, **options)


@pytest.mark.parametrize(
    ("seed", "recorded"),
    [(0, 0), (np.uint8(7), 7), (2**64 - 1, 2**64 - 1), (jax.random.key(5), "key 0 5")],
)
def test_seeds_of_many_kinds_are_recorded(seed, recorded):
    assert root_key(seed)[1] == recorded
    np.testing.assert_array_equal(root_key(seed)[0], root_key(seed)[0])


def test_no_seed_is_a_fresh_one_that_is_recorded(model):
    first, second = draws_of(model), draws_of(model)
    assert first.attrs["random_seed"] != second.attrs["random_seed"]
    again = draws_of(model, random_seed=first.attrs["random_seed"])
    np.testing.assert_array_equal(first.unconstrained, again.unconstrained)
    assert np.all(first.unconstrained != second.unconstrained)


def test_an_integrator_by_name_or_as_it_is(model):
    named = draws_of(model, random_seed=1, integrator="two-stage")
    given = draws_of(model, random_seed=1, integrator=TWO_STAGE)
    np.testing.assert_array_equal(named.unconstrained, given.unconstrained)
    # The tuning has one step a draw, two gradients each.
    assert named.cost.gradients_sampling == 8 * 2


def test_numbers_of_numpy_are_numbers(model):
    fit = draws_of(model, chains=np.int32(3), draws=np.int64(5), settle=np.uint8(1), tune=0)
    assert fit.unconstrained.shape == (3, 5, 2)
    tuning = amalt.Tuning(np.float32(1.0), jnp.float32(1.0), np.array(0.5), np.ones(2))
    assert tuning.step_size == 1.0
    assert isinstance(tuning.integration_time, float)
