"""Files to data: CSV, TSV, Parquet and NPZ tables; what was done to them is said."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field
from fitonce.data.sequences import Sequences
from fitonce.data.sequences import sequences
from fitonce.data.table_files import read_table
from fitonce.data.times import as_times
from fitonce.data.times import between
from fitonce.data.times import has_zones
from fitonce.data.times import regular_grid
from pathlib import Path
from typing import Any
import numpy as np
import pandas as pd
import re


_INDEX = ("", "index", "id", "row", "rownames", "row_id")  # names of columns that may number rows
_TIMES = ("time", "t", "step", "timestep", "time_step", "tick", "period", "second", "minute", "hour",
          "day", "week", "month", "quarter", "year")  # fmt: skip


_MONTH = r"(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
_DATE = "|".join(
    [
        r"\d{4}-\d{1,2}-\d", r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}", r"\d{1,2}:\d{2}", r"\d{4}/\d{1,2}/\d",
        r"^\d{4}-\d{2}$", rf"^{_MONTH}[a-z]*[ -]\d{{4}}$", rf"^\d{{4}}[ -]{_MONTH}[a-z]*$",
    ]
)  # fmt: skip


_INSERTED = "steps that"
_MOST_ROWS = 50_000_000
_MOST_INSERTED = 10.0  # times the rows there are: more than that are not gaps


@dataclass(frozen=True)
class Columns:
    """Which columns mean what.

    Attributes:
        modelled: their names; None: all columns of numbers that are not named here.
        time: the index along which rows are ordered; None: a column of dates, if there is one, or of
            rising numbers that is called by a time.
        group: says which sequence a row belongs to.
        missing: a number that means missing, too.
        first, last: keep rows with a time between these.
        gaps: whether steps that a regular index lacks are inserted as missing.
        decimal: the mark in the numbers of a text file; None: found out.
        ordered: whether a column of times orders the rows; it does not order sites of a graph, which
            edges count.
    """

    modelled: tuple[str, ...] | None = None
    time: str | None = None
    group: str | None = None
    missing: float | None = None
    first: str | None = None
    last: str | None = None
    gaps: bool = True
    decimal: str | None = None
    ordered: bool = True


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


def read_file(path: str | Path, columns: Columns | None = None) -> Reading:
    """Read a table as sequences."""
    columns, notes = columns or Columns(), list[str]()
    table = read_table(path, columns.decimal)
    if "decimal" in table.attrs:
        notes.append("numbers are read with decimal commas")
    table = _index_dropped(table, columns, notes)
    if table.empty:
        raise ValueError(f"{Path(path).name} must have rows, got none")
    asked = (columns.time, columns.group, *(columns.modelled or ()))
    named = [name for name in asked if name is not None]
    for name in named:
        if named.count(name) > 1:
            raise ValueError(f"column '{name}' is named twice; it can have one meaning")
        if name not in table.columns:
            raise ValueError(f"'{name}' is not a column; columns are {_listed(table.columns)}")
    time = columns.time or (_clock(table, columns, notes) if columns.ordered else None)
    for name in table.columns.drop(columns.group or []):  # a gap would make them neither
        if table[name].dtype.kind == "b":
            table[name] = table[name].astype(float)
    groups = _groups(table, columns.group, notes)
    parts = {name: _in_time(part, time, columns, notes) for name, part in groups.items()}
    parts = {name: part for name, part in parts.items() if len(part)}
    if not parts:
        raise ValueError(f"no row has a '{time}' between {columns.first} and {columns.last}")
    together = pd.concat(list(parts.values()), ignore_index=True)
    used = _chosen(together, columns, time, notes)
    chosen = {name: part[used] for name, part in parts.items()}
    read_as = chosen if columns.group is not None else list(chosen.values())
    return Reading(sequences(read_as, missing=columns.missing), together, _once(notes))


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


def _index_dropped(table: pd.DataFrame, columns: Columns, notes: list[str]) -> pd.DataFrame:
    """Without what a DataFrame's index left in a file."""
    extra = [name for name in table.columns if name.lower() in _INDEX or name.startswith("Unnamed: ")]
    named = {columns.time, columns.group, *(columns.modelled or ())}
    extra = [name for name in extra if name not in named and _numbers_rows(table[name])]
    if not [name for name in table.columns if name not in extra]:  # then it is what there is
        return table
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


def _clock(table: pd.DataFrame, columns: Columns, notes: list[str]) -> str | None:
    """The one column of dates, or else of numbers with the name of a time that rise in each sequence."""
    taken = {columns.group, *(columns.modelled or ())}
    free = [name for name in table.columns if name not in taken]
    found = [name for name in free if _is_date(table[name])]
    found = found or [name for name in free if name.lower() in _TIMES and _rises(table, name, columns)]
    if len(found) != 1 or (len(free) == 1 and not columns.modelled):
        return None
    notes.append(f"'{found[0]}' is read as the time of each row")
    return str(found[0])


def _rises(table: pd.DataFrame, name: str, columns: Columns) -> bool:
    if table[name].dtype.kind not in "iuf":
        return False
    parts = [table] if columns.group is None else [part for _, part in table.groupby(columns.group)]
    return all((np.diff(part[name].to_numpy(float)) > 0).all() for part in parts)


def _is_date(column: pd.Series) -> bool:
    if column.dtype.kind == "M":
        return True
    if column.dtype.kind in "biufc":
        return False
    sample = column.dropna().astype(str).head(20)
    if sample.empty or not sample.str.contains(_DATE).all():
        return False
    return bool(pd.to_datetime(sample, errors="coerce", format="mixed", utc=True).notna().all())


def _groups(table: pd.DataFrame, group: str | None, notes: list[str]) -> dict[Any, pd.DataFrame]:
    if group is None:
        return {None: table}
    unlabelled = np.flatnonzero(table[group].isna())
    if unlabelled.size:
        raise ValueError(f"group '{group}' must label every row, but row {unlabelled[0]} has none")
    parts = dict(iter(table.groupby(group, sort=False, observed=True)))
    notes.append(f"{len(parts)} sequences by '{group}'")
    return parts


def _in_time(part: pd.DataFrame, time: str | None, columns: Columns, notes: list[str]) -> pd.DataFrame:
    """Rows in the order of their time, which becomes their index, with missing steps where it is regular
    and has gaps."""
    if time is None:
        if columns.first is not None or columns.last is not None:
            raise ValueError("choosing rows by time needs a column of times; name it with --time")
        return part
    times = as_times(part[time], time)
    if has_zones(part[time]):
        notes.append(f"times of '{time}' are shown in UTC")
    kept = between(times, columns.first, columns.last)
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
    part = part.set_index(pd.Index(times, name=time))
    return _filled(part, times, time, notes) if columns.gaps and len(part) > 2 else part


def _filled(part: pd.DataFrame, times: pd.Series, time: str, notes: list[str]) -> pd.DataFrame:
    if _is_code(times):
        notes.append(
            f"'{time}' looks like dates without marks (201512): rows are taken as consecutive steps; "
            "write 2015-12 or 2015-12-31 to have gaps found"
        )
        return part
    grid = regular_grid(times)
    if grid is None:
        notes.append(f"'{time}' is not regular: rows are taken as consecutive steps")
        return part
    places = grid.places
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
    return whole.set_index(grid.times().rename(time))


def _is_code(times: pd.Series) -> bool:
    """Years with months or weeks, or with months and days, in one number: 201601 follows 201512."""
    if times.dtype.kind not in "iuf" or (times != np.floor(times)).any():
        return False
    months = times.between(190001, 210053) & (times % 100).between(1, 53)
    days = times.between(19000101, 21001231) & (times % 100).between(1, 31)
    days &= (times // 100 % 100).between(1, 12)
    return bool(months.all() or days.all())


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
        got = f"'{others[0]}' with {_example(table[others[0]])}" if others else "none"
        raise ValueError(f"the file must have a column of numbers, got {got}")
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
    if len(bad) and re.fullmatch(r"-?\d+,\d+", str(bad.iloc[0]).strip()):
        return f"{bad.iloc[0]!r} in row {bad.index[0]}; if that is a decimal comma, pass --decimal ,"
    return f"{bad.iloc[0]!r} in row {bad.index[0]}" if len(bad) else f"{column.dtype}"


def _listed(names: object) -> str:
    shown = [str(name) for name in names]  # type: ignore[attr-defined]
    return ", ".join(shown[:10]) + (f" and {len(shown) - 10} more" if len(shown) > 10 else "")
