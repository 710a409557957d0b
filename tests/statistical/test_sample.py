"""Whole runs of `amalt.sample`, learning included, against known means and standard deviations.

Every comparison is a z: the difference over its Monte Carlo error, from the multi-chain ESS of the
values (means) or of their squared deviations (standard deviations), and over that of the truth.
With an ESS of n a mean that is off by b standard deviations has an expected z of b sqrt(n); runs
with less than 1000 are no evidence and fail. 44 comparisons in the quick set and 314 in the long
one raise a false alarm with probability below 0.0025 (drawn once: the seeds are fixed).
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import amalt
from amalt.diagnostics.ess import ess
from amalt.methods import malt as malt_method

from . import broken
from .exact import EIGHT_SCHOOLS, FUNNEL_2
from .joint import THRESHOLD, uniform_comparisons
from .models import HIERARCHY

LEAST_ESS = 1000


def moment_comparisons(x, mean, sd, mean_se):
    """Compare draws ``[chain, draw, k]`` with means and deviations ``[k]``: 2 k comparisons.

    The truth is taken to come from (sd / mean_se)^2 draws, which gives the error of its sd.
    """
    squares = (x - mean) ** 2
    sizes = ess(x), ess(squares)
    assert min(map(np.min, sizes)) > LEAST_ESS, sizes
    z = []
    for values, truth, size in ((x, mean, sizes[0]), (squares, sd**2, sizes[1])):
        variance = values.var(axis=(0, 1))
        error = np.sqrt(variance / size + variance * (mean_se / sd) ** 2)
        z.append((values.mean(axis=(0, 1)) - truth) / error)
    return np.abs(np.concatenate(z))


def truth_comparisons(fit, target):
    """Compare all variables with the truth that the target brings along."""
    z = []
    for name, truth in target.truth.items():
        draws = fit.posterior[name].values.astype(np.float64)
        z.append(moment_comparisons(draws.reshape(*draws.shape[:2], -1), *map(np.ravel, truth)))
    return np.concatenate(z)


def score_comparisons(fit, case):
    """Compare the scores of all draws with means 0 and deviations 1, which are exact."""
    z = fit.unconstrained.astype(np.float64)
    scores = case.inverse(z.reshape(-1, case.dim)).reshape(z.shape)
    zero, one = np.zeros(case.dim), np.ones(case.dim)
    return moment_comparisons(scores, zero, one, zero)


@pytest.mark.parametrize(
    ("name", "options", "settings"),
    [
        ("gaussian", {"dim": 20, "condition": 100}, {"tune": 600, "draws": 250}),
        # At 0.8, steps are so long that chains stick in the tails, where the curve is steep.
        ("banana", {}, {"draws": 250, "target_accept": 0.95}),
        pytest.param("gaussian", {}, {"draws": 500}, marks=pytest.mark.long),
        pytest.param("german-credit", {}, {"draws": 1500}, marks=pytest.mark.long),
    ],
    ids=["small-gaussian", "banana", "gaussian", "german-credit"],
)
def test_moments(name, options, settings):
    target = amalt.gym.load(name, **options)
    z = truth_comparisons(amalt.sample(target, random_seed=30, **settings), target)
    assert np.max(z) < THRESHOLD, z


@pytest.mark.long
def test_moments_of_eight_schools():
    """Accept 0.99, not 0.8: a step that suits the bulk leaves chains stuck in the neck."""
    target = amalt.gym.load("eight-schools")
    fit = amalt.sample(target, tune=2000, draws=2000, target_accept=0.99, random_seed=31)
    z = np.concatenate([truth_comparisons(fit, target), score_comparisons(fit, EIGHT_SCHOOLS)])
    assert np.max(z) < THRESHOLD, z


@pytest.mark.long
def test_moments_of_funnel():
    """Give the tuning: three deviations down the neck the scale is 0.011, and h must follow.

    A learned h suits the bulk, and chains that cannot enter the neck look as if they mixed. The
    scores are compared, since x itself has no moments that a run could find (kurtosis 24000).
    """
    target = amalt.gym.load("funnel", dim=2)
    tuning = amalt.Tuning(step_size=0.012, integration_time=3.0, damping=0.3, variances=np.ones(2))
    fit = amalt.sample(target, tuning=tuning, settle=1000, draws=3000, random_seed=32)
    z = score_comparisons(fit, FUNNEL_2)
    assert np.max(z) < THRESHOLD, z


@pytest.mark.long
def test_moments_from_broken_kernel_fail(monkeypatch):
    label = "wrong noise scale: sqrt(1 - eta)"
    (mistake,) = (one for one in broken.MISTAKES if one.label == label)
    monkeypatch.setattr(malt_method, "malt", mistake.kernel_module())
    target = amalt.gym.load("gaussian", dim=20, condition=100)
    fit = amalt.sample(target, tune=600, draws=250, random_seed=30)
    assert np.max(truth_comparisons(fit, target)) > 2.0 * THRESHOLD


@pytest.mark.long
def test_ranks_of_the_truth_are_uniform():
    """Simulation-based calibration (Talts and others 2018) of 256 data sets in one run.

    The posteriors stand side by side in one target, d = 1536, so that one warm-up serves all. In
    each, the parameters that made the data have a uniform rank among the last draws of 127 chains:
    7 comparisons of 256 ranks in 8 bins, which find a shift of 0.4 standard deviations.
    """
    replicates, chains, rng = 256, 127, np.random.default_rng(33)
    truth = HIERARCHY.draw_prior(rng, replicates)
    noise = rng.standard_normal((replicates, HIERARCHY.data), np.float32)
    y = jax.vmap(HIERARCHY.simulate)(noise, truth)
    target = amalt.Target(
        lambda theta: jnp.sum(jax.vmap(HIERARCHY.logdensity)(theta, y)),
        jnp.zeros(truth.shape),
        name="replicates",
    )
    fit = amalt.sample(target, tune=600, draws=60, chains=chains, random_seed=34)
    last = fit.unconstrained[:, -1].reshape(chains, *truth.shape)
    theta = np.concatenate([truth[None], last])
    logdensity = np.asarray(jax.vmap(jax.vmap(HIERARCHY.logdensity), (0, None))(theta, y))
    f = np.concatenate([theta, logdensity[..., None]], axis=-1)
    ranks = np.sum(f[1:] < f[0], axis=0)
    z = uniform_comparisons(ranks // 16, 8)
    assert np.max(z) < THRESHOLD, z
