"""Draws by blocks of coordinates, so that what is computed from them stays small in memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

NUMBERS_AT_ONCE = 2**22


def column_blocks(x: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield blocks of ``[chain, draw, dim]`` along the last axis in float64, and where they are.

    Examples
    --------
    >>> [(part, block.shape) for part, block in column_blocks(np.zeros((2, 3, 4), np.float32))]
    [(slice(0, 4, None), (2, 3, 4))]
    """
    chains, draws, dim = x.shape
    width = max(1, NUMBERS_AT_ONCE // (chains * draws))
    for begin in range(0, dim, width):
        part = slice(begin, min(begin + width, dim))
        yield part, x[:, :, part].astype(np.float64)
