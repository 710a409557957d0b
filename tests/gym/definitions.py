"""The posteriors on real data as their definitions read, in plain NumPy and one term after another.

Terms are functions of the flat unconstrained vector, and take complex numbers: the imaginary part
of f(x + ih) / h at h = 1e-30 is the derivative to full precision.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special, stats

from amalt import gym
from amalt.gym import data

LOG_TWO_PI = np.log(2 * np.pi)


def normal(x, mean, sd):
    return np.ravel(-0.5 * ((x - mean) / sd) ** 2 - np.log(sd) - 0.5 * LOG_TWO_PI)


def softplus(u):
    is_negative = np.real(u) < 0
    e = np.exp(np.where(is_negative, u, -u))
    return np.where(is_negative, 0, u) + np.log1p(e)


def to_hundred(u):
    return 100 * np.exp(-softplus(-u))


def log_scale_prior(u):
    """LogNormal(0, 2) of s = softplus(u), with the logarithm of ds/du = sigmoid(u)."""
    s = softplus(u)
    log_normal = -np.log(s) - np.log(2) - 0.5 * LOG_TWO_PI - np.log(s) ** 2 / 8
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
    s, r = to_hundred(u_s), to_hundred(u_r)
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


@functools.cache
def credit_rows():
    """Return the standardized attributes with a bias, and 1 for each bad risk."""
    raw = data.read("german_credit")
    x = np.column_stack([stats.zscore(raw["attributes"].astype(float)), np.ones(1000)])
    return x, raw["bad"].astype(float)


def bernoulli(y, logit):
    return y * logit - softplus(logit)


def logistic_terms(w):
    x, y = credit_rows()
    return np.concatenate([normal(w, 0, 1), bernoulli(y, x @ w)])


def gamma_prior(u):
    """Gamma(1/2, 1/2) of s = softplus(u), with the logarithm of ds/du."""
    # Below 1e-16 the logarithm of 1 + e^u is e^u.
    log_s = np.where(np.real(u) < -37, u, np.log(softplus(np.where(np.real(u) < -37, 0, u))))
    density = 0.5 * np.log(0.5) - special.gammaln(0.5) - 0.5 * log_s - 0.5 * softplus(u)
    return np.ravel([density, -softplus(-u)])


def sparse_terms(z):
    x, y = credit_rows()
    u_g, u_t, v = z[0], z[1:26], z[26:]
    w = v * softplus(u_t) * softplus(u_g)
    return np.concatenate(
        [gamma_prior(u_g), gamma_prior(u_t), normal(v, 0, 1), bernoulli(y, x @ w)]
    )


def log_phi(v):
    """The logarithm of the normal distribution function; SciPy's own does not see small steps."""
    real, log_value = np.real(v), special.log_ndtr(np.real(v))
    slope = np.exp(-0.5 * real**2 - 0.5 * LOG_TWO_PI - log_value)
    return log_value + 1j * np.imag(v) * slope if np.iscomplexobj(v) else log_value


def probit_terms(w):
    x, y = credit_rows()
    return np.concatenate([normal(w, 0, 1), log_phi((2 * y - 1) * (x @ w))])


@functools.cache
def answers():
    """Return student, question and 1 if right, for each answer."""
    raw = data.read("item_response")
    answered, correct = (
        np.unpackbits(raw[name], axis=1)[:, :100] for name in ("answered", "correct")
    )
    student, question = np.nonzero(answered)
    return student, question, correct[student, question].astype(float)


def item_response_terms(z):
    student, question, correct = answers()
    a, m, b = z[:400], z[400], z[401:]
    priors = [normal(a, 0, 1), normal(m, 0.75, 1), normal(b, 0, 1)]
    return np.concatenate([*priors, bernoulli(correct, m + a[student] - b[question])])


def cauchy(x, scale):
    return -np.log(np.pi * scale) - np.log1p((x / scale) ** 2)


def volatility_terms(num_days, z):
    u, mu, v, e = z[0], z[1], z[2], z[3:]
    differences = np.diff(data.read("sp500")["closing_price"])[-num_days:]
    r = differences - differences.mean()
    log_b, log_rest, s = -softplus(-u), -softplus(u), softplus(v)
    phi = np.exp(log_b) - np.exp(log_rest)
    h = [e[0] / np.sqrt(4 * np.exp(log_b + log_rest))]
    for shock in e[1:]:
        h.append(phi * h[-1] + shock)
    beta = 20 * log_b + 1.5 * log_rest - special.betaln(20, 1.5)
    priors = [beta, cauchy(mu, 5), np.log(2) + cauchy(s, 2), -softplus(-v)]
    volatility = np.exp((mu + s * np.array(h)) / 2)
    return np.concatenate([priors, normal(e, 0, 1), normal(r, 0, volatility)])


def cox_terms(z):
    u_a, u_l, f = z[0], z[1], z[2:]
    counts = data.read("log_gaussian_cox")["counts"].astype(float)
    cells = np.array([(i, j) for j in range(10) for i in range(10)])
    distance = np.sqrt(((cells[:, None] - cells) ** 2).sum(-1))
    rho = np.sqrt(3) * distance / (np.exp(u_l) + 0.001)
    k = (np.exp(u_a) + 0.001) ** 2 * (1 + rho) * np.exp(-rho) + 1e-6 * np.eye(100)
    residual = f - np.log(counts).mean()
    phase, log_size = np.linalg.slogdet(k)
    process = -0.5 * (residual @ np.linalg.solve(k, residual) + np.log(phase) + log_size)
    poisson = counts * f - np.exp(f) - special.gammaln(counts + 1)
    priors = [normal(u_a, -1, 0.5), normal(u_l, -1, 1)]
    return np.concatenate([*priors, [process - 50 * LOG_TWO_PI], poisson])


TERMS = {
    "brownian-bridge": brownian_terms,
    "german-credit": logistic_terms,
    "item-response": item_response_terms,
    "log-gaussian-cox": cox_terms,
    "probit-german-credit": probit_terms,
    "radon-indiana": functools.partial(radon_terms, "indiana"),
    "radon-minnesota": functools.partial(radon_terms, "minnesota"),
    "sparse-german-credit": sparse_terms,
    "stochastic-volatility": functools.partial(volatility_terms, 2516),
    "stochastic-volatility-small": functools.partial(volatility_terms, 100),
}


class Transform(NamedTuple):
    """How a coordinate that is not a real number is shown, and how that maps back."""

    forward: Callable[[np.ndarray], np.ndarray]
    inverse: Callable[[np.ndarray], np.ndarray]


SOFTPLUS = Transform(softplus, lambda s: s + np.log(-np.expm1(-s)))
TO_HUNDRED = Transform(to_hundred, lambda s: special.logit(s / 100))
EXP = Transform(np.exp, np.log)
TANH = Transform(lambda u: np.tanh(u / 2), lambda phi: 2 * np.arctanh(phi))

TRANSFORMS = {
    ("brownian-bridge", "innovation_noise_scale"): SOFTPLUS,
    ("brownian-bridge", "observation_noise_scale"): SOFTPLUS,
    ("log-gaussian-cox", "amplitude"): EXP,
    ("log-gaussian-cox", "length_scale"): EXP,
    ("radon-indiana", "county_effect_scale"): TO_HUNDRED,
    ("radon-indiana", "log_radon_scale"): TO_HUNDRED,
    ("radon-minnesota", "county_effect_scale"): TO_HUNDRED,
    ("radon-minnesota", "log_radon_scale"): TO_HUNDRED,
    ("sparse-german-credit", "global_scale"): SOFTPLUS,
    ("sparse-german-credit", "local_scales"): SOFTPLUS,
    ("stochastic-volatility", "persistence"): TANH,
    ("stochastic-volatility", "white_noise_shock_scale"): SOFTPLUS,
    ("stochastic-volatility-small", "persistence"): TANH,
    ("stochastic-volatility-small", "white_noise_shock_scale"): SOFTPLUS,
}
"""All other parts of positions are shown as they are, but for the shocks of the volatility."""


def center(name):
    """Return the known mean in the unconstrained space; 0 where the truth is of something else."""
    target = gym.load(name)
    known = []
    for part in target.parts:
        mean = target.truth[part.name][0] if part.name in target.truth else np.zeros(part.size)
        if (name, part.name) in TRANSFORMS:
            mean = TRANSFORMS[name, part.name].inverse(mean)
        known.append(np.ravel(mean))
    return np.concatenate(known)


def points(name, count, spread):
    """Return float32 points around the truth."""
    z = center(name)
    noise = np.random.default_rng(z.size).normal(size=(count, z.size))
    return (z + spread * noise).astype(np.float32)


def some_coordinates(name):
    """Return all coordinates, or every scalar of a large posterior and a few of each vector."""
    target = gym.load(name)
    if target.dim <= 100:
        return np.arange(target.dim)
    ends = np.cumsum([part.size for part in target.parts])
    rng = np.random.default_rng(target.dim)
    some = [
        np.unique(np.r_[begin, rng.integers(begin, end, 10), end - 1])
        for begin, end in zip([0, *ends[:-1]], ends, strict=True)
    ]
    return np.concatenate(some)


def slopes_of_terms(name, z):
    """Return the derivative of every term in some coordinates, ``[term, coordinate]``."""
    steps = 1e-30j * np.eye(z.size)[some_coordinates(name)]
    return np.stack([TERMS[name](z + step).imag / 1e-30 for step in steps], axis=1)


def value_and_grad(name, z):
    """Evaluate amalt's at the rows of z, in the precision that is set."""
    value, gradient = jax.jit(jax.vmap(gym.load(name).value_and_grad))(jnp.asarray(z))
    return np.asarray(value), np.asarray(gradient)
