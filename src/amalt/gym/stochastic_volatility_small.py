"""Stochastic volatility of the last 100 returns of the S&P 500."""

from __future__ import annotations

from amalt.gym.stochastic_volatility import build_series, returns
from amalt.targets import Target

NUM_DAYS = 100


def build() -> Target:
    """Build the model that `stochastic_volatility.build_series` describes: 100 days, d = 103."""
    truth = "stochastic_volatility_small_truth"
    return build_series("stochastic-volatility-small", returns(NUM_DAYS), truth)
