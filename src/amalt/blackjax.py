r"""MALT in BlackJAX's shape: ``init``, ``build_kernel`` and ``as_top_level_api``.

With inverse mass S S', step size h, L integration steps, damping gamma and eta = exp(-gamma h),
one transition from x draws v ~ N(0, I) and repeats L times

    v <- eta v + sqrt(1 - eta^2) xi,                            xi ~ N(0, I)
    (x, v) <- integrator step of dx = S v dt, dv = S' grad log p(x) dt

then accepts the end or stays where it was; `amalt.kernels.malt` has the details. Damping 0 is
``blackjax.hmc``. The functions fit wherever BlackJAX takes an algorithm of the HMC family::

    algorithm = amalt.blackjax.as_top_level_api(logdensity_fn, 0.5, 1.0, 4, 1.0)
    blackjax.util.run_inference_algorithm(key, algorithm, 1000, initial_position=position)

    warmup = blackjax.window_adaptation(
        amalt.blackjax, logdensity_fn, integrator=LEAPFROG, num_integration_steps=4, damping=1.0
    )

BlackJAX itself is not imported, and need not be installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.flatten_util import ravel_pytree

from amalt.errors import SettingsError
from amalt.kernels import malt
from amalt.kernels.integrators import LEAPFROG, Integrator, ValueAndGrad
from amalt.kernels.malt import MaltTuning
from amalt.kernels.metric import DiagonalMetric
from amalt.randomness import key_words

Position = Any
"""A pytree of floating-point arrays."""

LogDensity = Callable[[Position], jax.Array]


class MALTState(NamedTuple):
    """A position with its log density and its gradient, a pytree like the position."""

    position: Position
    logdensity: jax.Array
    logdensity_grad: Position


class MALTInfo(NamedTuple):
    """What happened in one transition, by BlackJAX's names; ``energy_error`` is Delta."""

    acceptance_rate: jax.Array
    is_accepted: jax.Array
    is_divergent: jax.Array
    energy_error: jax.Array
    num_integration_steps: jax.Array


class SamplingAlgorithm(NamedTuple):
    """``init(position, rng_key=None) -> state`` and ``step(rng_key, state) -> (state, info)``."""

    init: Callable[..., MALTState]
    step: Callable[[jax.Array, MALTState], tuple[MALTState, MALTInfo]]


def init(position: Position, logdensity_fn: LogDensity) -> MALTState:
    """Evaluate the log density at a first position."""
    for path, leaf in cast(Any, jax.tree_util.tree_leaves_with_path(position)):
        if not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
            name = jax.tree_util.keystr(path, simple=True, separator=".") or "position"
            raise SettingsError(f"{name!r} is {leaf!r}: it must be real (write 0.0 for 0).")
    x, unravel = ravel_pytree(position)
    _, logdensity, gradient = malt.init(x, _flat_value_and_grad(logdensity_fn, unravel))
    return MALTState(unravel(x), logdensity, unravel(gradient))


def build_kernel(integrator: Integrator = LEAPFROG) -> Callable[..., tuple[MALTState, MALTInfo]]:
    """Return the function that makes one transition of one chain.

    It takes ``(rng_key, state, logdensity_fn, step_size, inverse_mass_matrix,
    num_integration_steps, damping)``, as in `as_top_level_api`, and returns ``(state, info)``.
    """
    if not isinstance(cast(Any, integrator), Integrator):
        raise SettingsError(
            f"integrator={integrator!r}: pass amalt.kernels.LEAPFROG, TWO_STAGE or THREE_STAGE; "
            "BlackJAX's own integrators do not fit."
        )

    def kernel(
        rng_key: jax.Array,
        state: MALTState,
        logdensity_fn: LogDensity,
        step_size: Any,
        inverse_mass_matrix: Any,
        num_integration_steps: Any,
        damping: Any,
    ) -> tuple[MALTState, MALTInfo]:
        x, unravel = ravel_pytree(state.position)
        flat = malt.MaltState(x, state.logdensity, ravel_pytree(state.logdensity_grad)[0])
        tuning = _tuning(x, step_size, inverse_mass_matrix, num_integration_steps, damping)
        value_and_grad = _flat_value_and_grad(logdensity_fn, unravel)
        flat, info = malt.step(key_words(rng_key), flat, tuning, value_and_grad, integrator)
        new = MALTState(unravel(flat.position), flat.logdensity, unravel(flat.gradient))
        rate, delta = info.acceptance_rate, info.energy_error
        return new, MALTInfo(rate, info.is_accepted, info.is_diverging, delta, tuning.num_steps)

    return kernel


def as_top_level_api(
    logdensity_fn: LogDensity,
    step_size: Any,
    inverse_mass_matrix: Any,
    num_integration_steps: Any,
    damping: Any,
    *,
    integrator: Integrator = LEAPFROG,
) -> SamplingAlgorithm:
    """Bind a log density and its tuning into ``init`` and ``step``.

    Parameters
    ----------
    logdensity_fn
        Maps a position, a pytree of real arrays, to its log density.
    step_size
        h.
    inverse_mass_matrix
        About the variances of the target: one number, or one per coordinate in the order of
        ``jax.flatten_util.ravel_pytree``.
    num_integration_steps
        L.
    damping
        gamma. With an inverse mass that fits, 1 is good; 0 is Hamiltonian Monte Carlo.
    integrator
        `amalt.kernels.LEAPFROG`, `TWO_STAGE` or `THREE_STAGE`.

    Examples
    --------
    >>> import amalt.blackjax, jax
    >>> malt = amalt.blackjax.as_top_level_api(lambda x: -0.5 * (x["a"] - 3) ** 2, 0.8, 1.0, 3, 1.0)
    >>> def step(state, key):
    ...     return malt.step(key, state)[0], state.position["a"]
    >>> keys = jax.random.split(jax.random.key(1), 2000)
    >>> state, draws = jax.lax.scan(step, malt.init({"a": 0.0}), keys)
    >>> bool(abs(draws.mean() - 3) < 0.1)
    True
    """
    kernel = build_kernel(integrator)
    numbers = (step_size, inverse_mass_matrix, num_integration_steps, damping)

    def init_fn(position: Position, rng_key: jax.Array | None = None) -> MALTState:
        return init(position, logdensity_fn)

    def step_fn(rng_key: jax.Array, state: MALTState) -> tuple[MALTState, MALTInfo]:
        return kernel(rng_key, state, logdensity_fn, *numbers)

    return SamplingAlgorithm(init_fn, step_fn)


def _flat_value_and_grad(
    logdensity_fn: LogDensity, unravel: Callable[[jax.Array], Position]
) -> ValueAndGrad:
    return jax.value_and_grad(lambda x: jnp.asarray(logdensity_fn(unravel(x)), x.dtype))


def _tuning(
    x: jax.Array, step_size: Any, inverse_mass_matrix: Any, num_steps: Any, damping: Any
) -> MaltTuning:
    """Check the numbers, as far as they are known while tracing, and give them x's precision."""
    shape = np.shape(inverse_mass_matrix)
    if shape not in ((), x.shape):
        raise SettingsError(
            f"inverse_mass_matrix has shape {shape}: pass one number or {x.size}, one for each "
            "coordinate. Dense matrices are not taken; pass the diagonal."
        )
    _require("step_size", step_size, lambda h: h > 0.0, "positive")
    _require("inverse_mass_matrix", inverse_mass_matrix, lambda s: s > 0.0, "positive")
    _require("num_integration_steps", num_steps, lambda n: (n >= 1) & (n % 1 == 0), "1, 2, ...")
    _require("damping", damping, lambda gamma: gamma >= 0.0, "zero or positive")
    scale = jnp.broadcast_to(jnp.sqrt(jnp.asarray(inverse_mass_matrix, x.dtype)), x.shape)
    return MaltTuning(
        step_size=jnp.asarray(step_size, x.dtype),
        num_steps=jnp.asarray(num_steps, jnp.int32),
        damping=jnp.asarray(damping, x.dtype),
        metric=DiagonalMetric(scale, jnp.ones((), x.dtype)),
    )


def _require(name: str, value: Any, is_good: Callable[[np.ndarray], np.ndarray], what: str) -> None:
    if not isinstance(value, Tracer):
        known = np.asarray(value)
        if not np.all(is_good(known) & np.isfinite(known)):
            raise SettingsError(f"{name}={value!r}: it must be {what}.")
