"""Checks of what users pass to `amalt.sample`, in words that say what to do."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from amalt.errors import SettingsError, nearest
from amalt.kernels.integrators import INTEGRATORS, Integrator
from amalt.tuning import Tuning

DEFAULT_TUNE = 1000

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
    "num_results": ("TFP", "draws"),
    "num_burnin_steps": ("TFP", "tune"),
    "target_acceptance_rate": ("BlackJAX", "target_accept"),
}
"""Words of other libraries, with the library and the word that amalt has for it."""

HINTS = {
    "cores": "all chains run in one program on all cores; leave it out",
    "discard_tuned_samples": "PyMC's discard_tuned_samples=False is keep_warmup=True here",
    "max_treedepth": "trajectories have no trees; see max_steps of amalt.MaltSettings",
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


def resolve_settle(settle: Any, tune: int) -> int:
    """Return how many iterations run with the final tuning before draws are kept."""
    return math.ceil(0.08 * tune) if settle is None else check_count("settle", settle, 0)


def pick_method(method: str) -> str:
    """Return the method if it is known."""
    if method != "malt":
        raise SettingsError(f"method={method!r} is not known; choose 'malt'.")
    return method


def pick_integrator(integrator: str | Integrator) -> Integrator:
    """Return an integrator by its name, or as it is."""
    if isinstance(integrator, Integrator):
        return integrator
    if integrator not in INTEGRATORS:
        raise SettingsError(
            f"integrator={integrator!r} is not known; choose from {list(INTEGRATORS)}."
            f"{nearest(str(integrator), INTEGRATORS)}"
        )
    return INTEGRATORS[integrator]
