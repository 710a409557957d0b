"""Brownian bridge and radon: scales far out, labels, data, and truths against quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from amalt import gym
from amalt.gym import data, transforms
from amalt.gym.gradients import with_gradient

from .definitions import TERMS, radon_rows, value_and_grad

NAMES = ["brownian-bridge", "radon-indiana", "radon-minnesota"]
every_model = pytest.mark.parametrize("name", NAMES)
every_state = pytest.mark.parametrize("state", ["indiana", "minnesota"])


@every_model
def test_scales_far_out_are_finite_and_exact_in_float32(name):
    """Deviations of 1e12 scales, squared; and exponentials that float32 cannot hold."""
    target = gym.load(name)
    scales = [i for i in range(target.dim) if "scale" in target.element(i)]
    # In the last row a scale of e^-500, from which every deviation is exactly 0.
    corners = [(-30, -1), (-1, -30), (-15, -15), (40, 500), (500, 40), (-500, 0)]
    z = np.zeros((len(corners), target.dim), np.float32)
    z[:, scales] = corners
    value, gradient = value_and_grad(name, z)
    assert np.isfinite(gradient).all()
    for row, v, g in zip(z.astype(float), value, gradient, strict=True):
        np.testing.assert_allclose(v, TERMS[name](row).sum(), rtol=1e-5)
        for i in scales:
            step = 1e-4 * np.eye(target.dim)[i]
            slope = np.sum(TERMS[name](row + step) - TERMS[name](row - step)) / 2e-4
            np.testing.assert_allclose(g[i], slope, rtol=1e-5, atol=1e-5)


@every_model
def test_program_shares_exponentials_and_gathers_nothing(name):
    target = gym.load(name)
    program = str(jax.make_jaxpr(jax.value_and_grad(target.logdensity))(target.example))
    assert program.count(" exp ") == 2
    assert program.count(" log1p ") == 2
    assert "gather" not in program
    assert "scatter" not in program


def test_order_and_labels_of_the_brownian_bridge():
    target = gym.load("brownian-bridge")
    assert [(p.name, p.shape) for p in target.parts] == [
        ("innovation_noise_scale", ()),
        ("observation_noise_scale", ()),
        ("locs", (30,)),
    ]
    assert target.dims == {"locs": ("time",)}
    assert list(target.coords["time"]) == list(range(30))


@every_state
def test_order_and_labels_of_radon(state):
    target = gym.load(f"radon-{state}")
    j = {"indiana": 91, "minnesota": 85}[state]
    assert [(p.name, p.shape) for p in target.parts] == [
        ("county_effect", (j,)),
        ("county_effect_mean", ()),
        ("county_effect_scale", ()),
        ("log_radon_scale", ()),
        ("weight", (3,)),
    ]
    assert target.dims == {"county_effect": ("county",), "weight": ("predictor",)}
    assert target.coords["predictor"] == ["log_uranium", "floor", "floor_by_county"]


def test_observations_of_the_brownian_bridge():
    y = data.read("brownian_bridge")["observed"]
    assert y.dtype == np.float32
    np.testing.assert_array_equal(np.isnan(y), [False] * 10 + [True] * 10 + [False] * 10)
    np.testing.assert_array_equal(
        y[[0, 9, 20, 29]], np.float32([0.21592641, -0.09830782, -0.8786016, -0.6202789])
    )


@pytest.mark.parametrize(
    ("state", "houses", "basements", "zeros", "first", "last"),
    [
        ("indiana", 1851, 997, 4, "ADAMS", "WHITLEY"),
        ("minnesota", 919, 766, 3, "AITKIN", "YELLOW MEDICINE"),
    ],
)
def test_houses(state, houses, basements, zeros, first, last):
    raw = data.read(f"radon_{state}")
    assert raw["activity"].shape == raw["floor"].shape == raw["county"].shape == (houses,)
    assert [(raw["floor"] == 0).sum(), (raw["floor"] > 1).sum()] == [basements, 0]
    assert (raw["activity"] == 0).sum() == zeros
    # The survey gives one decimal.
    np.testing.assert_array_equal(
        raw["activity"], np.round(raw["activity"].astype(float), 1).astype(np.float32)
    )
    target = gym.load(f"radon-{state}")
    counties = list(target.coords["county"])
    assert counties == sorted(counties)
    assert [counties[0], counties[-1]] == [first, last]
    assert len(counties) == len(raw["uranium"]) == len(np.unique(raw["county"]))


def test_minnesota_is_the_data_set_of_the_textbooks():
    """The houses of Aitkin county, its log uranium, and the largest counties."""
    y, predictors, county = radon_rows("minnesota")
    np.testing.assert_allclose(np.exp(y[county == 0]), [2.2, 2.2, 2.9, 1.0], rtol=1e-6)
    np.testing.assert_array_equal(predictors[county == 0, 1], [1, 0, 0, 0])
    assert predictors[0, 0] == pytest.approx(-0.689048, abs=1e-6)
    names = gym.load("radon-minnesota").coords["county"]
    assert {names[c] for c in np.flatnonzero(np.bincount(county) > 100)} == {"HENNEPIN", "ST LOUIS"}


def test_brownian_truth_against_a_kalman_smoother():
    """Another grid than the script's, and filter and smoother instead of matrices."""
    y = data.read("brownian_bridge")["observed"].astype(float)
    log_scale = np.arange(-19.03, 5.5, 0.11)
    s_i, s_o = np.exp(np.meshgrid(log_scale, log_scale, indexing="ij"))
    q, r = s_i**2, s_o**2
    log_weight = stats.norm.logpdf(np.log(s_i), 0, 2) + stats.norm.logpdf(np.log(s_o), 0, 2)
    mean, variance = np.zeros_like(q), np.zeros_like(q)
    filtered = []
    for observed in y:
        ahead = mean, variance + q
        mean, variance = ahead
        if np.isfinite(observed):
            total = variance + r
            log_weight += stats.norm.logpdf(observed, mean, np.sqrt(total))
            mean, variance = mean + variance / total * (observed - mean), variance * r / total
        filtered.append((ahead, (mean, variance)))
    smooth = [filtered[-1][1]]
    for (ahead, _), (_, now) in zip(filtered[:0:-1], filtered[-2::-1], strict=True):
        gain = now[1] / ahead[1]
        later = smooth[-1]
        smooth.append(
            (now[0] + gain * (later[0] - ahead[0]), now[1] + gain**2 * (later[1] - ahead[1]))
        )
    weight = special.softmax(log_weight)
    truth = gym.load("brownian-bridge").truth
    sides = {
        "innovation_noise_scale": [(s_i, 0)],
        "observation_noise_scale": [(s_o, 0)],
        "locs": smooth[::-1],
    }
    for name, conditional in sides.items():
        first = np.array([np.sum(weight * m) for m, _ in conditional])
        second = np.array([np.sum(weight * (m**2 + v)) for m, v in conditional])
        # The truth is rounded to 9 decimals.
        mean, sd, mean_se = (np.ravel(moment) for moment in truth[name])
        np.testing.assert_allclose(mean, first, rtol=0, atol=1e-9)
        np.testing.assert_allclose(sd, np.sqrt(second - first**2), rtol=0, atol=1e-9)
        assert not mean_se.any()
    moments = np.array([truth["innovation_noise_scale"][:2], truth["observation_noise_scale"][:2]])
    known = [[0.115534, 0.040306], [0.112656, 0.037538]]
    np.testing.assert_allclose(moments, known, rtol=0, atol=5e-7)


@every_state
def test_radon_truth_against_quadrature(state):
    """Given both scales all is Gaussian: moments follow from integrals over two numbers."""
    y, predictors, county = radon_rows(state)
    j = county.max() + 1
    truth = gym.load(f"radon-{state}").truth
    # Linear in (a, m, w): the columns of the rows, their products, and the prior of a given m.
    x = np.column_stack([county[:, None] == np.arange(j), np.zeros(len(y)), predictors])
    xx, xy, yy = x.T @ x, x.T @ y, y @ y
    between = np.column_stack([np.eye(j), -np.ones(j), np.zeros((j, 3))])
    fixed, bb = np.diag([0.0] * j + [1.0] * 4), between.T @ between
    center, spread = truth["log_radon_scale"][:2]
    r = center + spread * np.arange(-7, 7.1, 0.5)
    s = np.exp(np.arange(-7, 0.5, 0.125))
    first, second, log_weight = [], [], []
    for s_k in s:
        a = fixed + bb / s_k**2 + xx / r[:, None, None] ** 2
        variance = np.linalg.inv(a)
        mean = variance @ xy / r[:, None] ** 2
        fit = yy / r**2 - (mean @ xy) / r**2
        # s is uniform and the grid even in log s: one factor s more.
        log_weight.append(
            (1 - j) * np.log(s_k) - len(y) * np.log(r) - 0.5 * np.linalg.slogdet(a)[1] - 0.5 * fit
        )
        scales = np.column_stack([np.full_like(r, s_k), r])
        first.append(np.column_stack([mean, scales]))
        v = np.diagonal(variance, axis1=1, axis2=2)
        second.append(np.column_stack([mean**2 + v, scales**2]))
    weight = special.softmax(np.array(log_weight))
    first = np.einsum("sr,srp->p", weight, np.array(first))
    sd = np.sqrt(np.einsum("sr,srp->p", weight, np.array(second)) - first**2)
    names = ["county_effect", "county_effect_mean", "weight", "county_effect_scale"]
    gym_mean, gym_sd, gym_se = (
        np.concatenate([np.ravel(truth[n][i]) for n in [*names, "log_radon_scale"]])
        for i in range(3)
    )
    assert np.all(np.abs(gym_mean - first) < 4 * gym_se)
    # The published sds come without error. With n effective draws it is 1 / sqrt(2 n) of an sd,
    # and the error of a mean is 1 / sqrt(n) of it: the worst n of the run counts for all.
    np.testing.assert_allclose(gym_sd, sd, rtol=4 * np.max(gym_se / sd) / np.sqrt(2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logistic_far_out_and_at_zero(dtype):
    tiny = np.finfo(dtype).tiny
    u = np.array([-1e4, -90, -40, -1, 0, 1, 40, 90, 1e4], dtype)
    with jax.enable_x64(dtype == np.float64):
        found = transforms.logistic(jnp.asarray(u))
    wide = u.astype(np.longdouble)
    exact = transforms.Logistic(
        np.exp(-np.logaddexp(0, -wide)),
        np.exp(-np.logaddexp(0, wide)),
        np.logaddexp(0, wide),
        np.logaddexp(0, -wide),
    )
    for one, other in zip(found, exact, strict=True):
        assert one.dtype == dtype
        expected = np.maximum(other, tiny).astype(dtype)
        np.testing.assert_allclose(one, expected, rtol=100 * np.finfo(dtype).eps)


def test_with_gradient_has_all_derivatives_of_a_pytree():
    def plain(x):
        return jnp.sum(x["a"] ** 3) * jnp.exp(x["b"])

    def by_hand(x):
        e = jnp.exp(x["b"])
        value = jnp.sum(x["a"] ** 3) * e
        return value, {"b": value, "a": 3 * x["a"] ** 2 * e}

    x = {"a": jnp.array([1.0, -2.0, 0.5]), "b": jnp.array(0.3)}

    def derivatives(f):
        return jax.jit(lambda x: [d(f)(x) for d in (jax.grad, jax.jacfwd, jax.hessian)])(x)

    found, expected = derivatives(with_gradient(by_hand)), derivatives(plain)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
