"""Sentences with a tag for each word, from files with one word per line (CoNLL columns)."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence

from fitonce.core.arguments import require, shown
from fitonce.core.numerics import is_count
from fitonce.core.writing import existing
from fitonce.data.tagged import Tagged, check_scheme, read_lines, require_columns, to_iob2

_DOCUMENT = "-DOCSTART-"
_NUMBER = re.compile(r"\d+([-.]\d+)?")  # the index of a word or of a range of words, as in CoNLL-U


def read_conll(
    path: str | os.PathLike[str],
    *,
    word: int | None = None,
    tag: int = -1,
    columns: Sequence[int] = (),
    scheme: str = "auto",
    encoding: str = "utf-8",
) -> Tagged:
    """Read a file of columns with one word per line and an empty line between sentences.

    `-DOCSTART-` lines and comments (lines that begin with # and have other columns than the rest) are
    skipped.

    Args:
        path: the file.
        word: the column of the words; None: the first, or the second if the first numbers the words.
        tag: the column of the tags; -1: the last.
        columns: further columns that are kept as attributes, such as parts of speech.
        scheme: "iob1" (B- only between adjacent entities of one type, as in CoNLL-2003), "iob2", or
            "auto": IOB1 if an entity begins with I-. Tags are returned in IOB2.
        encoding: of the file.
    """
    check_scheme(scheme)
    wanted = "the number of a column"
    require(word is None or is_count(word, -(2**31), 2**31), "word", f"{wanted} or None", word)
    require(is_count(tag, -(2**31), 2**31), "tag", wanted, tag)
    require_columns(word, tag, None, columns)
    require(all(not isinstance(one, str) for one in columns), "columns", "numbers of columns", columns)
    path = existing(path, "a file of words and tags")
    lines = read_lines(path, encoding)
    sentences = _sentences(lines, path.name)
    if not sentences:
        raise ValueError(f"{path.name} holds no sentences: expected lines of a word and a tag")
    if word is None:
        several = all(len(row) > 2 for row in sentences[0])
        word = int(several and all(map(_is_numbered, sentences[:100])))
    try:
        words = [[row[word] for row in sentence] for sentence in sentences]
        tags = [[row[tag] for row in sentence] for sentence in sentences]
        more = [[{f"column{k}": row[k] for k in columns} for row in sentence] for sentence in sentences]
    except IndexError:
        width, extra = len(sentences[0][0]), f", columns={list(columns)}" if columns else ""
        raise ValueError(
            f"{path.name} has lines of {width} columns, too few for word={word}, tag={tag}{extra}"
        ) from None
    tags = tags if scheme == "iob2" else list(map(to_iob2, tags))
    return Tagged(words, tags, more if columns else None)


def _sentences(lines: list[str], name: str) -> list[list[list[str]]]:
    sentences: list[list[list[str]]] = [[]]
    usual = _usual_shape(lines)
    for number, line in enumerate(lines, 1):
        columns = _columns(line)
        if not any(columns):
            sentences.append([])
        elif columns[0] == _DOCUMENT or (line.startswith("#") and _shape(line) != usual):
            continue
        elif len(columns) < 2 or not columns[-1]:
            raise ValueError(f"{name}, line {number}: expected a word and a tag, got {shown(line)}")
        elif len(columns) != usual[1]:
            raise ValueError(
                f"{name}, line {number}: expected {usual[1]} columns as in most lines, got {shown(line)}"
            )
        else:
            sentences[-1].append(columns)
    return [sentence for sentence in sentences if sentence]


def _columns(line: str) -> list[str]:
    return [column.strip() for column in (line.split("\t") if "\t" in line else line.split())]


def _shape(line: str) -> tuple[bool, int]:
    """Whether tabs separate the columns, and how many columns there are."""
    return "\t" in line, len(_columns(line))


def _usual_shape(lines: list[str]) -> tuple[bool, int]:
    """The shape of most lines that do not begin with #, which tells the word # from a comment."""
    words = [line for line in lines if any(_columns(line)) and not line.startswith(("#", _DOCUMENT))]
    shapes = Counter(map(_shape, words or [line for line in lines if "\t" in line]))
    return shapes.most_common(1)[0][0] if shapes else (False, 0)


def _is_numbered(sentence: list[list[str]]) -> bool:
    """Whether the first column counts the words, from 0 or 1, perhaps with ranges of words between."""
    first = [columns[0] for columns in sentence]
    counts = [int(text) for text in first if text.isdigit()]
    consecutive = counts in (list(range(len(counts))), list(range(1, len(counts) + 1)))
    return consecutive and bool(counts) and all(_NUMBER.fullmatch(text) for text in first)
