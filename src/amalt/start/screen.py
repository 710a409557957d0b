"""Screening of starting points: keep the good ones, redraw the bad, name what is wrong."""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from amalt.errors import AmaltWarning, StartError, TargetError
from amalt.kernels.malt import MaltState
from amalt.start.propose import JITTER_RADIUS, UNIFORM_RADIUS, from_init, uniform_around
from amalt.targets import Target
from amalt.typed import jit

ATTEMPTS = 100
"""How often bad starting points are redrawn."""

PROBES = 64
"""Points at which a gradient must vanish before it is called zero everywhere."""


class Starts(NamedTuple):
    """States to start from, how many attempts they took, and how many seconds."""

    states: MaltState
    attempts: int
    seconds: float


def find(target: Target, init: Any, key: Any, chains: int) -> Starts:
    """Return a state for every chain where log density and gradient are finite.

    All chains are tried at once. A chain that finds no good point in 100 attempts begins where
    another one does, with a warning; that no chain finds one is an error.
    """
    began = time.perf_counter()
    propose, is_fixed = from_init(init, target, key, chains)
    evaluate = jax.vmap(target.value_and_grad)

    @jit
    def attempt(number: Any) -> MaltState:
        positions = propose(number)
        return MaltState(positions, *evaluate(positions))

    states = attempt(np.int32(0))
    good = _is_good(states)
    attempts = 1
    while not np.all(good) and not is_fixed and attempts < ATTEMPTS:
        fresh = attempt(np.int32(attempts))
        better = ~good & _is_good(fresh)
        states = jax.tree.map(
            lambda new, old, where=better: _choose(where, new, old), fresh, states
        )
        good |= better
        attempts += 1
    if (is_fixed and not np.all(good)) or not np.any(good):
        raise StartError(_explain(target, states, good, attempts, is_fixed))
    borrowed = int(np.sum(~good))
    if borrowed:
        donors = np.resize(np.flatnonzero(good), chains)
        source = np.where(good, np.arange(chains), donors)
        states = jax.tree.map(lambda leaf: leaf[source], states)
        message = (
            f"{borrowed} of {chains} chains found no point of finite density in {attempts} "
            "attempts and begin where others do; pass better starting points with init=."
        )
        warnings.warn(AmaltWarning("starts", message), stacklevel=3)
    _refuse_zero_gradient(target, states, key)
    return Starts(states, attempts, time.perf_counter() - began)


def _is_good(states: MaltState) -> np.ndarray:
    finite = [np.isfinite(np.asarray(leaf)) for leaf in states]
    return finite[0].all(axis=-1) & finite[1] & finite[2].all(axis=-1)


def _choose(where: np.ndarray, new: jax.Array, old: jax.Array) -> jax.Array:
    return jnp.where(where.reshape(-1, *([1] * (new.ndim - 1))), new, old)


def _refuse_zero_gradient(target: Target, states: MaltState, key: Any) -> None:
    """Raise if the density does not depend on some coordinate, at these and at other points."""
    is_zero = np.all(np.asarray(states.gradient) == 0.0, axis=0)
    if not np.any(is_zero):
        return
    center = jnp.mean(states.position, axis=0)
    for radius in (JITTER_RADIUS, UNIFORM_RADIUS, 10 * UNIFORM_RADIUS):
        points = uniform_around(center, radius, key, PROBES)(ATTEMPTS)
        _, gradients = jax.vmap(target.value_and_grad)(points)
        is_zero &= np.all(np.asarray(gradients) == 0.0, axis=0)
    if np.any(is_zero):
        names = [target.element(int(i)) for i in np.flatnonzero(is_zero)]
        raise TargetError(
            f"the log density of {target.name!r} does not depend on {_listed(names)}: its "
            f"gradient is exactly zero at all of {3 * PROBES} points. Give it a proper prior, take "
            f"it out, or rescale it if its gradient is too small for {target.dtype}."
        )


def _explain(
    target: Target, states: MaltState, good: np.ndarray, attempts: int, is_fixed: bool
) -> str:
    """Say which chains and variables are bad, with values, and what may be done."""
    bad = np.flatnonzero(~good)
    chain = int(bad[0])
    position, gradient = np.asarray(states.position[chain]), np.asarray(states.gradient[chain])
    value = float(states.logdensity[chain])
    where = (
        f"init has a bad point for chain {chain}"
        if is_fixed
        else (f"none of {len(good)} x {attempts} starting points is usable")
    )
    for what, array in (("position", position), ("gradient", gradient)):
        wrong = np.flatnonzero(~np.isfinite(array))
        if wrong.size and (what == "position" or np.isfinite(value)):
            names = [target.element(int(i)) for i in wrong]
            number = array[wrong[0]]
            return (
                f"{where}: the log density of {target.name!r} there is {value:.6g}, but the {what} "
                f"is {number} for {_listed(names)} (at {names[0]} = {position[wrong[0]]:.6g}). "
                f"{_advice(what, is_fixed)}"
            )
    culprits = _culprits(target, position)
    return (
        f"{where}: the log density of {target.name!r} is {value}. "
        f"{culprits} {_advice('log density', is_fixed)}"
    )


def _culprits(target: Target, position: np.ndarray) -> str:
    """Move one variable at a time from the example position to the bad point; name the breakers."""
    if not np.isfinite(float(target.logdensity(target.example))):
        values = _values(target, np.asarray(target.example), [p.name for p in target.parts])
        return f"It is not finite at the example position either ({values})."
    begin, breakers = 0, list[str]()
    for part in target.parts:
        mixed = np.array(target.example)
        mixed[begin : begin + part.size] = position[begin : begin + part.size]
        begin += part.size
        if not np.isfinite(float(target.logdensity(jnp.asarray(mixed)))):
            breakers.append(part.name)
    if not breakers:
        return "No single variable does it: they are bad together."
    return f"The cause is {_listed(breakers)} ({_values(target, position, breakers)})."


def _values(target: Target, position: np.ndarray, names: list[str]) -> str:
    begin, shown = 0, list[str]()
    for part in target.parts:
        values = position[begin : begin + part.size]
        begin += part.size
        if part.name in names and len(shown) < 3:
            low, high = f"{values.min():.6g}", f"{values.max():.6g}"
            inside = low if low == high else f"{low}..{high}"
            shown.append(f"{part.name} = {inside}")
    return ", ".join(shown)


def _advice(what: str, is_fixed: bool) -> str:
    if is_fixed:
        return "Pass points where log density and gradient are finite."
    if what == "gradient":
        return "Look for sqrt or norms at zero and for 0 * inf in masked branches (jnp.where)."
    return "Constrain the variable by a transform, or pass starting points with init=."


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")
