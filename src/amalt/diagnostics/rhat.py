"""Split R-hat: whether the halves of all chains agree."""

from __future__ import annotations

import numpy as np


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
