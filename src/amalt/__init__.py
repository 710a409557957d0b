"""amalt: Bayesian sampling with many parallel chains and nothing to tune."""

from importlib.metadata import version

from amalt import gym
from amalt.adaptation.settings import MaltSettings
from amalt.errors import AmaltError, AmaltWarning, SettingsError, StartError, TargetError
from amalt.posterior import Posterior, load
from amalt.sampling import sample
from amalt.targets import Target, as_target
from amalt.tuning import Tuning

__version__ = version("amalt")

__all__ = [
    "AmaltError",
    "AmaltWarning",
    "MaltSettings",
    "Posterior",
    "SettingsError",
    "StartError",
    "Target",
    "TargetError",
    "Tuning",
    "as_target",
    "gym",
    "load",
    "sample",
]
