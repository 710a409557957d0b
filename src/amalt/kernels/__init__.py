"""How one chain moves: pure functions for one chain, mapped over chains by the driver."""

from amalt.kernels.integrators import LEAPFROG, THREE_STAGE, TWO_STAGE, Integrator
from amalt.kernels.malt import MaltInfo, MaltState, MaltTuning, init, step
from amalt.kernels.metric import DiagonalMetric, Metric

__all__ = [
    "LEAPFROG",
    "THREE_STAGE",
    "TWO_STAGE",
    "DiagonalMetric",
    "Integrator",
    "MaltInfo",
    "MaltState",
    "MaltTuning",
    "Metric",
    "init",
    "step",
]
