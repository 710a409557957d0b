"""Draws in host memory."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np


class MemoryWriter:
    """Collect the rows of blocks into arrays ``[chain, draw, ...]`` of known length.

    Parameters
    ----------
    rows
        How many rows will be written.
    chain_first
        Whether rows carry a chain axis, which then comes first in the result.
    """

    def __init__(self, rows: int, *, chain_first: bool) -> None:
        self.rows = rows
        self.filled = 0
        self._chain_first = chain_first
        self._arrays: Any = None

    def write(self, block: Any, count: int) -> None:
        """Append the first ``count`` rows of a block of device arrays."""
        leaves = jax.tree.map(lambda leaf: np.asarray(leaf)[:count], block)
        if self._arrays is None:
            self._arrays = jax.tree.map(self._allocate, leaves)
        where = slice(self.filled, self.filled + count)
        for array, leaf in zip(jax.tree.leaves(self._arrays), jax.tree.leaves(leaves), strict=True):
            if self._chain_first:
                array[:, where] = leaf.swapaxes(0, 1)
            else:
                array[where] = leaf
        self.filled += count

    def result(self) -> Any:
        """Return the tree of arrays with the rows written so far."""
        part = (slice(None), slice(self.filled)) if self._chain_first else slice(self.filled)
        return jax.tree.map(lambda array: array[part], self._arrays)

    def _allocate(self, leaf: np.ndarray) -> np.ndarray:
        shape = leaf.shape[1:]
        if self._chain_first:
            return np.empty((shape[0], self.rows, *shape[1:]), leaf.dtype)
        return np.empty((self.rows, *shape), leaf.dtype)
