"""Tables from files, by their ending: CSV, TSV, Parquet, NPZ."""

from __future__ import annotations

import csv
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

TABLES = (".csv", ".tsv", ".txt", ".parquet", ".npz", ".npy")


def read_table(path: str | Path, decimal: str = ".") -> pd.DataFrame:
    """A table from a file, by its ending; `decimal` is the mark in the numbers of a text file."""
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
    return _text(path, ending, decimal)


def _text(path: Path, ending: str, decimal: str) -> pd.DataFrame:
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
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
            table = pd.read_csv(
                path, sep=separator, header=header, encoding="utf-8-sig", skipinitialspace=True,
                index_col=False, skip_blank_lines=not head.split("\n")[0].strip(), decimal=decimal,
            )  # fmt: skip
    except pd.errors.ParserWarning:
        raise ValueError(f"{path.name} has rows with more cells than its first line has names") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError, csv.Error) as error:
        reason = str(error).strip().splitlines()[-1]
        raise ValueError(f"{path.name} is not a table that can be read: {reason}") from None
    while len(table) and table.iloc[-1].isna().all() and head.endswith(("\n\n", "\r\n\r\n")):
        table = table.iloc[:-1]  # empty lines at the end are no steps
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
    return next((mark for mark in ("\t", ";") if mark in first), ",")


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
