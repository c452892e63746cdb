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
        # Folds overlap: a place that many rows are of is put in words once.
        numbers = np.stack([sequence, time, site], 1)
        once, which = np.unique(numbers, axis=0, return_inverse=True)
        words = np.array([self._place(*row) for row in once.tolist()], object)
        return words[which.ravel()].tolist() if len(words) else []

    def _place(self, sequence: int, time: int, site: int) -> str:
        parts = []
        if sequence >= 0 and (len(self.sequences) > 1 or site < 0):
            parts.append(self.sequences[sequence])
        if site >= 0:
            parts.append(f"time {time}" if self.sites is None else self.sites[site])
        return ", ".join(parts)


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
