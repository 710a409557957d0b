"""Palindromic kick-drift integrators, given by their coefficients.

Every step of size h is  kick(b1 h) drift(a1 h) kick(b2 h) ... drift(ak h) kick(bk+1 h)  with

    kick(c):  v <- v - c S' grad(Phi)(x)        drift(c):  x <- x + c S v

and coefficients that read the same in both directions, which makes the step reversible; kicks and
drifts are shears, so it keeps volume. A step with k drifts costs k gradients: the gradient of the
first kick is the last one of the step before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from amalt.errors import SettingsError
from amalt.kernels.metric import Metric

ValueAndGrad = Callable[[jax.Array], tuple[jax.Array, jax.Array]]
"""Maps a flat position to its log density -Phi and the gradient of that."""


class Integrator(NamedTuple):
    """The coefficients of one palindromic scheme; both sequences sum to one."""

    name: str
    kicks: tuple[float, ...]
    drifts: tuple[float, ...]

    @property
    def gradients_per_step(self) -> int:
        """Count the gradients that one step costs."""
        return len(self.drifts)


def check_integrator(integrator: Integrator) -> Integrator:
    """Return the scheme if it is palindromic and its sequences sum to one."""
    try:
        kicks, drifts = (tuple(float(c) for c in side) for side in integrator[1:])
    except (TypeError, ValueError) as error:
        raise SettingsError(f"integrator={integrator!r}: its coefficients are numbers.") from error
    sums_to_one = all(abs(sum(side) - 1.0) < 1e-6 for side in (kicks, drifts))
    is_palindrome = all(
        abs(a - b) < 1e-12
        for side in (kicks, drifts)
        for a, b in zip(side, side[::-1], strict=True)
    )
    name: Any = integrator.name
    if not isinstance(name, str) or not name:
        raise SettingsError(f"integrator={integrator!r}: give it a name of letters.")
    if len(kicks) != len(drifts) + 1 or not drifts or not sums_to_one or not is_palindrome:
        raise SettingsError(
            f"integrator={integrator!r}: it needs one kick more than drifts, both the same read "
            "backwards and summing to one; only then are its draws those of the target."
        )
    return integrator


LEAPFROG = Integrator("leapfrog", kicks=(0.5, 0.5), drifts=(1.0,))

# Minimal-norm two-stage scheme of McLachlan (1995); b as in Blanes, Casas, Sanz-Serna (2014).
_B2 = 0.1931833275037836
TWO_STAGE = Integrator("two-stage", kicks=(_B2, 1.0 - 2.0 * _B2, _B2), drifts=(0.5, 0.5))

# Three-stage scheme of Blanes, Casas, Sanz-Serna (2014), table 1.
_A3, _B3 = 0.29619504261126, 0.11888010966548
THREE_STAGE = Integrator(
    "three-stage", kicks=(_B3, 0.5 - _B3, 0.5 - _B3, _B3), drifts=(_A3, 1.0 - 2.0 * _A3, _A3)
)

INTEGRATORS = {scheme.name: scheme for scheme in (LEAPFROG, TWO_STAGE, THREE_STAGE)}


class PhasePoint(NamedTuple):
    """A position with its momentum, and what the density says there."""

    position: jax.Array
    momentum: jax.Array
    logdensity: jax.Array
    gradient: jax.Array


def integrate_step(
    integrator: Integrator,
    value_and_grad: ValueAndGrad,
    metric: Metric,
    step_size: jax.Array,
    point: PhasePoint,
) -> PhasePoint:
    """Move a phase point by one step of size h.

    Leapfrog is v <- v - (h/2) S' g(x);  x <- x + h S v;  v <- v - (h/2) S' g(x), where g is the
    gradient of Phi, that is minus the gradient kept in the point.
    """
    x, v, logdensity, gradient = point
    first, *rest = integrator.kicks
    v = v + first * step_size * metric.apply_transpose(gradient)
    for drift, kick in zip(integrator.drifts, rest, strict=True):
        x = x + drift * step_size * metric.apply(v)
        logdensity, gradient = value_and_grad(x)
        v = v + kick * step_size * metric.apply_transpose(gradient)
    return PhasePoint(x, v, logdensity, gradient)
