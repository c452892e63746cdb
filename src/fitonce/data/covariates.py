"""Covariates: known quantities of every step, beside the observations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.arguments import shown
from fitonce.core.wording import counted, shortened
from fitonce.data.alignment import aligned
from fitonce.data.columns import in_order_of_first

_NUMERIC = "biuf"  # kinds of dtypes


def split_covariates(
    parts: list[Any], given: Any, whose: str = "the data"
) -> tuple[list[Any], list[pd.DataFrame] | None]:
    """The parts without the columns that are covariates, and a table of covariates of each part.

    Args:
        parts: arrays or DataFrames, one for each sequence.
        given: names of columns, or arrays beside the parts, see `fo.sequences`.
        whose: what the parts are, for messages.
    """
    if given is None:
        return parts, None
    names = [given] if isinstance(given, str) else given
    if isinstance(names, (list, tuple)) and names and all(isinstance(name, str) for name in names):
        return _columns(parts, list(names))
    if isinstance(given, Mapping):
        given = _of_each_sequence(given, len(parts))
    several = isinstance(given, (list, tuple)) and not (given and all(map(np.isscalar, given)))
    each = list(given) if several else [given]
    if len(each) != len(parts):
        raise ValueError(f"covariates must be given for {_every(len(parts))}, got {len(each)}")
    tables = []
    for number, (table, part) in enumerate(zip(each, parts, strict=True)):
        of = whose if len(parts) == 1 else f"{whose}, sequence {number},"
        tables.append(as_table(table, len(part), labels_of(part), of))
    for number, (part, table) in enumerate(zip(parts, tables, strict=True)):
        if len(table) != len(part):
            raise ValueError(
                f"covariates must have one row for each step: sequence {number} has {len(part)} steps, "
                f"its covariates {len(table)}"
            )
    tables, _ = in_order_of_first(tables, "covariates")
    widths = sorted({table.shape[1] for table in tables})
    if len(widths) > 1:
        raise ValueError(f"all sequences must have the same covariates, got {widths} of them")
    return parts, tables


def are_arrays(column: Any) -> bool:
    """Whether a column is a list with arrays of sequences, and not of numbers."""
    return isinstance(column, (list, tuple)) and len(column) > 0 and all(map(np.ndim, column))


def _every(count: int) -> str:
    return f"each of the {count} sequences" if count > 1 else "the one sequence"


def _of_each_sequence(given: Mapping[Any, Any], count: int) -> list[dict[str, Any]]:
    """Lists of arrays by name as a table of each sequence; an array alone is of a single one."""
    found: list[dict[str, Any]] = [{} for _ in range(count)]
    for name, columns in given.items():
        parts = [columns] if count == 1 and not are_arrays(columns) else columns
        if not (isinstance(parts, (list, tuple)) and len(parts) == count):
            got = counted(len(columns), "array") if are_arrays(columns) else shown(columns)
            raise ValueError(
                f"covariates['{name}'] must be a list with an array for {_every(count)}, got {got}"
            )
        for table, part in zip(found, parts, strict=True):
            table[str(name)] = part
    return found


def _columns(parts: list[Any], names: list[str]) -> tuple[list[Any], list[pd.DataFrame]]:
    for part in parts:
        if not isinstance(part, pd.DataFrame):
            raise ValueError(
                f"covariates={shown(names)} are names of columns and need a DataFrame, got "
                f"{type(part).__name__}; beside arrays, give arrays"
            )
        _require_once([name for name in part.columns if str(name) in names], "data")
        for name in names:
            if name not in map(str, part.columns):
                raise ValueError(f"covariate '{name}' is not a column; columns are {list(part.columns)}")
        if len(set(names)) < len(names):
            raise ValueError(f"covariates must differ, got {names}")
        if len(names) == part.shape[1]:
            raise ValueError(f"covariates={shown(names)} leave no column to model")
    beside = [part.set_axis(part.columns.map(str), axis=1)[names] for part in parts]
    return [part.loc[:, ~part.columns.map(str).isin(names)] for part in parts], beside


def _require_once(columns: list[Any], whose: str) -> None:
    """Raise if two columns are called alike: nothing says which of them is the covariate."""
    called = [str(name) for name in columns]
    twice = [name for number, name in enumerate(called) if name in called[:number]]
    if twice:
        raise ValueError(
            f"covariates must be columns that are called differently, but '{shortened(twice[0])}' "
            f"occurs twice in {whose}"
        )


def labels_of(part: Any) -> pd.Index | None:
    """Those that rows of a table have; None: they go by position."""
    return part.index if isinstance(part, (pd.DataFrame, pd.Series)) else None


def as_table(
    given: Any,
    steps: int,
    labels: pd.Index | None = None,
    whose: str = "the data",
    lengths: np.ndarray | None = None,
) -> pd.DataFrame:
    """Covariates of some steps, a column each, in the order of the labels of the steps; `lengths`: of
    the sequences that these are of, if there are several."""
    if isinstance(given, Mapping):
        columns = {}
        for name, column in given.items():
            found = aligned(column, labels, f"covariates['{name}']", whose, lengths)
            columns[str(name)] = _column(name, found, steps)
        return pd.DataFrame(columns, index=pd.RangeIndex(steps if columns else 0))
    if isinstance(given, (pd.DataFrame, pd.Series)):
        if isinstance(given, pd.DataFrame):
            _require_once(list(given.columns), "covariates")
        table = pd.DataFrame(aligned(given, labels, "covariates", whose, lengths))
        return table.set_axis([str(name) for name in table.columns], axis=1)
    array = np.asarray(given)
    if array.ndim not in (1, 2):
        raise ValueError(f"covariates must have shape (T,) or (T, Q), got {array.shape}")
    array = array[:, None] if array.ndim == 1 else array
    return pd.DataFrame(array, columns=[f"u{number}" for number in range(array.shape[1])])


def _column(name: Any, given: Any, steps: int) -> np.ndarray:
    """One covariate as numbers (steps,), from (steps,), (steps, 1) or, of one step, its number."""
    try:
        array = np.asarray(given)
    except ValueError:  # of ragged lists
        array = np.zeros((0, 0))
    if array.shape == (steps, 1) or (array.ndim == 0 and steps == 1):
        array = array.reshape(steps)
    if array.shape != (steps,):
        raise ValueError(
            f"covariates must have one row for each step: covariates['{name}'] must be "
            f"{counted(steps, 'number')}, got {shown(given)}"
        )
    return array


def with_truths(table: pd.DataFrame) -> pd.DataFrame:
    """The table with 1 and 0 for true and false in columns of objects or text that hold nothing else."""
    plain = all(dtype.kind in _NUMERIC for dtype in table.dtypes)
    return table if plain else table.apply(_truths)


def _truths(column: pd.Series) -> pd.Series:
    if column.dtype.kind in _NUMERIC:
        return column
    seen = column.notna().to_numpy()
    words = column[seen].astype(str).str.strip().str.lower()
    if words.empty or not words.isin(["true", "false"]).all():
        return column
    found = np.full(len(column), np.nan)
    found[seen] = words == "true"
    return pd.Series(found, column.index)


def padded(
    tables: list[pd.DataFrame] | None, lengths: np.ndarray
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """(N, T, Q) covariates, padded with the first step's, and their names."""
    return (None, ()) if tables is None else padded_tables(tables, lengths)


def padded_tables(tables: list[pd.DataFrame], lengths: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """The same of tables."""
    names = tuple(tables[0].columns)
    found = np.empty((len(tables), lengths.max(), len(names)))
    for number, table in enumerate(map(with_truths, tables)):
        for column, dtype in table.dtypes.items():
            if dtype.kind not in _NUMERIC:
                raise ValueError(f"covariates must be numeric, but '{column}' is {dtype}")
        values = table.to_numpy(dtype=float, na_value=np.nan)
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            step, which = bad[0]
            raise ValueError(
                f"covariates must be known at every step, but '{names[which]}' is "
                f"{values[step, which]} at step {step} of sequence {number}; fill it in, for example by "
                "the last known value"
            )
        found[number] = values[0]
        found[number, : len(values)] = values
    return found, names
