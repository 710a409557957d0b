"""The hyperparameters of Adaptive MALT and its relatives, and the presets that bundle them."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from amalt.adaptation.jitter import KINDS
from amalt.errors import SettingsError, nearest


@dataclasses.dataclass(frozen=True)
class MaltSettings:
    """Hyperparameters of Adaptive MALT; the defaults are those of the paper's appendix.

    Parameters
    ----------
    target_accept
        Acceptance rate alpha* that the step size is tuned for.
    learning_rate
        Of Adam, for log h and log tau, when many chains share the learning.
    moment_decay, principal_decay
        a and a_w: the decay of the moments and of the principal component.
    average_decay
        Decay of the averages of log h and log tau that are frozen in the end.
    mala_steps
        Iterations at the start with L = 1; never more than a tenth of the warm-up.
    max_steps
        Most integrator steps in a trajectory.
    initial_step_size
        h and tau of the first iteration.
    adaptive_rho
        Learn rho as the autocorrelation of the squared projection; otherwise rho = 1.
    two_directional
        Estimate the gradient of the criterion from both ends of a trajectory.
    harmonic_acceptance
        Average acceptance rates over chains harmonically, as the authors' code does.
    jitter
        Randomize the length of trajectories, ``"uniform"`` or ``"exponential"``, instead of
        damping them (``"none"``).
    """

    target_accept: float = 0.8
    learning_rate: float = 0.05
    moment_decay: float = 8.0
    principal_decay: float = 3.0
    average_decay: float = 16.0
    mala_steps: int = 100
    max_steps: int = 500
    initial_step_size: float = 0.01
    adaptive_rho: bool = False
    two_directional: bool = True
    harmonic_acceptance: bool = False
    jitter: str = "none"

    def __post_init__(self) -> None:
        """Make plain numbers of what is given, and refuse values that no run can use."""
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, self._plain(field.name, str(field.type)))
        self._check("target_accept", 0.0 < self.target_accept < 1.0, "between 0 and 1, as 0.8")
        for name in ("learning_rate", "moment_decay", "principal_decay", "average_decay"):
            value = getattr(self, name)
            self._check(name, 0.0 < value < float("inf"), "positive and finite")
        self._check(
            "initial_step_size", 1e-30 < self.initial_step_size < 1e30, "positive and finite"
        )
        self._check("mala_steps", self.mala_steps >= 0, "zero or more")
        self._check("max_steps", 1 <= self.max_steps <= 1_000_000, "between 1 and 1000000")
        self._check("jitter", self.jitter in KINDS, f"one of {', '.join(KINDS)}")

    @property
    def is_jittered(self) -> bool:
        """Tell whether lengths are randomized."""
        return self.jitter != "none"

    def _plain(self, name: str, kind: str) -> Any:
        """Return a field as the type that its annotation names."""
        value = getattr(self, name)
        if kind == "str":
            return value
        number = np.asarray(value)
        kinds = {"bool": "b", "int": "iu", "float": "fiu"}[kind]
        is_good = number.ndim == 0 and number.dtype.kind in kinds
        self._check(
            name, is_good, {"bool": "True or False", "int": "an integer"}.get(kind, "a number")
        )
        return number.item() if kind != "float" else float(number)

    def _check(self, name: str, is_good: bool, wanted: str) -> None:
        if not is_good:
            raise SettingsError(f"{name}={getattr(self, name)!r}: it must be {wanted}.")

    def learning_rate_at(self, n: jax.Array, chains: int, dtype: jnp.dtype) -> jax.Array:
        """Return the learning rate of iteration n = 1, 2, ...

        With K = 128 chains or more it is constant, as in the paper. The gradients of fewer chains
        are noisier, so their rate falls as (1 + n / 200)^-0.6, down to K / 128 of the constant.
        """
        floor = min(1.0, chains / 128)
        return self.learning_rate * jnp.maximum(floor, (1.0 + n.astype(dtype) / 200.0) ** -0.6)


PRESETS: dict[str, dict[str, MaltSettings]] = {
    "malt": {"paper": MaltSettings(), "paper-rho": MaltSettings(adaptive_rho=True)},
    "rhmc": {
        "paper": MaltSettings(jitter="uniform"),
        "paper-exponential": MaltSettings(jitter="exponential"),
    },
    "ghmc": {"paper": MaltSettings()},
    "nuts": {"paper": MaltSettings(target_accept=0.7, harmonic_acceptance=True)},
}
"""For each method the settings of the paper's experiments, by name."""


def as_settings(
    preset: str | MaltSettings, *, method: str = "malt", **overrides: Any
) -> MaltSettings:
    """Return the settings of a preset, with those overrides that are not None.

    Examples
    --------
    >>> as_settings("paper", target_accept=0.9).target_accept
    0.9
    """
    if isinstance(preset, str):
        presets = PRESETS[method]
        if preset not in presets:
            raise SettingsError(
                f"preset={preset!r} is not known for method={method!r}; choose from "
                f"{sorted(presets)}, or pass amalt.MaltSettings(...).{nearest(preset, presets)}"
            )
        preset = presets[preset]
    given = {key: value for key, value in overrides.items() if value is not None}
    return dataclasses.replace(preset, **given)
