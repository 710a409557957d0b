"""What the driver asks of a sampler: how all chains move, and what they learn while moving."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax

from amalt.kernels.malt import MaltState
from amalt.tuning import Tuning


class DrawRecord(NamedTuple):
    """What is kept of one step of all chains: ``[chain, dim]`` positions, ``[chain]`` others."""

    position: jax.Array
    logdensity: jax.Array
    acceptance_rate: jax.Array
    energy_error: jax.Array
    is_diverging: jax.Array
    num_steps: jax.Array


class Method(Protocol):
    """A sampler of many chains. All functions are pure, and all but the last three are traced.

    `learn` and `move` make step number ``step`` of a phase, with random numbers from addresses
    below ``key``. What `learn` returns as its trace is a NamedTuple of scalars, with at least
    `step_size`, `acceptance_rate` and `num_steps` (of the chain that took the most).
    """

    @property
    def gradients_per_step(self) -> int:
        """Count the gradients of one integrator step."""
        ...

    def begin(self, key: Any, starts: MaltState) -> Any:
        """Return the states of all chains, ``[chain, ...]`` each, from screened positions."""
        ...

    def init(self, key: Any, states: Any) -> Any:
        """Return what is known before the first step."""
        ...

    def learn(self, key: Any, step: Any, states: Any, adaptation: Any) -> Any:
        """Make one step and learn from it: ``(states, adaptation, trace, record)``."""
        ...

    def variances(self, adaptation: Any) -> jax.Array:
        """Return the variances ``[dim]`` that are believed now."""
        ...

    def move(self, key: Any, step: Any, states: Any, tuning: Any) -> tuple[Any, DrawRecord]:
        """Make one step with frozen tuning."""
        ...

    def check_chains(self, chains: int) -> None:
        """Refuse a number of chains that the sampler cannot run."""
        ...

    def finalize(self, adaptation: Any) -> Tuning | None:
        """Return what was learned; None for a sampler that never stops learning."""
        ...

    def prepare(self, tuning: Tuning | None) -> Any:
        """Return the arrays that `move` takes."""
        ...
