"""Tables from files, by extension: CSV, TSV, Parquet, NPZ."""

from __future__ import annotations

import csv
import io
import itertools
import os
import re
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

TABLES = (".csv", ".tsv", ".txt", ".parquet", ".npz", ".npy")
BY_LENGTHS = "sequence"  # the column that an array of lengths becomes
TEXTS = (".csv", ".tsv", ".txt")  # have a decimal mark
_QUOTED = r'(?:(?<=[,;\t])|\A) *"(?:[^"]|"")*"'  # a cell, which may hold separators and ends of lines
_FIRST_LINE = re.compile(rf"(?:{_QUOTED}|[^\n])*")
_YEAR = re.compile(r"(?:1[5-9]|20|21)\d\d")


def read_table(
    path: str | Path,
    decimal: str | None = None,
    names_first: bool | None = None,
    texts: Collection[str] = (),
) -> pd.DataFrame:
    """A table from a file, by its extension.

    Args:
        path: the file.
        decimal: the decimal mark of a text file; None: a comma if columns hold such numbers and another
            character separates them; "decimal" is then set in the table's `attrs`.
        names_first: whether the first line of a text file names the columns; None: unless it holds
            only numbers that are no row of years.
        texts: columns of a text file that are read as they are written, with zeros before numbers.
    """
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
    require_decimal_mark(path, decimal)
    if ending == ".parquet":
        return _parquet(path)
    if ending in (".npz", ".npy"):
        return _arrays(path)
    return _text(path, ending, decimal, names_first, texts)


def require_decimal_mark(path: Any, decimal: str | None) -> None:
    """Raise where a decimal mark is given for a file whose numbers are not text."""
    if decimal is not None and not is_text(path):
        called = Path(path).name if isinstance(path, (str, os.PathLike)) else "the map"
        raise ValueError(f"decimal is for text files ({', '.join(TEXTS)}), got '{decimal}' for {called}")


def decimal_of(path: Any, other: Any, decimal: str | None) -> str | None:
    """The decimal mark of one of two files that are read together: that of text files among them."""
    return None if is_text(other) and not is_text(path) else decimal


def is_text(path: Any) -> bool:
    """Whether it names a text file of numbers."""
    return isinstance(path, (str, os.PathLike)) and Path(path).suffix.lower() in TEXTS


def separator_of(line: str) -> str:
    """Of the cells of a line: a tab, a semicolon or a comma, outside of quotes."""
    plain = re.sub(_QUOTED, "", line)
    return next((mark for mark in "\t;" if mark in plain), ",")


def _text(
    path: Path, ending: str, decimal: str | None, names_first: bool | None, texts: Collection[str]
) -> pd.DataFrame:
    try:
        with path.open(encoding="utf-8-sig") as file:
            head = file.read(65_536)
            if len(head) == 65_536:  # the line that it was cut in
                head += file.readline()
            while not head.strip() and (more := file.readline()):
                head = more
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} must be UTF-8 text, but byte {error.start} is not") from None
    starts_empty = not head.split("\n")[0].strip()
    if "\0" in head:
        raise ValueError(f"{path.name} must be text, but has zero bytes")
    begun = re.sub(r"\A(?:\s*\n)+", "", head.replace("\r\n", "\n").replace("\r", "\n"))
    first = _FIRST_LINE.match(begun)
    separator = "\t" if ending == ".tsv" or first is None else separator_of(first[0])
    cells, below = _first_rows(path, begun, separator)
    marks = [decimal] if decimal else [".", *([","] if separator != "," else [])]
    if names_first is None:
        numbers = any(_all_numbers(cells, mark) for mark in marks)
        names_first = not numbers or (_are_years(cells) and bool(below) and not _are_years(below))
    twice = [cell for place, cell in enumerate(cells) if cell and cell in cells[:place]]
    if names_first and twice:
        raise ValueError(f"{path.name} has two columns named '{twice[0]}'")
    options: dict[str, Any] = {
        "sep": separator,
        "header": 0 if names_first else None,
        "encoding": "utf-8-sig",
        "skipinitialspace": True,
        "index_col": False,
        "skip_blank_lines": starts_empty,
    }
    if texts:
        called = cells if names_first else [f"x{place}" for place in range(len(cells))]
        options["converters"] = {place: str.strip for place, name in enumerate(called) if name in texts}
    table = _parsed(path, decimal=marks[0], **options)
    columns = [table[name] for name in table.columns]
    fractions = any(c.dtype.kind == "f" and (c.dropna() % 1 != 0).any() for c in columns)
    if len(marks) > 1 and not fractions and any(map(_has_commas, columns)):
        table = _parsed(path, decimal=",", **options)
        table.attrs["decimal"] = ","
    for _ in range(0 if starts_empty else _empty_lines_at_end(path)):  # which are not rows
        if len(table) and table.iloc[-1].isna().all():
            table = table.iloc[:-1]
    if not names_first:
        table.columns = [f"x{k}" for k in range(table.shape[1])]
    table.columns = [str(name).strip() for name in table.columns]
    return table


def _first_rows(path: Path, text: str, separator: str) -> list[list[str]]:
    """The cells of the first two rows that have some."""
    rows = csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=True)
    try:
        found = list(itertools.islice((row for row in rows if any(map(str.strip, row))), 2))
    except csv.Error as error:
        raise ValueError(f"{path.name} is not a table that can be read: {error}") from None
    return [[cell.strip() for cell in row] for row in (*found, [], [])[:2]]


def _are_years(cells: list[str]) -> bool:
    """Whether cells, but for an empty first one, are years that rise or fall: no numbers but names."""
    named = cells[1:] if cells and not cells[0] else cells
    if len(named) < 2 or not all(map(_YEAR.fullmatch, named)):
        return False
    years = [int(year) for year in named]
    return len(set(years)) == len(years) and years in (sorted(years), sorted(years, reverse=True))


def _empty_lines_at_end(path: Path) -> int:
    """How many lines after the last one with something in it have nothing but spaces."""
    found, block = b"", 65_536
    with path.open("rb") as file:
        left = file.seek(0, os.SEEK_END)
        while left and not found.strip(b" \r\n"):
            start = max(left - block, 0)
            file.seek(start)
            found, left = file.read(left - start) + found, start
    blank = found[len(found.rstrip(b" \r\n")) :]
    lines = blank.replace(b"\r\n", b"\n").split(b"\n")
    return max(len(lines) - 1 - (not lines[-1]), 0)


def _parsed(path: Path, **options: Any) -> pd.DataFrame:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
            table = pd.read_csv(path, **options)
            for place in options.get("converters", ()):
                text = table.iloc[:, place]
                table.isetitem(place, text.mask(text == ""))
            return table
    except pd.errors.ParserWarning:
        raise ValueError(f"{path.name} has rows with more cells than its first line has names") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError, csv.Error) as error:
        reason = str(error).strip().splitlines()[-1]
        raise ValueError(f"{path.name} is not a table that can be read: {reason}") from None


def _has_commas(column: pd.Series) -> bool:
    """Whether a column holds numbers with decimal commas; 1,234 alone could be more than a thousand."""
    if column.dtype.kind in "biufM":
        return False
    cells = column.dropna().astype(str).str.strip()
    return bool(
        len(cells)
        and cells.str.fullmatch(r"[+-]?\d*(,\d+)?([eE][+-]?\d+)?").all()
        and cells.str.contains(r",(?:\d{1,2}|\d{4,})(?!\d)|^[+-]?0?,\d").any()
    )


def _all_numbers(cells: list[str], decimal: str) -> bool:
    for cell in cells:
        try:
            float(cell.replace(decimal, ".") or "nan")
        except ValueError:
            return False
    return True


def _parquet(path: Path) -> pd.DataFrame:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise ValueError("Parquet files need pyarrow: pip install 'fitonce[parquet]'") from None
    try:
        table = pd.read_parquet(path)
    except Exception as error:  # pyarrow raises many types
        raise ValueError(f"{path.name} is not a Parquet file that can be read: {error}") from None
    table.columns = [str(name) for name in table.columns]
    named = any(name is not None for name in table.index.names)
    if not named and table.index.dtype.kind in "iuf":  # only row numbers
        return table.reset_index(drop=True)
    both = [str(name) for name in table.index.names if str(name) in table.columns]
    if both:
        raise ValueError(f"{path.name} has two columns named '{both[0]}', one of them its index")
    return table.reset_index().rename(columns=str)


def _arrays(path: Path) -> pd.DataFrame:
    """One column for each array, or for each column of a matrix."""
    try:
        with path.open("rb") as file:
            content = np.load(file, allow_pickle=False)
            arrays = dict(content) if hasattr(content, "files") else {"x": content}
    except Exception as error:  # numpy, zipfile and the parser of headers raise many types
        raise ValueError(f"{path.name} is not an array file that can be read: {error}") from None
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise ValueError(f"{path.name} is not an array file that can be read: a member is not an array")
    sequences = _by_lengths(arrays)
    columns: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if array.ndim not in (1, 2):
            raise ValueError(f"array '{name}' must have one or two axes, got shape {array.shape}")
        parts = {name: array} if array.ndim == 1 else {f"{name}{k}": c for k, c in enumerate(array.T)}
        both = columns.keys() & parts.keys()
        if both:
            raise ValueError(f"{path.name} has two columns named '{min(both)}'")
        columns |= parts
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"all arrays of {path.name} must have the same length, got {lengths}")
    table = pd.DataFrame(columns)
    if sequences is not None:
        table.insert(0, BY_LENGTHS, sequences)
        table.attrs["group"] = BY_LENGTHS
    return table


def _by_lengths(arrays: dict[str, np.ndarray]) -> np.ndarray | None:
    """Which sequence each row belongs to, where an array `lengths` says how many rows each has, as
    hmmlearn takes them; it is then taken out of the arrays. None: there is no such array."""
    given = arrays.get("lengths")
    others = {len(array) for name, array in arrays.items() if name != "lengths" and array.ndim}
    if given is None or given.ndim != 1 or given.dtype.kind not in "iu" or len(others) != 1:
        return None
    rows = others.pop()
    if BY_LENGTHS in arrays or (given < 1).any() or int(given.sum()) != rows or len(given) == rows:
        return None
    del arrays["lengths"]
    return np.repeat(np.arange(len(given)), given)
