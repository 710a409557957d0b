"""Log-Gaussian Cox process: counts of events on a grid."""

from __future__ import annotations

import numpy as np

from gym_data.sources import Arrays, SourceError, array_constants, by_name, truth_arrays

GRID = 10


def log_gaussian_cox_arrays(content: bytes) -> Arrays:
    """Read the counts of 10 x 10 cells of area 1, whose first coordinate runs fastest."""
    constants = array_constants(content.decode("utf-8"))
    counts, locations = constants["COUNTS"].astype(int), constants["LOCATIONS"]
    second, first = np.divmod(np.arange(GRID**2), GRID)
    if not np.array_equal(locations, np.column_stack([first, second])):
        raise SourceError(f"expected the points of a {GRID} x {GRID} grid in order.")
    if not np.array_equal(constants["EXTENTS"], np.ones(GRID**2)):
        raise SourceError("expected cells of area 1.")
    if counts.shape != (GRID**2,) or counts.min() < 1 or counts.max() > 255:
        raise SourceError(f"expected {GRID**2} positive counts of one byte, found {counts}.")
    return {"counts": counts.astype(np.uint8)}


def log_gaussian_cox_truth(content: bytes) -> Arrays:
    """Read the truth, and undo the shuffle of the cells under which the gym found it."""
    truth = truth_arrays(content, by_name("amplitude", "length_scale", "log_intensity"))
    cells = np.random.RandomState(1337).permutation(GRID**2)
    places = np.argsort(cells)
    return {
        name: array[places] if name.startswith("log_intensity") else array
        for name, array in truth.items()
    }
