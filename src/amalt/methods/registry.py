"""The table of samplers."""

from __future__ import annotations

from collections.abc import Callable

from amalt.adaptation.settings import MaltSettings
from amalt.kernels.integrators import Integrator
from amalt.methods.base import Method
from amalt.methods.ghmc import Ghmc
from amalt.methods.malt import Malt
from amalt.methods.nuts import Nuts
from amalt.targets import Target

METHODS: dict[str, Callable[[Target, Integrator, MaltSettings], Method]] = {
    "malt": Malt,
    "rhmc": Malt,
    "ghmc": lambda target, integrator, settings: Ghmc(target, integrator),
    "nuts": Nuts,
}
"""Each by the name that `amalt.sample` takes as ``method``."""


def build(name: str, target: Target, integrator: Integrator, settings: MaltSettings) -> Method:
    """Return a sampler of a target."""
    return METHODS[name](target, integrator, settings)
