"""The data of the evolution and variance figures: real studies, made small."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import amalt
from amalt.bench.paper import grid, studies
from amalt.errors import AmaltError
from amalt.kernels import malt
from amalt.randomness import root_key


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(studies, "POINTS", 2)
    monkeypatch.setitem(studies.GRIDS, "german-credit", studies.Ranges(0.1, 0.3, 4.0))


def test_evolution_measures_every_point_once_and_goes_on(tmp_path, small, monkeypatch):
    monkeypatch.setattr(studies, "_warm_up", functools.cache(studies._warm_up))
    data = studies.evolution("german-credit", tmp_path, chains=16, scale=0.02)
    learned = data["learned"]
    wanted = {(tau, gamma) for tau in (0.1, 0.3) for gamma in (0.0, 4.0)}
    wanted.add((learned["integration_time"], learned["damping"]))
    points = {(p["integration_time"], p["damping"]): p for p in data["points"]}
    assert set(points) == wanted
    assert len(data["points"]) == 5
    for (tau, _), point in points.items():
        assert point["num_steps"] == np.ceil(tau / point["step_size"] * (1.0 - 1e-5))
        assert point["ess_per_grad"] > 0.0
    assert len(data["trace"]["damping"]) == data["tune"] / studies.EVERY == 20

    path = studies.study_path(tmp_path, "evolution", "german-credit")
    assert studies.load_study(tmp_path, "evolution", "german-credit") == data
    assert "of the best of 4 points" in studies.sentence(data)

    # Two points are lost, as if the command had been stopped: those two are made again, alike.
    studies.results.write(path, {**data, "points": data["points"][:3]})
    again = studies.evolution("german-credit", tmp_path, chains=16, scale=0.02)
    assert again["points"] == data["points"]

    monkeypatch.setattr(studies, "_warm_up", None)  # a finished study calls nothing
    assert studies.evolution("german-credit", tmp_path, chains=16, scale=0.02) == data


def test_variance_runs_each_estimator_for_each_seed_and_goes_on(tmp_path, monkeypatch):
    made = []

    def warm_up(model, chains, tune, seed, *, two_directional):
        made.append((seed, two_directional))
        tau = np.random.default_rng(seed).normal(3.0, 0.1 if two_directional else 0.2, tune)
        trace = {"integration_time": ("step", tau.astype(np.float32))}
        return type("Fit", (), {"warmup": amalt.posterior.xr.Dataset(trace)})

    monkeypatch.setattr(studies, "_warm_up", warm_up)
    studies.variance("german-credit", tmp_path, chains=16, scale=1.0, seeds=1)
    data = studies.variance("german-credit", tmp_path, chains=16, scale=1.0, seeds=2)
    assert made == [(1, False), (1, True), (2, False), (2, True)]
    one, two = studies.mean_variances(data)
    # The variance of 2500 independent normals is known to sqrt(2 / 2500), of two runs to less.
    assert one == pytest.approx(0.04, rel=4 * np.sqrt(1 / 2500))
    assert two == pytest.approx(0.01, rel=4 * np.sqrt(1 / 2500))
    assert [len(run["trace"]) for run in data["runs"]] == [500] * 4
    assert "a ratio of 0.25 (means over 2 runs" in studies.sentence(data)


def test_settings_that_differ_begin_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(studies, "INIT", "elsewhere")
    path = studies.study_path(tmp_path, "variance", "german-credit")
    old = {"study": "variance", "model": "german-credit", "chains": 4, "runs": [1]}
    studies.results.write(path, old)

    def refuse(*_, **__):
        raise AssertionError("it ran")

    monkeypatch.setattr(studies, "_warm_up", refuse)
    with pytest.raises(AssertionError, match="it ran"):
        studies.variance("german-credit", tmp_path, chains=4, scale=1.0, seeds=1)


def test_a_study_of_another_length_is_another_study(tmp_path, monkeypatch):
    path = studies.study_path(tmp_path, "variance", "german-credit")
    run = {"seed": 1, "variance": 0.1, "trace": [3.0]}
    runs = [{**run, "two_directional": two} for two in (False, True)]
    full = {"study": "variance", "model": "german-credit", "runs": runs}
    for chains, scale in ((128, 1.0), (16, 0.1), (256, 2.0)):
        path = studies.study_path(tmp_path, "variance", "german-credit", chains, scale)
        studies.results.write(path, {**full, "chains": chains, "scale": scale})
    assert len(list(tmp_path.iterdir())) == 3
    shown = studies.load_study(tmp_path, "variance", "german-credit")
    assert shown is not None
    assert (shown["chains"], shown["scale"]) == (128, 1.0)
    shown = studies.load_study(tmp_path, "variance", "german-credit", chains=16)
    assert shown is not None
    assert shown["scale"] == 0.1


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"study": "variance", "model": "german-credit"}',
        '{"study": "variance", "model": "german-credit", "chains": 8, "scale": 1, "runs": [{}]}',
        '{"study": "variance", "model": "german-credit", "chains": 8, "scale": 1, "runs": 3}',
    ],
)
def test_damaged_studies_are_none(tmp_path, content):
    studies.study_path(tmp_path, "variance", "german-credit").write_text(content)
    assert studies.load_study(tmp_path, "variance", "german-credit") is None


def test_posteriors_without_a_grid_are_refused(tmp_path):
    with pytest.raises(AmaltError, match="brownian-bridge has no grid to search; choose from"):
        studies.evolution("brownian-bridge", tmp_path, 16, 1.0)


def test_at_a_point_only_the_step_size_is_learned():
    """On N(0, diag(4, 1)) with its variances given: acceptance 0.8, and draws of the target.

    800 draws of 64 chains: the mean acceptance is known to better than 0.005, h hovers a few per
    cent around its goal, which moves the acceptance by less than 0.03; and variances by the
    multi-chain ESS of the squares, four standard errors.
    """
    sd = np.array([2.0, 1.0], np.float32)
    target = amalt.Target(lambda x: -0.5 * jnp.sum((x / sd) ** 2), jnp.zeros(2))
    explore = grid.explorer(target, sd.astype(np.float64) ** 2, root_key(1)[0], 300, 800)
    starts = jnp.asarray(sd * np.random.default_rng(1).normal(size=(64, 2)).astype(np.float32))
    states = jax.vmap(lambda x: malt.init(x, target.value_and_grad))(starts)
    point = explore(states, jnp.float32(0.01), jnp.float32(8.0), jnp.float32(0.5))
    draws = np.asarray(point.positions, np.float64)
    assert draws.shape == (64, 800, 2)
    assert float(point.acceptance_rate) == pytest.approx(0.8, abs=0.03)
    assert int(point.num_steps) == np.ceil(8.0 / float(point.step_size))
    size = amalt.diagnostics.ess.ess(draws**2)
    z = ((draws**2).mean(axis=(0, 1)) - sd**2) / ((draws**2).std(axis=(0, 1)) / np.sqrt(size))
    assert np.abs(z).max() < 4.0
