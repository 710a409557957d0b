"""The built-in posteriors against references written from their definitions in float64."""

import importlib
import inspect
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from amalt import gym
from amalt.errors import SettingsError
from amalt.gym import banana, funnel, gaussian, registry

from .definitions import TRANSFORMS

NORMAL = stats.norm.logpdf
GAUSSIANS = [{}, {"rotate": False}, {"dim": 7, "condition": 1e6, "seed": 3}, {"dim": 1}]


def reference_eight_schools(z):
    mean, log_stddev, effects = z[0], z[1], z[2:]
    y = np.array([28, 8, -3, 7, -1, 1, 18, 12])
    sd = np.array([15, 10, 16, 11, 9, 11, 10, 18])
    prior = NORMAL(mean, 0, 10) + NORMAL(log_stddev, 5, 1)
    return prior + NORMAL(effects, mean, np.exp(log_stddev)).sum() + NORMAL(y, effects, sd).sum()


def reference_funnel(z):
    return NORMAL(z[0], 0, 3) + NORMAL(z[1:], 0, np.exp(z[0] / 2)).sum()


def reference_banana(z):
    return NORMAL(z[0], 0, 10) + NORMAL(z[1], 0.03 * (z[0] ** 2 - 100), 1)


def reference_gaussian(**options):
    return stats.multivariate_normal(cov=gaussian.covariance(**options)).logpdf


CASES = [
    ("eight-schools", {}, reference_eight_schools),
    ("funnel", {}, reference_funnel),
    ("funnel", {"dim": 2}, reference_funnel),
    ("banana", {}, reference_banana),
    *(("gaussian", options, reference_gaussian(**options)) for options in GAUSSIANS),
]
LABELS = [name + "".join(f"-{k}={v}" for k, v in options.items()) for name, options, _ in CASES]


every_case = pytest.mark.parametrize(("name", "options", "reference"), CASES, ids=LABELS)
every_name = pytest.mark.parametrize("name", gym.names())


def value_and_grad(name, options, z):
    """Evaluate at the rows of z, in the precision that is set."""
    return jax.vmap(gym.load(name, **options).value_and_grad)(jnp.asarray(z))


@every_case
def test_log_density_and_gradient_in_float64(name, options, reference):
    dim = gym.load(name, **options).dim
    z = np.random.default_rng(dim).normal(size=(4, dim)) * 1.5
    with jax.enable_x64(True):
        value, gradient = map(np.asarray, value_and_grad(name, options, z))
    assert value.dtype == gradient.dtype == np.float64
    np.testing.assert_allclose(value, [reference(row) for row in z], rtol=1e-9)
    step = 1e-5 * np.eye(dim)
    for row, found in zip(z, gradient, strict=True):
        slope = [(reference(row + h) - reference(row - h)) / 2e-5 for h in step]
        np.testing.assert_allclose(found, slope, rtol=1e-5, atol=1e-6 * np.abs(slope).max())


@every_case
def test_log_density_and_gradient_in_float32(name, options, reference):
    dim = gym.load(name, **options).dim
    z = np.random.default_rng(dim + 1).normal(size=(4, dim)).astype(np.float32)
    value, gradient = value_and_grad(name, options, z)
    assert value.dtype == gradient.dtype == jnp.float32
    np.testing.assert_allclose(value, [reference(row) for row in z.astype(float)], rtol=1e-5)
    with jax.enable_x64(True):
        exact = np.asarray(value_and_grad(name, options, z.astype(float))[1])
    scale = np.abs(exact).max(1, keepdims=True)
    np.testing.assert_allclose(gradient / scale, exact / scale, atol=1e-5)


@every_name
def test_every_target_is_named_described_and_has_a_truth(name):
    target = gym.load(name)
    assert target.name == name
    summary = gym.describe(name)
    assert 10 < len(summary) < 100
    assert "\n" not in summary
    assert set(target.truth) == {v.name for v in target.variables}
    for variable in target.variables:
        mean, sd, mean_se = target.truth[variable.name]
        assert mean.shape == sd.shape == mean_se.shape == variable.shape
        assert mean.dtype == np.float64
        assert np.all(sd > 0)
        assert np.all((mean_se >= 0) & (mean_se < 0.02 * sd))


@every_name
def test_constrain_keeps_leading_axes_and_the_order_of_the_flat_vector(name):
    target = gym.load(name)
    z = np.linspace(-6, 6, 2 * 3 * target.dim, dtype=np.float32).reshape(2, 3, target.dim)
    variables = target.constrain(z)
    ends = np.cumsum([part.size for part in target.parts])
    for part, flat in zip(target.parts, np.split(z, ends[:-1], axis=-1), strict=True):
        if part.name == "std_log_volatility":  # shown as what it adds up to
            assert variables["log_volatility"].shape == flat.shape
            continue
        found = np.reshape(variables[part.name], (2, 3, -1))
        if (name, part.name) in TRANSFORMS:
            expected = TRANSFORMS[name, part.name].forward(flat.astype(float))
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
        else:
            np.testing.assert_array_equal(found, flat)


def test_variables_shapes_and_labels():
    schools = gym.load("eight-schools")
    assert [(v.name, v.shape) for v in schools.variables] == [
        ("avg_effect", ()),
        ("log_stddev", ()),
        ("school_effects", (8,)),
    ]
    assert schools.coords["school"][0] == "Choate"
    credit = gym.load("german-credit")
    assert [(v.name, v.shape) for v in credit.variables] == [("weights", (25,))]
    assert credit.dims == {"weights": ("feature",)}
    assert credit.coords["feature"][::23] == ["attribute_1", "attribute_24"]
    assert credit.coords["feature"][-1] == "bias"
    assert [v.name for v in gym.load("funnel").variables] == ["log_variance", "x"]


def test_default_sizes():
    sizes = {name: gym.load(name).dim for name in gym.names()}
    assert sizes == {
        "banana": 2,
        "brownian-bridge": 32,
        "eight-schools": 10,
        "funnel": 10,
        "gaussian": 100,
        "german-credit": 25,
        "item-response": 501,
        "log-gaussian-cox": 102,
        "probit-german-credit": 25,
        "radon-indiana": 97,
        "radon-minnesota": 91,
        "sparse-german-credit": 51,
        "stochastic-volatility": 2519,
        "stochastic-volatility-small": 103,
    }


def test_banana_is_normalized_and_has_its_moments():
    x0, step0 = np.linspace(-90, 90, 721, retstep=True)
    x1, step1 = np.linspace(-15, 250, 1061, retstep=True)
    grid = np.stack(np.meshgrid(x0, x1, indexing="ij"), -1).reshape(-1, 2)
    with jax.enable_x64(True):
        log_density = jax.jit(jax.vmap(lambda row: banana.logdensity({"x": row})))
        weight = np.exp(np.asarray(log_density(jnp.asarray(grid)))) * step0 * step1
    mean, sd, _ = gym.load("banana").truth["x"]
    assert weight.sum() == pytest.approx(1, abs=1e-9)
    np.testing.assert_allclose(weight @ grid, mean, atol=1e-9)
    np.testing.assert_allclose(weight @ grid**2, sd**2, rtol=1e-9)


def test_funnel_is_normalized_and_has_its_moments():
    v, step_v = np.linspace(-30, 36, 1321, retstep=True)
    t, step_t = np.linspace(-9, 9, 181, retstep=True)
    v, t = (axis.ravel() for axis in np.meshgrid(v, t, indexing="ij"))
    x = t * np.exp(v / 2)
    with jax.enable_x64(True):
        position = {"log_variance": jnp.asarray(v), "x": jnp.asarray(x)[:, None]}
        log_density = np.asarray(jax.vmap(funnel.logdensity)(position))
    weight = np.exp(log_density + v / 2) * step_v * step_t
    truth = gym.load("funnel", dim=2).truth
    assert weight.sum() == pytest.approx(1, abs=1e-9)
    assert weight @ v**2 == pytest.approx(truth["log_variance"][1] ** 2, rel=1e-9)
    assert weight @ x**2 == pytest.approx(truth["x"][1].item() ** 2, rel=1e-7)


def test_funnel_stays_finite_far_up_and_down():
    target = gym.load("funnel")
    for v in (-60.0, 60.0):
        z = jnp.full(10, 1e-13 if v < 0 else 1e12).at[0].set(v)
        value, gradient = target.value_and_grad(z)
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()


def test_eight_schools_truth_against_quadrature():
    """Given log_stddev all is Gaussian: moments follow from integrals over one number."""
    y = np.array([28, 8, -3, 7, -1, 1, 18, 12.0])
    s2 = np.array([15, 10, 16, 11, 9, 11, 10, 18.0]) ** 2
    ell = np.linspace(-5, 12, 8001)
    tau2 = np.exp(2 * ell)[:, None]
    precision = 1 / (s2 + tau2)
    mu_var = 1 / (1 / 100 + precision.sum(1))
    mu_mean = mu_var * (precision @ y)
    log_marginal = 0.5 * (np.log(precision).sum(1) - precision @ y**2)
    log_marginal += 0.5 * (np.log(mu_var) + mu_mean**2 / mu_var)
    weight = special.softmax(NORMAL(ell, 5, 1) + log_marginal)
    shrink = tau2 / (s2 + tau2)
    theta_mean = shrink * y + (1 - shrink) * mu_mean[:, None]
    theta_var = shrink * s2 + (1 - shrink) ** 2 * mu_var[:, None]
    exact = {
        "avg_effect": (mu_mean, mu_var),
        "log_stddev": (ell, np.zeros_like(ell)),
        "school_effects": (theta_mean, theta_var),
    }
    for name, (mean, sd, mean_se) in gym.load("eight-schools").truth.items():
        first = weight @ exact[name][0]
        second = weight @ (exact[name][0] ** 2 + exact[name][1])
        # 10 comparisons of means; the published sds come without error, 1 % is 5 of theirs.
        assert np.all(np.abs(mean - first) < 4 * mean_se)
        np.testing.assert_allclose(sd, np.sqrt(second - first**2), rtol=0.01)


@pytest.mark.parametrize("options", GAUSSIANS, ids=str)
def test_gaussian_truth_is_the_covariance_of_the_log_density(options):
    with jax.enable_x64(True):
        target = gym.load("gaussian", **options)
        hessian = np.asarray(jax.hessian(target.logdensity)(jnp.zeros(target.dim)))
    covariance = np.linalg.inv(-hessian)
    np.testing.assert_allclose(covariance, gaussian.covariance(**options), atol=1e-9)
    mean, sd, mean_se = target.truth["x"]
    np.testing.assert_allclose(sd, np.sqrt(np.diag(covariance)), rtol=1e-8)
    assert not mean.any()
    assert not mean_se.any()


def test_gaussian_covariance_has_the_condition_number_asked_for():
    for rotate in (True, False):
        matrix = gaussian.covariance(20, 1e3, rotate)
        variances = np.linalg.eigvalsh(matrix)
        np.testing.assert_allclose(variances, np.geomspace(1e-3, 1, 20), rtol=1e-9)
        assert np.array_equal(matrix, np.diag(np.diag(matrix))) is not rotate
    assert np.array_equal(gaussian.covariance(5, 1e3), gaussian.covariance(5, 1e3, True, 10))
    assert not np.allclose(gaussian.covariance(5, 1e3, seed=1), gaussian.covariance(5, 1e3))
    np.testing.assert_array_equal(gaussian.covariance(1), [[1.0]])


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(SettingsError, match=r"'german_credit'.*Did you mean 'german-credit'\?"):
        gym.load("german_credit")
    with pytest.raises(SettingsError, match="known are banana, brownian-bridge"):
        gym.describe("zzz")
    with pytest.raises(SettingsError, match="no built-in posterior 3"):
        gym.load(3)


def test_unknown_option_names_it_and_the_known_ones():
    with pytest.raises(
        SettingsError, match=r"'dimm'.*dim, condition, rotate, seed.*Did you mean 'dim'\?"
    ):
        gym.load("gaussian", dimm=3)
    with pytest.raises(SettingsError, match="'banana' does not know the option 'dim'; it has no"):
        gym.load("banana", dim=3)


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("gaussian", "dim", 0),
        ("gaussian", "dim", 2.0),
        ("gaussian", "dim", True),
        ("gaussian", "dim", "3"),
        ("gaussian", "condition", 0.5),
        ("gaussian", "condition", math.nan),
        ("gaussian", "condition", math.inf),
        ("gaussian", "condition", "big"),
        ("gaussian", "condition", None),
        ("gaussian", "rotate", "no"),
        ("gaussian", "rotate", 1),
        ("gaussian", "seed", -1),
        ("funnel", "dim", 1),
    ],
)
def test_unusable_option_is_named_with_its_value(name, option, value):
    with pytest.raises(SettingsError) as caught:
        gym.load(name, **{option: value})
    message = str(caught.value)
    assert f"option {option!r} of {name!r} is {value!r}; pass" in message


def test_numpy_scalars_are_options():
    options = {"dim": np.int64(3), "condition": np.float32(4), "rotate": np.bool_(False)}
    assert gym.load("gaussian", **options).dim == 3


@every_name
def test_every_option_has_a_default_and_a_description(name):
    module = importlib.import_module(f"amalt.gym.{registry.ENTRIES[name].module}")
    for option in inspect.signature(module.build).parameters.values():
        assert option.default is not inspect.Parameter.empty
        assert f"\n    {option.name}\n" in module.build.__doc__
