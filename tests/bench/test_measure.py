"""The figures of a run against plain loops over its draws, written from the formulas."""

import types

import arviz
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import amalt
from amalt.bench.paper import measure

MEAN, SD = np.array([1.0, -2.0, 0.5], np.float32), np.array([1.0, 0.3, 3.0], np.float32)


@pytest.fixture(scope="module")
def target():
    """Normal a, known as it is sampled; log-normal b, shown and known as such, not as sampled."""

    def logdensity(x):
        return -0.5 * (jnp.sum(((x["a"] - MEAN) / SD) ** 2) + x["log_b"] ** 2)

    b = np.exp(0.5), np.sqrt((np.e - 1.0) * np.e)
    return amalt.Target(
        logdensity,
        {"a": jnp.zeros(3), "log_b": 0.0},
        constrain=lambda x: {"a": x["a"], "b": jnp.exp(x["log_b"])},
        truth={
            "a": (MEAN, SD, np.full(3, 0.01)),
            "b": (np.array(b[0]), np.array(b[1]), np.array(0.0)),
        },
    )


@pytest.fixture(scope="module")
def fit(target):
    return amalt.sample(
        target, chains=6, tune=200, draws=50, settle=0, random_seed=1, progressbar=False
    )


def ess_of_chain(x):
    """ESS = N / (-1 + 2 sum_k R_k (N - k) / N), R_k up to the first negative one."""
    n, x = len(x), x - x.mean()
    covariances = [np.dot(x[: n - k], x[k:]) / (n - k) for k in range(n)]
    total = 0.0
    for k, covariance in enumerate(covariances):
        if covariance / covariances[0] < 0.0:
            break
        total += covariance / covariances[0] * (n - k) / n
    return n / (-1.0 + 2.0 * total)


def split_rhat(x):
    halves = [half for chain in x for half in (chain[:25], chain[25:])]
    within = np.mean([half.var(ddof=1) for half in halves])
    between = np.var([half.mean() for half in halves], ddof=1)
    return np.sqrt(24.0 / 25.0 + between / within)


def test_the_figures_are_those_of_the_formulas(fit, target):
    found = measure.measure(fit, target)
    z = fit.unconstrained.astype(np.float64)
    center = np.append(MEAN.astype(np.float64), z[:, :, 3].mean())
    squares = (z - center) ** 2
    per_chain = [np.mean([ess_of_chain(c) for c in squares[:, :, i]]) for i in range(4)]
    together = [float(arviz.ess(squares[:, :, i], method="mean")) / 6 for i in range(4)]
    rhats = [max(split_rhat(z[:, :, i]), split_rhat(squares[:, :, i])) for i in range(4)]
    gradients = int(fit.sample_stats["n_steps"].values[0].sum())
    names = ["a[0]", "a[1]", "a[2]", "log_b"]
    # The draws are the same numbers; sums of 50 terms in another order agree to about 1e-14.
    close = {"rel": 1e-9}
    assert found["ess_per_grad"] == pytest.approx(min(per_chain) / gradients, **close)
    assert found["ess_per_iter"] == pytest.approx(min(per_chain) / 50, **close)
    assert found["multi_chain_ess_per_grad"] == pytest.approx(min(together) / gradients, **close)
    assert found["multi_chain_ess_per_iter"] == pytest.approx(min(together) / 50, **close)
    assert found["rhat"] == pytest.approx(max(rhats), **close)
    assert found["worst"] == names[int(np.argmin(per_chain))]
    assert found["multi_chain_worst"] == names[int(np.argmin(together))]
    assert found["rhat_worst"] == names[int(np.argmax(rhats))]
    assert found["gradients_sampling"] == found["gradients_sampling_mean"] == gradients
    assert found["num_steps"] * 50 == gradients
    assert found["mean_num_steps"] == found["num_steps"]


def test_errors_of_means_are_those_of_the_variables_shown(fit, target):
    found = measure.measure(fit, target)
    a, b = (fit.posterior[name].values.astype(np.float64) for name in ("a", "b"))
    z = {}
    for name, x, mean, se in (
        *((f"a[{i}]", a[:, :, i], float(MEAN[i]), 0.01) for i in range(3)),
        ("b", b, float(np.exp(0.5)), 0.0),
    ):
        size = float(arviz.ess(x, method="mean"))
        z[name] = abs(x.mean() - mean) / np.sqrt(x.var() / size + se**2)
    assert found["max_z"] == pytest.approx(max(z.values()), rel=1e-9)
    assert found["max_z_worst"] == max(z, key=z.__getitem__)


def test_what_is_known_only_in_another_scale_is_no_center(fit, target):
    center = measure.known_center(fit, target)
    np.testing.assert_array_equal(center[:3], MEAN)
    assert np.isnan(center[3])


def test_without_truth_the_mean_of_all_draws_is_the_center(fit, target):
    unknown = amalt.Target(
        lambda x: 0.0 * x["log_b"], {"a": jnp.zeros(3), "log_b": 0.0}, name="unknown"
    )
    found = measure.measure(fit, unknown)
    assert np.isnan(measure.known_center(fit, unknown)).all()
    assert found["max_z"] is None
    assert found["max_z_worst"] is None
    assert found["ess_per_grad"] > 0.0


def test_a_wrong_mean_is_seen(fit, target):
    a = (MEAN + 5.0, SD, np.zeros(3))
    other = types.SimpleNamespace(
        truth={"a": a}, variables=target.variables, parts=target.parts, dim=4
    )
    wrong = measure.errors_of_means(fit, other)
    assert wrong["max_z"] > 10.0
    assert wrong["max_z_worst"] == "a[1]"


def test_a_chain_that_stays_apart_lowers_the_multi_chain_estimator_only():
    """The paper's estimator takes each chain by itself."""
    z = np.random.default_rng(1).normal(size=(8, 200, 2))
    z[0, :, 1] += 10.0
    per_chain, together, rhat = measure.quality(z, np.zeros(2))
    assert per_chain[1] == pytest.approx(per_chain[0], rel=0.2)
    assert together[1] < 0.05 * together[0]
    assert rhat[1] > 1.5 > rhat[0]


def test_gradients_are_counted_by_the_mean_over_chains():
    steps = np.array([[1, 3, 7], [3, 3, 1]])
    stats = xr.Dataset({"n_steps": (("chain", "draw"), steps)})
    cost = types.SimpleNamespace(gradients_sampling=2 * (3 + 3 + 7))  # two gradients a step
    fit = types.SimpleNamespace(sample_stats=stats, cost=cost)
    assert measure.gradients_by_mean(fit) == pytest.approx(2 * (2 + 3 + 4))
