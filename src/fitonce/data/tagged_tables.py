"""Words and tags from tables with one token a row."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from fitonce.core.wording import counted, listed
from fitonce.data.table_files import read_table, separator_of
from fitonce.data.tagged import TAG, WORD, Tagged, TokenColumns, numbered, read_lines

_SENTENCE = ("sentence", "sentence #", "sentence_id", "sent_id", "sent", "sentence_number",
             "sequence", "sequence_id", "seq_id")  # fmt: skip


def read_table_of_tokens(path: Path, asked: TokenColumns) -> Tagged:
    """A row for each token, with names of columns above."""
    if path.suffix.lower() == ".parquet":
        table = read_table(path)
        names, rows = list(table.columns), [[_cell(v) for v in row] for row in table.to_numpy(object)]
    else:
        names, rows = _text_table(path, asked.encoding)
    place = {name: k for k, name in enumerate(names)}
    tag = _column(asked.tag, TAG, place, "tag", path)
    if tag is None:
        raise ValueError(
            f"{path.name} must have a column of tags, such as 'tag' or 'label', got {listed(names)}; "
            "name it (tag, --tag-column)"
        )
    sentence = _column(asked.sentence, _SENTENCE, place, "sentence", path)
    word = _column(asked.word, WORD, place, "word", path)
    more = [_column(name, (), place, "columns", path) for name in asked.columns]
    if word is None and not more:
        raise ValueError(
            f"{path.name} must have a column of words, such as 'word' or 'token', or columns of "
            f"features, got {listed(names)}; name it (word, --word-column; columns, --columns)"
        )
    parts = _split(rows, sentence, path)
    tags = [[row[tag] or None for row in part] for part in parts]
    words = numbered(tags)
    if word is not None:
        words = [[row[word] for row in part] for part in parts]
        for number, part in enumerate(words):
            if "" in part:
                raise ValueError(f"{path.name}: sentence {number} has a row without a word")
    attributes = _attributes(parts, {names[k]: k for k in more if k is not None}) if more else None
    return Tagged(words, tags, attributes, word is not None)


def _attributes(parts: list[list[list[str]]], columns: dict[str, int]) -> list[list[Any]]:
    """Cells by name: numbers where a column has only numbers, else text. Empty cells are left out."""
    read: dict[str, Callable[[str], Any]] = {
        name: float if _are_numbers(row[k] for part in parts for row in part) else str
        for name, k in columns.items()
    }
    return [
        [{name: read[name](row[k]) for name, k in columns.items() if row[k]} for row in part]
        for part in parts
    ]


def _cell(value: Any) -> str:
    return "" if value is None or value != value else str(value)


def _text_table(path: Path, encoding: str) -> tuple[list[str], list[list[str]]]:
    """Names of columns and rows of cells; an empty line is a row without cells."""
    lines = read_lines(path, encoding)
    first = next((line for line in lines if line.strip()), "")
    if not first:
        raise ValueError(f"{path.name} must not be empty")
    separator = separator_of(first)
    if separator == "\t":  # where " may be a word
        read: Iterable[list[str]] = ([_unquoted(c) for c in line.split("\t")] for line in lines)
    else:
        read = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    try:
        found = [[cell.strip() for cell in row] for row in read]
    except csv.Error as error:
        raise ValueError(f"{path.name} is not a table that can be read: {error}") from None
    start = next(k for k, row in enumerate(found) if any(row))
    names = found[start]
    twice = [name for k, name in enumerate(names) if name in names[:k]]
    if twice:
        raise ValueError(f"{path.name} has two columns named '{twice[0]}'")
    rows = [row if any(row) else [] for row in found[start + 1 :]]
    for number, row in enumerate(rows, start + 2):
        if row and len(row) != len(names):
            raise ValueError(
                f"{path.name}, row {number}: expected {counted(len(names), 'cell')}, as the first line "
                f"has names, got {len(row)}"
            )
    return names, rows


def _unquoted(cell: str) -> str:
    cell = cell.strip()
    quoted = len(cell) > 2 and cell[0] == cell[-1] == '"'
    return cell[1:-1].replace('""', '"') if quoted else cell


def _column(
    asked: str | int | None, usual: Sequence[str], place: dict[str, int], role: str, path: Path
) -> int | None:
    """The number of a column that was asked for, or that has a usual name; None: there is none."""
    if asked is not None:
        if asked not in place:
            raise ValueError(
                f"{path.name} has no column '{asked}' ({role}); columns are {listed(place)}"
            )
        return place[str(asked)]
    lower = {name.lower(): k for name, k in place.items()}
    return next((lower[name] for name in usual if name in lower), None)


def _split(rows: list[list[str]], sentence: int | None, path: Path) -> list[list[list[str]]]:
    """Rows by sentence: by a column, whose empty cells go on with the one above, or by empty lines."""
    parts: list[list[list[str]]] = [[]]
    if sentence is None:
        for row in rows:
            if row:
                parts[-1].append(row)
            else:
                parts.append([])
        found = [part for part in parts if part]
        if len(found) == 1 and len(found[0]) > 1:
            raise ValueError(
                f"{path.name} has no empty lines and no column that tells sentences apart, such as "
                "'sentence_id'; name it (sentence, --group)"
            )
        return found
    seen: set[str] = set()
    now = ""
    for number, row in enumerate(rows, 2):
        if not row:
            continue
        name = row[sentence] or now
        if name != now:
            if name in seen:
                raise ValueError(
                    f"{path.name}, row {number}: sentence '{name}' begins again; rows of a sentence "
                    "must follow each other"
                )
            seen.add(name)
            parts.append([])
        parts[-1].append(row)
        now = name
    if parts[0]:
        raise ValueError(f"{path.name}: the first row names no sentence")
    return parts[1:]


def _are_numbers(cells: Iterable[str]) -> bool:
    try:
        return all(float(cell) == float(cell) for cell in cells if cell)
    except ValueError:
        return False
