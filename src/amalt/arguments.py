"""Checks of what users pass to `amalt.sample`, in words that say what to do."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
import numpy as np

from amalt.adaptation.settings import MaltSettings, as_settings
from amalt.errors import SettingsError, TargetError, nearest
from amalt.kernels.integrators import INTEGRATORS, Integrator, check_integrator
from amalt.methods import METHODS
from amalt.targets import Target
from amalt.tuning import Tuning, check_number

DEFAULT_TUNE = 1000
SETTLE_OF_GIVEN_TUNING = 100
STATISTICS = 5
"""Numbers that are kept with each draw."""

FOREIGN = {
    "num_warmup": ("NumPyro", "tune"),
    "num_samples": ("NumPyro", "draws"),
    "num_chains": ("NumPyro", "chains"),
    "rng_key": ("NumPyro", "random_seed"),
    "target_accept_prob": ("NumPyro", "target_accept"),
    "init_strategy": ("NumPyro", "init"),
    "progress_bar": ("nutpie", "progressbar"),
    "seed": ("nutpie", "random_seed"),
    "save_warmup": ("nutpie", "keep_warmup"),
    "iter_warmup": ("CmdStan", "tune"),
    "iter_sampling": ("CmdStan", "draws"),
    "adapt_delta": ("CmdStan", "target_accept"),
    "inits": ("CmdStan", "init"),
    "initvals": ("PyMC", "init"),
    "nwalkers": ("emcee", "chains"),
    "warmup": ("Stan", "tune"),
    "iter": ("Stan", "draws"),
    "num_results": ("TFP", "draws"),
    "num_burnin_steps": ("TFP", "tune"),
    "target_acceptance_rate": ("BlackJAX", "target_accept"),
}
"""Words of other libraries, with the library and the word that amalt has for it."""

TREES = "trajectories have no trees; see max_steps of amalt.MaltSettings"
FIXED = "it is learned; to fix it, pass tuning=amalt.Tuning(...)"
HINTS = {
    "cores": "all chains run in one program on all cores; leave it out",
    "discard_tuned_samples": "PyMC's discard_tuned_samples=False is keep_warmup=True here",
    "max_treedepth": TREES,
    "max_tree_depth": TREES,
    "step_size": FIXED,
    "inverse_mass_matrix": FIXED,
    "num_integration_steps": FIXED,
}


def refuse_unknown(unknown: Iterable[str], known: Iterable[str]) -> None:
    """Raise TypeError for a keyword that is not known, naming the one that was meant."""
    for word in unknown:
        if word in FOREIGN:
            library, ours = FOREIGN[word]
            raise TypeError(f"sample() got {word!r}: {library}'s {word} is {ours!r} here.")
        if word in HINTS:
            raise TypeError(f"sample() got {word!r}: {HINTS[word]}.")
        raise TypeError(f"sample() got an unexpected keyword {word!r}.{nearest(word, known)}")


def check_count(name: str, value: Any, least: int) -> int:
    """Return a whole number that is large enough, or say why it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise SettingsError(f"{name}={value!r} is a {type(value).__name__}: pass a whole number.")
    if not least <= value < 2**31:
        raise SettingsError(f"{name}={value}: it must be at least {least} and below 2**31.")
    return int(value)


def check_flag(name: str, value: Any) -> bool:
    """Return a truth value, or say why it is not one."""
    if not isinstance(value, bool | np.bool_):
        raise SettingsError(f"{name}={value!r} is a {type(value).__name__}: pass True or False.")
    return bool(value)


def check_precision(target: Target) -> None:
    """Refuse a double precision target where JAX would silently compute in single precision."""
    if target.dtype == np.float64 and jnp.zeros(()).dtype != np.float64:
        raise TargetError(
            f"{target.name!r} was made in float64, but JAX now computes in float32: call "
            'jax.config.update("jax_enable_x64", True), or make the target anew.'
        )


def check_memory(target: Target, chains: int, draws: int) -> None:
    """Refuse draws that this machine cannot hold, before it is brought to its knees."""
    # Each draw is held as it was sampled and as it is shown, with five statistics. A chain in
    # motion takes more.
    shown = sum(float(np.prod(variable.shape, dtype=float)) for variable in target.variables)
    numbers = target.dim + shown + STATISTICS
    needed = chains * (draws + 10.0) * numbers * target.dtype.itemsize
    try:
        memory = float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not on this operating system
        return
    if needed > memory > 0.0:
        raise SettingsError(
            f"chains={chains} and draws={draws} of {target.dim} numbers take "
            f"{needed / 2**30:.3g} GiB; this machine has {memory / 2**30:.3g} GiB: lower draws or "
            "chains."
        )


def resolve_tune(tune: Any, tuning: Any) -> int:
    """Return how many iterations learn: none if the tuning is given, else ``tune``."""
    if tuning is not None:
        if not isinstance(tuning, Tuning):
            raise SettingsError(
                f"tuning is a {type(tuning).__name__}: pass fit.tuning or amalt.Tuning(...)."
            )
        if tune not in (None, 0):
            raise SettingsError(
                f"tune={tune} and tuning= were both given: a given tuning is not learned again."
            )
        return 0
    tune = DEFAULT_TUNE if tune is None else check_count("tune", tune, 0)
    if tune == 0:
        raise SettingsError(
            "tune=0 leaves step size and trajectory length unknown: pass tuning=fit.tuning of an "
            "earlier run or tuning=amalt.Tuning(...), or let the chains learn (tune=1000)."
        )
    return tune


def resolve_settle(settle: Any, tune: int, init: Any) -> int:
    """Return how many iterations run with the final tuning before draws are kept.

    Chains that neither learn nor begin where the user says still have to find the bulk.
    """
    if settle is not None:
        return check_count("settle", settle, 0)
    if tune == 0:
        return SETTLE_OF_GIVEN_TUNING if isinstance(init, str) else 0
    return math.ceil(0.08 * tune)


def pick_method(method: Any) -> str:
    """Return the method if it is known."""
    if not isinstance(method, str) or method not in METHODS:
        raise SettingsError(
            f"method={method!r} is not known; choose from {list(METHODS)}."
            f"{nearest(str(method), METHODS)}"
        )
    return method


def pick_settings(method: str, preset: Any, target_accept: Any, tune: int) -> MaltSettings:
    """Return the settings of a preset, fitted to the length of the warm-up."""
    if not isinstance(preset, str | MaltSettings):
        raise SettingsError(
            f"preset={preset!r} is a {type(preset).__name__}: pass a name such as 'paper', or "
            "amalt.MaltSettings(...)."
        )
    if target_accept is not None:
        target_accept = check_number("target_accept", target_accept)
    settings = as_settings(preset, method=method, target_accept=target_accept)
    _check_fit(method, settings, target_accept)
    return as_settings(settings, mala_steps=min(settings.mala_steps, tune // 10))


def _check_fit(method: str, settings: MaltSettings, target_accept: Any) -> None:
    """Refuse settings that belong to another method, before they silently do nothing or harm."""
    if method == "rhmc" and not settings.is_jittered:
        raise SettingsError(
            "jitter='none': method='rhmc' needs lengths that vary; pass "
            "amalt.MaltSettings(jitter='uniform') or 'exponential'."
        )
    if method != "rhmc" and settings.is_jittered:
        raise SettingsError(f"jitter={settings.jitter!r} is for method='rhmc', not {method!r}.")
    if method == "ghmc" and target_accept is not None:
        raise SettingsError(
            f"target_accept={target_accept}: method='ghmc' takes its step size from gradients, not "
            "from acceptance; leave it out."
        )


def pick_integrator(integrator: Any) -> Integrator:
    """Return an integrator by its name, or as it is."""
    if isinstance(integrator, Integrator):
        return check_integrator(integrator)
    if not isinstance(integrator, str) or integrator not in INTEGRATORS:
        raise SettingsError(
            f"integrator={integrator!r} is not known; choose from {list(INTEGRATORS)}."
            f"{nearest(str(integrator), INTEGRATORS)}"
        )
    return INTEGRATORS[integrator]
