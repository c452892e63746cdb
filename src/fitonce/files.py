"""Files to data: CSV, TSV, Parquet and NPZ tables; what was done to them is said."""

from __future__ import annotations

import csv
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from fitonce.data import Sequences, sequences

TABLES = (".csv", ".tsv", ".txt", ".parquet", ".npz", ".npy")
_INDEX = ("", "index", "id", "row", "rownames", "row_id")  # names of columns that may number rows
_INSERTED = "steps that"
_MOST_ROWS = 50_000_000
_MOST_INSERTED = 10.0  # times the rows there are: more than that are not gaps


@dataclass(frozen=True)
class Columns:
    """Which columns mean what.

    Attributes:
        modelled: their names; None: all columns of numbers that are not named here.
        time: the index along which rows are ordered; None: a column of dates, if there is one.
        group: says which sequence a row belongs to.
        missing: a number that means missing, too.
        first, last: keep rows with a time between these.
        gaps: whether steps that a regular index lacks are inserted as missing.
    """

    modelled: tuple[str, ...] | None = None
    time: str | None = None
    group: str | None = None
    missing: float | None = None
    first: str | None = None
    last: str | None = None
    gaps: bool = True


@dataclass(frozen=True, eq=False)
class Reading:
    """Data from a file.

    Attributes:
        data: the sequences.
        table: the rows, in order, as they were read.
        notes: sentences on what was done.
    """

    data: Sequences
    table: pd.DataFrame
    notes: list[str] = field(default_factory=list)


def read(path: str | Path, columns: Columns | None = None) -> Reading:
    """Read a table as sequences."""
    columns, notes = columns or Columns(), list[str]()
    table = _index_dropped(read_table(path), columns, notes)
    if table.empty:
        raise ValueError(f"{Path(path).name} must have rows, got none")
    named = (columns.time, columns.group, *(columns.modelled or ()))
    for name in named:
        if name is not None and name not in table.columns:
            raise ValueError(f"'{name}' is not a column; columns are {_listed(table.columns)}")
    time = columns.time or _dates(table, columns, notes)
    for name in table.columns:  # a gap would make them neither
        if table[name].dtype.kind == "b":
            table[name] = table[name].astype(float)
    parts = _groups(table, columns.group, notes)
    parts = [_in_time(part, time, columns, notes) for part in parts]
    if all(part.empty for part in parts):
        raise ValueError(f"no row has a '{time}' between {columns.first} and {columns.last}")
    parts = [part for part in parts if len(part)]
    used = _chosen(pd.concat(parts), columns, time, notes)
    data = sequences([part[used] for part in parts], missing=columns.missing)
    return Reading(data, pd.concat(parts, ignore_index=True), _once(notes))


def _once(notes: list[str]) -> list[str]:
    """Each note once, with how many sequences it is of where that is several."""
    counts = pd.Series(notes, dtype=object).value_counts(sort=False)
    kinds: dict[str, list[int]] = {}
    for note, count in counts.items():
        number, _, rest = str(note).partition(" ")
        if rest.startswith(_INSERTED):
            kinds.setdefault(rest, []).extend([int(number.replace(",", ""))] * int(count))
        else:
            kinds[str(note)] = []
    return [
        f"{sum(several):,} {rest}" + (f" ({len(several)} sequences)" if len(several) > 1 else "")
        if several
        else rest
        for rest, several in kinds.items()
    ]


def read_table(path: str | Path) -> pd.DataFrame:
    """A table from a file, by its ending."""
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"expected a file, got the folder {path}")
    if not path.is_file():
        raise ValueError(f"found no file at {path}")
    if path.stat().st_size == 0:
        raise ValueError(f"{path.name} must not be empty")
    ending = path.suffix.lower()
    if ending not in TABLES:
        raise ValueError(f"a file must end in one of {', '.join(TABLES)}, got {path.name}")
    if ending == ".parquet":
        return _parquet(path)
    if ending in (".npz", ".npy"):
        return _arrays(path)
    return _text(path, ending)


def _text(path: Path, ending: str) -> pd.DataFrame:
    try:
        with path.open(encoding="utf-8-sig") as file:
            head = file.read(65_536)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} must be UTF-8 text, but byte {error.start} is not") from None
    if "\0" in head:
        raise ValueError(f"{path.name} must be text, but has bytes that are zero")
    separator = "\t" if ending == ".tsv" else _separator(head)
    header: int | None = 0 if _has_header(head, separator) else None
    try:
        table = pd.read_csv(
            path, sep=separator, header=header, encoding="utf-8-sig", skipinitialspace=True
        )
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError, csv.Error) as error:
        reason = str(error).strip().splitlines()[-1]
        raise ValueError(f"{path.name} is not a table that can be read: {reason}") from None
    if header is None:
        table.columns = [f"x{k}" for k in range(table.shape[1])]
    table.columns = [str(name).strip() for name in table.columns]
    if table.columns.duplicated().any():
        raise ValueError(
            f"{path.name} has two columns named '{table.columns[table.columns.duplicated()][0]}'"
        )
    return table


def _separator(head: str) -> str:
    first = next((line for line in head.splitlines() if line.strip()), "")
    counts = {mark: first.count(mark) for mark in ("\t", ";", ",")}
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] else ","


def _has_header(head: str, separator: str) -> bool:
    """Whether the first line is of names: it is unless every cell is a number."""
    first = next((line for line in head.splitlines() if line.strip()), "")
    for cell in first.split(separator):
        try:
            float(cell.strip().strip('"') or "nan")
        except ValueError:
            return True
    return False


def _parquet(path: Path) -> pd.DataFrame:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise ValueError("Parquet files need pyarrow: pip install 'fitonce[parquet]'") from None
    try:
        table = pd.read_parquet(path)
    except Exception as error:  # pyarrow has many kinds
        raise ValueError(f"{path.name} is not a Parquet file that can be read: {error}") from None
    named = [name for name in table.index.names if name is not None]
    table = table.reset_index() if named else table.reset_index(drop=True)
    table.columns = [str(name) for name in table.columns]
    return table


def _arrays(path: Path) -> pd.DataFrame:
    """Arrays of one length are columns; one of two axes is as many columns as it has."""
    try:
        with path.open("rb") as file:
            found = np.load(file, allow_pickle=False)
            arrays = dict(found) if hasattr(found, "files") else {"x": found}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, MemoryError, KeyError) as error:
        raise ValueError(f"{path.name} is not an array file that can be read: {error}") from None
    columns: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if array.ndim == 1:
            columns[name] = array
        elif array.ndim == 2:
            columns |= {f"{name}{k}": array[:, k] for k in range(array.shape[1])}
        else:
            raise ValueError(f"array '{name}' must have one or two axes, got shape {array.shape}")
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"all arrays of {path.name} must have one length, got {lengths}")
    return pd.DataFrame(columns)


def _index_dropped(table: pd.DataFrame, columns: Columns, notes: list[str]) -> pd.DataFrame:
    """Without what a DataFrame's index left in a file."""
    extra = [name for name in table.columns if name.lower() in _INDEX or name.startswith("Unnamed: ")]
    named = {columns.time, columns.group, *(columns.modelled or ())}
    extra = [name for name in extra if name not in named and _numbers_rows(table[name])]
    if extra:
        notes.append(
            f"left out, only numbers the rows: {_listed(name or '(no name)' for name in extra)}"
        )
    return table.drop(columns=extra)


def _numbers_rows(column: pd.Series) -> bool:
    """Whether it rises from row to row, in whole numbers; or is empty."""
    if column.isna().all():
        return True
    if column.dtype.kind not in "iu":
        return False
    return bool((np.diff(column.to_numpy()) > 0).all())


def _dates(table: pd.DataFrame, columns: Columns, notes: list[str]) -> str | None:
    """The one column of dates, if there is one."""
    taken = {columns.group, *(columns.modelled or ())}
    found = [name for name in table.columns if name not in taken and _is_date(table[name])]
    if len(found) != 1:
        return None
    notes.append(f"'{found[0]}' is read as the time of each row")
    return str(found[0])


def _is_date(column: pd.Series) -> bool:
    if column.dtype.kind == "M":
        return True
    if column.dtype.kind in "biufc":
        return False
    sample = column.dropna().astype(str).head(20)
    if sample.empty or not sample.str.contains(r"\d[-/:.]\d").all():
        return False
    return bool(pd.to_datetime(sample, errors="coerce", format="mixed", utc=True).notna().all())


def _groups(table: pd.DataFrame, group: str | None, notes: list[str]) -> list[pd.DataFrame]:
    if group is None:
        return [table]
    unlabelled = np.flatnonzero(table[group].isna())
    if unlabelled.size:
        raise ValueError(f"group '{group}' must label every row, but row {unlabelled[0]} has none")
    parts = [part for _, part in table.groupby(group, sort=False, observed=True)]
    notes.append(f"{len(parts)} sequences by '{group}'")
    return parts


def _in_time(part: pd.DataFrame, time: str | None, columns: Columns, notes: list[str]) -> pd.DataFrame:
    """Rows in the order of their time, with missing steps where a regular index has gaps."""
    if time is None:
        if columns.first is not None or columns.last is not None:
            raise ValueError("choosing rows by time needs a column of times; name it with --time")
        return part
    times = _as_times(part[time], time)
    kept = _between(times, columns)
    part, times = part[kept], times[kept]
    order = np.argsort(times.to_numpy(), kind="stable")
    if (np.diff(order) < 0).any():
        notes.append(f"rows were put in the order of '{time}'")
    part, times = part.iloc[order], times.iloc[order]
    twice = times[times.duplicated()]
    if len(twice):
        raise ValueError(
            f"'{time}' must tell the rows of a sequence apart, but {twice.iloc[0]} occurs twice; "
            "name the column of groups with --group if there are several sequences"
        )
    return _filled(part, times, time, notes) if columns.gaps and len(part) > 2 else part


def _as_times(column: pd.Series, time: str) -> pd.Series:
    if column.dtype.kind in "iuf" or column.dtype.kind == "M":
        found = column
    else:
        found = pd.to_datetime(column, errors="coerce", format="mixed", utc=_has_zones(column))
    if isinstance(found.dtype, pd.DatetimeTZDtype):
        found = found.dt.tz_convert("UTC").dt.tz_localize(None)
    bad = np.flatnonzero(found.isna())
    if bad.size:
        raise ValueError(
            f"'{time}' must be a number or a date in every row, got {column.iloc[bad[0]]!r}"
        )
    return found


def _has_zones(column: pd.Series) -> bool:
    """Whether times say their zone, so that they can be compared across a change of clocks."""
    return bool(column.dropna().astype(str).str.contains(r"(?:Z|[+-]\d{2}:?\d{2})$").any())


def _between(times: pd.Series, columns: Columns) -> np.ndarray:
    keep = np.ones(len(times), bool)
    for bound, is_first in ((columns.first, True), (columns.last, False)):
        if bound is None:
            continue
        try:
            edge = _naive(pd.Timestamp(bound)) if times.dtype.kind == "M" else float(bound)
        except (ValueError, TypeError):
            raise ValueError(
                f"a time to choose rows by must be like those of the file, got '{bound}'"
            ) from None
        keep &= (times >= edge).to_numpy() if is_first else (times <= edge).to_numpy()
    return keep


def _naive(moment: pd.Timestamp) -> pd.Timestamp:
    return moment if moment.tz is None else moment.tz_convert("UTC").tz_localize(None)


def _filled(part: pd.DataFrame, times: pd.Series, time: str, notes: list[str]) -> pd.DataFrame:
    ticks = times.to_numpy().astype("datetime64[ns]").astype(np.int64) if times.dtype.kind == "M" else (
        times.to_numpy(float)
    )  # fmt: skip
    steps = np.diff(ticks)
    step = np.median(steps) if (steps == np.median(steps)).mean() > 0.5 else steps.min()
    places = (ticks - ticks[0]) / step
    whole = np.round(places)
    if np.abs(places - whole).max() > 1e-6 or (np.diff(whole) <= 0).any():
        notes.append(f"'{time}' is not regular: rows are taken as consecutive steps")
        return part
    places = np.round(places).astype(np.int64)
    lacking = int(places[-1]) + 1 - len(part)
    if not lacking:
        return part
    if lacking > _MOST_INSERTED * len(part) or places[-1] > _MOST_ROWS:
        raise ValueError(
            f"'{time}' has {lacking:,} steps without a row and {len(part):,} with one, which is more "
            "than gaps; pass --no-gaps to take rows as consecutive steps"
        )
    notes.append(f"{lacking:,} {_INSERTED} '{time}' lacks were inserted as missing")
    whole = part.set_index(pd.Index(places)).reindex(np.arange(places[-1] + 1))
    return whole.reset_index(drop=True)


def _chosen(table: pd.DataFrame, columns: Columns, time: str | None, notes: list[str]) -> list[str]:
    """The columns to model."""
    if columns.modelled is not None:
        for name in columns.modelled:
            if table[name].dtype.kind not in "biuf":
                raise ValueError(f"column '{name}' must hold numbers, got {_example(table[name])}")
        return list(columns.modelled)
    others = [name for name in table.columns if name not in (time, columns.group)]
    numeric = [name for name in others if table[name].dtype.kind in "biuf"]
    if not numeric:
        raise ValueError(f"the file must have a column of numbers, got {_listed(others) or 'none'}")
    if len(numeric) < len(others):
        left = [name for name in others if name not in numeric]
        notes.append(f"left out, not numbers: {_listed(left)}")
    constant = [name for name in numeric if _is_constant(table[name])]
    varying = [name for name in numeric if name not in constant]
    if constant and varying:
        notes.append(
            f"left out, always the same: {_listed(constant)}; name it with --columns to keep it"
        )
    notes.append(f"modelled: {_listed(varying or numeric)}")
    return varying or numeric


def _is_constant(column: pd.Series) -> bool:
    seen = column.dropna().to_numpy()
    return seen.size == 0 or bool((seen == seen[0]).all())


def _example(column: pd.Series) -> str:
    cells = column.dropna()
    numbers = pd.to_numeric(cells, errors="coerce")
    bad = cells[numbers.isna()]
    return f"{bad.iloc[0]!r} in row {bad.index[0]}" if len(bad) else f"{column.dtype}"


def _listed(names: object) -> str:
    shown = [str(name) for name in names]  # type: ignore[attr-defined]
    return ", ".join(shown[:10]) + (f" and {len(shown) - 10} more" if len(shown) > 10 else "")
