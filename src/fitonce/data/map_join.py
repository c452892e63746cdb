"""Tables beside a map: rows chosen by a condition, and joined to the sites by names or codes."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from fitonce.core.wording import counted, listed
from fitonce.data.cells import as_numbers

_CONDITION = re.compile(r"\s*(.+?)\s*(==|!=|<=|>=|=|<|>)\s*(.+?)\s*")
_AND = re.compile(r"\s+and\s+|\s*,\s*", re.IGNORECASE)
# Shares of the sites that a column must find to join by it, of the same name or of another: counts and
# codes may have numbers in common by chance.
_ENOUGH = {True: 0.5, False: 0.9}


def conditions(text: str) -> list[tuple[str, str, str]]:
    """Column, comparison and value of each part of "year = 2018 and state = PA"."""
    found = [_CONDITION.fullmatch(part) for part in _AND.split(text.strip())]
    if not all(found):
        raise ValueError(f"where must be such as 'year = 2018', got '{text}'")
    return [(part[1], part[2], part[3].strip("'\"")) for part in found if part is not None]


def chosen(table: pd.DataFrame, column: str, sign: str, value: str) -> np.ndarray:
    """(rows,) whether the condition holds."""
    cells = table[column]
    if sign in ("=", "==", "!="):
        same = keys(cells) == key_of(value)
        return np.asarray(~same & cells.notna().to_numpy() if sign == "!=" else same)
    try:
        bound = float(value)
    except ValueError:
        raise ValueError(f"where compares '{column}' with a number, got '{value}'") from None
    numbers = as_numbers(cells).to_numpy(float)
    compare = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
    return compare[sign](numbers, bound)


def keys(cells: pd.Series) -> np.ndarray:
    """Cells as text in which whole numbers are written alike, with or without zeros before them."""
    if cells.dtype.kind == "f" and (cells.dropna() % 1 == 0).all():
        cells = cells.astype("Int64")
    return np.array([key_of(cell) for cell in cells.astype(object)], object)


def key_of(cell: object) -> str:
    """One of `keys`; nothing is the same as a cell that is empty."""
    if cell is None or cell is pd.NA or cell != cell:
        return ""
    text = str(cell).strip()
    return (text.lstrip("0") or "0") if text.isdigit() else text


def joined(sites: pd.DataFrame, table: pd.DataFrame, name: str) -> tuple[pd.DataFrame, list[str]]:
    """The sites' columns with those of the table, and notes.

    Columns to join by are found by their content: distinct in the map, and with the most sites in the
    table.
    """
    ours, theirs = _best_pair(sites, table, name)
    left, right = keys(sites[ours]), keys(table[theirs])
    place = {key: row for row, key in enumerate(left) if key}
    row_of = np.array([place.get(key, -1) for key in right])
    known = row_of >= 0
    times = np.bincount(row_of[known], minlength=len(sites))
    if times.max(initial=0) > 1:
        most = int(times.argmax())
        raise ValueError(
            f"{name} has {times[most]} rows for {theirs} {left[most]}, and a map has one for each site; "
            f"choose rows with where (--where){_example(table, theirs, right == left[most])}"
        )
    order = np.full(len(sites), -1)
    order[row_of[known]] = np.flatnonzero(known)
    added = table.drop(columns=theirs).take(np.maximum(order, 0)).reset_index(drop=True)
    found = order >= 0
    added = added.where(pd.Series(found), axis=0) if not found.all() else added
    both = [column for column in added.columns if column in sites.columns]
    notes = [f"{name} is joined by '{theirs}'" + (f" (here '{ours}')" if ours != theirs else "")]
    if not found.all():
        absent = [str(cell) for cell in sites[ours][~found]]
        notes.append(f"{listed(absent, 5)} of the map {_is(len(absent))} not in {name}: missing")
    if not known.all():
        strange = list(dict.fromkeys(str(cell) for cell in table[theirs][~known]))
        notes.append(f"{listed(strange, 5)} in {name} {_is(len(strange))} not on the map: left out")
    return pd.concat([sites.drop(columns=both), added], axis=1), notes


def _best_pair(sites: pd.DataFrame, table: pd.DataFrame, name: str) -> tuple[str, str]:
    """The columns of map and table that have the most in common; of equal ones, those of one name."""
    best, pair, most, nearest = (0.0, False), ("", ""), 0.0, ""
    theirs = {column: set(keys(table[column])) - {""} for column in _possible(table)}
    for ours in _possible(sites):
        own = keys(sites[ours])
        distinct = set(own) - {""}
        if len(distinct) < max(int(np.count_nonzero(own != "")), 2):
            continue  # not distinct
        for column, values in theirs.items():
            share, same = len(distinct & values) / len(sites), ours == column
            if share > most:
                absent = listed((cell for cell in own if cell not in values), 3)
                most, nearest = share, f" (by '{column}'; not there: {absent})"
            if share >= _ENOUGH[same] and (share, same) > best:
                best, pair = (share, same), (ours, column)
    if not pair[0]:
        raise ValueError(
            f"{name} must have a column with the names or codes of the sites; the most that a column "
            f"of the map finds there is {round(most * len(sites))} of {counted(len(sites), 'site')}"
            f"{nearest}"
        )
    return pair


def _possible(table: pd.DataFrame) -> list[str]:
    """Columns that may hold names or codes."""
    return [
        name for name in table.columns
        if table[name].dtype.kind not in "fbM" or (table[name].dropna() % 1 == 0).all()
    ]  # fmt: skip


def _example(table: pd.DataFrame, key: str, rows: np.ndarray) -> str:
    """A condition that would choose one of these rows."""
    for name in table.columns:
        cells = table.loc[rows, name]
        if name != key and cells.is_unique and table[name].nunique() < len(table) / 2:
            return f", such as '{name} = {cells.iloc[-1]}'"
    return ""


def _is(count: int) -> str:
    return "is" if count == 1 else "are"
