"""Proposals for starting points, as functions ``attempt -> positions [chain, dim]``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from amalt.errors import SettingsError, nearest
from amalt.randomness import chain_keys, uniform
from amalt.start.advi import ADVI_GRADIENTS, fit_normal
from amalt.targets import Target

Proposal = Callable[[Any], jax.Array]

UNIFORM_RADIUS = 2.0
JITTER_RADIUS = 1.0
STRATEGIES = ("uniform", "jitter", "advi")


class Plan(NamedTuple):
    """How points are proposed, whether the user fixed them, and gradients spent on the plan."""

    propose: Proposal
    is_fixed: bool = False
    gradients: int = 0


def uniform_around(center: jax.Array, radius: float, key: Any, chains: int) -> Proposal:
    """Propose center + U(-radius, radius), with new numbers at every attempt."""

    def propose(attempt: Any) -> jax.Array:
        keys = chain_keys(key, attempt, chains)

        def point(key: jax.Array) -> jax.Array:
            return center + radius * (2.0 * uniform(key, 0, center.shape, center.dtype) - 1.0)

        return jax.vmap(point)(keys)

    return propose


def from_init(init: Any, target: Target, key: Any, chains: int) -> Plan:
    """Read the argument ``init``.

    ``"uniform"`` is U(-2, 2) in every unconstrained coordinate, ``"jitter"`` is the example
    position plus U(-1, 1), ``"advi"`` draws from a fitted normal law. One position: that point plus
    U(-1, 1). Positions with a leading axis of length ``chains``: exactly these points.
    """
    if isinstance(init, str):
        if init not in STRATEGIES:
            raise SettingsError(
                f"init={init!r} is not known; choose from {list(STRATEGIES)}, or pass a position "
                f"or one position per chain.{nearest(init, STRATEGIES)}"
            )
        if init == "uniform":
            zero = jnp.zeros_like(target.example)
            return Plan(uniform_around(zero, UNIFORM_RADIUS, key, chains))
        if init == "advi":
            q = fit_normal(target, key)
            return Plan(lambda attempt: q.points(key, attempt, chains), gradients=ADVI_GRADIENTS)
        _refuse_non_finite(
            "the example position, around which init='jitter' starts,", target.example, target
        )
        return Plan(uniform_around(target.example, JITTER_RADIUS, key, chains))
    points = _flatten(init, target)
    _refuse_non_finite("init", points, target)
    if points.ndim == 1:
        return Plan(uniform_around(points, JITTER_RADIUS, key, chains))
    if points.shape[0] != chains:
        raise SettingsError(
            f"init holds {points.shape[0]} points for {chains} chains: pass one per chain, or one "
            "position to start around."
        )
    return Plan(lambda attempt: points, is_fixed=True)


def _flatten(init: Any, target: Target) -> jax.Array:
    """Return the points as ``[dim]`` or ``[point, dim]``; they come flat or as pytrees."""
    leaves: list[Any] = jax.tree.leaves(init)
    structure = cast(Any, jax.tree.structure(init))
    arrays = [_numbers(leaf, target.dtype) for leaf in leaves]
    example = target.unravel(target.example)
    # An array of the shape of a position that is itself an array is that position.
    has_structure = bool(structure == jax.tree.structure(example))
    is_position = has_structure and arrays[0].shape == target.parts[0].shape
    is_array = jax.tree_util.all_leaves([init]) and not is_position
    if is_array and arrays[0].shape[-1:] == (target.dim,) and arrays[0].ndim <= 2:
        return jnp.asarray(arrays[0])
    if not has_structure:
        raise SettingsError(
            f"init has the structure {structure}, the position of {target.name!r} has "
            f"{jax.tree.structure(example)}: pass a position, or a flat array of {target.dim} "
            "numbers."
        )
    extra = {a.ndim - len(v.shape) for a, v in zip(arrays, target.parts, strict=True)}
    for array, part in zip(arrays, target.parts, strict=True):
        shape = array.shape[array.ndim - len(part.shape) :]
        if shape != part.shape or extra not in ({0}, {1}):
            raise SettingsError(
                f"init has shape {array.shape} for {part.name!r}; it must be {part.shape}, or have "
                "one leading axis over chains in front of that, for every variable alike."
            )
    flat = jax.tree.unflatten(structure, [jnp.asarray(a) for a in arrays])
    if extra == {1}:
        if len({a.shape[0] for a in arrays}) > 1:
            raise SettingsError("the variables of init hold different numbers of points.")
        return target.flatten_points(flat)
    return target.flatten_points(jax.tree.map(lambda leaf: leaf[None], flat))[0]


def _refuse_non_finite(what: str, points: jax.Array, target: Target) -> None:
    """Name the first number of ``[dim]`` or ``[point, dim]`` that is not finite."""
    array = np.asarray(points)
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        chain = f" of chain {bad[0][0]}" if array.ndim == 2 else ""
        raise SettingsError(
            f"{what} holds {array[tuple(bad[0])]} for {target.element(int(bad[0][-1]))!r}{chain}: "
            f"pass finite numbers (of {target.dtype})."
        )


def _numbers(leaf: Any, dtype: np.dtype) -> np.ndarray:
    try:
        array = np.asarray(leaf)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"init holds a {type(leaf).__name__}: pass numbers.") from error
    if not (np.issubdtype(array.dtype, np.floating) or np.issubdtype(array.dtype, np.integer)):
        raise SettingsError(
            f"init holds a {type(leaf).__name__} of dtype {array.dtype}: pass real numbers."
        )
    with np.errstate(over="ignore"):  # what overflows becomes inf, which is refused by name
        return array.astype(dtype)
