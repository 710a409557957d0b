"""Where chains begin: proposed points, screened by the density, bad ones redrawn."""

from amalt.start.advi import MeanField, advi
from amalt.start.screen import Starts, find

__all__ = ["MeanField", "Starts", "advi", "find"]
