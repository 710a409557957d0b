"""What a warm-up learns, in the units of the target: it can be looked at, saved and reused."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from amalt.errors import SettingsError
from amalt.kernels.malt import MaltTuning
from amalt.kernels.metric import DiagonalMetric, diagonal


def check_number(name: str, value: Any) -> float:
    """Return a real number, or say why it is not one."""
    with contextlib.suppress(TypeError, ValueError):
        if not isinstance(value, bool | np.bool_ | str | bytes) and np.ndim(value) == 0:
            return float(value)
    raise SettingsError(f"{name}={value!r} is a {type(value).__name__}: pass a number.")


def usable_variances(variances: Any) -> np.ndarray:
    """Return variances as the metric uses them: positive, however little a coordinate moved."""
    metric = diagonal(jnp.asarray(variances))
    # In double precision: the variance of a coordinate that never moved would vanish.
    return np.float64(metric.mass_scale) * np.asarray(metric.scale, np.float64) ** 2


@dataclasses.dataclass(frozen=True, eq=False)
class Tuning:
    """What the chains of a run share.

    Parameters
    ----------
    step_size
        h, in the preconditioned space.
    integration_time
        tau; a trajectory takes L = ceil(tau / h) steps. None where lengths are not tuned (NUTS).
    damping
        gamma; 0 makes it Hamiltonian Monte Carlo.
    variances
        s, ``[dim]`` or one number for all: the mass matrix is max(s) diag(s)^-1.

    Examples
    --------
    >>> Tuning(step_size=0.25, integration_time=1.0, damping=0.0).num_steps
    4
    """

    step_size: float
    integration_time: float | None
    damping: float
    variances: np.ndarray | float = 1.0

    def __post_init__(self) -> None:
        """Refuse numbers that no trajectory can use."""
        for name in ("step_size", "integration_time", "damping"):
            if name == "integration_time" and self.integration_time is None:
                continue
            value = check_number(name, getattr(self, name))
            if not 0.0 <= value < float("inf") or (value == 0.0 and name != "damping"):
                wanted = "zero or positive" if name == "damping" else "positive"
                raise SettingsError(f"{name}={value!r}: it must be {wanted} and finite.")
            object.__setattr__(self, name, value)
        try:
            variances = np.asarray(self.variances, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise SettingsError(
                f"variances is a {type(self.variances).__name__}: pass a positive number, or "
                "[dim] of them."
            ) from error
        if variances.ndim > 1:
            raise SettingsError(
                f"variances has shape {variances.shape}: pass a positive number, or [dim] of them."
            )
        bad = variances[~((variances > 0.0) & np.isfinite(variances))]
        if bad.size:
            raise SettingsError(f"variances holds {bad.flat[0]}: all must be positive and finite.")
        steps = 1.0 if self.integration_time is None else self.integration_time / self.step_size
        if steps > 1e6:
            raise SettingsError(
                f"integration_time / step_size = {steps:.3g}: a "
                "trajectory of over a million steps will not end; raise step_size."
            )

    @property
    def num_steps(self) -> int | None:
        """Return L = ceil(tau / h), where a tau of whole steps may be off by rounding."""
        if self.integration_time is None:
            return None
        steps = self.integration_time / self.step_size
        return max(1, int(np.ceil(steps - min(1e-5 * steps, 0.01))))

    def metric(self, dim: int, dtype: np.dtype) -> DiagonalMetric:
        """Return the metric of a target's dimension and precision."""
        variances = np.asarray(self.variances, dtype=np.float64)
        if variances.shape not in ((), (dim,)):
            raise SettingsError(
                f"tuning.variances has shape {variances.shape}; the target has dimension {dim}."
            )
        return diagonal(jnp.asarray(np.broadcast_to(variances, (dim,)), dtype))

    def for_kernel(self, dim: int, dtype: np.dtype) -> MaltTuning:
        """Return the arrays that the kernel of MALT takes."""
        if self.num_steps is None:
            raise SettingsError(
                "tuning.integration_time is None, as NUTS leaves it: pass a tuning with a time."
            )
        return MaltTuning(
            step_size=jnp.asarray(self.step_size, dtype),
            num_steps=jnp.asarray(self.num_steps, jnp.int32),
            damping=jnp.asarray(self.damping, dtype),
            metric=self.metric(dim, dtype),
        )
