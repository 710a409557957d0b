"""Radon in the houses of Minnesota."""

from __future__ import annotations

from amalt.gym import radon
from amalt.targets import Target


def build() -> Target:
    """Build the model that `radon.build_state` describes: 919 houses in 85 counties, d = 91."""
    return radon.build_state("minnesota")
