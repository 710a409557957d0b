"""What is sampled: a log density over a pytree, with names for its parts."""

from amalt.targets.base import Target, as_target
from amalt.targets.labels import Variable

__all__ = ["Target", "Variable", "as_target"]
