"""The table of built-in posteriors, and how one is looked up, checked and built."""

from __future__ import annotations

import importlib
import inspect
import operator
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from amalt.errors import SettingsError, nearest
from amalt.targets import Target


class Entry(NamedTuple):
    """Where a posterior is built, and what it is in one line."""

    module: str
    summary: str


ENTRIES: dict[str, Entry] = {
    "banana": Entry("banana", "curved density in 2 dimensions; exact moments"),
    "brownian-bridge": Entry(
        "brownian_bridge",
        "random walk with a missing middle and two unknown scales, d = 32; exact moments",
    ),
    "eight-schools": Entry(
        "eight_schools", "centered hierarchical model of 8 coaching effects, d = 10; a mild funnel"
    ),
    "funnel": Entry("funnel", "Neal's funnel, d = 10 (option dim); exact moments"),
    "gaussian": Entry(
        "gaussian",
        "ill-conditioned Gaussian, d = 100 (options dim, condition, rotate, seed); exact moments",
    ),
    "german-credit": Entry(
        "german_credit", "logistic regression of credit risk on 1000 real cases, d = 25"
    ),
    "item-response": Entry(
        "item_response", "abilities of 400 students and difficulties of 100 questions, d = 501"
    ),
    "log-gaussian-cox": Entry(
        "log_gaussian_cox", "counts on a 10 x 10 grid with a Gaussian process behind, d = 102"
    ),
    "probit-german-credit": Entry(
        "probit_german_credit", "probit regression of credit risk on 1000 real cases, d = 25"
    ),
    "radon-indiana": Entry(
        "radon_indiana", "hierarchical model of radon in 1851 houses of 91 counties, d = 97"
    ),
    "radon-minnesota": Entry(
        "radon_minnesota", "hierarchical model of radon in 919 houses of 85 counties, d = 91"
    ),
    "sparse-german-credit": Entry(
        "sparse_german_credit",
        "logistic regression of credit risk with a scale for each weight, d = 51",
    ),
    "stochastic-volatility": Entry(
        "stochastic_volatility",
        "log variance of ten years of daily returns, autoregressive, d = 2519",
    ),
    "stochastic-volatility-small": Entry(
        "stochastic_volatility_small",
        "log variance of 100 daily returns, autoregressive, d = 103",
    ),
}


def names() -> tuple[str, ...]:
    """Return the names of all built-in posteriors in alphabetical order.

    Examples
    --------
    >>> "german-credit" in names()
    True
    """
    return tuple(sorted(ENTRIES))


def describe(name: str) -> str:
    """Return one line that says what the posterior ``name`` is.

    Examples
    --------
    >>> describe("banana")
    'curved density in 2 dimensions; exact moments'
    """
    return _entry(name).summary


def load(name: str, /, **options: Any) -> Target:
    """Build the posterior ``name``.

    Parameters
    ----------
    name
        One of `names`.
    **options
        What the posterior can vary, such as ``dim=20`` for ``"gaussian"``.

    Raises
    ------
    SettingsError
        If there is no such posterior, no such option, or its value cannot be used.

    Examples
    --------
    >>> load("funnel", dim=3).dim
    3
    """
    module = importlib.import_module(f"amalt.gym.{_entry(name).module}")
    build = cast("Callable[..., Target]", module.build)
    known = tuple(inspect.signature(build).parameters)
    for option in options:
        if option not in known:
            listed = f"its options are {', '.join(known)}" if known else "it has no options"
            raise SettingsError(
                f"the built-in posterior {name!r} does not know the option {option!r}; "
                f"{listed}.{nearest(option, known)}"
            )
    return build(**options)


def check_integer(posterior: str, option: str, value: Any, minimum: int) -> int:
    """Return ``value`` as an int of at least ``minimum``, or say what is wrong with it."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < minimum:
        raise SettingsError(
            f"option {option!r} of {posterior!r} is {value!r}; pass an integer of at least "
            f"{minimum}."
        )
    return number


def _entry(name: Any) -> Entry:
    if not isinstance(name, str) or name not in ENTRIES:
        hint = nearest(name, names()) if isinstance(name, str) else ""
        raise SettingsError(
            f"there is no built-in posterior {name!r}; known are {', '.join(names())}.{hint}"
        )
    return ENTRIES[name]
