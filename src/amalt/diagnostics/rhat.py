"""Split R-hat: whether the halves of all chains agree."""

from __future__ import annotations

import numpy as np

from amalt.diagnostics.ess import ess_per_chain


def rhat(x: np.ndarray) -> np.ndarray:
    """Return split R-hat of ``[chain, draw, ...]``, halves of chains taken as chains.

        R-hat^2 = ((N - 1) / N W + B) / W

    with W the mean variance within halves and B the variance of their means. It is infinite where
    no half moves but they differ, and not a number for fewer than four draws.
    """
    x = np.asarray(x, dtype=np.float64)
    half = x.shape[1] // 2
    if half < 2:
        return np.full(x.shape[2:], np.nan)
    halves = np.concatenate([x[:, :half], x[:, -half:]], axis=0)
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((half - 1.0) / half + between / within)


def rhat_corrected(x: np.ndarray) -> np.ndarray:
    """Return split R-hat without what the shortness of the chains explains.

    The mean of a half with e effective draws varies by W / e even if all chains agree, which
    lifts R-hat^2 by 1 / e: by 0.025 for 128 perfect chains of 80 effective draws. So

        R-hat_c^2 = R-hat^2 - 1 / e

    with e from each chain's own ESS. A chain too short to know how slow it is claims too large an
    e, and then less is taken off.
    """
    effective = np.maximum(ess_per_chain(x) / 2.0, 1.0)
    return np.sqrt(np.maximum(rhat(x) ** 2 - 1.0 / effective, 0.0))
