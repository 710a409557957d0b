"""The data files of the built-in posteriors; PROVENANCE.md says where they come from."""

from __future__ import annotations

import io
from collections.abc import Iterable
from importlib import resources

import numpy as np

Moments = tuple[np.ndarray, np.ndarray, np.ndarray]


def read(name: str) -> dict[str, np.ndarray]:
    """Return the arrays of the data file ``name`` by their names.

    Parameters
    ----------
    name
        The file without its suffix, such as ``"german_credit"``.
    """
    content = resources.files(__name__).joinpath(f"{name}.npz").read_bytes()
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}


def read_truth(name: str, variables: Iterable[str]) -> dict[str, Moments]:
    """Return ``{variable: (mean, sd, mean_se)}`` from the file ``name`` of known moments."""
    arrays = read(name)
    return {
        variable: (
            arrays[f"{variable}_mean"],
            arrays[f"{variable}_sd"],
            arrays[f"{variable}_mean_se"],
        )
        for variable in variables
    }
