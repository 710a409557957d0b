r"""ADVI: the normal law with independent coordinates that is nearest to a target.

    q = N(m, diag(s)^2),  s = log(1 + e^r),  climbs to the top of  ELBO = E_q[log p(x) - log q(x)]

in the unconstrained space, where log p holds the Jacobian (Kucukelbir and others, 2017). One draw
x = m + s e of q, with e ~ N(0, I), gives the gradient of a step:

    f = grad log p(x) + e / s,    dELBO/dm ~ f,    dELBO/dr ~ f e ds/dr,    ds/dr = 1 / (1 + e^-r)

in which the parameters inside log q stand still ("sticking the landing", Roeder and others, 2017):
where q = p it has no noise. Adam climbs; m and r are averages of the last quarter of the steps.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from amalt.arguments import check_count, check_precision
from amalt.errors import AmaltWarning, SettingsError, StartError
from amalt.kernels.malt import MaltState
from amalt.randomness import Phase, chain_keys, fold, normal, phase_key, root_key
from amalt.start.explain import explain, listed
from amalt.targets import Target, as_target
from amalt.tuning import check_number
from amalt.typed import fori_loop, jit

ADVI_STEPS = 2000
ADVI_GRADIENTS = ADVI_STEPS + 1
"""One to look at the example position, then one for each step."""

LEARNING_RATE = 0.1
FIRST_SCALE = 1e-3

ADAM = optax.scale_by_adam(b1=0.9, b2=0.99, eps=1e-8)
"""The usual memory of squares, b2 = 0.999, forgets a steep start too late (docs/decisions)."""

AVERAGED_SHARE = 1 / 4
"""The part of the steps whose parameters are averaged: the last one."""

STEADY = 0.25
"""A mean that moved by this share of the way it could, in that part, has not arrived."""

GRADIENT_BOUND = 1e18
"""Gradients are cut here: the squares that Adam keeps are finite in single precision."""

FIT = np.uint32(0xFFFFFFFF)
"""The address of the numbers of a fit: no attempt to draw starting points goes so far."""


class MeanField(NamedTuple):
    """N(mean, diag(scale)^2) in the unconstrained space: two vectors ``[dim]``."""

    mean: jax.Array
    scale: jax.Array

    def draw(self, chains: int, *, random_seed: Any = None) -> jax.Array:
        """Draw points ``[chains, dim]``; point c is the same for any number of them.

        With the seed of a run these are the points where ``init="advi"`` starts it.
        """
        key = phase_key(root_key(random_seed)[0], Phase.START)
        return self.points(key, np.int32(0), check_count("chains", chains, 1))

    def points(self, key: Any, attempt: Any, chains: int) -> jax.Array:
        """Draw one point per chain, with new numbers at every attempt."""

        def point(key: jax.Array) -> jax.Array:
            return self.mean + self.scale * normal(key, 0, self.mean.shape, self.mean.dtype)

        return jax.vmap(point)(chain_keys(key, attempt, chains))


class Climb(NamedTuple):
    """Parameters (m, r), those that last gave a usable draw, Adam's moments, and the average.

    `before` are the parameters where the average begins.
    """

    parameters: jax.Array
    trusted: jax.Array
    moments: Any
    average: jax.Array
    before: jax.Array


def advi(
    model: Any,
    *,
    random_seed: Any = None,
    steps: int = ADVI_STEPS,
    learning_rate: float = LEARNING_RATE,
) -> MeanField:
    """Fit a normal law with independent coordinates to a target, one gradient per step.

    Parameters
    ----------
    model
        An `amalt.Target`, or the name of a built-in posterior.
    random_seed
        An integer, a JAX key, or None for a fresh one. Same seed, same fit.
    steps
        How often Adam climbs.
    learning_rate
        About the most that a parameter moves in one step. The mean begins at the example position,
        or at 0 if the density is not finite there.

    Raises
    ------
    StartError
        If log density and gradient are finite at no draw.

    Examples
    --------
    >>> import amalt, jax.numpy as jnp
    >>> from amalt.start import advi
    >>> target = amalt.Target(lambda x: -0.5 * jnp.sum(((x - 3.0) / 2.0) ** 2), jnp.zeros(2))
    >>> q = advi(target, random_seed=1)
    >>> q.mean.round(1).tolist(), q.scale.round(1).tolist()
    ([3.0, 3.0], [2.0, 2.0])
    >>> q.draw(4, random_seed=1).shape
    (4, 2)
    """
    target = as_target(model)
    check_precision(target)
    steps = check_count("steps", steps, 1)
    learning_rate = check_number("learning_rate", learning_rate)
    if not 0.0 < learning_rate <= 1.0:
        raise SettingsError(f"learning_rate={learning_rate}: it must be above 0, and at most 1.")
    key = phase_key(root_key(random_seed)[0], Phase.START)
    return fit_normal(target, key, steps, learning_rate)


def fit_normal(
    target: Target, key: Any, steps: int = ADVI_STEPS, learning_rate: float = LEARNING_RATE
) -> MeanField:
    """Fit with numbers from addresses below ``key``."""
    averaged_from = steps - max(1, int(AVERAGED_SHARE * steps))

    def step(i: jax.Array, climb: Climb) -> Climb:
        m, r = climb.parameters
        s = jax.nn.softplus(r)
        e = normal(fold(key, FIT, 0), i, m.shape, m.dtype)
        logdensity, gradient = target.value_and_grad(m + s * e)
        f = gradient + e / s
        ascent, moments = _adam(jnp.stack([f, f * e * jax.nn.sigmoid(r)]), climb.moments)
        # A draw that is not usable teaches nothing: q goes back to where it last gave a usable one.
        # As long as there was none, it tries other places.
        back = jnp.where(climb.moments.count == 0, jnp.stack([e, r]), climb.trusted)
        is_usable = jnp.isfinite(logdensity) & jnp.all(jnp.isfinite(f))
        parameters, trusted, moments = jax.tree.map(
            lambda forth, back: jnp.where(is_usable, forth, back),
            (climb.parameters + learning_rate * ascent, climb.parameters, moments),
            (back, back, climb.moments),
        )
        # Before the last quarter n stays 1, and the average is the last iterate.
        n = jnp.maximum(i - averaged_from + 1, 1).astype(m.dtype)
        average = climb.average + (parameters - climb.average) / n
        before = jnp.where(i <= averaged_from, climb.parameters, climb.before)
        return Climb(parameters, trusted, moments, average, before)

    def climb_from(begin: jax.Array) -> Climb:
        return fori_loop(0, steps, step, Climb(begin, begin, ADAM.init(begin), begin, begin))

    m = _first_mean(target)
    top = jit(climb_from)(jnp.stack([m, jnp.full_like(m, math.log(math.expm1(FIRST_SCALE)))]))
    if int(top.moments.count) == 0:
        z = top.parameters[0]
        last = MaltState(z, *target.value_and_grad(z))
        where = f"none of {steps} draws of ADVI is usable"
        raise StartError(explain(where, target, last, is_fixed=False))
    moved = np.abs(np.asarray(top.parameters[0] - top.before[0]))
    under_way = np.flatnonzero(moved > STEADY * learning_rate * (steps - averaged_from))
    if under_way.size and steps >= ADVI_STEPS:
        names = listed([target.element(int(i)) for i in under_way])
        message = (
            f"ADVI has not arrived after {steps} steps: its mean still moves, in {names}. Chains "
            "begin on the way; give the target an example position nearer to its bulk, or init=."
        )
        warnings.warn(AmaltWarning("starts", message), stacklevel=3)
    return MeanField(top.average[0], jax.nn.softplus(top.average[1]))


def _first_mean(target: Target) -> jax.Array:
    """Return the example position if the density is finite there, else the origin."""
    state = MaltState(target.example, *target.value_and_grad(target.example))
    is_usable = all(bool(np.isfinite(np.asarray(leaf)).all()) for leaf in state)
    return target.example if is_usable else jnp.zeros_like(target.example)


def _adam(gradient: jax.Array, moments: Any) -> tuple[jax.Array, Any]:
    gradient = jnp.clip(gradient, -GRADIENT_BOUND, GRADIENT_BOUND)
    # Optax raises a float to an integer power, which users may have forbidden.
    with jax.numpy_dtype_promotion("standard"):
        ascent, moments = ADAM.update(gradient, moments)
    return jnp.asarray(ascent), moments
