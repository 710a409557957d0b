"""Names, dims and coords of variables, checked before a run that could not label its draws."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import xarray as xr

from amalt.errors import TargetError, nearest

RESERVED = ("chain", "draw")
LONGEST_NAME = 200
LABEL_KINDS = "biufUMm"
"""Kinds of NumPy dtypes that files can hold: numbers, text, dates and durations."""


class Variable(NamedTuple):
    """One named part of a position or of its constrained image."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Count the scalars that the variable holds."""
        return math.prod(self.shape)

    def element(self, index: int) -> str:
        """Name scalar ``index`` of the flattened variable, as in ``theta[1, 2]``."""
        if not self.shape:
            return self.name
        where = ", ".join(str(i) for i in np.unravel_index(index, self.shape))
        return f"{self.name}[{where}]"


def dims_of(variable: Variable, dims: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the names of a variable's dimensions: the given ones, or ArviZ's defaults.

    Examples
    --------
    >>> dims_of(Variable("a", (2, 3)), {})
    ('a_dim_0', 'a_dim_1')
    """
    default = tuple(f"{variable.name}_dim_{i}" for i in range(len(variable.shape)))
    return dims.get(variable.name, default)


def check_labels(
    variables: Sequence[Variable], dims: Any, coords: Any
) -> tuple[dict[str, tuple[str, ...]], dict[str, list[Any]]]:
    """Return dims and coords in plain types, or say why they do not fit the variables."""
    for variable in variables:
        _check_name("variable", variable.name)
    clean_dims = _read_dims({v.name: v.shape for v in variables}, _as_mapping("dims", dims))
    sizes = _sizes(variables, clean_dims)
    clean_coords = _read_coords(sizes, _as_mapping("coords", coords))
    for variable in variables:
        if variable.name in sizes:
            raise TargetError(
                f"{variable.name!r} is the name of a variable and of a dimension: rename one."
            )
    return clean_dims, clean_coords


def rename(parts: Sequence[Variable], names: Any) -> tuple[Variable, ...]:
    """Return the parts of a position under other names, one for each."""
    if isinstance(names, str | bytes) or not isinstance(names, Sequence):
        raise TargetError(f"names is {names!r}: pass a list of names.")
    given = list(cast("Sequence[Any]", names))
    if len(given) != len(parts):
        raise TargetError(
            f"names has {len(given)} entries; the position has {len(parts)} leaves: "
            f"{', '.join(part.name for part in parts)}."
        )
    for name in given:
        _check_name("variable", name)
    return tuple(part._replace(name=name) for part, name in zip(parts, given, strict=True))


def check_unique(names: Iterable[str]) -> None:
    """Refuse two parts of a position that flatten to the same name."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise TargetError(f"two parts of the example position are called {name!r}: rename one.")
        seen.add(name)


def _check_name(what: str, name: Any) -> None:
    """Refuse names that xarray or a file system cannot hold; a run must not end with that."""
    if not isinstance(name, str) or not name:
        raise TargetError(f"{name!r} cannot name a {what}: pass a string that is not empty.")
    if "/" in name or "\\" in name or name.startswith(".") or not name.isprintable():
        raise TargetError(
            f"{name!r} cannot name a {what}: saved draws are files of that name, so it must not "
            "hold '/', '\\' or unprintable characters, nor begin with '.'. Rename it, or choose "
            "names with constrain=."
        )
    if len(name.encode()) > LONGEST_NAME:
        raise TargetError(
            f"'{name[:20]}...' has {len(name.encode())} bytes, too many to name a {what} in "
            f"files: pass at most {LONGEST_NAME}."
        )
    if name in RESERVED:
        raise TargetError(f"{name!r} cannot name a {what}: amalt itself needs it. Rename it.")


def _as_mapping(what: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TargetError(f"{what} is a {type(value).__name__}: pass a dictionary.")
    return cast("Mapping[str, Any]", value)


def _read_dims(
    shapes: Mapping[str, tuple[int, ...]], dims: Mapping[str, Any]
) -> dict[str, tuple[str, ...]]:
    clean: dict[str, tuple[str, ...]] = {}
    for name, given in dims.items():
        if name not in shapes:
            raise TargetError(
                f"dims names {name!r}, which is not one of {sorted(shapes)}."
                f"{nearest(str(name), shapes)}"
            )
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise TargetError(f"dims[{name!r}] is {given!r}: pass a tuple of names, as ('school',)")
        labels = tuple(cast("Iterable[Any]", given))
        for label in labels:
            _check_name("dimension", label)
        if len(labels) != len(shapes[name]):
            raise TargetError(
                f"dims[{name!r}] = {labels} has {len(labels)} names for shape {shapes[name]}."
            )
        if len(set(labels)) < len(labels):
            raise TargetError(f"dims[{name!r}] = {labels} holds a name twice: rename one.")
        clean[name] = labels
    return clean


def _sizes(
    variables: Iterable[Variable], dims: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[int, str]]:
    """Return the length of every dimension, with the first variable that has it."""
    sizes: dict[str, tuple[int, str]] = {}
    for variable in variables:
        for dim, size in zip(dims_of(variable, dims), variable.shape, strict=True):
            known, first = sizes.setdefault(dim, (size, variable.name))
            if known != size:
                raise TargetError(
                    f"the dimension {dim!r} has length {known} in {first!r} and {size} in "
                    f"{variable.name!r}: give them different names with dims=."
                )
    return sizes


def _read_coords(
    sizes: Mapping[str, tuple[int, str]], coords: Mapping[str, Any]
) -> dict[str, list[Any]]:
    clean: dict[str, list[Any]] = {}
    for dim, given in coords.items():
        if dim not in sizes:
            raise TargetError(
                f"coords names {dim!r}, which is not one of the dimensions {sorted(sizes)}."
                f"{nearest(str(dim), sizes)}"
            )
        if isinstance(given, str | bytes) or not isinstance(given, Iterable):
            raise TargetError(f"coords[{dim!r}] is {given!r}: pass a list of labels.")
        labels = list(cast("Iterable[Any]", given))
        size, name = sizes[dim]
        if len(labels) != size:
            raise TargetError(
                f"coords[{dim!r}] has {len(labels)} labels for the length {size} of {name!r}."
            )
        if len({repr(label) for label in labels}) != len(labels):
            raise TargetError(f"coords[{dim!r}] has a label twice: labels must differ.")
        clean[dim] = labels
        if not _is_storable(labels):
            raise TargetError(
                f"coords[{dim!r}] = {labels} cannot be stored: pass numbers, strings or dates, "
                "all of one kind."
            )
    return clean


def _is_storable(labels: list[Any]) -> bool:
    try:
        array = xr.Variable(("label",), labels)
    except ValueError:
        return False
    text = sum(isinstance(label, str) for label in labels)
    return array.dtype.kind in LABEL_KINDS and text in (0, len(labels))
