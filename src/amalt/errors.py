"""Errors and warnings that say what is wrong, where, and what to do next."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class AmaltError(Exception):
    """Be the base of everything that amalt raises on purpose."""


class SettingsError(AmaltError, ValueError):
    """Report an argument whose value cannot be used."""


class TargetError(AmaltError, ValueError):
    """Report a log density that cannot be sampled as it stands."""


class StartError(AmaltError, RuntimeError):
    """Report that no usable starting point was found."""


class AmaltWarning(UserWarning):
    """Warn about a run that ended but should be looked at.

    Parameters
    ----------
    kind
        A word to filter by, such as ``"starts"``.
    message
        One sentence with what was seen and what to do.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint such as ``" Did you mean 'draws'?"``, or an empty string.

    Examples
    --------
    >>> nearest("drws", ["draws", "tune"])
    " Did you mean 'draws'?"
    >>> nearest("zzz", ["draws", "tune"])
    ''
    """
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
