"""Tables in files as sequences, with notes on what was done to them."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.wording import counted, listed
from fitonce.data.cells import as_numbers
from fitonce.data.column_hints import PERIODS, closed_hint, hints, rhythm_hint, with_periods
from fitonce.data.gaps import GapsWarning
from fitonce.data.parts import split_groups
from fitonce.data.sequences import Sequences, sequences
from fitonce.data.table_files import read_table
from fitonce.data.time_bounds import between
from fitonce.data.time_order import TIMES, order_in_time
from fitonce.data.times import (
    TimeGrid,
    as_times,
    day_first,
    has_zones,
    looks_like_dates,
    regular_grid,
    weekday_grid,
)

_INDEX = ("", "index", "id", "row", "rownames", "row_id")  # names of columns that may number rows
_MOST_ROWS = 50_000_000
_MOST_INSERTED = 10.0  # times the number of rows: more are not gaps

# Options of the command line that are not called as the role is.
FLAGS = {"modelled": "columns", "first": "from", "last": "to", "gaps": "no-gaps"}


@dataclass(frozen=True)
class Columns:
    """The roles of columns.

    Attributes:
        modelled: their names; None: all numeric columns without another role.
        time: orders the rows; None: a column of dates if there is one, or of increasing numbers that is
            named like a time unit.
        group: says which sequence a row belongs to; "day" and "week" where no column has this name:
            those of the time.
        missing: a number that also means missing.
        first, last: keep rows with a time between these.
        gaps: whether to insert the steps that a regular time lacks, as missing.
        weekdays: whether steps are the days of the week that have rows.
        decimal: the decimal mark of a text file; None: detected.
        ordered: whether to look for a time; sites of a graph must stay in the order that edges refer to.
        covariates: names of known quantities of every step.
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
    covariates: tuple[str, ...] = ()
    weekdays: bool = False

    def only(self, *roles: str, otherwise: str) -> Columns:
        """The same, once no role but these was given: `otherwise` ends the refusal of others."""
        for one in fields(self):
            if one.name not in roles and getattr(self, one.name) != one.default:
                raise ValueError(f"--{FLAGS.get(one.name, one.name)} {otherwise}")
        return self

    @property
    def named(self) -> list[str]:
        """All columns that were given a role."""
        given = (self.time, self.group, *(self.modelled or ()), *self.covariates)
        return [name for name in given if name is not None]


@dataclass(frozen=True, eq=False)
class Reading:
    """Data from a file.

    Attributes:
        data: the sequences.
        table: the rows as read, in order.
        notes: sentences on what was done.
    """

    data: Sequences
    table: pd.DataFrame
    notes: list[str] = field(default_factory=list)


def read_file(path: str | Path, columns: Columns | None = None) -> Reading:
    """Read a table as sequences."""
    columns, notes = columns or Columns(), list[str]()
    # Groups are names: 01 and 1 are two of them.
    table = read_table(path, columns.decimal, texts=() if columns.group is None else (columns.group,))
    if "decimal" in table.attrs:
        notes.append("numbers are read with decimal commas")
    if "group" in table.attrs and columns.group is None:
        columns = replace(columns, group=table.attrs["group"])
    table = _without_index(table, columns, notes)
    if table.empty:
        raise ValueError(f"{Path(path).name} must have rows, got none")
    table = _with_periods(table, columns, notes)
    for name in columns.named:
        if columns.named.count(name) > 1:
            raise ValueError(f"column '{name}' is named twice; it can have only one role")
        if name not in table.columns:
            raise ValueError(f"'{name}' is not a column; columns are {listed(table.columns)}")
    time = columns.time or (_time_column(table, columns, notes) if columns.ordered else None)
    for name in table.columns.drop(columns.group or []):
        if table[name].dtype.kind == "b":  # inserted rows would turn bools into objects
            table[name] = table[name].astype(float)
    parts: dict[Any, pd.DataFrame] = {None: table}
    if columns.group is not None:
        parts = split_groups(table, columns.group)
        notes.append(f"{counted(len(parts), 'sequence')} by '{columns.group}'")
    times, chosen, zoned = None, pd.Series(True, table.index), False
    if time is not None:  # all at once: of a few dates the format cannot be told
        groups = None if columns.group is None else table[columns.group]
        times = as_times(table[time], f"'{time}'", groups)
        zoned = has_zones(table[time])
        if zoned:
            notes.append(f"times of '{time}' are shown in UTC")
        order = day_first(table[time], times)
        chosen[:] = between(times, columns.first, columns.last, order, zoned)
    elif columns.first is not None or columns.last is not None:
        raise ValueError("--from and --to need a column of times; name it with --time")
    parts = {name: part[chosen[part.index]] for name, part in parts.items() if chosen[part.index].any()}
    ordered = {name: _in_time(part, times, columns, notes) for name, part in parts.items()}
    inserted = [count for _, count in ordered.values() if count]
    if inserted:
        steps = counted(sum(inserted), "missing step")
        where = f" (in {len(inserted)} sequences)" if len(inserted) > 1 else ""
        notes.append(f"inserted {steps} to make '{time}' regular{where}")
        if columns.group is None and times is not None and not columns.weekdays:
            notes += rhythm_hint(times, sum(inserted))
    if columns.group is None and times is not None and not columns.gaps:
        notes += closed_hint(times)
    parts = {name: part for name, (part, _) in ordered.items() if len(part)}
    if not parts:
        bounds = {"from": columns.first, "up to": columns.last}
        asked = " ".join(f"{word} {bound}" for word, bound in bounds.items() if bound is not None)
        ends = f"{times.min()} to {times.max()}" if times is not None else "none"
        raise ValueError(f"no row has a '{time}' {asked}; the file has {ends}")
    whole = pd.concat(list(parts.values()), ignore_index=True)
    known = list(columns.covariates)
    if known and inserted:
        raise ValueError(
            f"steps that make '{time}' regular were inserted, where {listed(known)} is not known; add "
            "these rows to the file, or use --no-gaps"
        )
    used = _modelled(whole.drop(columns=known), columns, time, notes)
    if columns.ordered:
        roles = [*columns.named, time, *used]
        apart = [str(name) for name in table.columns if name not in roles]
        unnamed = used if columns.modelled is None else []
        notes += hints(table, unnamed, apart, columns.group is not None)
    kept = {name: part[used + known] for name, part in parts.items()}
    if zoned:  # so that what comes beside them later is compared as moments, too
        kept = {name: part.tz_localize("UTC") for name, part in kept.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GapsWarning)  # gaps are closed where that was asked for
        data = sequences(
            list(kept.values()) if columns.group is None else kept,
            missing=columns.missing,
            covariates=known or None,
        )
    return Reading(data, whole, list(dict.fromkeys(notes)))


def _with_periods(table: pd.DataFrame, columns: Columns, notes: list[str]) -> pd.DataFrame:
    """The table, with days or weeks to group by if these were asked for and no column is called so."""
    if columns.group not in PERIODS or columns.group in table.columns:
        return table
    time = columns.time or _time_column(table, replace(columns, group=None), [])
    if time is None or time not in table.columns:
        raise ValueError(
            f"'{columns.group}' is not a column, and without a column of times (--time) there is no "
            f"{columns.group} to group by; columns are {listed(table.columns)}"
        )
    return with_periods(table, columns.group, as_times(table[time], f"'{time}'"))


def _without_index(table: pd.DataFrame, columns: Columns, notes: list[str]) -> pd.DataFrame:
    """The table without columns that only number the rows, unless it has no others."""
    extra = [
        name
        for name in table.columns
        if (name.lower() in _INDEX or name.startswith("Unnamed: "))
        and name not in columns.named
        and _numbers_rows(table[name])
    ]
    if not extra or len(extra) == table.shape[1]:
        return table
    notes.append(f"left out, only row numbers: {listed(name or '(no name)' for name in extra)}")
    return table.drop(columns=extra)


def _numbers_rows(column: pd.Series) -> bool:
    """Whether a column is empty, or holds integers that increase from row to row."""
    if column.isna().all():
        return True
    return column.dtype.kind in "iu" and bool((np.diff(column.to_numpy()) > 0).all())


def _time_column(table: pd.DataFrame, columns: Columns, notes: list[str]) -> str | None:
    """The one column of dates, or else of numbers that is named like a time and increases within each
    sequence."""
    free = [name for name in table.columns if name not in columns.named]
    times = [name for name in free if looks_like_dates(table[name])]
    times = times or [name for name in free if name.lower() in TIMES and _rises(table, name, columns)]
    if len(times) != 1 or (len(free) == 1 and not columns.modelled):
        return None
    notes.append(f"'{times[0]}' is read as the time of each row")
    return str(times[0])


def _rises(table: pd.DataFrame, name: str, columns: Columns) -> bool:
    if table[name].dtype.kind not in "iuf":
        return False
    parts = [table] if columns.group is None else [part for _, part in table.groupby(columns.group)]
    return all((np.diff(part[name].to_numpy(float)) > 0).all() for part in parts)


def _in_time(
    part: pd.DataFrame, times: pd.Series | None, columns: Columns, notes: list[str]
) -> tuple[pd.DataFrame, int]:
    """The rows of one sequence sorted by their times, which become their index, with missing rows
    inserted in the gaps of a regular time; and how many were inserted. `times` are those of all rows."""
    if times is None:
        if columns.weekdays:
            raise ValueError("steps that are weekdays need a column of dates; name it with --time")
        return part, 0
    time, times = str(times.name), times.loc[part.index]
    hint = "Name the column of groups with --group if there are several sequences"
    order = order_in_time(times, pd.Index(times), f"'{time}'", hint)
    if (np.diff(order) < 0).any():
        notes.append(f"rows were sorted by '{time}'")
    part, times = part.iloc[order], times.iloc[order]
    part = part.set_index(pd.Index(times, name=time))
    if columns.weekdays:
        return _inserted(part, _weekdays(times), time)
    return _filled(part, times, time, notes) if columns.gaps and len(part) > 2 else (part, 0)


def _weekdays(times: pd.Series) -> TimeGrid:
    grid = weekday_grid(times) if times.dtype.kind == "M" else None
    if grid is None:
        raise ValueError(
            f"steps that are weekdays need a date in each row of '{times.name}', one row a day and "
            f"sequence, got '{times.iloc[0]}' and '{times.iloc[min(1, len(times) - 1)]}'"
        )
    return grid


def _filled(
    part: pd.DataFrame, times: pd.Series, time: str, notes: list[str]
) -> tuple[pd.DataFrame, int]:
    if _is_code(times):
        notes.append(
            f"'{time}' looks like dates without separators (201512): rows are taken as consecutive "
            "steps; write 2015-12 or 2015-12-31 to have gaps detected"
        )
        return part, 0
    grid = regular_grid(times)
    if grid is None:
        notes.append(f"'{time}' is not regularly spaced: rows are taken as consecutive steps")
        return part, 0
    return _inserted(part, grid, time)


def _inserted(part: pd.DataFrame, grid: TimeGrid, time: str) -> tuple[pd.DataFrame, int]:
    """The rows with missing ones between them, and the number of these."""
    count = int(grid.places[-1]) + 1
    lacking = count - len(part)
    if not lacking:
        return part, 0
    if lacking > _MOST_INSERTED * len(part) or count > _MOST_ROWS:
        raise ValueError(
            f"'{time}' has {lacking:,} steps without a row and {len(part):,} with one, too many to be "
            "gaps; pass --no-gaps to take rows as consecutive steps"
        )
    whole = part.set_index(pd.Index(grid.places)).reindex(np.arange(count))
    return whole.set_index(grid.times().rename(time)), lacking


def _is_code(times: pd.Series) -> bool:
    """Whether numbers are dates: year and month or week (201601 follows 201512), or year, month, day."""
    if times.dtype.kind not in "iuf" or (times != np.floor(times)).any():
        return False
    months = times.between(190001, 210053) & (times % 100).between(1, 53)
    days = times.between(19000101, 21001231) & (times % 100).between(1, 31)
    days &= (times // 100 % 100).between(1, 12)
    return bool(months.all() or days.all())


def _modelled(table: pd.DataFrame, columns: Columns, time: str | None, notes: list[str]) -> list[str]:
    """The columns to model."""
    if columns.modelled is not None:
        for name in columns.modelled:
            if table[name].dtype.kind not in "biuf":
                raise ValueError(
                    f"column '{name}' must hold numbers, got {_example(table[name], columns.decimal)}"
                )
        return list(columns.modelled)
    others = [name for name in table.columns if name not in (time, columns.group)]
    numeric = [name for name in others if table[name].dtype.kind in "biuf"]
    if not numeric:
        got = "none"
        if others:
            got = f"'{others[0]}' with {_example(table[others[0]], columns.decimal)}"
        raise ValueError(f"the file must have a column of numbers, got {got}")
    if len(numeric) < len(others):
        notes.append(f"left out, not numbers: {listed(n for n in others if n not in numeric)}")
    varying = [name for name in numeric if not _is_constant(table[name])]
    if varying and len(varying) < len(numeric):
        constant = listed(name for name in numeric if name not in varying)
        notes.append(f"left out, always the same: {constant}; name it with --columns to keep it")
    notes.append(f"modelled: {listed(varying or numeric)}")
    return varying or numeric


def _is_constant(column: pd.Series) -> bool:
    seen = column.dropna().to_numpy()
    return seen.size == 0 or bool((seen == seen[0]).all())


def _example(column: pd.Series, decimal: str | None) -> str:
    """A cell that is not a number, for messages."""
    cells = column.dropna()
    bad = cells[as_numbers(cells).isna()]
    if bad.empty and decimal is not None:
        return f"{cells.iloc[0]!r} in row {cells.index[0]} with --decimal {decimal}"
    if bad.empty:
        return f"{column.dtype}"
    comma = re.fullmatch(r"-?\d+,\d+", str(bad.iloc[0]).strip())
    hint = "; if that is a decimal comma, pass --decimal ," if comma else ""
    return f"{bad.iloc[0]!r} in row {bad.index[0]}{hint}"
