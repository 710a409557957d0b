"""What is said of a point where the log density or its gradient is not finite."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from amalt.kernels.malt import MaltState
from amalt.targets import Target


def explain(where: str, target: Target, state: MaltState, is_fixed: bool) -> str:
    """Say which variables are bad at a point, with values, and what may be done.

    ``where`` says what the point is; ``is_fixed`` that the user gave it.
    """
    position, gradient = np.asarray(state.position), np.asarray(state.gradient)
    value = float(state.logdensity)
    for what, array in (("position", position), ("gradient", gradient)):
        wrong = np.flatnonzero(~np.isfinite(array))
        if wrong.size and (what == "position" or np.isfinite(value)):
            names = [target.element(int(i)) for i in wrong]
            number = array[wrong[0]]
            return (
                f"{where}: the log density of {target.name!r} there is {value:.6g}, but the {what} "
                f"is {number} for {listed(names)} (at {names[0]} = {position[wrong[0]]:.6g}). "
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
    return f"The cause is {listed(breakers)} ({_values(target, position, breakers)})."


def _values(target: Target, position: np.ndarray, names: list[str]) -> str:
    begin, shown = 0, list[str]()
    for part in target.parts:
        values = position[begin : begin + part.size]
        begin += part.size
        if part.name in names and part.size and len(shown) < 3:
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


def listed(names: list[str]) -> str:
    """Return the names in quotes, five at most."""
    shown = ", ".join(repr(name) for name in names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")
