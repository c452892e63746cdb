"""Words and tags from files: CoNLL columns, tables with a token a row, JSON lines, files of CRFsuite."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from fitonce.core.arguments import require, shown
from fitonce.core.writing import existing
from fitonce.data.conll import read_conll
from fitonce.data.tagged import Tagged, TokenColumns, check_scheme, require_columns, to_iob2
from fitonce.data.tagged_crfsuite import read_crfsuite
from fitonce.data.tagged_json import read_json_lines
from fitonce.data.tagged_tables import read_table_of_tokens

ENDINGS = {
    "conll": (".conll", ".iob2", ".bio", ".iob", ".conllu"),
    "csv": (".csv", ".tsv", ".parquet"),
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "crfsuite": (".crfsuite",),
}


def read_tagged(
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002
    *,
    word: str | int | None = None,
    tag: str | int | None = None,
    sentence: str | None = None,
    columns: Sequence[str | int] = (),
    scheme: str = "auto",
    encoding: str = "utf-8",
) -> Tagged:
    """Read words and tags from a file.

    Args:
        path: of the file.
        format: "conll" (a word a line, an empty line between sentences), "csv" (a table with one token a
            row, with names of columns above; also .tsv and .parquet), "jsonl" (an object a line with a
            list of tokens and one of tags), "crfsuite" (a tag and its attributes a line, between tabs);
            None: by the ending of the file.
        word, tag: their columns: names, or numbers in CoNLL files; None: those that are usual, such as
            `word` or `token` and `tag` or `label`. A table without words needs `columns`.
        sentence: of tables, the column that tells sentences apart, which may be filled in the first row
            of each only; None: a usual one, such as `sentence_id`, or else empty lines.
        columns: further columns, kept as attributes; in JSON lines, lists of values of the tokens.
        scheme: as in `read_conll`.
        encoding: of text files.
    """
    check_scheme(scheme)
    require_columns(word, tag, sentence, columns)
    known = format is None or (isinstance(format, str) and format in ENDINGS)
    require(known, "format", f"one of {', '.join(ENDINGS)}", format)
    path = existing(path, "a file of words and tags")
    asked = TokenColumns(word, tag, sentence, tuple(columns), encoding)
    found = _READERS[format_of(path, format)](path, asked)
    if not found.words:
        raise ValueError(f"{path.name} holds no sentences")
    tags = found.tags if scheme == "iob2" else list(map(to_iob2, found.tags))
    return Tagged(found.words, tags, found.attributes, found.has_words)


def format_of(path: Path, format: str | None) -> str:  # noqa: A002
    """By name, or by the ending of a file."""
    if format is not None:
        if format not in ENDINGS:
            raise ValueError(f"format must be one of {', '.join(ENDINGS)}, got {format!r}")
        return format
    for name, endings in ENDINGS.items():
        if path.suffix.lower() in endings:
            return name
    known = ", ".join(ending for endings in ENDINGS.values() for ending in endings)
    raise ValueError(
        f"words and tags are read from files that end in {known}, got {path.name}; name its format, one "
        f"of {', '.join(ENDINGS)}"
    )


def _conll(path: Path, asked: TokenColumns) -> Tagged:
    if asked.sentence is not None:
        raise ValueError("sentence (--group) is for tables: empty lines separate those of CoNLL files")
    word, tag, *more = (_number(each) for each in (asked.word, asked.tag, *asked.columns))
    last = -1 if tag is None else tag
    kept = [k for k in more if k is not None]
    return read_conll(path, word=word, tag=last, columns=kept, scheme="iob2", encoding=asked.encoding)


def _number(column: str | int | None) -> int | None:
    if column is None or isinstance(column, int):
        return column
    try:
        return int(column)
    except ValueError:
        raise ValueError(
            f"word, tag, columns: columns of CoNLL files have numbers, from 0, got {shown(column)}"
        ) from None


_READERS: dict[str, Callable[[Path, TokenColumns], Tagged]] = {
    "conll": _conll,
    "csv": read_table_of_tokens,
    "jsonl": read_json_lines,
    "crfsuite": read_crfsuite,
}
