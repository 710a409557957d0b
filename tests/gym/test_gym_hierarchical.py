"""Brownian bridge and radon against their definitions in plain NumPy, and against quadrature.

The references are sums of terms, written out house by house and step by step. They take complex
numbers, since the imaginary part of f(x + ih) / h at h = 1e-30 is the derivative to full precision.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import amalt
from amalt import gym
from amalt.gym import data, transforms
from amalt.gym.gradients import with_gradient

NAMES = ["brownian-bridge", "radon-indiana", "radon-minnesota"]
every_model = pytest.mark.parametrize("name", NAMES)
every_state = pytest.mark.parametrize("state", ["indiana", "minnesota"])
NUM_ROUNDINGS = 16


def normal(x, mean, sd):
    return np.ravel(-0.5 * ((x - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi))


def softplus(u):
    return np.log1p(np.exp(u)) if np.real(u) < 0 else u + np.log1p(np.exp(-u))


def log_scale_prior(u):
    """LogNormal(0, 2) of s = softplus(u), with the logarithm of ds/du = sigmoid(u)."""
    s = softplus(u)
    log_normal = -np.log(s) - np.log(2) - 0.5 * np.log(2 * np.pi) - np.log(s) ** 2 / 8
    return [log_normal, -softplus(-u)]


def brownian_terms(z):
    y = data.read("brownian_bridge")["observed"].astype(float)
    u_i, u_o, x = z[0], z[1], z[2:]
    s_i, s_o = softplus(u_i), softplus(u_o)
    seen = [t for t in range(30) if not 10 <= t < 20]
    return np.concatenate(
        [
            log_scale_prior(u_i),
            log_scale_prior(u_o),
            normal(x[0], 0, s_i),
            normal(x[1:], x[:-1], s_i),
            normal(y[seen], x[seen], s_o),
        ]
    )


@functools.cache
def radon_rows(state):
    """Return log radon and the three predictors of every house, and the county it stands in."""
    raw = data.read(f"radon_{state}")
    activity = raw["activity"].astype(float)
    activity[activity <= 0] = 0.1
    floor, county = raw["floor"].astype(float), raw["county"].astype(int)
    floor_by_county = np.array([floor[county == c].mean() for c in range(county.max() + 1)])
    log_uranium = np.log(raw["uranium"].astype(float))
    predictors = np.column_stack([log_uranium[county], floor, floor_by_county[county]])
    return np.log(activity), predictors, county


def radon_terms(state, z):
    y, predictors, county = radon_rows(state)
    uranium, floor, floor_by_county = predictors.T
    j = county.max() + 1
    a, m, u_s, u_r, w = z[:j], z[j], z[j + 1], z[j + 2], z[j + 3 :]
    s, r = (100 * np.exp(-softplus(-u)) for u in (u_s, u_r))
    jacobian = [np.log(100) - softplus(u) - softplus(-u) for u in (u_s, u_r)]
    return np.concatenate(
        [
            normal(m, 0, 1),
            normal(w, 0, 1),
            normal(a, m, s),
            normal(y, w[0] * uranium + w[1] * floor + w[2] * floor_by_county + a[county], r),
            [-np.log(100), -np.log(100), *jacobian],
        ]
    )


def terms(name, z):
    return brownian_terms(z) if name == "brownian-bridge" else radon_terms(name[6:], z)


def slopes_of_terms(name, z):
    """Return the derivative of every term in every coordinate, ``[term, coordinate]``."""
    steps = 1e-30j * np.eye(z.size)
    return np.stack([terms(name, z + step).imag / 1e-30 for step in steps], axis=1)


def points(name, count, spread):
    """Return float32 points around the truth, and around scales of 1/4 to 4 times the truth."""
    target = gym.load(name)
    inverse = {"brownian-bridge": lambda s: np.log(np.expm1(s))}.get(
        name, lambda s: special.logit(s / 100)
    )
    center = [
        np.ravel(inverse(target.truth[p.name][0]) if "scale" in p.name else target.truth[p.name][0])
        for p in target.parts
    ]
    noise = np.random.default_rng(target.dim).normal(size=(count, target.dim))
    return (np.concatenate(center) + spread * noise).astype(np.float32)


def value_and_grad(name, z):
    value, gradient = jax.jit(jax.vmap(gym.load(name).value_and_grad))(jnp.asarray(z))
    return np.asarray(value), np.asarray(gradient)


@every_model
@pytest.mark.parametrize("spread", [0.1, 1.0])
def test_log_density_and_gradient_in_float64(name, spread):
    z = points(name, 5, spread).astype(float)
    with jax.enable_x64(True):
        value, gradient = value_and_grad(name, z)
    assert value.dtype == gradient.dtype == np.float64
    exact = np.array([terms(name, row).sum() for row in z])
    np.testing.assert_allclose(value, exact, rtol=1e-10)
    np.testing.assert_allclose(value - value[0], exact - exact[0], rtol=1e-10, atol=1e-10)
    slopes = np.array([slopes_of_terms(name, row).sum(0) for row in z])
    np.testing.assert_allclose(gradient, slopes, rtol=1e-10, atol=1e-12 * np.abs(slopes).max())


@every_model
@pytest.mark.parametrize("spread", [0.1, 1.0])
def test_log_density_and_gradient_in_float32(name, spread):
    """Errors are a few roundings of every term; 16 leave room for numbers that meet in a term."""
    z = points(name, 5, spread)
    value, gradient = value_and_grad(name, z)
    assert value.dtype == gradient.dtype == np.float32
    unit = NUM_ROUNDINGS * np.finfo(np.float32).eps
    for row, v, g in zip(z.astype(float), value, gradient, strict=True):
        exact, slopes = terms(name, row), slopes_of_terms(name, row)
        assert abs(v - exact.sum()) < unit * np.abs(exact).sum()
        assert np.all(np.abs(g - slopes.sum(0)) < unit * np.abs(slopes).sum(0))


@pytest.mark.parametrize("name", ["brownian-bridge", "radon-indiana"])
def test_second_derivatives_at_zero_are_those_of_the_gradient(name):
    """The example position is 0, where the branches of sigmoid and softplus meet."""
    with jax.enable_x64(True):
        target = gym.load(name)
        hessian = np.asarray(jax.jit(jax.hessian(target.logdensity))(jnp.zeros(target.dim)))
        step = 1e-5 * np.eye(target.dim)
        above, below = np.split(value_and_grad(name, np.concatenate([step, -step]))[1], 2)
    np.testing.assert_allclose(hessian, (above - below) / 2e-5, atol=1e-7 * np.abs(hessian).max())


@every_model
def test_starting_points_are_finite_and_exact_in_float32(name):
    dim = gym.load(name).dim
    z = np.random.default_rng(1).uniform(-2, 2, (500, dim)).astype(np.float32)
    value, gradient = value_and_grad(name, z)
    assert np.isfinite(gradient).all()
    exact = np.array([terms(name, row).sum() for row in z[:20].astype(float)])
    np.testing.assert_allclose(value[:20], exact, rtol=1e-5)


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
        np.testing.assert_allclose(v, terms(name, row).sum(), rtol=1e-5)
        for i in scales:
            step = 1e-4 * np.eye(target.dim)[i]
            slope = np.sum(terms(name, row + step) - terms(name, row - step)) / 2e-4
            np.testing.assert_allclose(g[i], slope, rtol=1e-5, atol=1e-5)


@every_model
def test_log_density_is_never_nan(name):
    """Where the squares overflow it is -inf, and only there the gradient is lost."""
    rng = np.random.default_rng(2)
    dim = gym.load(name).dim
    z = rng.normal(size=(2000, dim)) * 10.0 ** rng.uniform(-3, 3, (2000, dim))
    value, gradient = value_and_grad(name, z.astype(np.float32))
    assert not np.isnan(value).any()
    assert not np.isposinf(value).any()
    assert np.isfinite(gradient[np.isfinite(value)]).all()
    assert 0.1 < np.isfinite(value).mean() < 1


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


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "is_neck"), [(NAMES[0], True), (NAMES[1], False), (NAMES[2], True)]
)
def test_sampler_finds_the_truth(name, is_neck):
    """Chains leave the necks of two models slowly: a tenth of an sd there, else the errors."""
    fit = amalt.sample(name, chains=128, tune=1500, draws=500, random_seed=1, progressbar=False)
    for variable, (mean, sd, mean_se) in gym.load(name).truth.items():
        of_chains = fit.posterior[variable].mean("draw").values
        error = np.hypot(of_chains.std(0, ddof=1) / np.sqrt(len(of_chains)), mean_se)
        bound = 0.1 * sd if is_neck else 4 * error
        assert np.all(np.abs(of_chains.mean(0) - mean) < bound), variable
