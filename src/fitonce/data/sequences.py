"""Sequences: arrays and tables are read and checked here.

Sites are the observations, numbered through all sequences in order: the first sequence's steps, then
the second's. A site is missing if all its channels are; it has weight zero in the full fit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fitonce.core.arguments import require, shown
from fitonce.core.deferred import pytree
from fitonce.core.memory import require_fits
from fitonce.core.numerics import as_numbers, squares_overflow
from fitonce.core.wording import counted, span
from fitonce.data.columns import by_position, in_order_of_first, order_of
from fitonce.data.covariates import padded, split_covariates
from fitonce.data.gaps import warn_of_gaps
from fitonce.data.parts import (
    as_list,
    as_matrix,
    channel_names,
    from_arrow,
    named_by,
    require_called_once,
    split_groups,
    split_lengths,
)
from fitonce.data.places import Names, names_of, sequence_number
from fitonce.data.time_order import require_in_time

_SHOWN = 4  # channels that tables have
_GROUPED = "Name the column that tells sequences apart with group="


class Collection:
    """Sites in sequences, with observations of any kind. A subclass has `lengths` (N,), the number of
    sites of each sequence, and `weights` (sites,): 1 where something was observed, 0 if missing."""

    lengths: np.ndarray

    @property
    def names(self) -> Names | None:
        """The user's names for sequences and sites; None: numbers only."""
        return None

    @property
    def weights(self) -> np.ndarray:
        raise NotImplementedError

    @property
    def fingerprint(self) -> str:
        """A hash of the observations, which identifies the data of a result; "": unknown."""
        return ""

    def require_lengths(self, lengths: np.ndarray) -> None:
        """Raise unless folds made for sequences of these lengths (N,) fit this data."""
        if not np.array_equal(lengths, self.lengths):
            raise ValueError(
                f"folds were made for sequences of {_some(lengths)} steps, "
                f"data has {_some(self.lengths)}"
            )

    @property
    def channel_names(self) -> tuple[str, ...]:
        """Names of the numbers observed at each site; empty if observations are not numbers."""
        return ()

    @property
    def shown_values(self) -> np.ndarray:
        """(sites,) one number per site to plot, nan where there is none."""
        return np.full(self.n_sites, np.nan)

    @property
    def further_values(self) -> np.ndarray | None:
        """(sites, C) the same of a few more channels; None: there are none."""
        return None

    @property
    def n_sequences(self) -> int:
        return len(self.lengths)

    @property
    def n_sites(self) -> int:
        return int(self.lengths.sum())

    def sequence_number(self, sequence: Any) -> int:
        """The number of the sequence that a user names, see `data.places.sequence_number`."""
        names = None if self.names is None else self.names.sequences
        return sequence_number(sequence, names, self.n_sequences)

    def called(self, number: int) -> Any:
        """The user's name of a sequence, or its number where there are no names."""
        return number if self.names is None else self.names.sequences[number]

    def sites_of(self, number: int) -> slice:
        """The sites of a sequence."""
        first = int(self.offsets[number])
        return slice(first, first + int(self.lengths[number]))

    @property
    def offsets(self) -> np.ndarray:
        """(N,) the first site of each sequence."""
        return np.concatenate([[0], np.cumsum(self.lengths)[:-1]])

    @property
    def sequence_weights(self) -> np.ndarray:
        """(N,): 1 if any site of the sequence was observed."""
        return (np.add.reduceat(self.weights, self.offsets) > 0).astype(float)

    @property
    def sites(self) -> pd.DataFrame:
        """One row per site: `sequence`, `time` (within the sequence), `observed`, and the user's name
        `place` if the data have names."""
        sequence = np.repeat(np.arange(self.n_sequences), self.lengths)
        site = np.arange(self.n_sites)
        time = site - self.offsets[sequence]
        named = {} if self.names is None else {"place": self.names.places(sequence, time, site)}
        return pd.DataFrame({"sequence": sequence, "time": time, "observed": self.weights > 0, **named})


def _some(lengths: np.ndarray) -> str:
    shown = ", ".join(map(str, lengths[:5]))
    return shown if len(lengths) <= 5 else f"{shown}, ... ({len(lengths)} sequences)"


class Points(Collection):
    """`count` units that can be left out; nothing else is known about them."""

    def __init__(self, count: int, fingerprint: str = "") -> None:
        self.lengths = np.array([count])
        self._fingerprint = fingerprint

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    @property
    def weights(self) -> np.ndarray:
        return np.ones(self.n_sites)

    @property
    def sequence_weights(self) -> np.ndarray:
        return self.weights

    def require_lengths(self, lengths: np.ndarray) -> None:
        """Accept any lengths: only the user knows what the units are."""


@dataclass(frozen=True, eq=False)
class Sequences(Collection):
    """One or more sequences of observations, padded to the longest.

    Attributes:
        values: (N, T, C) floats; missing and padding entries are 0 and never used.
        observed: (N, T, C) bools.
        lengths: (N,) integers.
        channels: C names.
        conditioned: (N, T, C) bools, values that the model only conditions on, such as the first steps
            of an autoregression; they count as not observed. None: no such values.
        names: of sequences and sites, from keys, groups and indices; None: numbers only.
        covariates: (N, T, Q) known quantities of every step; padding repeats the first step's.
        covariate_names: Q names.
        indices: of the tables of pandas that the sequences were, one each; None: of other data.
    """

    values: np.ndarray
    observed: np.ndarray
    lengths: np.ndarray
    channels: tuple[str, ...]
    conditioned: np.ndarray | None = None
    names: Names | None = None
    covariates: np.ndarray | None = None
    covariate_names: tuple[str, ...] = ()
    indices: tuple[pd.Index, ...] | None = None

    def covariates_of(self, names: tuple[str, ...]) -> np.ndarray:
        """(N, T, len(names)) the covariates of these names."""
        for name in names:
            if name not in self.covariate_names:
                have = f"it has {list(self.covariate_names)}" if self.covariate_names else "it has none"
                raise ValueError(
                    f"the model needs a covariate '{name}' in the data, but {have}; read it with "
                    "fo.sequences(data, covariates=)"
                )
        known = np.zeros((*self.values.shape[:2], 0)) if self.covariates is None else self.covariates
        return known[..., [self.covariate_names.index(name) for name in names]]

    def require_observed(self) -> None:
        """Raise where a channel, or all of them, has no observed value, so that nothing can be learned
        about it; given parameters, it may still be predicted for."""
        seen = np.any(self.observed, axis=(0, 1))
        if not seen.any():
            raise ValueError("data must hold at least one observation, got only missing values")
        for name, one in zip(self.channels, seen, strict=True):
            if not one:
                raise ValueError(f"channel '{name}' has no observed value")

    def filled_like(self, other: Sequences) -> Sequences:
        """The same with a possible value, from `other`, in place of missing ones of channels that have
        none: densities are evaluated there, and not used."""
        empty = ~np.any(self.observed, axis=(0, 1))
        if not empty.any():
            return self
        first = other.observed.reshape(-1, len(empty)).argmax(0)
        possible = other.values.reshape(-1, len(empty))[first, np.arange(len(empty))]  # noqa: PD011
        return replace(self, values=np.where(~self.observed & empty, possible, self.values))

    def part(self, where: tuple[slice, slice], observed: np.ndarray, lengths: np.ndarray) -> Sequences:
        """Some sequences and steps, without names; `observed` (N, T, C) is of all."""
        known = None if self.covariates is None else self.covariates[where]
        values, seen, names = self.values[where], observed[where], self.covariate_names
        return Sequences(values, seen, lengths, self.channels, None, None, known, names)

    def in_order(self, order: list[int]) -> Sequences:
        """The same with its channels in another order."""
        return replace(
            self,
            values=self.values[..., order],
            observed=self.observed[..., order],
            conditioned=None if self.conditioned is None else self.conditioned[..., order],
            channels=tuple(self.channels[number] for number in order),
        )

    @property
    def channel_names(self) -> tuple[str, ...]:
        return self.channels

    @property
    def valid(self) -> np.ndarray:
        """(N, T): true for steps, false for padding."""
        return np.arange(self.values.shape[1])[None] < self.lengths[:, None]

    @property
    def weights(self) -> np.ndarray:
        """(sites,): 1 where any channel was observed, 0 where all are missing."""
        return np.any(self.observed, axis=-1)[self.valid].astype(float)

    @property
    def fingerprint(self) -> str:
        """A hash of all values, including those only conditioned on, and of which are missing; not of
        covariates: models with and without them predict the same."""
        digest = hashlib.sha256(np.asarray(self.lengths, np.int64).tobytes())
        known = self.observed if self.conditioned is None else self.observed | self.conditioned
        order = np.argsort(self.channels, kind="stable")  # a product of emissions puts them in its own
        values, known = self.values[..., order], known[..., order]
        content = hashlib.sha256(values.tobytes() + known.tobytes())
        return digest.hexdigest()[:16] + content.hexdigest()[:16]

    @property
    def shown_values(self) -> np.ndarray:
        """(sites,) the first channel, nan where it was not observed."""
        return np.where(self.observed[..., 0], self.values[..., 0], np.nan)[self.valid]

    @property
    def further_values(self) -> np.ndarray | None:
        """(sites, C) the second to the fourth channel, nan where they were not observed."""
        some = (..., slice(1, _SHOWN))
        shown = np.where(self.observed[some], self.values[some], np.nan)[self.valid]
        return shown if shown.shape[1] else None

    def __repr__(self) -> str:
        given = np.zeros(1) if self.conditioned is None else self.conditioned.any(-1)
        missing = int((self.weights == 0).sum() - given.sum())
        beside = counted(len(self.covariate_names), "covariate") + ", " if self.covariate_names else ""
        return (
            f"Sequences({counted(self.n_sequences, 'sequence')} of {span(self.lengths, 'step')}, "
            f"{counted(len(self.channels), 'channel')}, {beside}"
            f"{missing:,} of {self.n_sites:,} sites missing)"
        )


# So that a user's own loss can take the data inside a compiled program.
pytree(
    Sequences,
    data_fields=["values", "observed", "lengths", "conditioned", "covariates"],
    meta_fields=["channels", "covariate_names"],
    drop_fields=["names", "indices"],
)


def sequences(
    data: Any,
    *,
    lengths: Any = None,
    missing: float | None = None,
    group: str | None = None,
    index: str | None = None,
    covariates: Any = None,
) -> Sequences:
    """Read an array, a table or a list of them as sequences.

    Args:
        data: (T,) or (T, C) for one sequence; (N, T, C), or a list of (T_n,) or (T_n, C) arrays or
            tables, or a dict of tables by name, for several. Tables are of pandas, polars or Arrow. NaN
            means missing, for whole steps and for single channels. An index of dates or text, or a named
            index, names the steps in tables and reports. Columns of several tables are put in the order
            of the first, by name.
        lengths: of the sequences, where `data` has the rows of all of them, one after another.
        missing: a number that also means missing, such as -1.
        group: the column of a table that says which sequence a row belongs to.
        index: the column of a table that names the steps, such as their dates.
        covariates: known quantities of every step, for models that use them: names of columns of the
            tables, or arrays beside the data: (T,) or (T, Q), a table, a dict of names and arrays (T,),
            or a list of these, one for each sequence; in a dict, a list of arrays is of each sequence.
            Tables and series are put into the order of the data by their index; arrays go by position.
            None of them may be missing.
    """
    real = isinstance(missing, Real) and not isinstance(missing, bool)
    require(
        missing is None or (real and as_numbers(missing, finite=False) is not None),
        "missing",
        "a number",
        missing,
    )
    if isinstance(data, Sequences):
        if any(given is not None for given in (lengths, missing, group, index, covariates)):
            raise ValueError(
                "data has been read already; pass lengths, missing, group, index and covariates when "
                "first reading it"
            )
        return data
    if isinstance(data, Collection):
        raise ValueError(
            f"data must be numbers, got {type(data).__name__}; labelled data need a model of labels "
            "such as LinearChainCRF"
        )
    data, covariates = from_arrow(data), from_arrow(covariates)
    require_called_once(data)
    if lengths is not None and group is not None:
        raise ValueError("lengths and group both say where sequences end: give one of them")
    if lengths is not None:
        data, covariates = split_lengths(data, covariates, lengths)
    if group is not None:
        data = {name: part.drop(columns=group) for name, part in split_groups(data, group).items()}
    if index is not None:
        data = named_by(data, index)
    keys = list(data) if isinstance(data, Mapping) else None
    parts = as_list(data)
    if not parts:
        raise ValueError("data must hold at least one sequence, got none")
    for number, part in enumerate(parts):
        if isinstance(part, (pd.DataFrame, pd.Series)):
            hint = _GROUPED if isinstance(part, pd.DataFrame) else ""
            require_in_time(part.index, _whose(number, keys, len(parts)), hint)
    parts, beside = split_covariates(parts, covariates)
    parts, columns = in_order_of_first(parts, "data")
    arrays = [as_matrix(part, number, len(parts)) for number, part in enumerate(parts)]
    widths = {array.shape[1] for array in arrays}
    if len(widths) > 1:
        raise ValueError(
            f"data: all sequences must have the same channels, got widths {shown(sorted(widths))}"
        )
    counts = np.array([len(array) for array in arrays])
    channels = columns or channel_names(parts, arrays[0].shape[1])
    row = 9 * len(arrays) * len(channels)
    longest = "the longest sequence of data"
    require_fits(longest, int(counts.max()), lambda n: n * row, "all sequences, as long as that")
    values = np.full((len(arrays), counts.max(), len(channels)), np.nan)
    for row, array in zip(values, arrays, strict=True):
        row[: len(array)] = array
    observed = np.isfinite(values) & (True if missing is None else values != missing)
    values = np.where(observed, values, 0.0)
    for channel, name in enumerate(channels):
        if squares_overflow(values[..., channel]):
            raise ValueError(
                f"values of data must be zero or between 1e-100 and 1e100 in size, got "
                f"{np.abs(values[..., channel]).max():.1e} in channel '{name}'; use other units"
            )
    names = names_of(parts, keys)
    known, known_names = padded(beside, counts)
    tables = [part for part in parts if isinstance(part, (pd.DataFrame, pd.Series))]
    warn_of_gaps(part.index for part in tables)
    indices = tuple(part.index for part in tables) if len(tables) == len(parts) else None
    return Sequences(values, observed, counts, channels, None, names, known, known_names, indices)


def _whose(number: int, keys: list[Any] | None, count: int) -> str:
    """A part of the data in messages."""
    if keys is not None:
        return f"data, sequence '{keys[number]}',"
    return "data" if count == 1 else f"data, sequence {number},"


def with_lengths(data: Any, lengths: Any) -> Any:
    """Data as given or, where lengths of sequences are given, read as those sequences."""
    return data if lengths is None else sequences(data, lengths=lengths)


class Headings(NamedTuple):
    """What data call their columns, where only that is known of them."""

    channels: tuple[str, ...]
    covariate_names: tuple[str, ...]


def sequences_like(known: Sequences | Headings, data: Any, lengths: Any = None) -> Sequences:
    """Other data as `fo.sequences` reads them, with the columns of known data, those of a fit: names say
    which is which. Tables that hold its covariates need no `covariates=`."""
    if not isinstance(data, Sequences):
        data = from_arrow(data)
    beside = None if isinstance(data, Sequences) else _covariates_among(known, data)
    return in_columns_of(known, sequences(data, lengths=lengths, covariates=beside))


def _covariates_among(known: Sequences | Headings, data: Any) -> list[str] | None:
    """Names of the covariates that tables have as columns."""
    parts = list(data.values()) if isinstance(data, Mapping) else data
    tables = parts if isinstance(parts, (list, tuple)) else [parts]
    if not tables or not all(isinstance(table, pd.DataFrame) for table in tables):
        return None
    shared = set.intersection(*(set(map(str, table.columns)) for table in tables))
    return [name for name in known.covariate_names if name in shared] or None


def in_columns_of(known: Sequences | Headings, read: Sequences) -> Sequences:
    """Data with channels and covariates in the order of known data, by name; data without names, as of
    arrays, are taken by position."""
    advice = "; leave these out, or say with fo.sequences what they are"
    order = order_of(known.channels, read.channels, "data", advice=advice)
    if order is not None:
        read = read.in_order(order)
    names = read.covariate_names
    plain = len(names) == len(known.covariate_names) and by_position(known.covariate_names, names)
    if set(names) == set(known.covariate_names) or not plain:
        return read  # models read covariates by name
    return replace(read, covariate_names=known.covariate_names)
