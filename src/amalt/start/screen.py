"""Screening of starting points: keep the good ones, redraw the bad."""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from amalt.errors import AmaltWarning, StartError, TargetError
from amalt.kernels.malt import MaltState
from amalt.start.explain import explain, listed
from amalt.start.propose import JITTER_RADIUS, UNIFORM_RADIUS, from_init, uniform_around
from amalt.targets import Target
from amalt.typed import jit

ATTEMPTS = 100
"""How often bad starting points are redrawn."""

PROBES = 64
"""Points at which a gradient must vanish before it is called zero everywhere."""


class Starts(NamedTuple):
    """States to start from, and what they took.

    Every attempt is a gradient per chain; shared gradients served all chains together.
    """

    states: MaltState
    attempts: int
    gradients_shared: int
    seconds: float


def find(target: Target, init: Any, key: Any, chains: int) -> Starts:
    """Return a state for every chain where log density and gradient are finite.

    All chains are tried at once. A chain that finds no good point in 100 attempts begins where
    another one does, with a warning; that no chain finds one is an error.
    """
    began = time.perf_counter()
    propose, is_fixed, gradients_shared = from_init(init, target, key, chains)
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
        chain = int(np.flatnonzero(~good)[0])
        where = (
            f"init has a bad point for chain {chain}"
            if is_fixed
            else f"none of {chains} x {attempts} starting points is usable"
        )
        bad: MaltState = jax.tree.map(lambda leaf: leaf[chain], states)
        raise StartError(explain(where, target, bad, is_fixed))
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
    return Starts(states, attempts, gradients_shared, time.perf_counter() - began)


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
            f"the log density of {target.name!r} does not depend on {listed(names)}: its "
            f"gradient is exactly zero at all of {3 * PROBES} points. Give it a proper prior, take "
            f"it out, or rescale it if its gradient is too small for {target.dtype}."
        )
