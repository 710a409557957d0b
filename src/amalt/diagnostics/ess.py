"""Effective sample sizes: of each chain by itself, and of all chains together.

Both work on ``[chain, draw, ...]`` in float64. The first is what the paper reports; it cannot see
that chains sit in different places. The second does, and is the one to judge by.
"""

from __future__ import annotations

import numpy as np


def autocovariance(x: np.ndarray) -> np.ndarray:
    """Return sum_i (x_i - xbar)(x_{i+k} - xbar) for all lags k along axis 1, by FFT."""
    draws = x.shape[1]
    centered = x - x.mean(axis=1, keepdims=True)
    length = 2 ** int(np.ceil(np.log2(2 * draws)))
    power = np.abs(np.fft.rfft(centered, n=length, axis=1)) ** 2
    return np.fft.irfft(power, n=length, axis=1)[:, :draws]


def ess_per_chain(x: np.ndarray) -> np.ndarray:
    """Return the paper's estimator: the mean over chains of each chain's own ESS.

    With R_k the autocorrelation of one chain (lag k divided by N - k) up to the first negative one,

        ESS = N / (-1 + 2 sum_k R_k (N - k) / N)

    so that it never exceeds N. A chain that did not move has none.
    """
    x = np.asarray(x, dtype=np.float64)
    draws = x.shape[1]
    lags = np.expand_dims(np.arange(draws, dtype=np.float64), (0, *range(2, x.ndim)))
    covariance = autocovariance(x) / (draws - lags)
    variance = covariance[:, :1]
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = covariance / variance
    kept = np.cumsum(correlation < 0.0, axis=1) == 0
    total = np.sum(np.where(kept, correlation * (draws - lags) / draws, 0.0), axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ess = draws / (-1.0 + 2.0 * total)
    return np.where(_moves(x), ess, 0.0).mean(axis=0)


def ess(x: np.ndarray) -> np.ndarray:
    """Return the multi-chain ESS of the mean (Vehtari and others, 2021), total over chains.

    rho_k = 1 - (W - mean autocovariance at lag k) / var+, summed over Geyer's initial monotone
    sequence of pairs. Chains that disagree make var+ large and the ESS small.
    """
    x = np.asarray(x, dtype=np.float64)
    chains, draws = x.shape[:2]
    if draws < 4:
        return np.full(x.shape[2:], np.nan)
    covariance = (autocovariance(x) / draws).mean(axis=0)
    within = covariance[0] * draws / (draws - 1.0)
    total_variance = within * (draws - 1.0) / draws
    if chains > 1:
        total_variance = total_variance + x.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = 1.0 - (within - covariance) / total_variance
    rho[0] = 1.0
    pairs = rho[: draws - draws % 2].reshape(-1, 2, *rho.shape[1:]).sum(axis=1)
    positive = np.cumsum(pairs < 0.0, axis=0) == 0
    monotone = np.minimum.accumulate(np.where(positive, pairs, 0.0), axis=0)
    time = -1.0 + 2.0 * monotone.sum(axis=0)
    size = chains * draws
    result = size / np.maximum(time, 1.0 / np.log10(size))
    return np.where(_moves(x).any(axis=0), result, 0.0)


def _moves(x: np.ndarray) -> np.ndarray:
    """Tell which chains hold more than one value; a constant has no effective samples."""
    return np.ptp(x, axis=1) > 0.0
