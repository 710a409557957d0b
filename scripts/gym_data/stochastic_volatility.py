"""Stochastic volatility: the closing prices of the S&P 500."""

from __future__ import annotations

from gym_data.sources import Arrays, SourceError, array_constants

NUM_PRICES = 2517


def sp500_arrays(content: bytes) -> Arrays:
    """Read the prices."""
    prices = array_constants(content.decode("utf-8"))["CLOSING_PRICES"]
    if prices.shape != (NUM_PRICES,) or not prices.min() > 0.0:
        raise SourceError(f"expected {NUM_PRICES} positive prices, found {prices.shape}.")
    return {"closing_price": prices}
