"""Built-in posteriors with their data and ground truth, each of them a Target."""

from amalt.gym.registry import describe, load, names

__all__ = ["describe", "load", "names"]
