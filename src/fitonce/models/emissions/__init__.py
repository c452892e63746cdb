"""Emissions: what is observed at a step or a site, given its hidden state."""

from fitonce.models.emissions.base import Emission, Rows, spread_levels, sum_channels, weighted_sums

__all__ = ["Emission", "Rows", "spread_levels", "sum_channels", "weighted_sums"]
