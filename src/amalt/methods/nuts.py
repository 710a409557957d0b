r"""NUTS on BlackJAX's kernel, with one step size and one metric for all chains.

All chains wait for the one with the deepest tree, so the cost of a draw is its number of steps.

A tree, or a subtree, turns as soon as the sum of all its velocities points against one of its ends:

    v_- . rho < 0  or  v_+ . rho < 0,      rho = sum of p over the tree, both ends included

as in the paper's baseline. BlackJAX's own rho counts the ends by half, so that trees end earlier.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp

from amalt.adaptation import nuts as adaptation_of
from amalt.adaptation.nuts import NutsAdaptation
from amalt.adaptation.settings import MaltSettings
from amalt.errors import SettingsError
from amalt.kernels.integrators import LEAPFROG, Integrator
from amalt.kernels.malt import DIVERGENCE, MaltState
from amalt.kernels.metric import diagonal
from amalt.methods.base import DrawRecord
from amalt.randomness import chain_keys
from amalt.targets import Target
from amalt.tuning import Tuning, usable_variances

MAX_DOUBLINGS = 10


class NutsTuning(NamedTuple):
    """h and the variances of the metric, the largest of them 1."""

    step_size: jax.Array
    inverse_mass: jax.Array


class NutsTrace(NamedTuple):
    """What one iteration used and saw; `num_steps` is the most of all chains."""

    step_size: jax.Array
    acceptance_rate: jax.Array
    num_steps: jax.Array
    mean_num_steps: jax.Array
    num_diverging: jax.Array


@dataclasses.dataclass(frozen=True)
class Nuts:
    """NUTS on one target."""

    target: Target
    integrator: Integrator
    settings: MaltSettings

    def __post_init__(self) -> None:
        """Refuse what BlackJAX's kernel does not do, and see that it is there."""
        if self.integrator is not LEAPFROG:
            raise SettingsError(
                f"integrator={self.integrator.name!r}: method='nuts' has 'leapfrog' only."
            )
        if self.target.dtype != jnp.zeros(()).dtype:
            raise SettingsError(
                f"method='nuts' computes in JAX's own precision, {jnp.zeros(()).dtype}, and the "
                f"target in {self.target.dtype}: make the target of {jnp.zeros(()).dtype} numbers."
            )
        _blackjax()

    @property
    def gradients_per_step(self) -> int:
        """Count the gradients of one integrator step."""
        return 1

    def begin(self, key: Any, starts: MaltState) -> MaltState:
        """Return the states as they are."""
        return starts

    def init(self, key: Any, states: MaltState) -> NutsAdaptation:
        """Start learning."""
        return adaptation_of.init(states.position, self.settings)

    def learn(
        self, key: Any, step: Any, states: MaltState, adaptation: NutsAdaptation
    ) -> tuple[MaltState, NutsAdaptation, NutsTrace, DrawRecord]:
        """Make one transition of all chains and learn from it; trees of one step at first."""
        metric = diagonal(adaptation.moments.variance)
        tuning = NutsTuning(jnp.exp(adaptation.step_size.log_value), metric.scale**2)
        states, record = cast(
            "tuple[MaltState, DrawRecord]",
            jax.lax.cond(
                jnp.asarray(step, jnp.int32) < self.settings.mala_steps,
                lambda: self._advance(key, step, states, tuning, 1),
                lambda: self._advance(key, step, states, tuning, MAX_DOUBLINGS),
            ),
        )
        adaptation = adaptation_of.update(
            adaptation, states.position, record.acceptance_rate, self.settings
        )
        trace = NutsTrace(
            step_size=tuning.step_size,
            acceptance_rate=jnp.mean(record.acceptance_rate),
            num_steps=jnp.max(record.num_steps),
            mean_num_steps=jnp.mean(record.num_steps.astype(tuning.step_size.dtype)),
            num_diverging=jnp.sum(record.is_diverging),
        )
        return states, adaptation, trace, record

    def variances(self, adaptation: NutsAdaptation) -> jax.Array:
        """Return the running variances."""
        return adaptation.moments.variance

    def move(
        self, key: Any, step: Any, states: MaltState, tuning: NutsTuning
    ) -> tuple[MaltState, DrawRecord]:
        """Make one transition of all chains."""
        return self._advance(key, step, states, tuning, MAX_DOUBLINGS)

    def check_chains(self, chains: int) -> None:
        """Accept any number."""

    def finalize(self, adaptation: NutsAdaptation) -> Tuning:
        """Freeze what was learned."""
        return Tuning(
            step_size=float(jnp.exp(adaptation.mean_log_step_size)),
            integration_time=None,
            damping=0.0,
            variances=usable_variances(adaptation.moments.variance),
        )

    def prepare(self, tuning: Tuning | None) -> NutsTuning:
        """Return the tuning as arrays of the target's precision."""
        assert tuning is not None
        if tuning.integration_time is not None or tuning.damping > 0.0:
            raise SettingsError(
                "tuning has an integration time or damping, which method='nuts' does not: pass "
                "amalt.Tuning(step_size=..., integration_time=None, damping=0.0, variances=...)."
            )
        metric = tuning.metric(self.target.dim, self.target.dtype)
        return NutsTuning(jnp.asarray(tuning.step_size, self.target.dtype), metric.scale**2)

    def _advance(
        self, key: Any, step: Any, states: MaltState, tuning: NutsTuning, max_doublings: int
    ) -> tuple[MaltState, DrawRecord]:
        kernel, state_type = _blackjax()
        keys = chain_keys(key, step, states.logdensity.shape[0])
        h, inverse_mass = tuning

        def logdensity(x: jax.Array) -> jax.Array:
            # BlackJAX would move to where the log density is plus infinity, and stay there.
            value = self.target.logdensity(x)
            return jnp.where(jnp.isfinite(value), value, -jnp.inf)

        def move(words: jax.Array, state: MaltState) -> tuple[MaltState, DrawRecord]:
            new, info = kernel(
                jax.random.wrap_key_data(words, impl="threefry2x32"),
                state_type(*state),
                logdensity,
                h,
                _metric(inverse_mass),
                max_doublings,
            )
            kinetic = 0.5 * jnp.sum(inverse_mass * info.momentum**2)
            rate = jnp.where(jnp.isfinite(info.acceptance_rate), info.acceptance_rate, 0.0)
            record = DrawRecord(
                position=new.position,
                logdensity=new.logdensity,
                acceptance_rate=rate.astype(h.dtype),
                energy_error=info.energy - (kinetic - state.logdensity),
                is_diverging=info.is_divergent,
                num_steps=jnp.asarray(info.num_integration_steps, jnp.int32),
            )
            return MaltState(new.position, new.logdensity, new.logdensity_grad), record

        # BlackJAX mixes precisions and ranks, which users may have forbidden.
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            return jax.vmap(move)(keys, states)


def _metric(inverse_mass: jax.Array) -> Any:
    """Return BlackJAX's diagonal metric, with the U-turns of the paper's baseline."""
    metric: Any = importlib.import_module("blackjax.mcmc.metrics").gaussian_euclidean(inverse_mass)

    def is_turning(
        p_left: jax.Array, p_right: jax.Array, p_sum: jax.Array, *positions: Any
    ) -> jax.Array:
        velocity = inverse_mass * p_sum
        return (jnp.dot(p_left, velocity) < 0.0) | (jnp.dot(p_right, velocity) < 0.0)

    return metric._replace(check_turning=is_turning)


@functools.cache
def _blackjax() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return BlackJAX's kernel and its type of states."""
    try:
        nuts = importlib.import_module("blackjax.mcmc.nuts")
        hmc = importlib.import_module("blackjax.mcmc.hmc")
    except ImportError as error:
        raise SettingsError(
            "method='nuts' runs on BlackJAX's kernel: pip install 'amalt[bench]'."
        ) from error
    return nuts.build_kernel(divergence_threshold=int(DIVERGENCE)), hmc.HMCState
