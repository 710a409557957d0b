"""ESS and R-hat against ArviZ, on chains of known autocorrelation, and on chains that stick."""

import arviz
import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from amalt.diagnostics.ess import autocovariance, ess, ess_per_chain
from amalt.diagnostics.rhat import rhat


def ar1(phi, chains=32, draws=1000, seed=1):
    """Stationary AR(1) chains of variance one; the ESS of their mean is N (1 - phi) / (1 + phi)."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(chains, draws)) * np.sqrt(1.0 - phi**2)
    x = np.empty((chains, draws))
    x[:, 0] = rng.normal(size=chains)
    for i in range(1, draws):
        x[:, i] = phi * x[:, i - 1] + noise[:, i]
    return x


@pytest.mark.parametrize("draws", [1, 2, 5, 64, 100])
def test_autocovariance_is_that_of_the_definition(draws):
    x = np.random.default_rng(1).normal(size=(3, draws, 2))
    centered = x - x.mean(axis=1, keepdims=True)
    direct = [np.sum(centered[:, : draws - k] * centered[:, k:], axis=1) for k in range(draws)]
    np.testing.assert_allclose(autocovariance(x), np.stack(direct, axis=1), atol=1e-12)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9, 0.97])
def test_both_estimators_know_the_ess_of_an_ar1(phi):
    x = ar1(phi, draws=4000)
    truth = x.size * (1.0 - phi) / (1.0 + phi)
    assert ess(x) == pytest.approx(truth, rel=0.1)
    # The paper's truncates at the first negative correlation of each chain and is noisier.
    assert ess_per_chain(x) * len(x) == pytest.approx(truth, rel=0.2)


def test_antithetic_chains_are_worth_more_than_their_length():
    x = ar1(-0.5, draws=2000)
    assert ess(x) == pytest.approx(3.0 * x.size, rel=0.1)
    assert ess_per_chain(x) <= 2000.0  # blind to it, as the paper's


@pytest.mark.parametrize("phi", [-0.5, 0.0, 0.5, 0.9])
@pytest.mark.parametrize(("chains", "draws"), [(2, 1000), (4, 501), (64, 101), (256, 12)])
def test_ess_agrees_with_arviz(phi, chains, draws):
    x = ar1(phi, chains, draws)
    assert ess(x) == pytest.approx(float(arviz.ess(x, method="mean")), rel=1e-9)


@pytest.mark.parametrize("phi", [-0.5, 0.0, 0.9])
@pytest.mark.parametrize(("chains", "draws"), [(2, 1000), (4, 501), (64, 10)])
def test_rhat_agrees_with_arviz(phi, chains, draws):
    x = ar1(phi, chains, draws)
    assert rhat(x) == pytest.approx(float(arviz.rhat(x, method="split")), rel=1e-9)


def test_chains_in_different_places_are_seen():
    x = ar1(0.5)
    apart = x + 2.0 * np.arange(len(x))[:, None] / len(x)
    assert ess(apart) < 0.05 * ess(x)
    assert rhat(apart) > 1.1 > rhat(x)
    # The paper's estimator cannot see that.
    assert ess_per_chain(apart) == pytest.approx(ess_per_chain(x))


def test_a_drift_is_seen_even_in_one_chain():
    x = ar1(0.0, chains=1)
    assert rhat(x) < 1.01 < rhat(x + np.linspace(0.0, 3.0, 1000))


def test_axes_behind_chain_and_draw_are_independent():
    x = np.stack([ar1(0.9), ar1(0.1), np.ones((32, 1000))], axis=2).reshape(32, 1000, 3, 1)
    for diagnostic in (ess, ess_per_chain, rhat):
        together = diagnostic(x)
        alone = np.array([diagnostic(x[..., i, 0]) for i in range(3)])
        np.testing.assert_allclose(together[:, 0], alone)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -3.3e7])
def test_constant_chains_have_no_effective_draws(value):
    x = np.full((4, 100), value)
    assert ess(x) == 0.0
    assert ess_per_chain(x) == 0.0
    assert np.isnan(rhat(x))


def test_chains_stuck_in_different_places_have_none_either():
    x = np.broadcast_to(np.arange(4.0)[:, None], (4, 100))
    assert ess(x) == 0.0
    assert ess_per_chain(x) == 0.0
    assert np.isinf(rhat(x))


def test_one_stuck_chain_of_many_counts_as_nothing():
    x = ar1(0.0)
    stuck = x.copy()
    stuck[0] = 0.3
    assert ess_per_chain(stuck) == pytest.approx(
        np.mean([0.0, *(ess_per_chain(chain[None]) for chain in x[1:])])
    )
    assert ess(stuck) <= ess(x) * 1.05


@pytest.mark.parametrize("draws", [1, 2, 3])
def test_too_few_draws_are_no_estimate(draws):
    x = np.random.default_rng(1).normal(size=(4, draws, 2))
    assert np.all(np.isnan(ess(x)))
    assert np.all(np.isnan(rhat(x)))
    assert np.all(np.isfinite(ess_per_chain(x)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_no_good_news(bad):
    x = ar1(0.0, chains=4, draws=100)
    x[1, 50] = bad
    with np.errstate(invalid="ignore"):
        assert not ess(x) > 0.0
        assert not ess_per_chain(x) > 0.0
        assert not rhat(x) < np.inf


@hypothesis.given(
    seed=st.integers(0, 2**32 - 1),
    chains=st.integers(1, 6),
    draws=st.integers(4, 60),
    values=st.integers(1, 4),
    scale=st.sampled_from([1e-30, 1.0, 1e30]),
)
@hypothesis.settings(max_examples=100)
def test_ess_is_bounded_whatever_the_draws(seed, chains, draws, values, scale):
    """Draws of few different values, as of chains that seldom move, are the hard case."""
    x = np.random.default_rng(seed).integers(values, size=(chains, draws)) * scale
    size = chains * draws
    assert 0.0 <= ess(x) <= size * np.log10(size) * (1.0 + 1e-9)
    assert 0.0 <= ess_per_chain(x) <= draws * (1.0 + 1e-9)
    assert ess(x) == pytest.approx(ess(x / scale * 7.0 + 3.0), rel=1e-6)
    value = rhat(x)
    assert np.isnan(value) or value >= np.sqrt(1.0 - 2.0 / draws) - 0.5
