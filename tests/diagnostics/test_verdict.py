"""The judgment of a run: good runs pass, and each way to fail is named with what to do."""

import numpy as np
import pytest

from amalt.diagnostics.verdict import judge

NAMES = ["a", "b[0]", "b[1]"]


def draws(chains=16, length=200, seed=1):
    return np.random.default_rng(seed).normal(size=(chains, length, 3)).astype(np.float32)


def judged(x, *, diverging=0, acceptance=0.8, logdensity=None):
    flags = np.zeros(x.shape[:2], bool)
    flags.flat[:diverging] = True
    return judge(x, flags, NAMES, acceptance, logdensity)


def test_a_good_run_is_good():
    verdict = judged(draws(), logdensity=np.full((16, 200), -30.0, np.float32))
    assert verdict.ok
    assert verdict.sentence.startswith("Good: worst R-hat ")
    assert "0 of 3200 transitions diverged" in verdict.sentence


def test_chains_that_disagree_are_named():
    x = draws()
    x[0, :, 1] += 3.0
    verdict = judged(x)
    assert not verdict.ok
    assert verdict.sentence.startswith("Not to be trusted: the chains disagree; worst R-hat 1.")
    assert "(b[0])" in verdict.sentence
    assert "Raise tune and draws." in verdict.sentence


def test_chains_that_disagree_in_spread_only_are_seen():
    x = draws()
    x[:4, :, 2] *= 3.0
    assert not judged(x).ok


def test_few_effective_samples_are_named():
    verdict = judged(draws(chains=4, length=60))
    assert not verdict.ok
    assert "Raise" in verdict.sentence


def test_many_divergences_are_suspect():
    assert judged(draws(), diverging=3).ok
    verdict = judged(draws(), diverging=40)
    assert not verdict.ok
    assert verdict.sentence.startswith("Suspect: too many divergences; ")
    assert "40 of 3200 transitions diverged" in verdict.sentence


@pytest.mark.parametrize("acceptance", [0.0, np.nan])
def test_chains_that_never_moved_are_said_to(acceptance):
    verdict = judged(draws(), acceptance=acceptance)
    assert not verdict.ok
    assert "no proposal was accepted, the chains never moved" in verdict.sentence


@pytest.mark.parametrize("is_apart", [True, False])
def test_a_coordinate_that_never_moved_is_named(is_apart):
    x = draws()
    x[:, :, 1] = np.arange(16)[:, None] * is_apart
    verdict = judged(x)
    assert not verdict.ok
    assert verdict.sentence == "Not to be trusted: b[0] never moved. Rescale it, or raise tune."


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_draws_that_are_not_finite_are_named(bad):
    x = draws()
    x[3, 7, 0] = x[4, 8, 2] = bad
    verdict = judged(x)
    assert not verdict.ok
    assert "a (and 1 more) holds numbers that are not finite" in verdict.sentence


@pytest.mark.parametrize("length", [1, 2, 3])
def test_short_runs_are_not_judged(length):
    verdict = judged(draws(length=length))
    assert not verdict.ok
    assert verdict.sentence.startswith(f"Not judged: {length} draws per chain are too few")


@pytest.mark.parametrize("length", [4, 5, 6, 7])
@pytest.mark.parametrize("chains", [1, 2])
def test_tiny_runs_are_judged_without_a_crash(chains, length):
    assert not judged(draws(chains=chains, length=length)).ok


def test_what_cannot_be_computed_is_no_good_news():
    """One draw in the middle differs: the halves, that leave it out, do not move."""
    x = draws(length=5)
    x[:, :, 0] = 1.0
    x[:, 2, 0] = 2.0
    assert not judged(x).ok


@pytest.mark.parametrize(
    ("size", "dtype", "is_ok"),
    [
        (1e5, np.float32, True),
        (1e6, np.float32, True),
        (1e7, np.float32, False),
        (1e10, np.float64, True),
        (1e17, np.float64, False),
    ],
)
def test_log_densities_too_large_for_their_precision_are_not_trusted(size, dtype, is_ok):
    verdict = judged(draws(), logdensity=np.full((16, 200), -size, dtype))
    assert verdict.ok == is_ok
    if not is_ok:
        assert f"the log density is about {size:.3g}, which {np.dtype(dtype)} rounds" in (
            verdict.sentence
        )


def test_a_burst_of_large_log_densities_is_no_lack_of_precision():
    """Chains that begin far out have huge log densities there; the bulk is what counts."""
    logdensity = np.full((16, 200), -30.0, np.float32)
    logdensity[0, :5] = -1e20
    assert judged(draws(), logdensity=logdensity).ok
