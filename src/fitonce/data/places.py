"""The user's names for sequences and sites, such as patients and dates, shown instead of numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.arguments import refusal
from fitonce.core.numerics import is_count
from fitonce.core.wording import nearest_names
from fitonce.data.geography import Geography

# Control characters, which a terminal obeys, and those that turn the direction of text around them.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(name: str) -> str:
    """A name that changes nothing but itself where it is printed."""
    return _UNPRINTABLE.sub("\ufffd", name) if _UNPRINTABLE.search(name) else name


@dataclass(frozen=True, eq=False)
class Names:
    """Names for places in the data.

    Attributes:
        sequences: N names.
        sites: a name for each site within its sequence, such as its date; None: their numbers.
        geography: where sites of a map lie.
        regions: of sites of a map, a label each, such as the state of a county.
    """

    sequences: tuple[str, ...]
    sites: tuple[str, ...] | None = None
    geography: Geography | None = None
    regions: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for part in ("sequences", "sites", "regions"):
            words = getattr(self, part)
            if words is not None:
                object.__setattr__(self, part, tuple(map(printable, words)))

    def places(self, sequence: np.ndarray, time: np.ndarray, site: np.ndarray) -> list[str]:
        """Names of places given by number; -1 means the whole sequence, or all of the data."""
        # Folds overlap, so that many rows are of one place: each is named once.
        numbers = np.stack([sequence, time, site], 1)
        distinct, which = np.unique(numbers, axis=0, return_inverse=True)
        names = np.array([self._place(*row) for row in distinct.tolist()], object)
        return names[which.ravel()].tolist() if len(names) else []

    def _place(self, sequence: int, time: int, site: int) -> str:
        parts = []
        if sequence >= 0 and (len(self.sequences) > 1 or site < 0):
            parts.append(self.sequences[sequence])
        if site >= 0:
            parts.append(f"time {time}" if self.sites is None else self.sites[site])
        return ", ".join(parts)


def sequence_number(sequence: Any, names: tuple[str, ...] | None, count: int) -> int:
    """The number, from 0, of the one of `count` sequences that a `sequence=` is: a name of the data, or
    a number, from the end where it is negative. Where the names are numbers, a number is a name."""
    called = [number for number, name in enumerate(names or ()) if name == printable(str(sequence))]
    if len(called) == 1:
        return called[0]
    if called:
        raise ValueError(f"sequence must be the name of one, but {len(called)} are named '{sequence}'")
    numbers = names is not None and all(re.fullmatch(r"-?\d+", name) for name in names)
    if is_count(sequence, -count, -1 if numbers else count - 1):
        return int(sequence) % count
    expected = f"a number from 0 to {count - 1} (-1: the last)"
    if count == 1:
        expected = "0, the number of the only one"
    if names is not None and names != numbered(count):
        close = nearest_names(sequence, names) or names[:3]
        named = f"the name of one of {count:,}, such as {' or '.join(map(repr, close))}"
        expected = named if numbers else f"{named}, or {expected}"
    raise refusal("sequence", expected, sequence)


def numbered(count: int) -> tuple[str, ...]:
    """Names of sequences of which only the steps have names."""
    return tuple(f"sequence {number}" for number in range(count))


def sequence_words(sequence: Any) -> str:
    """A sequence in a sentence, by its name or number: "sequence 2"."""
    text = str(sequence)
    return text if text.startswith("sequence ") else f"sequence {text}"


def names_of(parts: Sequence[Any], sequences: Sequence[Any] | None) -> Names | None:
    """Names from the keys of sequences and the indices of DataFrames or Series; None without any."""
    indices = [part.index for part in parts if isinstance(part, (pd.DataFrame, pd.Series))]
    # An unnamed index of numbers may only be the row numbers of a larger table.
    named = len(indices) == len(parts) and all(
        index.name is not None or not pd.api.types.is_numeric_dtype(index.dtype) for index in indices
    )
    if sequences is None and not named:
        return None
    keys = numbered(len(parts)) if sequences is None else tuple(map(str, sequences))
    sites = tuple(name for index in indices for name in in_words(index)) if named else None
    return Names(keys, sites)


def in_words(index: pd.Index) -> list[str]:
    """Labels of an index, in tables and in messages; numbers follow the name of the index, if any."""
    if isinstance(index, pd.MultiIndex):
        levels = [in_words(index.get_level_values(level)) for level in range(index.nlevels)]
        return [", ".join(parts) for parts in zip(*levels, strict=True)]
    if isinstance(index, pd.DatetimeIndex):
        return time_names(index)
    if index.dtype.kind not in "iuf":
        return [str(value) for value in index]
    form = ".12g" if index.dtype.kind == "f" else ""
    start = "" if index.name is None else f"{index.name} "
    return ["missing" if pd.isna(value) else f"{start}{value:{form}}" for value in index]


def time_names(index: pd.DatetimeIndex) -> list[str]:
    """Days, minutes or the full time, as coarse as possible; with the offset from UTC if there is a time
    zone, since an hour repeats when summer time ends."""
    known = index.dropna()
    if ((known.second + known.microsecond + known.nanosecond) > 0).any():
        return [str(moment) for moment in index]
    whole_days = ((known.hour + known.minute) == 0).all()
    form = "%Y-%m-%d" if whole_days else "%Y-%m-%d %H:%M" + ("%z" if index.tz is not None else "")
    return ["missing" if pd.isna(name) else str(name) for name in index.strftime(form)]
