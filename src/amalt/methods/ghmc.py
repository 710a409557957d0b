"""Generalized HMC tuned by MEADS, thinned by ten as in the paper's experiments."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from amalt.adaptation import meads
from amalt.adaptation.moments import keep_finite
from amalt.errors import SettingsError
from amalt.kernels import ghmc
from amalt.kernels.ghmc import GhmcInfo, GhmcState, GhmcTuning
from amalt.kernels.integrators import Integrator
from amalt.kernels.malt import MaltState
from amalt.methods.base import DrawRecord
from amalt.randomness import chain_keys
from amalt.targets import Target
from amalt.tuning import Tuning
from amalt.typed import fori_loop

THIN = 10
"""Steps between two draws."""


class GhmcAdaptation(NamedTuple):
    """MEADS remembers nothing; these are the variances of the chains, to look at."""

    variances: jax.Array


class GhmcTrace(NamedTuple):
    """What one iteration used, as a mean over its moves, and what it saw.

    `damping` is gamma: the mean of gamma h over the mean of h.
    """

    step_size: jax.Array
    damping: jax.Array
    acceptance_rate: jax.Array
    num_steps: jax.Array
    num_diverging: jax.Array


class Seen(NamedTuple):
    """What happened to each chain since its last draw: sums, the last energy error, any of all."""

    moves: jax.Array
    step_size: jax.Array
    damping_per_step: jax.Array
    acceptance: jax.Array
    energy_error: jax.Array
    is_diverging: jax.Array

    @classmethod
    def nothing(cls, chains: int, dtype: Any) -> Seen:
        """Start counting."""
        zero = jnp.zeros(chains, dtype)
        return cls(zero, zero, zero, zero, zero, zero > 0.0)

    def add(self, tuning: GhmcTuning, info: GhmcInfo) -> Seen:
        """Count one more move of a fold."""
        return Seen(
            self.moves + 1.0,
            self.step_size + tuning.step_size,
            self.damping_per_step + tuning.damping_per_step,
            self.acceptance + info.acceptance_rate,
            info.energy_error,
            self.is_diverging | info.is_diverging,
        )


@dataclasses.dataclass(frozen=True)
class Ghmc:
    """Generalized HMC on one target."""

    target: Target
    integrator: Integrator

    @property
    def gradients_per_step(self) -> int:
        """Count the gradients of one integrator step."""
        return self.integrator.gradients_per_step

    def begin(self, key: Any, starts: MaltState) -> GhmcState:
        """Draw momenta."""
        return jax.vmap(ghmc.init)(chain_keys(key, 1, starts.logdensity.shape[0]), starts)

    def init(self, key: Any, states: GhmcState) -> GhmcAdaptation:
        """Know nothing."""
        return GhmcAdaptation(jnp.ones_like(states.position[0]))

    def learn(
        self, key: Any, step: Any, states: GhmcState, adaptation: GhmcAdaptation
    ) -> tuple[GhmcState, GhmcAdaptation, GhmcTrace, DrawRecord]:
        """Make one iteration, with gamma h of at least 1/n in step n = 1, 2, ..."""
        states, seen, record = self._iterate(key, step, states, is_early=True)
        trace = GhmcTrace(
            step_size=jnp.sum(seen.step_size) / jnp.sum(seen.moves),
            damping=jnp.sum(seen.damping_per_step) / jnp.sum(seen.step_size),
            acceptance_rate=jnp.mean(record.acceptance_rate),
            num_steps=jnp.max(record.num_steps),
            num_diverging=jnp.sum(record.is_diverging),
        )
        new = GhmcAdaptation(jnp.var(states.position, axis=0))
        return states, keep_finite(new, adaptation), trace, record

    def variances(self, adaptation: GhmcAdaptation) -> jax.Array:
        """Return the variances of the chains."""
        return adaptation.variances

    def move(
        self, key: Any, step: Any, states: GhmcState, tuning: None
    ) -> tuple[GhmcState, DrawRecord]:
        """Make one iteration."""
        states, _, record = self._iterate(key, step, states, is_early=False)
        return states, record

    def check_chains(self, chains: int) -> None:
        """Refuse chains that cannot be dealt into folds."""
        check_chains(chains)

    def finalize(self, adaptation: GhmcAdaptation) -> None:
        """Return nothing: there is no tuning that stays."""

    def prepare(self, tuning: Tuning | None) -> None:
        """Refuse a tuning."""
        if tuning is not None:
            raise SettingsError(
                "tuning= was given, but method='ghmc' tunes itself in every step: leave it out."
            )

    def _iterate(
        self, key: Any, step: Any, states: GhmcState, *, is_early: bool
    ) -> tuple[GhmcState, Seen, DrawRecord]:
        """Make `THIN` steps; in each of them another fold rests."""
        chains, dtype = states.logdensity.shape[0], states.logdensity.dtype
        first = jnp.asarray(step, jnp.int32) * THIN

        def body(i: jax.Array, carry: tuple[GhmcState, Seen]) -> tuple[GhmcState, Seen]:
            n = first + i
            order, back = meads.deal(key, n, chains)
            keys, dealt, seen = jax.tree.map(
                lambda leaf: _in_folds(leaf[order]), (chain_keys(key, n, chains), *carry)
            )
            floor = 1.0 / (n + 1).astype(dtype) if is_early else jnp.zeros((), dtype)
            moving = jax.tree.map(
                lambda leaf: leaf[1:], (keys, dealt, seen, meads.tunings(dealt, floor))
            )
            return jax.tree.map(
                lambda old, new: jnp.concatenate([old[:1], new]).reshape(chains, *old.shape[2:])[
                    back
                ],
                (dealt, seen),
                jax.vmap(self._move_fold)(*moving),
            )

        states, seen = fori_loop(0, THIN, body, (states, Seen.nothing(chains, dtype)))
        record = DrawRecord(
            position=states.position,
            logdensity=states.logdensity,
            acceptance_rate=seen.acceptance / seen.moves,
            energy_error=seen.energy_error,
            is_diverging=seen.is_diverging,
            # As the authors count: a step of which a quarter rests costs a gradient all the same.
            num_steps=jnp.full(chains, THIN, jnp.int32),
        )
        return states, seen, record

    def _move_fold(
        self, keys: jax.Array, states: GhmcState, seen: Seen, tuning: GhmcTuning
    ) -> tuple[GhmcState, Seen]:
        def move(key: jax.Array, state: GhmcState, seen: Seen) -> tuple[GhmcState, Seen]:
            new, info = ghmc.step(key, state, tuning, self.target.value_and_grad, self.integrator)
            return new, seen.add(tuning, info)

        return jax.vmap(move)(keys, states, seen)


def check_chains(chains: int) -> None:
    """Refuse chains that cannot be dealt into folds."""
    if chains % meads.FOLDS or chains < 4 * meads.FOLDS:
        raise SettingsError(
            f"chains={chains}: method='ghmc' deals its chains into {meads.FOLDS} folds of at "
            f"least 4: pass a multiple of {meads.FOLDS}, {4 * meads.FOLDS} or more."
        )


def _in_folds(leaf: jax.Array) -> jax.Array:
    return leaf.reshape(meads.FOLDS, -1, *leaf.shape[1:])
