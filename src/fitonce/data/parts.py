"""What users bring as data, one part for each sequence: arrays, tables of pandas, polars or Arrow."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.arguments import refusal, shown
from fitonce.core.numerics import as_numbers
from fitonce.core.wording import shortened
from fitonce.data.covariates import are_arrays, as_table, labels_of


def from_arrow(data: Any) -> Any:
    """A table that hands itself over as an Arrow stream, such as one of polars, as one of pandas, and so
    in lists and dicts of them; anything else as it is."""
    if isinstance(data, (list, tuple)) and any(map(_is_arrow, data)):
        return [from_arrow(part) for part in data]
    if isinstance(data, Mapping) and any(map(_is_arrow, data.values())):
        return {name: from_arrow(part) for name, part in data.items()}
    if not _is_arrow(data):
        return data
    try:
        import pyarrow
    except ImportError:
        raise ValueError(
            f"to read a {type(data).__module__.split('.')[0]} {type(data).__name__}, install pyarrow "
            "(pip install 'fitonce[parquet]'), or pass data.to_numpy()"
        ) from None
    if not (hasattr(data, "columns") or hasattr(data, "schema")):  # a single column
        name = getattr(data, "name", None) or "x0"
        return from_arrow(pyarrow.table({name: pyarrow.chunked_array(data)}))[name]
    table = pyarrow.table(data)
    for place, field in enumerate(table.schema):
        column = table.column(place)
        # Of these, pandas would make objects.
        if pyarrow.types.is_decimal(field.type):
            table = table.set_column(place, field.name, column.cast("float64"))
        elif pyarrow.types.is_boolean(field.type) and column.null_count:
            table = table.set_column(place, field.name, column.cast("int8"))
    return table.to_pandas(date_as_object=False)


def _is_arrow(data: Any) -> bool:
    return hasattr(data, "__arrow_c_stream__") and not isinstance(data, (pd.DataFrame, pd.Series))


def require_called_once(data: Any, what: str = "data") -> None:
    """Raise if columns of a table, or of one among several, are called alike: names say which is which;
    `what` names the tables."""
    if isinstance(data, Mapping):
        data = list(data.values())
    for table in data if isinstance(data, (list, tuple)) else [data]:
        called = list(map(str, table.columns)) if isinstance(table, pd.DataFrame) else []
        twice = [name for number, name in enumerate(called) if name in called[:number]]
        if twice:
            raise ValueError(
                f"{what} must have columns that are called differently, but '{shortened(twice[0])}' "
                f"occurs twice in {what}"
            )


def split_lengths(data: Any, covariates: Any, lengths: Any) -> tuple[list[Any], Any]:
    """Rows of all sequences, one after another, as a part for each, and so their covariates."""
    plain = isinstance(data, (pd.DataFrame, pd.Series))
    numbers = isinstance(data, (list, tuple)) and all(map(pd.api.types.is_scalar, data))
    rows: Any = _as_floats(data, "data") if numbers else data
    if not plain and (not hasattr(rows, "shape") or len(rows.shape) not in (1, 2)):
        raise ValueError(
            "lengths= is for one array or table with the rows of all sequences, got "
            f"{type(data).__name__}"
        )
    counts = as_numbers(lengths)
    if counts is None or counts.ndim != 1 or not ((counts >= 1) & (counts == np.floor(counts))).all():
        raise refusal("lengths", "integers of at least 1", lengths)
    if counts.max(initial=0) > len(rows):
        raise ValueError(
            f"lengths must sum to the number of rows, {len(rows)}, got one of {counts.max():g}"
        )
    counts = counts.astype(int)
    ends = np.cumsum(counts)
    if len(ends) == 0 or ends[-1] != len(rows):
        total = int(ends[-1]) if len(ends) else 0
        raise ValueError(f"lengths must sum to the number of rows, {len(rows)}, got {total}")
    spans = [slice(start, stop) for start, stop in zip([0, *ends[:-1]], ends, strict=True)]
    parts = [rows.iloc[some] if plain else rows[some] for some in spans]
    if covariates is None or isinstance(covariates, (str, list, tuple)):
        return parts, covariates
    if isinstance(covariates, Mapping) and any(map(are_arrays, covariates.values())):
        apart = {name: column for name, column in covariates.items() if are_arrays(column)}
        joined = {name: column for name, column in covariates.items() if name not in apart}
        whole = _of_rows(joined, rows, counts) if joined else pd.DataFrame()
        split = {name: [whole[str(name)].iloc[some] for some in spans] for name in joined}
        return parts, {name: split.get(name, column) for name, column in covariates.items()}
    table = _of_rows(covariates, rows, counts)
    return parts, [table.iloc[some] for some in spans]


def _of_rows(covariates: Any, rows: Any, lengths: np.ndarray) -> pd.DataFrame:
    """Covariates of all rows, one sequence after another, with their labels."""
    labels = labels_of(rows)
    table = as_table(covariates, len(rows), labels, lengths=lengths)
    if len(table) != len(rows):
        raise ValueError(
            f"covariates must have one row for each step: data have {len(rows)}, they {len(table)}"
        )
    return table.reset_index(drop=True) if labels is None else table.set_axis(labels)


def named_by(parts: Any, index: str) -> Any:
    """Tables with this column as their index, which names the steps."""
    if isinstance(parts, Mapping):
        return {name: named_by(part, index) for name, part in parts.items()}
    if isinstance(parts, (list, tuple)):
        return [named_by(part, index) for part in parts]
    if not isinstance(parts, pd.DataFrame):
        raise ValueError(f"index={shown(index)} needs a table, got {type(parts).__name__}")
    if not (isinstance(index, Hashable) and index in parts.columns):
        columns = shown(list(parts.columns))
        raise ValueError(f"index={shown(index)} is not a column; columns are {columns}")
    return parts.set_index(index)


def split_groups(table: Any, group: str) -> dict[Any, pd.DataFrame]:
    """The rows of each group of a DataFrame, in order of appearance."""
    if not isinstance(table, pd.DataFrame):
        raise ValueError(f"group={shown(group)} needs a DataFrame, got {type(table).__name__}")
    if not (isinstance(group, Hashable) and group in table.columns):
        columns = shown(list(table.columns))
        raise ValueError(f"group={shown(group)} is not a column; columns are {columns}")
    unlabelled = np.flatnonzero(table[group].isna())
    if unlabelled.size:
        raise ValueError(f"group='{group}' must label every row, but row {unlabelled[0]} has none")
    return dict(iter(table.groupby(group, sort=False, observed=True)))


def as_list(data: Any) -> list[Any]:
    """The data of each sequence."""
    if isinstance(data, Mapping) and all(isinstance(part, pd.DataFrame) for part in data.values()):
        return list(data.values())
    if isinstance(data, (list, tuple)):
        numbers = [pd.api.types.is_scalar(item) for item in data]
        if not any(numbers):
            return list(data)
        if not all(numbers):
            raise ValueError("data: a list must hold numbers or sequences, got a mixture of both")
        return [np.array([np.nan if pd.isna(item) else item for item in data])]
    if isinstance(data, (pd.DataFrame, pd.Series)):
        return [data]
    if not hasattr(data, "shape"):
        raise ValueError(
            "data must be an array, a DataFrame, a list of arrays or a dict of DataFrames, "
            f"got {type(data).__name__}"
        )
    return list(data) if len(data.shape) == 3 else [data]


def as_matrix(part: Any, number: int, count: int) -> np.ndarray:
    """(T, C) floats of one of `count` sequences, NaN where missing."""
    which = "data" if count == 1 else f"data: sequence {number}"
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
    """Floats, NaN where pandas or a mask marks missing. Dates, text and complex numbers are refused."""
    if isinstance(part, (pd.DataFrame, pd.Series)):
        for column, dtype in pd.DataFrame(part).dtypes.items():
            if dtype.kind not in "biuf":
                hint = f"; group='{column}' would split it into sequences" if dtype.kind in "OUT" else ""
                hint = f"; index='{column}' would name the steps by it" if dtype.kind == "M" else hint
                raise ValueError(f"{which} must be numeric, but column '{column}' is {dtype}{hint}")
        return part.to_numpy(dtype=float, na_value=np.nan)
    try:
        array = np.asanyarray(part)
        if array.dtype.kind not in "cmMSU":
            return np.ma.filled(array.astype(float), np.nan)
        got = f"dtype {array.dtype}"
    except (TypeError, ValueError, OverflowError):
        got = type(part).__name__
    raise ValueError(f"{which} must be numeric and rectangular, got {got}")


def channel_names(parts: list[Any], width: int) -> tuple[str, ...]:
    """Those of arrays, x0, x1, ..., or the one that all columns that came alone have in common."""
    alone = {part.name for part in parts if isinstance(part, pd.Series)} - {None}
    if len(alone) == 1:  # several are names of sequences, not of what is observed
        return (str(alone.pop()),)
    return tuple(f"x{channel}" for channel in range(width))
