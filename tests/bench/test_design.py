"""What is run: names, lengths, order, and the paper's tables as they are printed."""

import dataclasses

import pytest

from amalt import gym
from amalt.adaptation.settings import PRESETS
from amalt.bench.paper.design import (
    COLUMNS,
    ESS_PER_GRAD,
    ESS_PER_ITER,
    INIT,
    MODELS,
    Run,
    fullness,
    plan,
)

ALL = (tuple(MODELS), tuple(COLUMNS))


def test_the_plan_holds_every_run_once():
    runs = plan(*ALL, seeds=2, chains=64, scale=0.5)
    assert len(runs) == len(set(runs)) == 6 * 6 * 2  # NUTS is run once for its two columns
    assert {run.column for run in runs} == {column.run for column in COLUMNS.values()}
    assert {run.seed for run in runs} == {1, 2}
    assert {(run.chains, run.scale) for run in runs} == {(64, 0.5)}


def test_quick_models_come_first_and_all_their_columns_before_the_next_seed():
    runs = plan(*ALL, seeds=2, chains=128, scale=1.0)
    models = list(dict.fromkeys(run.model for run in runs))
    assert models.index("german-credit") < models.index("item-response")
    assert models[-1] == "stochastic-volatility"
    for model in models:
        assert [run.seed for run in runs if run.model == model] == [1] * 6 + [2] * 6
    guessed = [run.guessed_seconds for run in runs if run.model == models[0] and run.seed == 1]
    assert guessed == sorted(guessed)


def test_averaged_nuts_alone_still_runs_nuts():
    assert [run.column for run in plan(("german-credit",), ("nuts-avg",), 1, 128, 1.0)] == ["nuts"]


def test_file_names_tell_all_runs_apart():
    runs = [
        run
        for chains in (32, 128)
        for scale in (0.2, 0.25, 1.0)
        for run in plan(*ALL, seeds=2, chains=chains, scale=scale)
    ]
    assert len({run.file_name for run in runs}) == len(runs)


def test_the_protocol_is_the_papers():
    run = Run("german-credit", "malt", seed=1)
    assert (run.chains, run.tune, run.settle, run.draws) == (128, 5000, 400, 1600)
    volatility = Run("stochastic-volatility", "malt", seed=1)
    assert (volatility.tune, volatility.settle, volatility.draws) == (5000, 200, 800)


def test_short_runs_keep_at_least_what_can_be_measured():
    run = Run("german-credit", "malt", seed=1, scale=1e-6)
    assert (run.tune, run.settle, run.draws) == (1, 0, 4)


def test_facts_hold_all_that_a_result_depends_on():
    run = Run("german-credit", "malt", seed=1, chains=32, scale=0.2)
    lengths = {"tune": 1000, "settle": 80, "draws": 320, "init": INIT}
    sampler = {"revision": 1, "preset": dataclasses.asdict(PRESETS["malt"]["paper"])}
    assert run.facts == {**dataclasses.asdict(run), **lengths, **sampler}


def test_the_papers_protocol_is_the_fullest():
    protocols = [(0.2, 128), (1.5, 4), (1.0, 128), (2.0, 128), (1.0, 256), (1.0, 32)]
    assert max(protocols, key=lambda one: fullness(*one)) == (1.0, 128)
    protocols.remove((1.0, 128))
    assert max(protocols, key=lambda one: fullness(*one)) == (2.0, 128)


def test_scales_that_differ_have_files_that_differ():
    names = {Run("german-credit", "malt", 1, scale=s).file_name for s in (0.1234567, 0.1234568)}
    assert len(names) == 2


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_name_presets_that_exist(name):
    column = COLUMNS[name]
    assert column.preset in PRESETS[column.method]
    assert COLUMNS[column.run].run == column.run


def test_posteriors_are_built_in():
    assert set(MODELS) <= set(gym.names())


def test_the_papers_tables_have_all_cells():
    """Implied gradients per iteration: exactly ten for GHMC, which is how it is counted."""
    assert set(ESS_PER_GRAD) == set(ESS_PER_ITER) == set(MODELS)
    for model in MODELS:
        assert set(ESS_PER_GRAD[model]) == set(COLUMNS)
        assert set(ESS_PER_ITER[model]) == set(COLUMNS) - {"nuts-avg"}
        assert ESS_PER_ITER[model]["ghmc"] == pytest.approx(10 * ESS_PER_GRAD[model]["ghmc"])
        assert ESS_PER_GRAD[model]["nuts"] <= ESS_PER_GRAD[model]["nuts-avg"]
