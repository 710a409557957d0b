"""Split R-hat: whether the halves of all chains agree."""

from __future__ import annotations

import numpy as np

from amalt.diagnostics.ess import ess_per_chain, moves, split


def rhat(x: np.ndarray) -> np.ndarray:
    """Return split R-hat of ``[chain, draw, ...]``, halves of chains taken as chains.

        R-hat^2 = ((N - 1) / N W + B) / W

    with W the mean variance within halves and B the variance of their means. It is infinite where
    no half moves but they differ, and not a number where nothing moves at all, where a draw is not
    finite, and for fewer than four draws.
    """
    halves = split(x)
    draws = halves.shape[1]
    if draws < 2:
        return np.full(x.shape[2:], np.nan)
    # The mean of a constant may be off by rounding, its variance is zero all the same.
    variance = halves.var(axis=1, ddof=1, dtype=np.float64)
    within = np.where(moves(halves), variance, 0.0).mean(axis=0)
    between = halves.mean(axis=1, dtype=np.float64).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((draws - 1.0) / draws + between / within)


def rhat_corrected(x: np.ndarray, covariance: np.ndarray | None = None) -> np.ndarray:
    """Return split R-hat without what the shortness of the chains explains.

    The mean of a half with e of its N draws effective varies by W / e even if all chains agree,
    where R-hat^2 expects W / N: it is lifted by 1 / e - 1 / N, by 0.017 for 40 of 125 draws. So

        R-hat_c^2 = R-hat^2 - (1 / e - 1 / N)^+

    with e from each half's own ESS. A chain too short to know how slow it is claims too large an
    e, and then less is taken off. ``covariance`` is ``autocovariance(split(x))``, if it is known.
    """
    halves = split(x)
    effective = np.maximum(ess_per_chain(halves, covariance), 1.0)
    lift = np.maximum(1.0 / effective - 1.0 / max(halves.shape[1], 1), 0.0)
    return np.sqrt(np.maximum(rhat(x) ** 2 - lift, 0.0))
