"""German credit, the numeric version."""

from __future__ import annotations

import numpy as np

from gym_data.sources import Arrays, SourceError


def german_credit_arrays(content: bytes) -> Arrays:
    """Parse 1000 rows of 24 attributes and a class, 1 for good and 2 for bad."""
    table = np.array([line.split() for line in content.decode("ascii").splitlines()], dtype=int)
    attributes, label = table[:, :-1], table[:, -1]
    if table.shape != (1000, 25) or attributes.min() < 0 or attributes.max() > 255:
        raise SourceError(f"expected 1000 x 25 numbers of one byte, found {table.shape}.")
    if set(label.tolist()) != {1, 2}:
        raise SourceError(f"expected the classes 1 and 2, found {sorted(set(label.tolist()))}.")
    return {"attributes": attributes.astype(np.uint8), "bad": (label == 2).astype(np.uint8)}
