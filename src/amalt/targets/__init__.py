"""What is sampled: a log density over a pytree, with names for its parts."""

from amalt.targets.base import Target, Variable, as_target

__all__ = ["Target", "Variable", "as_target"]
