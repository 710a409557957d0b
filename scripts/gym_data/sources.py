"""A published file, the recipe that turns such files into arrays, and readers that they share."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

Arrays = dict[str, np.ndarray]


class Source(NamedTuple):
    """One file inside one published wheel."""

    package: str
    version: str
    member: str
    sha256: str

    @property
    def wheel(self) -> str:
        """Name the wheel's file."""
        return f"{self.package}-{self.version}-py3-none-any.whl"


class Recipe(NamedTuple):
    """The sources of a data file, and what makes arrays of their contents, in their order."""

    sources: tuple[Source, ...]
    parse: Callable[..., Arrays]


class SourceError(Exception):
    """Report a source that is not what it should be."""


def gym_source(member: str, sha256: str) -> Source:
    """Return a file of Inference Gym; ``member`` is its path inside ``inference_gym``."""
    return Source("inference_gym", "0.0.5", f"inference_gym/{member}", sha256)


def gym_truth(module: str, sha256: str, prefixes: Mapping[str, str]) -> Recipe:
    """Return the recipe of a truth file, given the prefix of the names of each variable."""
    source = gym_source(f"targets/ground_truth/{module}.py", sha256)
    return Recipe((source,), lambda content: truth_arrays(content, prefixes))


def by_name(*variables: str) -> dict[str, str]:
    """Return the prefixes of variables that Inference Gym calls as we do."""
    return {name: f"IDENTITY_{name.upper()}_" for name in variables}


def truth_arrays(content: bytes, prefixes: Mapping[str, str]) -> Arrays:
    """Return mean, its standard error and sd of each variable, given the prefix of its names."""
    constants = array_constants(content.decode("utf-8"))
    suffixes = {"mean": "MEAN", "mean_se": "MEAN_STANDARD_ERROR", "sd": "STANDARD_DEVIATION"}
    return {
        f"{variable}_{key}": constants[prefix + suffix]
        for variable, prefix in prefixes.items()
        for key, suffix in suffixes.items()
    }


def array_constants(code: str) -> Arrays:
    """Read assignments ``NAME = np.array([...]).reshape((...))`` without running the code."""
    constants: Arrays = {}
    for statement in ast.parse(code).body:
        match statement:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(
                    func=ast.Attribute(
                        value=ast.Call(
                            func=ast.Attribute(value=ast.Name(id="np"), attr="array"),
                            args=[values],
                        ),
                        attr="reshape",
                    ),
                    args=[shape],
                ),
            ):
                flat = np.array(ast.literal_eval(values), dtype=np.float64)
                constants[name] = flat.reshape(ast.literal_eval(shape))
            case _:
                continue
    return constants
