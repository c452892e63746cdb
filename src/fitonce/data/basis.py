"""Bases of covariates: seasons as waves, and smooth curves as splines.

Each gives a DataFrame of columns with names, one row per step, for `fo.sequences(..., covariates=)`.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.arguments import refusal, require, require_count, require_number, require_text, shown
from fitonce.core.memory import require_fits
from fitonce.core.numerics import as_numbers, is_count, is_number

__all__ = ["fourier", "spline"]


def fourier(time: Any, period: Any, order: int = 1, *, name: str = "season") -> pd.DataFrame:
    """Sines and cosines of a season: two columns for each multiple of its frequency.

    Args:
        time: (T,) numbers, or dates (a DatetimeIndex, or a column of them).
        period: its length, in the units of `time`; for dates text such as "1D" or "365.25D".
        order: how many multiples of the frequency.
        name: of the columns, "season_sin1", "season_cos1" and so on.
    """
    require_count("order", order)
    require_text("name", name)
    phase = 2.0 * np.pi * _in_periods(time, period)
    steps = max(len(phase), 1)
    require_fits("order", order, lambda n: 16 * n * steps, "the columns")
    columns = {}
    for multiple in range(1, order + 1):
        columns[f"{name}_sin{multiple}"] = np.sin(multiple * phase)
        columns[f"{name}_cos{multiple}"] = np.cos(multiple * phase)
    return pd.DataFrame(columns, index=_index_of(time))


def _index_of(given: Any) -> pd.Index | None:
    """That of a column of a table, so that bases can be joined to it."""
    return given.index if isinstance(given, pd.Series) else None


def _in_periods(time: Any, period: Any) -> np.ndarray:
    """(T,) time in periods."""
    wanted = "a column of numbers or dates (pd.to_datetime)"
    try:
        require(np.ndim(time) == 1 and isinstance(time, Sized) and len(time), "time", wanted, time)
        series = pd.Series(time).reset_index(drop=True)
    except (TypeError, ValueError):
        raise refusal("time", wanted, time) from None
    if series.dtype.kind in "OUT":
        raise ValueError(f"time must be numbers or dates (pd.to_datetime), got {shown(series[0])}")
    if series.dtype.kind == "M":
        if series.isna().any():
            raise ValueError(
                f"time must be known at every step, but step {series.isna().argmax()} is not"
            )
        if series.dt.tz is not None:
            series = series.dt.tz_localize(None)  # the season of the clock on the wall
        length = pd.to_timedelta("" if is_number(period) else period, errors="coerce")
        if pd.isna(length) or length <= pd.Timedelta(0):
            raise ValueError(
                f"the period of dates must be a positive time as text, such as '1D', got {shown(period)}"
            )
        return ((series - pd.Timestamp(0)) / length).to_numpy()
    require_number("period", period, above=0)
    values = _numbers(series, "time")
    with np.errstate(over="ignore"):
        found = values / period
    require(np.isfinite(found).all(), "period", "of the size of the time", period)
    return found


def spline(x: Any, df: int = 4, *, degree: int = 3, name: str = "spline") -> pd.DataFrame:
    """Columns whose sums are smooth curves: B-splines with knots at quantiles, less the first, and each
    with mean zero, so that intercepts keep their meaning. Knots and means are those of the x given: for
    forecasts, make the columns of the past and of the future in one call.

    Args:
        x: (T,) numbers.
        df: number of columns, at least `degree`.
        degree: of the polynomials.
        name: of the columns, "spline_1" and so on.
    """
    from scipy.interpolate import BSpline

    require_count("degree", degree)
    require_fits("degree", degree, lambda n: 8 * n * n, "the knots")
    require(is_count(df, degree), "df", f"an integer of at least the degree {degree}", df)
    require_text("name", name)
    values = _numbers(x, "x")
    require_fits("df", df, lambda n: 24 * n * len(values), "the columns")
    inner = np.quantile(values, np.linspace(0.0, 1.0, df - degree + 2))
    if len(np.unique(inner)) < len(inner):
        raise ValueError(f"x has too few distinct values for df={df}; use fewer columns")
    knots = np.concatenate([np.repeat(inner[0], degree), inner, np.repeat(inner[-1], degree)])
    columns = BSpline.design_matrix(values, knots, degree).toarray()[:, 1:]
    columns = columns - columns.mean(0)
    if np.linalg.matrix_rank(columns) < df:
        raise ValueError(f"x has too few distinct values for df={df}; use fewer columns")
    names = [f"{name}_{number}" for number in range(1, df + 1)]
    return pd.DataFrame(columns, columns=names, index=_index_of(x))


def _numbers(given: Any, what: str) -> np.ndarray:
    values = as_numbers(given)
    if values is None or values.ndim != 1 or not len(values):
        raise refusal(what, "a column of finite numbers", given)
    return values
