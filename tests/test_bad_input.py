"""Bad densities: no NaN reaches Adam, the moments or a draw, whatever the density does.

Two property tests compile once and try many numbers; a few whole runs stand for each kind.
"""

import functools
import math
from types import SimpleNamespace
from typing import NamedTuple

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis.extra.numpy import arrays

import amalt
from amalt.adaptation import malt as adaptive_malt
from amalt.adaptation.settings import PRESETS
from amalt.kernels import LEAPFROG, MaltInfo, MaltState, malt
from amalt.methods import build
from amalt.run.block import sampling_block, warmup_block

CHAINS, DIM = 4, 3
KEY = np.array([3, 4], np.uint32)
SETTINGS = {
    "paper": PRESETS["malt"]["paper"],
    "harmonic": amalt.MaltSettings(adaptive_rho=True, harmonic_acceptance=True, mala_steps=2),
}


def assert_all_finite(tree):
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        assert np.all(np.isfinite(np.asarray(leaf))), (jax.tree_util.keystr(path), leaf)


def assert_sane(adaptation, used_step_size, settings):
    """Everything learned is finite and within its bounds, and a kernel can use it."""
    assert_all_finite(adaptation)
    log_h, log_tau = float(adaptation.step_size.log_value), float(adaptation.time.log_value)
    assert abs(log_h) <= 80.0
    slack = 1e-4
    log_used = math.log(float(used_step_size))
    assert log_used + math.log(0.5) - slack <= log_tau
    assert log_tau <= log_used + math.log(settings.max_steps) + slack
    assert np.all(np.asarray(adaptation.moments.variance) >= 0.0)
    for tuning in (
        adaptive_malt.tuning(adaptation, settings),
        adaptive_malt.finalize(adaptation, settings),
    ):
        assert_all_finite(tuning)
        assert 1 <= int(tuning.num_steps) <= settings.max_steps
        assert float(tuning.step_size) > 0.0
        assert float(tuning.damping) >= 0.0
        assert np.all(np.asarray(tuning.metric.scale) > 0.0)


# --- the adaptation alone, fed with anything ---------------------------------------------------

WILD = st.one_of(
    st.floats(width=32, allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 2.0**126, 2.0**-140]),
)


class Happening(NamedTuple):
    """What an iteration may bring: anything at all in every number that a density can reach."""

    before: np.ndarray
    after: np.ndarray
    proposal: np.ndarray
    initial_momentum: np.ndarray
    final_momentum: np.ndarray
    acceptance_rate: np.ndarray
    energy_error: np.ndarray


def wild(*shape):
    return arrays(np.float32, shape, elements=WILD, fill=st.just(1.5))


happenings = st.builds(
    Happening,
    before=wild(CHAINS, DIM),
    after=wild(CHAINS, DIM),
    proposal=wild(CHAINS, DIM),
    initial_momentum=wild(CHAINS, DIM),
    final_momentum=wild(CHAINS, DIM),
    # The kernel promises a number in [0, 1]; everything else may be anything.
    acceptance_rate=arrays(np.float32, (CHAINS,), elements=st.floats(0.0, 1.0, width=32)),
    energy_error=wild(CHAINS),
)


@functools.cache
def compiled_update(preset):
    settings = SETTINGS[preset]

    @jax.jit
    def update(adaptation, happening):
        used = adaptive_malt.tuning(adaptation, settings)
        zero = jnp.zeros(CHAINS, jnp.float32)
        info = MaltInfo(
            acceptance_rate=happening.acceptance_rate,
            energy_error=happening.energy_error,
            is_accepted=zero > 0,
            is_diverging=~jnp.isfinite(happening.energy_error),
            proposal=happening.proposal,
            initial_momentum=happening.initial_momentum,
            final_momentum=happening.final_momentum,
        )
        before = MaltState(happening.before, zero, happening.before)
        after = MaltState(happening.after, zero, happening.after)
        adaptation, trace = adaptive_malt.update(adaptation, used, before, after, info, settings)
        return adaptation, trace, used

    positions = np.arange(CHAINS * DIM, dtype=np.float32).reshape(CHAINS, DIM)
    return update, adaptive_malt.init(jnp.asarray(KEY), jnp.asarray(positions), settings)


@pytest.mark.parametrize("preset", SETTINGS)
@hypothesis.given(sequence=st.lists(happenings, min_size=1, max_size=12))
@hypothesis.settings(max_examples=60)
def test_no_sequence_of_numbers_breaks_the_adaptation(preset, sequence):
    update, adaptation = compiled_update(preset)
    for happening in sequence:
        adaptation, trace, used = update(adaptation, happening)
        assert_all_finite(trace)
        assert_sane(adaptation, used.step_size, SETTINGS[preset])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 3e38, -3e38, 0.0])
def test_adaptation_recovers_from_a_bad_spell(value):
    """After 20 bad iterations, 300 good ones bring the variances back to the truth."""
    update, adaptation = compiled_update("paper")
    rng = np.random.default_rng(1)

    def happening(positions, acceptance_rate):
        return Happening(
            *[positions] * 5, np.full(CHAINS, acceptance_rate, np.float32), positions[:, 0]
        )

    for _ in range(20):
        bad = np.full((CHAINS, DIM), value, np.float32)
        adaptation, _, used = update(adaptation, happening(bad, 0.0))
    assert_sane(adaptation, used.step_size, SETTINGS["paper"])
    for _ in range(300):
        good = rng.normal(size=(CHAINS, DIM)).astype(np.float32)
        adaptation, _, used = update(adaptation, happening(good, 0.8))
    assert_sane(adaptation, used.step_size, SETTINGS["paper"])
    np.testing.assert_allclose(adaptation.moments.variance, 1.0, rtol=0.5)


# --- kernel, adaptation and blocks together, on densities that break somewhere -----------------


def in_region(x, where):
    """Whether the scaled position lies where the density is broken."""
    return x[0] > where


def value_nan(x, where):
    return jnp.where(in_region(x, where), jnp.nan, -0.5 * jnp.dot(x, x))


def value_inf(x, where):
    return jnp.where(in_region(x, where), jnp.inf, -0.5 * jnp.dot(x, x))


def value_minus_inf(x, where):
    return jnp.where(in_region(x, where), -jnp.inf, -0.5 * jnp.dot(x, x))


def value_and_gradient_nan(x, where):
    return -0.5 * jnp.dot(x, x) + 0.0 * jnp.sqrt(where - x[0])


def gradient_nan(x, where):
    # The value is fine where the square root is taken of zero, its derivative is 0 times inf.
    return -0.5 * jnp.dot(x, x) + 0.0 * jnp.sqrt(jnp.maximum(where - x[0], 0.0))


def overflowing(x, where):
    inside = jnp.where(in_region(x, where), x, 0.0)
    return -0.5 * jnp.dot(x, x) - jnp.sum(jnp.exp(80.0 * inside**2))


def pole(x, where):
    return -0.5 * jnp.dot(x, x) - 0.9 * jnp.log(jnp.abs(x[0] - where))


def flat(x, where):
    return 0.0 * x[0] + where


BROKEN = (
    value_nan,
    value_inf,
    value_minus_inf,
    value_and_gradient_nan,
    gradient_nan,
    overflowing,
    pole,
    flat,
)
FORBIDDEN = BROKEN[:5]


RUNS = {
    "malt": ("malt", PRESETS["malt"]["paper"], CHAINS),
    "rhmc": ("rhmc", PRESETS["rhmc"]["paper-exponential"], CHAINS),
    "ghmc": ("ghmc", PRESETS["ghmc"]["paper"], 16),
    "nuts": ("nuts", PRESETS["nuts"]["paper"], CHAINS),
}


@functools.cache
def compiled_run(name):
    """Warm up and sample any of the densities at any scale, in two programs."""
    method, settings, _ = RUNS[name]

    def sampler(kind, where, scale):
        def logdensity(z):
            return jax.lax.switch(kind, BROKEN, z / scale, where)

        target = SimpleNamespace(
            logdensity=logdensity,
            value_and_grad=jax.value_and_grad(logdensity),
            dim=DIM,
            dtype=np.dtype(np.float32),
        )
        return build(method, target, LEAPFROG, settings)

    @jax.jit
    def learn(density, key, positions):
        run = sampler(*density)
        starts = jax.vmap(lambda x: malt.init(x, run.target.value_and_grad))(positions)
        states = run.begin(key, starts)
        zero, count = jnp.int32(0), jnp.int32(40)
        return warmup_block(run, 40, False)(key, states, run.init(key, states), zero, count)

    @jax.jit
    def draw(density, key, states, tuning):
        return sampling_block(sampler(*density), 10)(
            key, states, tuning, jnp.int32(0), jnp.int32(10)
        )

    def run(density, key, positions):
        states, adaptation, trace, _ = learn(density, key, positions)
        here = sampler(*density)
        states, draws = draw(density, key, states, here.prepare(here.finalize(adaptation)))
        return states, adaptation, trace, draws

    return run


@pytest.mark.parametrize("name", RUNS)
@hypothesis.given(
    kind=st.sampled_from(range(len(BROKEN))),
    where=st.sampled_from([0.0, 0.3, 1.0, 3.0]),
    log_scale=st.integers(-12, 12),
    seed=st.integers(0, 2**32 - 1),
)
@hypothesis.settings(max_examples=60)
def test_no_density_breaks_a_run(name, kind, where, log_scale, seed):
    scale = np.float32(10.0**log_scale)
    rng = np.random.default_rng(seed)
    chains = RUNS[name][2]
    positions = -np.abs(rng.normal(size=(chains, DIM))).astype(np.float32) - np.float32(0.1)
    states, adaptation, trace, draws = compiled_run(name)(
        (np.int32(kind), np.float32(where), scale),
        np.array([0, seed], np.uint32),
        positions * scale,
    )
    assert_all_finite(states)
    assert_all_finite(trace)
    assert_all_finite(adaptation)
    if name == "malt":
        assert_sane(adaptation, trace.step_size[-1], RUNS[name][1])
    assert_all_finite((draws.position, draws.logdensity, draws.acceptance_rate))
    if BROKEN[kind] in FORBIDDEN:
        assert not np.any(np.asarray(draws.position)[..., 0] / scale > where + 1e-6)
    if name in ("malt", "rhmc"):
        rejected = ~np.isfinite(np.asarray(draws.energy_error))
        assert np.all(np.asarray(draws.acceptance_rate)[rejected] == 0.0)
        assert np.all(np.asarray(draws.is_diverging)[rejected])


# --- whole runs --------------------------------------------------------------------------------


def gaussian(x):
    return -0.5 * jnp.sum(x**2)


def sample(logdensity, example=None, **options):
    target = amalt.Target(logdensity, jnp.zeros(2) if example is None else example)
    options = {"chains": 32, "tune": 300, "draws": 100, "random_seed": 1} | options
    return amalt.sample(target, **options)


def test_a_density_broken_on_three_sides_gives_the_right_answer():
    """NaN for x0 < 0, -inf for |x1| > 1, +inf in a disc: exactly the rest is sampled."""

    def logdensity(x):
        value = jnp.where(x[0] < 0.0, jnp.nan, gaussian(x))
        value = jnp.where(jnp.abs(x[1]) > 1.0, -jnp.inf, value)
        return jnp.where(jnp.sum((x - 1.0) ** 2) < 0.04, jnp.inf, value)

    def is_allowed(x):
        hole = np.sum((x - 1.0) ** 2, axis=-1) < 0.04
        return (x[..., 0] >= 0.0) & (np.abs(x[..., 1]) <= 1.0) & ~hole

    fit = sample(logdensity, draws=300)
    assert np.all(is_allowed(fit.unconstrained))
    assert np.all(np.isfinite(fit.sample_stats["lp"]))
    assert fit.sample_stats["diverging"].any()
    assert not fit.ok  # so many divergences are not good, even if the answer is
    truth = np.random.default_rng(1).normal(size=(400_000, 2))
    truth = truth[is_allowed(truth)]
    np.testing.assert_allclose(fit.unconstrained.mean((0, 1)), truth.mean(0), atol=0.1)
    np.testing.assert_allclose(fit.unconstrained.std((0, 1)), truth.std(0), rtol=0.1)


def test_a_density_that_overflows_far_out_gives_the_right_answer():
    fit = sample(lambda x: -jnp.sum(jnp.exp(x**2)))
    grid = np.linspace(-4.0, 4.0, 4001)
    weight = np.exp(-np.exp(grid**2))
    sd = math.sqrt(np.sum(weight * grid**2) / np.sum(weight))
    np.testing.assert_allclose(fit.unconstrained.std((0, 1)), sd, rtol=0.1)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_huge_scales_give_the_right_answer_or_say_that_they_do_not(scale):
    fit = sample(lambda x: gaussian(x / np.float32(scale)))
    assert np.all(np.isfinite(fit.unconstrained))
    is_right = np.allclose(fit.unconstrained.std((0, 1)), scale, rtol=0.2)
    assert is_right or not fit.ok


def test_a_log_density_too_large_for_its_precision_is_not_trusted():
    fit = sample(lambda x: gaussian(x) + 1e8)
    assert not fit.ok
    assert "rounds to multiples of 8" in fit.verdict.sentence
    assert "jax_enable_x64" in fit.verdict.sentence


@pytest.mark.parametrize(
    ("logdensity", "message"),
    [
        (lambda x: 0.0 * jnp.sum(x), r"does not depend on 'x\[0\]', 'x\[1\]'"),
        (lambda x: 1.0, r"does not depend on 'x\[0\]', 'x\[1\]'"),
        (lambda x: -0.5 * x[0] ** 2, r"does not depend on 'x\[1\]'"),
        (lambda x: -0.5 * x[0] ** 2 - jax.lax.stop_gradient(x[1] ** 2), r"'x\[1\]'"),
        (lambda x: gaussian(x / np.float32(1e22)), "too small for float32"),
    ],
)
def test_a_gradient_that_is_zero_everywhere_is_refused(logdensity, message):
    with pytest.raises(amalt.TargetError, match=message):
        sample(logdensity)


def test_starting_at_the_mode_is_not_taken_for_a_flat_density():
    """All gradients are zero at the starting points, though not elsewhere."""
    tuning = amalt.Tuning(step_size=1.0, integration_time=1.0, damping=0.5)
    fit = sample(gaussian, init=np.zeros((4, 2)), chains=4, tune=0, tuning=tuning)
    assert fit.unconstrained.std() > 0.5


@pytest.mark.parametrize("tune", [1, 10])
def test_tiny_runs_end_with_numbers_and_a_warning(tune):
    """One scalar, one chain, one draw, next to no warm-up."""
    fit = sample(lambda x: -0.5 * x**2, 0.0, chains=1, tune=tune, draws=1)
    assert fit.posterior["x"].shape == (1, 1)
    assert np.all(np.isfinite(fit.posterior["x"]))
    assert not fit.ok
    assert len(fit.warmup["step_size"]) == tune


def test_one_chain_gives_the_right_answer():
    fit = sample(lambda x: -0.5 * ((x - 3.0) / 2.0) ** 2, 0.0, chains=1, tune=500, draws=2000)
    assert abs(float(fit.posterior["x"].mean()) - 3.0) < 0.5
    assert abs(float(fit.posterior["x"].std()) - 2.0) < 0.4
