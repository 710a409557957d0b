"""The baselines behind `amalt.sample`: exact, counted as the paper counts, refused where wrong."""

import importlib
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import amalt
from amalt.cli.app import app
from amalt.diagnostics.ess import ess
from amalt.errors import SettingsError
from amalt.methods import nuts

SD = np.array([0.3, 1.0, 4.0])
MEAN = np.array([1.0, -2.0, 30.0])
METHODS = [("rhmc", "paper"), ("rhmc", "paper-exponential"), ("ghmc", "paper"), ("nuts", "paper")]
every_method = pytest.mark.parametrize(("method", "preset"), METHODS)


def target():
    def logdensity(x):
        y = (x["x"] - jnp.asarray(MEAN, jnp.float32)) / jnp.asarray(SD, jnp.float32)
        # Heavier in the middle than a Gaussian: a density that no leapfrog solves exactly.
        return -jnp.sum(0.25 * y**4)

    return amalt.Target(logdensity, {"x": jnp.asarray(MEAN, jnp.float32)}, name="quartic")


def run(method, preset="paper", **options):
    options = {
        "chains": 64,
        "tune": 600,
        "draws": 200,
        "random_seed": 3,
        "init": "jitter",
        **options,
    }
    return amalt.sample(target(), method=method, preset=preset, progressbar=False, **options)


@every_method
def test_moments(method, preset):
    """E y = 0 and E y^2 = 2 Gamma(3/4) / Gamma(1/4) for a density exp(-y^4 / 4)."""
    fit = run(method, preset)
    y = (fit.unconstrained.astype(np.float64) - MEAN) / SD
    for values, wanted in ((y, 0.0), (y**2, 0.6759782)):
        error = values.std(axis=(0, 1)) / np.sqrt(ess(values))
        # Twelve comparisons for each method.
        assert np.all(np.abs(values.mean(axis=(0, 1)) - wanted) < 4.0 * error)
    assert fit.ok


@every_method
def test_gradients_are_those_of_the_chain_that_takes_most(method, preset):
    fit = run(method, preset, tune=200, draws=50)
    steps = fit.sample_stats["n_steps"].values
    assert fit.cost.gradients_sampling == steps.max(axis=0).sum()
    assert fit.cost.gradients_warmup == fit.warmup["num_steps"].sum()
    if method == "ghmc":
        assert np.all(steps == 10)
    elif method == "rhmc":
        assert np.all(steps == steps[:1])
        assert len(np.unique(steps)) > 1
    else:
        assert np.any(steps != steps[:1])
        # The first iterations, a tenth of the warm-up, make trees of one step.
        assert np.all(fit.warmup["num_steps"].values[:20] == 1)


@pytest.mark.parametrize("method", ["rhmc", "nuts"])
def test_what_was_learned_serves_another_run(method):
    first = run(method)
    again = run(method, tune=None, tuning=first.tuning, init=first.unconstrained[:, -1])
    assert again.cost.gradients_warmup == 0
    assert again.tuning.step_size == first.tuning.step_size
    assert again.ok


def test_trees_end_where_those_of_the_papers_baseline_do():
    """A tree whose ends decide: counted whole it goes on, counted by half it turns."""
    inverse_mass = jnp.ones(2)
    left, right, between = jnp.eye(2)[0], jnp.eye(2)[1], jnp.asarray([-0.7, 0.0])
    theirs = importlib.import_module("blackjax.mcmc.metrics").gaussian_euclidean(inverse_mass)
    tree = (left, right, left + between + right)
    assert theirs.check_turning(*tree)
    assert not nuts._metric(inverse_mass).check_turning(*tree)
    further = (left, right, left + 2 * between + right)
    assert nuts._metric(inverse_mass).check_turning(*further)


def test_nuts_follows_the_metric():
    """A tree turns in the space of velocities: stretching an axis changes nothing."""
    stretch = jnp.asarray([1.0, 100.0])
    p_left, p_right = jnp.asarray([1.0, 0.3]), jnp.asarray([-0.4, 1.0])
    total = jnp.asarray([0.7, 0.2])
    plain = nuts._metric(jnp.ones(2)).check_turning(p_left, p_right, total)
    scaled = nuts._metric(stretch**2).check_turning(
        p_left / stretch, p_right / stretch, total / stretch
    )
    assert bool(plain) == bool(scaled)


def test_nuts_says_what_to_install(monkeypatch):
    nuts._blackjax.cache_clear()

    def missing(name, *rest):
        raise ImportError(name)

    monkeypatch.setattr(nuts.importlib, "import_module", missing)
    with pytest.raises(SettingsError, match=r"pip install 'amalt\[bench\]'"):
        run("nuts", tune=10, draws=10)
    nuts._blackjax.cache_clear()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "nuts", "integrator": "two-stage"}, "method='nuts' has 'leapfrog' only"),
        ({"method": "ghmc", "chains": 18}, "pass a multiple of 4"),
        ({"method": "ghmc", "target_accept": 0.9}, "takes its step size from gradients"),
        ({"method": "rhmc", "preset": amalt.MaltSettings()}, "needs lengths that vary"),
        ({"method": "malt", "preset": amalt.MaltSettings(jitter="uniform")}, "for method='rhmc'"),
        (
            {"method": "rhmc", "tune": None, "tuning": amalt.Tuning(0.1, 1.0, 0.5)},
            "moves without damping",
        ),
        (
            {"method": "nuts", "tune": None, "tuning": amalt.Tuning(0.1, 1.0, 0.0)},
            "has an integration time or damping",
        ),
        ({"method": "ghmc", "tune": None, "tuning": amalt.Tuning(0.1, 1.0, 0.0)}, "tunes itself"),
    ],
)
def test_settings_of_another_method_are_refused(options, message):
    method = options.pop("method")
    with pytest.raises(SettingsError, match=message):
        run(method, **options)


def test_nuts_refuses_another_precision():
    narrow = target()
    with (
        jax.enable_x64(True),
        pytest.raises(SettingsError, match="computes in JAX's own precision"),
    ):
        amalt.sample(narrow, method="nuts", chains=4, tune=10, draws=10, progressbar=False)


def test_the_command_line_has_the_baselines():
    options = "--method rhmc --preset paper-exponential --chains 8 --tune 60 --draws 20 --json"
    result = CliRunner().invoke(app, ["sample", "banana", *options.split()])
    settings = json.loads(result.stdout)["settings"]
    assert (settings["method"], settings["jitter"]) == ("rhmc", "exponential")
