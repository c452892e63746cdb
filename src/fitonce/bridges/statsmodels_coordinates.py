"""What parameters of statsmodels' models are learned as: without units, about the level of the data."""

from __future__ import annotations

import re
from typing import Any

from fitonce.models.space.learned import (
    Learned,
    Level,
    differences,
    means_of_changes,
    units_of_coefficients,
)
from fitonce.models.space.system import Series

# How names begin of what is in units of a channel, which some end with.
_IN_UNITS = ("intercept", "const", "drift", "trend", "initial_", "loading.", "sqrt.", "cov.chol")
_PAST = re.compile(r"(ar|ar\.S)\.L\d+")


def coordinates_of(
    peer: Any, names: tuple[str, ...], known: tuple[str, ...], fixed: tuple[str, ...], steps: Series
) -> Learned | None:
    """Of a model with parameters `names`, regressors `known`, and parameters that are `fixed`."""
    channels = peer.endog_names if isinstance(peer.endog_names, list) else [str(peer.endog_names)]
    slopes, units = units_of_coefficients(steps), {}
    coefficients = _coefficients(channels, known, names)
    for name in names:
        if name in coefficients:
            units[name] = float(slopes[coefficients[name]])
        elif name.startswith(_IN_UNITS):
            units[name] = float(steps.unit[_channel(name, channels)])
    levels = _levels(peer, names, channels, coefficients, steps)
    return Learned(tuple(units.items()), levels).without(set(fixed))


def _coefficients(
    channels: list[str], known: tuple[str, ...], names: tuple[str, ...]
) -> dict[str, tuple[int, int]]:
    """Channel and regressor of each coefficient, by its name."""
    found: dict[str, tuple[int, int]] = {}
    for place, covariate in enumerate(known):
        found |= {covariate: (0, place), f"beta.{covariate}": (0, place)}
        found |= {f"beta.{covariate}.{one}": (row, place) for row, one in enumerate(channels)}
    return {name: where for name, where in found.items() if name in names}


def _channel(name: str, channels: list[str]) -> int:
    """The one that a name ends with, else the first."""
    ends = [place for place, channel in enumerate(channels) if name.endswith(f".{channel}")]
    return max(ends, key=lambda place: len(channels[place]), default=0)


def _levels(
    peer: Any,
    names: tuple[str, ...],
    channels: list[str],
    coefficients: dict[str, tuple[int, int]],
    steps: Series,
) -> tuple[Level, ...]:
    """Intercepts of a SARIMAX, an ARIMA, a VARMAX, and first levels of exponential smoothing."""
    seasonal = hasattr(peer, "seasonal_order")
    orders = (0, 0, 0)
    if seasonal and not getattr(peer, "simple_differencing", False):
        orders = (peer.order[1], peer.seasonal_order[1], peer.seasonal_order[3])
    means, moved = means_of_changes(steps, differences(*orders))
    found = []
    for row, channel in enumerate(channels):
        own = tuple((n, -float(moved[q])) for n, (c, q) in coefficients.items() if c == row)
        if seasonal and "intercept" in names:
            past = [tuple(n for n in names if _kind(n) == kind) for kind in ("ar", "ar.S")]
            found.append(Level("intercept", float(means[0]), own, tuple(filter(None, past))))
        elif seasonal and "const" in names:
            found.append(Level("const", float(means[0]), own))
        elif f"intercept.{channel}" in names:
            lags = [
                (name, -float(means[other]))
                for other, cause in enumerate(channels)
                for name in names
                if re.fullmatch(rf"L\d+\.{re.escape(cause)}\.{re.escape(channel)}", name)
            ]
            found.append(Level(f"intercept.{channel}", float(means[row]), (*lags, *own)))
        elif "initial_level" in names:
            found.append(Level("initial_level", float(means[0])))
    return tuple(found)


def _kind(name: str) -> str:
    """The polynomial of the past that a coefficient belongs to; empty: none."""
    matched = _PAST.fullmatch(name)
    return matched[1] if matched else ""
