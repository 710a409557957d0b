"""The command line: ``amalt sample`` and ``amalt models``."""

from amalt.cli.app import main

__all__ = ["main"]
