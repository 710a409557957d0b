"""The exit codes of all commands."""

import enum


class Exit(enum.IntEnum):
    """What the exit code of a command says."""

    TRUSTED = 0
    ERROR = 1
    USAGE = 2
    CHECKS_FAILED = 3
    INTERRUPTED = 130
