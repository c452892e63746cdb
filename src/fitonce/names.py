"""What the user calls sequences and sites, such as patients and dates: shown where numbers would be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True, eq=False)
class Names:
    """Words for places in the data.

    Attributes:
        sequences: (N,) of each sequence.
        sites: (sites,) of each site within its sequence, such as its date; None: they have numbers only.
    """

    sequences: tuple[str, ...]
    sites: tuple[str, ...] | None = None

    def places(self, sequence: np.ndarray, time: np.ndarray, site: np.ndarray) -> list[str]:
        """Places in words, from columns of numbers, where -1 is all of a sequence, or of the data."""
        found = []
        for n, t, i in zip(sequence, time, site, strict=True):
            parts = [self.sequences[n]] if n >= 0 and (len(self.sequences) > 1 or i < 0) else []
            parts += [f"time {t}" if self.sites is None else self.sites[i]] if i >= 0 else []
            found.append(", ".join(parts))
        return found


def names_of(parts: Sequence[Any], sequences: Sequence[Any] | None) -> Names | None:
    """From the keys of sequences, and the indices of DataFrames or Series; None where neither tells."""
    indices = [part.index for part in parts if isinstance(part, (pd.DataFrame, pd.Series))]
    told = len(indices) == len(parts) and all(_tells(index) for index in indices)
    if sequences is None and not told:
        return None
    called = [f"sequence {n}" for n in range(len(parts))] if sequences is None else map(str, sequences)
    sites = tuple(word for index in indices for word in _words(index)) if told else None
    return Names(tuple(called), sites)


def _tells(index: pd.Index) -> bool:
    """Whether an index is more than what numbers the rows: numbers without a name may be left over from
    a larger table."""
    return index.name is not None or not pd.api.types.is_numeric_dtype(index.dtype)


def _words(index: pd.Index) -> list[str]:
    if isinstance(index, pd.DatetimeIndex):
        return _moments(index)
    if pd.api.types.is_integer_dtype(index.dtype):
        return [f"{index.name} {value}" for value in index]
    if pd.api.types.is_numeric_dtype(index.dtype):
        return [f"{index.name} {value:.12g}" for value in index]
    return [str(value) for value in index]


def _moments(index: pd.DatetimeIndex) -> list[str]:
    """No finer than needed: days, minutes or seconds; with the offset from UTC where there is a zone, so
    that the hour that autumn has twice has two names."""
    known = index.dropna()
    below_minutes = (known.second + known.microsecond + known.nanosecond) > 0
    if below_minutes.any():
        return [str(moment) for moment in index]
    whole_days = ((known.hour + known.minute) == 0).all()
    form = "%Y-%m-%d" if whole_days else "%Y-%m-%d %H:%M" + ("%z" if index.tz is not None else "")
    return ["missing" if pd.isna(word) else str(word) for word in index.strftime(form)]
