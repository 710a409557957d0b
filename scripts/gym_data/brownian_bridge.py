"""The Brownian bridge: its observations, and its exact moments by quadrature."""

from __future__ import annotations

import ast

import numpy as np

from gym_data.sources import Arrays, SourceError

NUM_TIMES, NUM_OBSERVED = 30, 20
LOG_SCALE_SD = 2.0

# The integrand is analytic and vanishes on all sides, where the trapezoidal rule converges
# exponentially: half the step, or a wider range, changes no moment by more than 2e-13.
LOG_SCALES = np.arange(-20.0, 6.0, 0.1)

DIGITS = 9
"""Decimals kept: far more than needed, few enough that every machine writes the same file."""


def brownian_bridge_arrays(content: bytes) -> Arrays:
    """Read the literal list ``OBSERVED_LOC``, whose missing entries are ``np.nan``."""
    for statement in ast.parse(content.decode("utf-8")).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="OBSERVED_LOC")], value=value):
                entries = next(node for node in ast.walk(value) if isinstance(node, ast.List)).elts
                observed = np.array([_number(entry) for entry in entries], np.float32)
                if observed.size != NUM_TIMES or np.isfinite(observed).sum() != NUM_OBSERVED:
                    raise SourceError(f"expected 20 of 30 observations, found {observed}.")
                return {"observed": observed}
            case _:
                continue
    raise SourceError("found no OBSERVED_LOC.")


def brownian_bridge_truth(content: bytes) -> Arrays:
    r"""Integrate over both scales; given these, everything is Gaussian.

    With :math:`K_{tu} = \min(t, u) + 1`, :math:`K_{oo} = U \kappa U^T` its part for the observed
    times, :math:`b = U^T y` and :math:`v_k = s_o^2 + s_i^2 \kappa_k`:

    .. math::
        \log p(y \mid s) &= -\tfrac12 \textstyle\sum_k [\log (2 \pi v_k) + b_k^2 / v_k] \\
        E[x \mid s, y] &= s_i^2 K_{\cdot o} U v^{-1} b \\
        \mathrm{var}[x_t \mid s, y]
            &= s_i^2 K_{tt} - s_i^4 \textstyle\sum_k (K_{\cdot o} U)_{tk}^2 / v_k

    The rule is trapezoidal in the logarithms of the scales, whose priors are N(0, 2).
    """
    y = brownian_bridge_arrays(content)["observed"].astype(np.float64)
    seen = np.isfinite(y)
    times = np.arange(1.0, NUM_TIMES + 1.0)
    k = np.minimum(times[:, None], times)
    kappa, u = np.linalg.eigh(k[np.ix_(seen, seen)])
    b = u.T @ y[seen]
    ku = k[:, seen] @ u
    log_prior = -0.5 * (LOG_SCALES / LOG_SCALE_SD) ** 2
    s_o = np.exp(LOG_SCALES)

    rows: list[np.ndarray] = []
    log_evidence: list[np.ndarray] = []
    for log_s_i, log_prior_i in zip(LOG_SCALES, log_prior, strict=True):
        s_i = np.exp(log_s_i)
        v = s_o[:, None] ** 2 + s_i**2 * kappa
        log_evidence.append(log_prior + log_prior_i - 0.5 * np.sum(np.log(v) + b**2 / v, 1))
        mean = s_i**2 * (b / v) @ ku.T
        variance = s_i**2 * times - s_i**4 * (1.0 / v) @ (ku**2).T
        first = np.column_stack([np.full_like(s_o, s_i), s_o, mean])
        second = first**2 + np.pad(variance, ((0, 0), (2, 0)))
        rows.append(np.stack([first, second]))
    log_weight = np.array(log_evidence)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    first, second = np.einsum("io,imop->mp", weight, np.array(rows))
    sd = np.sqrt(second - first**2)

    parts = {"innovation_noise_scale": 0, "observation_noise_scale": 1, "locs": slice(2, None)}
    truth: Arrays = {}
    for name, part in parts.items():
        mean = np.round(first[part], DIGITS)
        truth[f"{name}_mean"] = mean
        truth[f"{name}_sd"] = np.round(sd[part], DIGITS)
        truth[f"{name}_mean_se"] = np.zeros_like(mean)
    return truth


def _number(entry: ast.expr) -> float:
    match entry:
        case ast.Attribute(value=ast.Name(id="np"), attr="nan"):
            return np.nan
        case _:
            return float(ast.literal_eval(entry))
