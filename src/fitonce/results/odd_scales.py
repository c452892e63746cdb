"""How odd each site of a map is, as numbers for colours: by p and by observed / expected."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from fitonce.results.site_losses import chance_level, oddest

_LEAST_P = 1e-300
_ENDS = (1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)  # of colours of ratios
_WITHIN = 0.9  # of the sites, between the ends, where the last is large enough


class Sides(NamedTuple):
    """How far out each value lies.

    Attributes:
        values: (V,) -log10 p, negative where the value is less than expected; nan where p is not known.
        level: colours end at this p; a smaller one is beyond chance among so many sites.
        known, beyond: how many sites have a p, and how many of them are beyond the level.
    """

    values: np.ndarray
    level: float
    known: int
    beyond: int


class Ratios(NamedTuple):
    """Observed / expected.

    Attributes:
        values: (V,) nan where nothing was expected of a site.
        end: colours end at this ratio and at its reciprocal.
    """

    values: np.ndarray
    end: float


def sides_of(table: pd.DataFrame, sites: int) -> Sides | None:
    """Of `CVResult.site_losses`; None where no p is known."""
    known, beyond = oddest(table)
    if known.empty:
        return None
    size = -np.log10(np.maximum(known["p"].to_numpy(float), _LEAST_P))
    values = np.full(sites, np.nan)
    values[known["site"].to_numpy()] = np.where(known["direction"] == "less", -size, size)
    return Sides(values, chance_level(len(known)), len(known), beyond)


def are_counts(values: np.ndarray) -> bool:
    """Whether the values that are known, of which there must be some, are counts."""
    known = values[np.isfinite(values)]
    return bool(known.size and (known >= 0).all() and (known == np.rint(known)).all())


def ratios_of(table: pd.DataFrame, sites: int) -> Ratios | None:
    """Of `CVResult.site_losses`; None where values are not counts."""
    if "expected" not in table:
        return None
    counts, expected = (table[name].to_numpy(float) for name in ("value", "expected"))
    known = np.isfinite(counts) & (expected > 0)
    observed = counts[known]
    if not are_counts(observed):
        return None
    values = np.full(sites, np.nan)
    values[table["site"].to_numpy()[known]] = observed / expected[known]
    apart = np.exp(
        np.abs(np.log((observed / expected[known])[observed > 0]))
    )  # zeros are beyond any end
    usual = float(np.quantile(apart, _WITHIN, method="lower")) if apart.size else 1.0
    return Ratios(values, next((end for end in _ENDS if usual <= end), _ENDS[-1]))
