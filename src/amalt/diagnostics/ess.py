"""Effective sample sizes: of each chain by itself, and of all chains together.

Both work on ``[chain, draw, ...]`` in float64. The first is what the paper reports; it cannot see
that chains sit in different places. The second does, and is the one to judge by.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from scipy import fft


def autocovariance(x: np.ndarray) -> np.ndarray:
    """Return sum_i (x_i - xbar)(x_{i+k} - xbar) for all lags k along axis 1, by FFT."""
    draws = x.shape[1]
    rows = np.moveaxis(x, 1, -1)
    rows = np.ascontiguousarray(rows - rows.mean(axis=-1, keepdims=True, dtype=np.float64))
    transform = cast("Any", fft)
    length = int(transform.next_fast_len(2 * draws, real=True))
    spectrum: np.ndarray = transform.rfft(rows, n=length, axis=-1, workers=-1)
    power = np.abs(spectrum) ** 2
    result: np.ndarray = transform.irfft(power, n=length, axis=-1, workers=-1)
    return np.moveaxis(result[..., :draws], -1, 1)


def ess_per_chain(x: np.ndarray, covariance: np.ndarray | None = None) -> np.ndarray:
    """Return the paper's estimator: the mean over chains of each chain's own ESS.

    With R_k the autocorrelation of one chain (lag k divided by N - k) up to the first negative one,

        ESS = N / (-1 + 2 sum_k R_k (N - k) / N)

    so that it never exceeds N. A chain that did not move has none. ``covariance`` is
    ``autocovariance(x)``, if it is known already.
    """
    draws = x.shape[1]
    covariance = autocovariance(x) if covariance is None else covariance
    with np.errstate(divide="ignore", invalid="ignore"):
        # R_k (N - k) / N: the factors of the lag cancel, and the sign is that of R_k.
        correlation = covariance / covariance[:, :1]
        kept = np.logical_and.accumulate(correlation >= 0.0, axis=1)
        total = np.sum(correlation, axis=1, where=kept)
        ess = draws / (-1.0 + 2.0 * total)
    ess = np.where(np.isfinite(covariance[:, 0]), ess, np.nan)
    return np.where(moves(x), ess, 0.0).mean(axis=0)


def split(x: np.ndarray) -> np.ndarray:
    """Return the halves of all chains as chains: ``[2 chain, draw / 2, ...]``."""
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, x.shape[1] - half :]], axis=0)


def ess(x: np.ndarray, covariance: np.ndarray | None = None) -> np.ndarray:
    """Return the multi-chain ESS of the mean (Vehtari and others, 2021), total over chains.

    On halves of chains, rho_k = 1 - (W - mean autocovariance at lag k) / var+, summed over Geyer's
    initial monotone sequence of pairs. Chains that disagree make var+ large and the ESS small.
    ``covariance`` is ``autocovariance(split(x))``, if it is known already.
    """
    halves = split(x)
    chains, draws = halves.shape[:2]
    if draws < 2:
        return np.full(x.shape[2:], np.nan)
    covariance = autocovariance(halves) if covariance is None else covariance
    mean_covariance = covariance.mean(axis=0) / draws
    within = mean_covariance[0] * draws / (draws - 1.0)
    means = halves.mean(axis=1, dtype=np.float64)
    total_variance = mean_covariance[0] + means.var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = 1.0 - (within - mean_covariance) / total_variance
    rho[0] = 1.0
    time = _integrated_time(rho)
    size = chains * draws
    result = size / np.maximum(time, 1.0 / np.log10(size))
    # Draws that are not finite have no autocorrelation; the sum over none would praise them.
    result = np.where(np.isfinite(total_variance), result, np.nan)
    return np.where(moves(x).any(axis=0), result, 0.0)


def _integrated_time(rho: np.ndarray) -> np.ndarray:
    """Sum autocorrelations ``[lag, ...]`` as ArviZ and Stan do: -1 + 2 sum of pairs + half a pair.

    Pairs rho_2j + rho_2j+1 count up to the first negative one, each at most as large as the one
    before; of that first negative pair, the even member counts once if it is positive.
    """
    draws = len(rho)
    pairs = rho[: draws - draws % 2].reshape(-1, 2, *rho.shape[1:]).sum(axis=1)
    last = (draws - 3) // 2 if draws > 4 else len(pairs)
    is_positive = np.logical_and.accumulate(pairs[:last] >= 0.0, axis=0)
    total = np.minimum.accumulate(np.where(is_positive, pairs[:last], 0.0), axis=0).sum(axis=0)
    end = np.minimum(2 * is_positive.sum(axis=0), draws - 1)
    half_pair = np.take_along_axis(rho, end[None], axis=0)[0] if draws > 4 else 0.0
    return -1.0 + 2.0 * total + np.maximum(half_pair, 0.0)


def moves(x: np.ndarray) -> np.ndarray:
    """Tell which chains hold more than one value; a constant has no effective samples."""
    return ~(np.ptp(x, axis=1) == 0.0)
