"""ADVI: the fit against exact optima, what bad regions do to it, and chains that begin there.

Standard errors of the fit come from theory. Where the ELBO is stationary, let V be the covariance
of the gradient of one step and H the derivative of its mean: the average of n iterates has the
covariance V' / n with V' = inv(H) V inv(H)', whatever the step size (Polyak and Juditsky, 1992).
"""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from typer.testing import CliRunner

import amalt
from amalt.cli.app import app
from amalt.randomness import Phase, phase_key, root_key
from amalt.start import MeanField, advi, find

KEY = phase_key(root_key(7)[0], Phase.START)
FINE = {"steps": 20_000, "learning_rate": 0.02}
AVERAGED = FINE["steps"] // 4
Z_BOUND = 4.5
"""Of some 30 comparisons one goes beyond with probability 2e-4, were the errors exactly normal."""


def gaussian(mean, precision):
    def logdensity(x):
        return (
            -0.5
            * (x - jnp.asarray(mean, x.dtype))
            @ jnp.asarray(precision, x.dtype)
            @ (x - jnp.asarray(mean, x.dtype))
        )

    return amalt.Target(logdensity, jnp.zeros(len(mean)), name="gaussian")


# --- the optimum -------------------------------------------------------------------------------


def test_correlated_gaussian_has_the_known_optimum():
    """s_i^2 = 1 / Lambda_ii, at the mean.

    There f = B e with B = diag(1 / s) - Lambda diag(s), whose diagonal is 0: V = B B' and H =
    -Lambda for m. For r, f_i e_i ds/dr has the variance sum_j B_ij^2 (ds/dr)^2, and H is
    -2 Lambda_ii (ds/dr)^2.
    """
    rng = np.random.default_rng(1)
    dim = 6
    root = rng.normal(size=(dim, dim)) / math.sqrt(dim)
    sd = np.exp(rng.normal(size=dim))
    covariance = sd[:, None] * (root @ root.T + 0.05 * np.eye(dim)) * sd
    mean, precision = 2.0 * rng.normal(size=dim), np.linalg.inv(covariance)
    scale = 1.0 / np.sqrt(np.diag(precision))
    assert np.max(np.sqrt(np.diag(covariance)) / scale) > 1.5  # the marginal sds are others

    b = np.diag(1.0 / scale) - precision * scale
    mean_se = np.sqrt(np.diag(covariance @ b @ b.T @ covariance) / AVERAGED)
    scale_se = np.sqrt(np.sum(b**2, axis=1) / AVERAGED) / (2.0 * np.diag(precision))
    q = advi(gaussian(mean, precision), random_seed=1, **FINE)
    assert np.max(np.abs(q.mean - mean) / mean_se) < Z_BOUND
    assert np.max(np.abs(q.scale - scale) / scale_se) < Z_BOUND


@pytest.mark.parametrize("seed", [1, 2])
def test_where_q_equals_p_the_gradient_has_no_noise(seed):
    """Independent coordinates, the default settings, sds from 0.1 to 10.

    With parameters that move inside log q, f would be grad log p = -e / sd there and f e + 1 / s
    would have the variance 2 / s^2: the errors of the mean, in sds, would be N(0, 1 / n), those of
    log s N(0, 1 / (2 n)), over n = 500 averaged iterates. Here they are several times smaller: the
    bounds are thirds, which 50 coordinates of such noise do not fall below.
    """
    sd, mean = np.geomspace(0.1, 10.0, 50), np.linspace(-5.0, 5.0, 50)
    q = advi(gaussian(mean, np.diag(sd**-2.0)), random_seed=seed)
    assert np.sqrt(np.mean(((q.mean - mean) / sd) ** 2)) < math.sqrt(1.0 / 500) / 3
    assert np.sqrt(np.mean(np.log(q.scale / sd) ** 2)) < math.sqrt(0.5 / 500) / 3


NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(100)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def optimum(slope):
    """Return (m, r) where the ELBO of a one-dimensional slope of log p is stationary, and V'."""

    def gradients(parameters):
        m, r = parameters
        s = np.logaddexp(0.0, r)
        f = slope(m + s * NODES) + NODES / s
        return np.stack([f, f * NODES / (1.0 + np.exp(-r))])

    def expected(parameters):
        return gradients(parameters) @ WEIGHTS

    found = scipy.optimize.root(expected, np.array([0.0, 0.0]), tol=1e-12)
    assert found.success
    noise = gradients(found.x) * WEIGHTS @ gradients(found.x).T
    h = 1e-5 * np.eye(2)
    derivative = np.stack(
        [(expected(found.x + d) - expected(found.x - d)) / 2e-5 for d in h], axis=1
    )
    inverse = np.linalg.inv(derivative)
    return found.x, inverse @ noise @ inverse.T


def test_a_transformed_variable_brings_its_jacobian():
    """s ~ Gamma(2, 3), s = log(1 + e^u): log p(u) = log s - 3 s + log ds/du."""

    def slope(u, jacobian):
        s, ds = np.logaddexp(0.0, u), 1.0 / (1.0 + np.exp(-u))
        return (1.0 / s - 3.0) * ds + jacobian * (1.0 - ds)

    def logdensity(u):
        s = jax.nn.softplus(u)
        return jnp.log(s) - 3.0 * s + jax.nn.log_sigmoid(u)

    q = advi(amalt.Target(logdensity, 0.0), random_seed=1, **FINE)
    parameters = np.array([q.mean[0], math.log(math.expm1(q.scale[0]))])
    exact, covariance = optimum(lambda u: slope(u, 1.0))
    se = np.sqrt(np.diag(covariance) / AVERAGED)
    assert np.max(np.abs(parameters - exact) / se) < Z_BOUND
    without, _ = optimum(lambda u: slope(u, 0.0))
    assert np.min(np.abs(without - exact) / se) > 10 * Z_BOUND


def test_double_precision(x64):
    q = advi(gaussian([2.0, -1.0], np.diag([4.0, 0.25])), random_seed=1)
    assert q.mean.dtype == q.scale.dtype == q.draw(3, random_seed=1).dtype == jnp.float64
    # The test above bounds such errors.
    np.testing.assert_allclose(q.mean, [2.0, -1.0], atol=2.0 * math.sqrt(1.0 / 500))
    np.testing.assert_allclose(q.scale, [0.5, 2.0], rtol=math.sqrt(0.5 / 500))


def test_same_seed_same_fit():
    target = gaussian([1.0, 2.0], np.array([[2.0, 1.0], [1.0, 2.0]]))
    first, again, other = (advi(target, random_seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.mean, again.mean)
    np.testing.assert_array_equal(first.scale, again.scale)
    assert not np.any(first.mean == other.mean)


def test_draws_have_the_moments_of_q():
    q = MeanField(jnp.array([1.0, -2.0]), jnp.array([0.5, 3.0]))
    e = (np.asarray(q.draw(4000, random_seed=1)) - np.asarray(q.mean)) / np.asarray(q.scale)
    assert np.all(np.abs(e.mean(0)) < Z_BOUND / math.sqrt(4000))
    assert np.all(np.abs((e**2).mean(0) - 1.0) < Z_BOUND * math.sqrt(2.0 / 4000))
    assert abs((e[:, 0] * e[:, 1]).mean()) < Z_BOUND / math.sqrt(4000)


# --- densities that are not finite everywhere --------------------------------------------------


def test_a_rare_bad_draw_changes_little():
    """The draws with x_0 > 2.3, 1 % of N(0, 1), are not usable: their gradient is not a number.

    Without them q has E f_0 = E[-e_0 + e_0] = 0 still, so the optimum is the same.
    """

    def logdensity(x):
        return -0.5 * jnp.sum(x**2) + 0.0 * jnp.sqrt(2.3 - x[0])

    q = advi(amalt.Target(logdensity, jnp.zeros(20)), random_seed=1)
    assert np.max(np.abs(q.mean)) < Z_BOUND / math.sqrt(500)
    assert np.max(np.abs(jnp.log(q.scale))) < Z_BOUND * math.sqrt(0.5 / 500)


@pytest.mark.parametrize(("bad", "low"), [(jnp.nan, 0.0), (-jnp.inf, 1.0), (jnp.inf, 1.0)])
def test_hard_walls_neither_stop_nor_trap_the_fit(bad, low):
    """A box around which nothing is finite, with a slope that leads into its corner.

    Every chain begins inside: none has to borrow a point, which would warn.
    """

    def logdensity(x):
        return jnp.where(jnp.all((x > low) & (x < low + 1.0)), -jnp.sum(x), bad)

    target = amalt.Target(logdensity, jnp.zeros(3))
    for seed in range(2):
        key = phase_key(root_key(seed)[0], Phase.START)
        found = find(target, "advi", key, 16)
        x = np.asarray(found.states.position)
        assert np.all((x > low) & (x < low + 1.0))
        assert np.min(x.std(0)) > 0.02  # they are spread, not stuck at one point
        assert found.attempts > 1


def test_a_gradient_too_large_to_square_does_not_stop_the_climb():
    """Adam moves by no more than some learning rates, so its average is that near to a needle."""
    target = amalt.Target(lambda x: -0.5 * ((x - 1.0) / 1e-12) ** 2, 0.0)
    gradient = float(target.value_and_grad(jnp.zeros(1))[1][0])
    assert gradient**2 > float(np.finfo(np.float32).max)
    assert abs(float(advi(target, random_seed=1).mean[0]) - 1.0) < 0.1


def nan_but_at_b_zero(x):
    return jnp.where(x["b"] == 0.0, -0.5 * jnp.sum(x["a"] ** 2), jnp.nan)


def test_nothing_finite_is_an_error_that_names_the_variable():
    target = amalt.Target(nan_but_at_b_zero, {"a": jnp.zeros(2), "b": 0.0}, name="model")
    expected = (
        "none of 2000 draws of ADVI is usable: the log density of 'model' is nan. "
        r"The cause is 'b' \(b = .*\)\. Constrain the variable"
    )
    with pytest.raises(amalt.StartError, match=expected):
        advi(target, random_seed=1)
    with pytest.raises(amalt.StartError, match=expected):
        amalt.sample(target, init="advi", chains=4, random_seed=1)


def test_a_gradient_that_is_never_finite_is_named():
    target = amalt.Target(lambda x: -0.5 * jnp.sum(x**2) + 0.0 * jnp.sqrt(0.0 * x[1]), jnp.zeros(3))
    with pytest.raises(amalt.StartError, match=r"the gradient is nan for 'x\[1\]' \(at x\[1\] = "):
        advi(target, random_seed=1)


def test_a_coordinate_that_does_not_matter_is_refused_as_for_other_starts():
    target = amalt.Target(lambda x: -0.5 * x["a"] ** 2, {"a": 0.0, "b": 0.0})
    with pytest.raises(amalt.TargetError, match="does not depend on 'b'"):
        find(target, "advi", KEY, 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps=0: it must be at least 1"),
        ({"steps": 2.5}, "steps=2.5 is a float: pass a whole number"),
        ({"learning_rate": 0.0}, "learning_rate=0.0: it must be above 0"),
        ({"learning_rate": 2}, "learning_rate=2.0: .* at most 1"),
        ({"learning_rate": math.nan}, "learning_rate=nan"),
        ({"learning_rate": "fast"}, "learning_rate='fast' is a str: pass a number"),
        ({"random_seed": -1}, "random_seed=-1"),
    ],
)
def test_arguments_that_cannot_be_used(options, message):
    with pytest.raises(amalt.SettingsError, match=message):
        advi(gaussian([0.0], np.eye(1)), **options)


def test_other_models_than_targets():
    with pytest.raises(amalt.TargetError, match="a function alone does not tell the shape"):
        advi(lambda x: -(x**2))
    assert advi("banana", random_seed=1, steps=1).mean.shape == (2,)


# --- chains begin there ------------------------------------------------------------------------


def test_starts_are_draws_of_the_fit_whatever_the_number_of_chains():
    target = gaussian([1.0, 2.0], np.array([[2.0, 1.0], [1.0, 2.0]]))
    points = [np.asarray(find(target, "advi", KEY, k).states.position) for k in (1, 8, 16)]
    np.testing.assert_array_equal(points[0], points[2][:1])
    np.testing.assert_array_equal(points[1], points[2][:8])
    assert len(np.unique(points[2], axis=0)) == 16
    drawn = advi(target, random_seed=7).draw(16, random_seed=7)
    # The last bits may differ: one program adds and multiplies in one operation, one in two.
    np.testing.assert_allclose(points[2], drawn, rtol=1e-6, atol=1e-6)


def test_cost_is_what_the_density_saw():
    evaluated = []

    def logdensity(x):
        jax.debug.callback(lambda _: evaluated.append(1), x)
        return -0.5 * jnp.sum(x**2)

    found = find(amalt.Target(logdensity, jnp.zeros(2)), "advi", KEY, 5)
    jax.effects_barrier()
    assert (found.attempts, found.gradients_shared) == (1, 2001)
    assert len(evaluated) == found.gradients_shared + 5 * found.attempts


def test_chains_begin_inside_the_posterior():
    """A log-concave posterior, nearly Gaussian: no conditional is wider than its marginal.

    So the start of a chain is, in posterior sds, no further from the mean than a draw: the square
    averages at most 1, up to the error of 128 x 25 squares of normal numbers.
    """
    target = amalt.gym.load("german-credit")
    mean, sd, _ = target.truth["weights"]
    x = np.asarray(find(target, "advi", KEY, 128).states.position)
    square = np.mean(((x - mean) / sd) ** 2)
    assert 0.25 < square < 1.0 + Z_BOUND * math.sqrt(2.0 / x.size)


def test_a_whole_run_from_the_command_line():
    options = "--init advi --chains 8 --tune 60 --draws 20 --seed 1 --json"
    result = CliRunner().invoke(app, ["sample", "german-credit", *options.split()])
    shown = json.loads(result.stdout)
    assert shown["settings"]["init"] == "advi"
    assert shown["cost"]["gradients_start"] == 1
    assert shown["cost"]["gradients_shared"] == 2001
    truth = amalt.gym.load("german-credit").truth["weights"]
    means = np.array([shown["summary"][name]["mean"] for name in shown["summary"]])
    # 160 draws that are worth a few dozen: within one posterior sd is five errors and more.
    assert np.all(np.abs(means - truth[0]) < truth[1])


def test_other_starts_share_no_gradients():
    assert find(gaussian([0.0], np.eye(1)), "uniform", KEY, 2).gradients_shared == 0


def test_climb_begins_at_the_example_position():
    """Far from the origin it arrives; with the origin outside of the support, too."""
    far = amalt.Target(lambda x: -0.5 * jnp.sum((x - 1e4) ** 2), jnp.full(2, 1e4))
    np.testing.assert_allclose(advi(far, random_seed=1).mean, 1e4, atol=0.5)
    above = amalt.Target(
        lambda x: jnp.where(x[0] > 5.0, -0.5 * jnp.sum((x - 9.0) ** 2), -jnp.inf), jnp.full(1, 6.0)
    )
    assert float(advi(above, random_seed=1).mean[0]) == pytest.approx(9.0, abs=0.5)


def test_a_mean_that_is_still_under_way_is_told():
    far = amalt.Target(lambda x: -0.5 * jnp.sum((x["a"] - 1e4) ** 2), {"a": jnp.zeros(2)})
    with pytest.warns(amalt.AmaltWarning, match=r"its mean still moves, in 'a\[0\]', 'a\[1\]'"):
        advi(far, random_seed=1)
