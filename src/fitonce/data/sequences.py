"""Sequences: the one place where arrays come in and are checked.

Sites are the observations, numbered through all sequences in order: the first sequence's steps, then
the second's. A site is missing when every one of its channels is; it has weight zero from the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import replace
from fitonce.core.wording import counted
from fitonce.core.wording import span
from fitonce.data.places import Names
from fitonce.core.wording import counted
from fitonce.core.wording import span
from fitonce.data.places import names_of
from numbers import Real
from typing import Any
import hashlib
import jax
import numpy as np
import pandas as pd


class Collection:
    """Sites in sequences, whatever was observed at them. A subclass has `lengths` (N,), how many sites
    each sequence has, and `weights` (sites,): 1 where something was observed, 0 where it is missing."""

    lengths: np.ndarray

    @property
    def names(self) -> Names | None:
        """What the user calls sequences and sites; None: they have numbers only."""
        return None

    @property
    def weights(self) -> np.ndarray:
        raise NotImplementedError

    @property
    def fingerprint(self) -> str:
        """Of what was observed, so that results on other data are told apart; "": not known."""
        return ""

    def require_lengths(self, lengths: np.ndarray) -> None:
        """Raise unless folds that were made for sequences of these lengths (N,) fit."""
        if not np.array_equal(lengths, self.lengths):
            raise ValueError(
                f"folds were made for sequences of {_some(lengths)} steps, data has {_some(self.lengths)}"
            )

    @property
    def channel_names(self) -> tuple[str, ...]:
        """Of the numbers that were observed at each site; none where they are not numbers."""
        return ()

    @property
    def shown_values(self) -> np.ndarray:
        """(sites,) one number of each site to draw, nan where there is none."""
        return np.full(self.n_sites, np.nan)

    @property
    def n_sequences(self) -> int:
        return len(self.lengths)

    @property
    def n_sites(self) -> int:
        return int(self.lengths.sum())

    @property
    def offsets(self) -> np.ndarray:
        """(N,) the first site of each sequence."""
        return np.concatenate([[0], np.cumsum(self.lengths)[:-1]])

    @property
    def sequence_weights(self) -> np.ndarray:
        """(N,): 1 where something of the sequence was observed."""
        return (np.add.reduceat(self.weights, self.offsets) > 0).astype(float)

    @property
    def sites(self) -> pd.DataFrame:
        """One row per site: `sequence`, `time` (within the sequence), `observed`, and `place`, what the
        user calls it, where data have names."""
        sequence = np.repeat(np.arange(self.n_sequences), self.lengths)
        site = np.arange(self.n_sites)
        time = site - self.offsets[sequence]
        named = {} if self.names is None else {"place": self.names.places(sequence, time, site)}
        return pd.DataFrame({"sequence": sequence, "time": time, "observed": self.weights > 0, **named})


def _some(lengths: np.ndarray) -> str:
    shown = ", ".join(map(str, lengths[:5]))
    return shown if len(lengths) <= 5 else f"{shown}, ... ({len(lengths)} sequences)"


class Points(Collection):
    """`count` things that can be left out, of which nothing else is known."""

    def __init__(self, count: int) -> None:
        self.lengths = np.array([count])

    @property
    def weights(self) -> np.ndarray:
        return np.ones(self.n_sites)

    @property
    def sequence_weights(self) -> np.ndarray:
        return self.weights

    def require_lengths(self, lengths: np.ndarray) -> None:
        """Anything goes: only the user knows what the things are."""


@dataclass(frozen=True, eq=False)
class Sequences(Collection):
    """One or more sequences of observations, padded to the longest.

    Attributes:
        values: (N, T, C) floats; missing and padding entries hold 0 and are never used.
        observed: (N, T, C) bools.
        lengths: (N,) integers.
        channels: C names.
        conditioned: (N, T, C) bools, what is known and only conditioned on, such as the first steps of
            an autoregression: it has a value and counts as not observed; None: nothing.
        names: of sequences and sites, from keys, groups and indices; None: numbers only.
    """

    values: np.ndarray
    observed: np.ndarray
    lengths: np.ndarray
    channels: tuple[str, ...]
    conditioned: np.ndarray | None = None
    names: Names | None = None

    @property
    def channel_names(self) -> tuple[str, ...]:
        return self.channels

    @property
    def valid(self) -> np.ndarray:
        """(N, T): true where there is a step rather than padding."""
        return np.arange(self.values.shape[1])[None] < self.lengths[:, None]

    @property
    def weights(self) -> np.ndarray:
        """(sites,): 1 where something was observed, 0 where it is missing from the start."""
        return np.any(self.observed, axis=-1)[self.valid].astype(float)

    @property
    def fingerprint(self) -> str:
        """Of all values, also those that a model only conditions on, and of which are missing."""
        digest = hashlib.sha256(np.asarray(self.lengths, np.int64).tobytes())
        known = self.observed if self.conditioned is None else self.observed | self.conditioned
        content = hashlib.sha256(self.values.tobytes() + known.tobytes())
        return digest.hexdigest()[:16] + content.hexdigest()[:16]

    @property
    def shown_values(self) -> np.ndarray:
        """(sites,) the first channel, nan where it was not observed."""
        return np.where(self.observed[..., 0], self.values[..., 0], np.nan)[self.valid]

    def __repr__(self) -> str:
        given = np.zeros(1) if self.conditioned is None else self.conditioned.any(-1)
        missing = int((self.weights == 0).sum() - given.sum())
        steps = counted(int(self.lengths.max()), "step").split()[1]
        return (
            f"Sequences({counted(self.n_sequences, 'sequence')} of {span(self.lengths)} {steps}, "
            f"{counted(len(self.channels), 'channel')}, {missing:,} of {self.n_sites:,} sites missing)"
        )


# So that a user's own loss can be given the data inside a compiled program.
jax.tree_util.register_dataclass(
    Sequences,
    data_fields=["values", "observed", "lengths", "conditioned"],
    meta_fields=["channels"],
    drop_fields=["names"],
)


def sequences(data: Any, *, missing: float | None = None, group: str | None = None) -> Sequences:
    """Read an array, a DataFrame or a list of arrays as sequences.

    Args:
        data: (T,) or (T, C) for one sequence; (N, T, C), or a list of (T_n,) or (T_n, C) arrays or
            DataFrames, or a dict of DataFrames by name, for several. NaN means missing, for whole steps
            and for single channels. Dates, words or a named index of a DataFrame name its steps in
            tables and reports.
        missing: a value that means missing too, such as -1.
        group: a column of a DataFrame that says which sequence a row belongs to.
    """
    if missing is not None and not isinstance(missing, Real):
        raise ValueError(f"missing must be a number, got {missing!r}")
    if isinstance(data, Sequences):
        if missing is not None or group is not None:
            raise ValueError("data is read already; give missing and group when it is first read")
        return data
    if isinstance(data, Collection):
        raise ValueError(
            f"data must be numbers, got {type(data).__name__}; labelled data need a model of labels such "
            "as LinearChainCRF"
        )
    if group is not None:
        data = _split_groups(data, group)
    called = list(data) if isinstance(data, Mapping) else None
    parts = _as_list(data)
    if not parts:
        raise ValueError("data must hold at least one sequence, got none")
    arrays = [_as_matrix(part, number, len(parts)) for number, part in enumerate(parts)]
    widths = {array.shape[1] for array in arrays}
    if len(widths) > 1:
        raise ValueError(f"all sequences must have the same channels, got widths {sorted(widths)}")
    columns = [list(part.columns) for part in parts if isinstance(part, pd.DataFrame)]
    for other in columns[1:]:
        if other != columns[0]:
            raise ValueError(
                f"all sequences must have the same columns in order, got {columns[0]} and {other}"
            )
    if missing is not None:
        arrays = [np.where(array == missing, np.nan, array) for array in arrays]
    if not any(np.isfinite(array).any() for array in arrays):
        raise ValueError("data must hold at least one observation, got only missing values")
    found = _pad(arrays, _channel_names(parts[0], arrays[0].shape[1]))
    return replace(found, names=names_of(parts, called))


def _split_groups(data: Any, group: str) -> dict[Any, pd.DataFrame]:
    if not isinstance(data, pd.DataFrame):
        raise ValueError(f"group='{group}' needs a DataFrame, got {type(data).__name__}")
    if group not in data.columns:
        raise ValueError(f"group='{group}' is not a column; columns are {list(data.columns)}")
    unlabelled = np.flatnonzero(data[group].isna())
    if unlabelled.size:
        raise ValueError(f"group='{group}' must label every row, but row {unlabelled[0]} has none")
    grouped = data.groupby(group, sort=False, observed=True)
    return {name: part.drop(columns=group) for name, part in grouped}


def _as_list(data: Any) -> list[Any]:
    if isinstance(data, Mapping) and all(isinstance(part, pd.DataFrame) for part in data.values()):
        return list(data.values())
    if isinstance(data, (list, tuple)):
        numbers = [pd.api.types.is_scalar(item) for item in data]
        if not any(numbers):
            return list(data)
        if not all(numbers):
            raise ValueError("a list must hold numbers or sequences, got a mixture of both")
        return [np.array([np.nan if pd.isna(item) else item for item in data])]
    if isinstance(data, (pd.DataFrame, pd.Series)):
        return [data]
    if not hasattr(data, "shape"):
        raise ValueError(
            "data must be an array, a DataFrame, a list of arrays or a dict of DataFrames, "
            f"got {type(data).__name__}"
        )
    return list(data) if len(data.shape) == 3 else [data]


def _as_matrix(part: Any, number: int, count: int) -> np.ndarray:
    which = "data" if count == 1 else f"sequence {number}"
    array = _as_floats(part, which)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2:
        raise ValueError(f"{which} must have shape (T,) or (T, channels), got {array.shape}")
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise ValueError(f"{which} must not be empty, got shape {array.shape}")
    if np.isinf(array).any():
        step = int(np.nonzero(np.isinf(array).any(1))[0][0])
        raise ValueError(f"{which} must be finite or NaN (missing), got infinity at step {step}")
    return array


def _as_floats(part: Any, which: str) -> np.ndarray:
    """NaN where pandas or a mask says missing. Dates, text and complex numbers are refused."""
    if isinstance(part, (pd.DataFrame, pd.Series)):
        for column, dtype in pd.DataFrame(part).dtypes.items():
            if dtype.kind not in "biuf":
                hint = f"; group='{column}' makes it tell sequences apart" if dtype.kind in "OUT" else ""
                raise ValueError(f"{which} must be numeric, but column '{column}' is {dtype}{hint}")
        return part.to_numpy(dtype=float, na_value=np.nan)
    try:
        array = np.asanyarray(part)
        if array.dtype.kind not in "cmMSU":
            return np.ma.filled(array.astype(float), np.nan)
        found = f"dtype {array.dtype}"
    except (TypeError, ValueError):
        found = type(part).__name__
    raise ValueError(f"{which} must be numeric and rectangular, got {found}")


def _channel_names(part: Any, width: int) -> tuple[str, ...]:
    if isinstance(part, pd.DataFrame):
        return tuple(map(str, part.columns))
    if isinstance(part, pd.Series) and part.name is not None:
        return (str(part.name),)
    return tuple(f"x{channel}" for channel in range(width))


def _pad(arrays: list[np.ndarray], channels: tuple[str, ...]) -> Sequences:
    lengths = np.array([len(array) for array in arrays])
    values = np.full((len(arrays), lengths.max(), len(channels)), np.nan)
    for row, array in zip(values, arrays, strict=True):
        row[: len(array)] = array
    observed = np.isfinite(values)
    return Sequences(np.where(observed, values, 0.0), observed, lengths, channels)
