"""MALT with Adaptive MALT, and randomized HMC (SNAPER), which is the same without damping.

Both share the kernel and what is learned. HMC with one length for ever resonates, so its length is
drawn anew in each iteration, one draw for all chains: L = ceil(jitter tau / h).
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from amalt.adaptation import malt as adaptive_malt
from amalt.adaptation.jitter import steps_at
from amalt.adaptation.settings import MaltSettings
from amalt.errors import SettingsError
from amalt.kernels import malt
from amalt.kernels.integrators import Integrator, ValueAndGrad
from amalt.kernels.malt import MaltInfo, MaltState, MaltTuning
from amalt.methods.base import DrawRecord
from amalt.randomness import chain_keys
from amalt.targets import Target
from amalt.tuning import Tuning, usable_variances


class TimedTuning(NamedTuple):
    """The tuning of a kernel, and the time tau that its lengths are made of."""

    kernel: MaltTuning
    time: jax.Array


@dataclasses.dataclass(frozen=True)
class Malt:
    """MALT or randomized HMC on one target."""

    target: Target
    integrator: Integrator
    settings: MaltSettings

    @property
    def gradients_per_step(self) -> int:
        """Count the gradients of one integrator step."""
        return self.integrator.gradients_per_step

    def begin(self, key: Any, starts: MaltState) -> MaltState:
        """Return the states as they are."""
        return starts

    def init(self, key: Any, states: MaltState) -> adaptive_malt.MaltAdaptation:
        """Start learning."""
        return adaptive_malt.init(key, states.position, self.settings)

    def learn(
        self, key: Any, step: Any, states: MaltState, adaptation: adaptive_malt.MaltAdaptation
    ) -> tuple[MaltState, adaptive_malt.MaltAdaptation, adaptive_malt.WarmupTrace, DrawRecord]:
        """Make one transition of all chains and learn from it."""
        tuning = adaptive_malt.tuning(adaptation, self.settings)
        new, info = self._advance(key, step, states, tuning)
        adaptation, trace = adaptive_malt.update(
            adaptation, tuning, states, new, info, self.settings
        )
        return new, adaptation, trace, record(new, info, tuning)

    def variances(self, adaptation: adaptive_malt.MaltAdaptation) -> jax.Array:
        """Return the running variances."""
        return adaptation.moments.variance

    def move(
        self, key: Any, step: Any, states: MaltState, tuning: TimedTuning
    ) -> tuple[MaltState, DrawRecord]:
        """Make one transition of all chains."""
        kernel, time = tuning
        if self.settings.is_jittered:
            num_steps = steps_at(self.settings.jitter, step, time, kernel.step_size)
            kernel = kernel._replace(num_steps=num_steps)
        new, info = self._advance(key, step, states, kernel)
        return new, record(new, info, kernel)

    def check_chains(self, chains: int) -> None:
        """Accept any number."""

    def finalize(self, adaptation: adaptive_malt.MaltAdaptation) -> Tuning:
        """Freeze what was learned; without jitter, the time is that of whole steps."""
        learned = adaptive_malt.finalize(adaptation, self.settings)
        h = float(learned.step_size)
        is_jittered = self.settings.is_jittered
        return Tuning(
            step_size=h,
            integration_time=float(adaptation.mean_time)
            if is_jittered
            else int(learned.num_steps) * h,
            damping=float(learned.damping),
            variances=usable_variances(adaptation.moments.variance),
        )

    def prepare(self, tuning: Tuning | None) -> TimedTuning:
        """Return the tuning as arrays of the target's precision."""
        assert tuning is not None
        if self.settings.is_jittered and tuning.damping > 0.0:
            raise SettingsError(
                f"tuning.damping={tuning.damping:.3g}: method='rhmc' moves without damping; pass "
                "the tuning of such a run, or amalt.Tuning(..., damping=0.0)."
            )
        kernel = tuning.for_kernel(self.target.dim, self.target.dtype)
        return TimedTuning(kernel, jnp.asarray(tuning.integration_time, self.target.dtype))

    def _advance(
        self, key: Any, step: Any, states: MaltState, tuning: MaltTuning
    ) -> tuple[MaltState, MaltInfo]:
        return advance(key, step, states, tuning, self.target.value_and_grad, self.integrator)


def advance(
    key: Any,
    step: Any,
    states: MaltState,
    tuning: MaltTuning,
    value_and_grad: ValueAndGrad,
    integrator: Integrator,
) -> tuple[MaltState, MaltInfo]:
    """Move all chains by one transition; they share the tuning, so L stays one number."""
    keys = chain_keys(key, step, states.logdensity.shape[0])

    def move(key: jax.Array, state: MaltState) -> tuple[MaltState, MaltInfo]:
        return malt.step(key, state, tuning, value_and_grad, integrator)

    return jax.vmap(move)(keys, states)


def record(states: MaltState, info: MaltInfo, tuning: MaltTuning) -> DrawRecord:
    """Return what is kept of a transition."""
    return DrawRecord(
        position=states.position,
        logdensity=states.logdensity,
        acceptance_rate=info.acceptance_rate,
        energy_error=info.energy_error,
        is_diverging=info.is_diverging,
        num_steps=jnp.broadcast_to(tuning.num_steps, states.logdensity.shape),
    )
