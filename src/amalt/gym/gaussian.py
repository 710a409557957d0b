"""An ill-conditioned Gaussian whose covariance is known exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from amalt.errors import SettingsError
from amalt.gym.registry import check_integer
from amalt.targets import Target

MAX_CONDITION = 1e12


class Spectrum(NamedTuple):
    r"""The covariance as :math:`\Sigma = Q \Lambda Q^T`; no rotation stands for :math:`Q = I`."""

    variances: np.ndarray
    rotation: np.ndarray | None


def build(dim: int = 100, condition: float = 1e4, rotate: bool = True, seed: int = 10) -> Target:
    r"""Build a Gaussian with log-spaced variances along random axes.

    .. math::
        x \sim N(0, \Sigma), \qquad \Sigma = Q \Lambda Q^T, \qquad
        \Lambda_{ii} = \kappa^{-(i-1)/(d-1)}

    One evaluation costs :math:`O(d^2)`, or :math:`O(d)` without rotation.

    Parameters
    ----------
    dim
        The dimension :math:`d`, at least 1.
    condition
        The condition number :math:`\kappa` of the covariance, from 1 to 1e12. In one dimension
        the variance is 1 whatever it is.
    rotate
        Whether the axes are turned by a random rotation :math:`Q`, or follow the coordinates.
    seed
        The seed of the rotation.
    """
    spectrum = _spectrum(dim, condition, rotate, seed)
    variances, rotation = spectrum
    size = variances.size
    # Whitening keeps float32 exact to eps * sqrt(condition); the precision matrix would lose
    # eps * condition.
    inverse_sd = 1.0 / np.sqrt(variances)
    whiten = inverse_sd if rotation is None else rotation * inverse_sd
    constant = 0.5 * float(np.log(variances).sum()) + 0.5 * size * math.log(2.0 * math.pi)

    def logdensity(position: Mapping[str, jax.Array]) -> jax.Array:
        x = jnp.asarray(position["x"])
        w = jnp.asarray(whiten, x.dtype)
        z = x * w if rotation is None else x @ w
        return -0.5 * jnp.sum(z**2) - constant

    sd = np.sqrt(np.diag(_compose(spectrum)))
    return Target(
        logdensity,
        {"x": jnp.zeros(size)},
        name="gaussian",
        dims={"x": ("component",)},
        truth={"x": (np.zeros(size), sd, np.zeros(size))},
    )


def covariance(
    dim: int = 100, condition: float = 1e4, rotate: bool = True, seed: int = 10
) -> np.ndarray:
    """Return the covariance matrix of the Gaussian that `build` makes of the same options."""
    return _compose(_spectrum(dim, condition, rotate, seed))


def _compose(spectrum: Spectrum) -> np.ndarray:
    variances, q = spectrum
    return np.diag(variances) if q is None else (q * variances) @ q.T


def _spectrum(dim: Any, condition: Any, rotate: Any, seed: Any) -> Spectrum:
    """Check the options and return the variances, largest first, with their axes."""
    dim = check_integer("gaussian", "dim", dim, 1)
    seed = check_integer("gaussian", "seed", seed, 0)
    if not isinstance(rotate, bool | np.bool_):
        raise SettingsError(f"option 'rotate' of 'gaussian' is {rotate!r}; pass True or False.")
    variances = np.geomspace(1.0, 1.0 / _check_condition(condition), dim)
    return Spectrum(variances, _random_rotation(dim, seed) if rotate else None)


def _check_condition(value: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool | str) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 1.0 <= number <= MAX_CONDITION:
        raise SettingsError(
            f"option 'condition' of 'gaussian' is {value!r}; pass a number from 1 to "
            f"{MAX_CONDITION:g}."
        )
    return number


def _random_rotation(dim: int, seed: int) -> np.ndarray:
    """Draw an orthogonal matrix uniformly: QR of Gaussian entries with the signs of R fixed."""
    q, r = np.linalg.qr(np.random.default_rng(seed).standard_normal((dim, dim)))
    return q * np.sign(np.diag(r))
