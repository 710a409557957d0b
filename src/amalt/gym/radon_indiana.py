"""Radon in the houses of Indiana."""

from __future__ import annotations

from amalt.gym import radon
from amalt.targets import Target


def build() -> Target:
    """Build the model that `radon.build_state` describes: 1851 houses in 91 counties, d = 97."""
    return radon.build_state("indiana")
