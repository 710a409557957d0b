"""What a run promises: same seed same draws, blocks that do not matter, costs that are exact."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import amalt
from amalt.run import loop
from amalt.run.progress import Silent

TUNE, DRAWS, SETTLE = 230, 150, 19
OPTIONS = {"chains": 8, "tune": TUNE, "draws": DRAWS, "settle": SETTLE, "random_seed": 5}
TUNING = amalt.Tuning(step_size=0.4, integration_time=1.1, damping=0.5, variances=[1.0, 4.0])
TUNING_1D = amalt.Tuning(step_size=0.4, integration_time=1.1, damping=0.5)


class Counted:
    """A log density that knows how often Python has run it."""

    def __init__(self):
        self.runs = 0

    def __call__(self, x):
        self.runs += 1
        return -0.5 * x["a"] ** 2 - 0.5 * jnp.sum((x["b"] / 2.0) ** 2)


class Listener(Silent):
    """A reporter that remembers what it was told."""

    def __init__(self):
        self.phases = {}
        self.advances = []

    def start(self, phase, total):
        self.phases[phase] = total

    def advance(self, steps, note):
        self.advances.append(int(steps))


@pytest.fixture(scope="module")
def counted():
    return Counted()


@pytest.fixture(scope="module")
def target(counted):
    return amalt.Target(counted, {"a": 0.0, "b": jnp.zeros(1)})


@pytest.fixture(scope="module")
def fit(target):
    return amalt.sample(target, keep_warmup=True, **OPTIONS)


def assert_same_numbers(first, second):
    """Everything is equal bit for bit but times, and block ends."""
    for name, group in first.to_datatree().children.items():
        ours, theirs = group.to_dataset(), second.to_datatree()[name].to_dataset()
        if name == "warmup":
            assert np.array_equal(ours["variances"][-1], theirs["variances"][-1])
            ours, theirs = (x.drop_dims("edge") for x in (ours, theirs))
        xr.testing.assert_identical(ours, theirs)


def test_traces_are_exact_and_happen_once(fit, counted, target):
    assert fit.cost.traces == counted.runs >= 1
    again = amalt.sample(target, keep_warmup=True, **OPTIONS)
    assert again.cost.traces == 0
    assert counted.runs == fit.cost.traces
    assert_same_numbers(fit, again)


def test_the_length_of_blocks_changes_nothing(fit, target, monkeypatch):
    monkeypatch.setattr(loop, "BLOCK_STEPS", 37)
    again = amalt.sample(target, keep_warmup=True, **OPTIONS)
    assert_same_numbers(fit, again)
    assert len(again.warmup["edge"]) == math.ceil(TUNE / 37)


def test_gradients_are_the_sum_of_the_steps(fit):
    cost = fit.cost
    assert cost.gradients_start == 1
    assert cost.gradients_warmup == int(fit.warmup["num_steps"].sum())
    per_chain = fit.sample_stats["n_steps"].sum("draw").values
    assert np.all(per_chain == cost.gradients_sampling)
    assert cost.gradients_settle == SETTLE * fit.tuning.num_steps
    assert int(fit.sample_stats["n_steps"][0, 0]) == fit.tuning.num_steps


def test_gradients_of_other_integrators_count_every_stage(target):
    options = {"chains": 4, "draws": 7, "settle": 3, "tuning": TUNING}
    fit = amalt.sample(target, integrator="three-stage", **options)
    assert TUNING.num_steps == 3
    assert int(fit.sample_stats["n_steps"][0, 0]) == 3
    assert fit.cost.gradients_sampling == 7 * 3 * 3
    assert fit.cost.gradients_settle == 3 * 3 * 3
    assert fit.cost.gradients_warmup == 0


def test_redrawn_starts_are_counted():
    target = amalt.Target(lambda x: jnp.where(x > 0.0, -(x**2), jnp.nan), 0.0)
    fit = amalt.sample(target, chains=16, draws=2, tuning=TUNING_1D, settle=0, random_seed=1)
    assert 1 < fit.cost.gradients_start < 20
    assert np.all(fit.unconstrained > 0.0)


def test_a_longer_run_begins_like_a_shorter_one(target):
    options = {"chains": 8, "settle": SETTLE, "tuning": TUNING, "random_seed": 2}
    short = amalt.sample(target, draws=20, **options)
    long = amalt.sample(target, draws=60, **options)
    np.testing.assert_array_equal(short.unconstrained, long.unconstrained[:, :20])


def test_a_chain_does_not_depend_on_how_many_others_run(target):
    options = {"draws": 20, "settle": 3, "tuning": TUNING, "random_seed": 2}
    few, many = (amalt.sample(target, chains=chains, **options) for chains in (8, 16))
    np.testing.assert_allclose(many.unconstrained[:8], few.unconstrained, rtol=1e-4, atol=1e-5)


def test_a_warm_up_can_be_left_out_with_its_tuning(fit, target):
    """The same tuning, not learned again; other starts, as the chains were not warmed up."""
    new = amalt.sample(target, chains=8, draws=50, tuning=fit.tuning, settle=50, random_seed=6)
    assert new.warmup is None
    assert new.tuning.num_steps == fit.tuning.num_steps
    assert new.cost.gradients_warmup == 0
    assert np.allclose(new.unconstrained.std((0, 1)), [1.0, 2.0], rtol=0.3)


def test_the_host_works_once_per_block_and_not_per_draw(target, monkeypatch):
    calls = []
    compile_block = loop.compile_block

    def counting(block, *example):
        compiled, seconds = compile_block(block, *example)

        def call(*args):
            calls.append(args[-1])
            return compiled(*args)

        return call, seconds

    listener = Listener()
    monkeypatch.setattr(loop, "compile_block", counting)
    monkeypatch.setattr("amalt.sampling.reporter", lambda _: listener)
    amalt.sample(target, **OPTIONS)
    blocks = [100, 100, 30, SETTLE, 100, 50]
    assert [int(count) for count in calls] == blocks
    assert listener.advances == blocks
    assert listener.phases == {"warm-up": TUNE, "settle": SETTLE, "sampling": DRAWS}


def test_blocks_are_bounded_in_steps_and_bytes():
    assert loop.block_capacity(1000, 0) == loop.BLOCK_STEPS
    assert loop.block_capacity(7, 0) == 7
    assert loop.block_capacity(1000, loop.BLOCK_BYTES // 10) == 10
    assert loop.block_capacity(1000, 2 * loop.BLOCK_BYTES) == 1
    edges = [(int(first), int(count)) for first, count in loop.block_edges(25, 10)]
    assert edges == [(0, 10), (10, 10), (20, 5)]
