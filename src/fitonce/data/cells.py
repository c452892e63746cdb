"""Cells of tables as numbers."""

from __future__ import annotations

import pandas as pd

_DIGITS = 300  # of an integer that a float can hold


def as_numbers(column: pd.Series) -> pd.Series:
    """The numbers in a column, NaN where a cell is none, or an integer beyond what a float can hold."""
    try:
        return pd.to_numeric(column, errors="coerce")
    except OverflowError:
        return pd.to_numeric(column.where(column.astype(str).str.len() <= _DIGITS), errors="coerce")
