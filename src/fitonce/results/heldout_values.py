"""How far out held-out values lie in their predictive distributions; made when first asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from fitonce.results.packing import pack_table, to_table

COLUMNS = ("expected", "below", "above")


class HeldoutValues:
    """Predictions for held-out values, a row for each of `CVResult.pointwise`.

    Args:
        make: makes the table `rows`.
    """

    def __init__(self, make: Callable[[], pd.DataFrame]) -> None:
        self._make = make

    @cached_property
    def rows(self) -> pd.DataFrame:
        """`expected`, the mean of the predictive distribution; `below` and `above`, its probabilities on
        either side of the value, with half of that of the value itself in each; nan where a fold has no
        parameters."""
        return self._make()


def two_sided(below: Any, above: Any) -> np.ndarray:
    """The probability of a value as far out, on either side: twice the smaller tail (mid-p)."""
    return np.minimum(1.0, 2.0 * np.minimum(below, above))


def pack_values(values: HeldoutValues | None) -> dict[str, Any] | None:
    """For a file."""
    return None if values is None else pack_table(values.rows)


def to_values(found: Any, rows: int) -> HeldoutValues | None:
    """Inverse of `pack_values`, for a result with so many rows; None in files that do not say it."""
    if found is None:
        return None
    table = to_table(found)
    if tuple(table.columns) != COLUMNS or any(kind.kind != "f" for kind in table.dtypes):
        raise ValueError("its predictions of held-out values are not three columns of numbers")
    if len(table) != rows:
        raise ValueError(f"it has {len(table):,} predictions for {rows:,} held-out values")
    return HeldoutValues(lambda: table)
