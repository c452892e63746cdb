"""Tags and attributes from files of CRFsuite."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from fitonce.data.tagged import Tagged, TokenColumns, numbered, read_lines

# How attributes of CRFsuite usually name the word itself.
_WORD_ITSELF = re.compile(r"(?:w\[0\]|w|word|word\.lower|word\.lower\(\)|token|form)[=:](.+)", re.DOTALL)


def read_crfsuite(path: Path, asked: TokenColumns) -> Tagged:
    """A tag and its attributes a line, between tabs; an empty line after each sequence."""
    given = [name for name in ("word", "tag", "sentence", "columns") if getattr(asked, name)]
    if given:
        raise ValueError(f"{given[0]} is for files with columns: those of CRFsuite have attributes")
    parts: list[list[tuple[str, dict[str, float]]]] = [[]]
    for number, line in enumerate(read_lines(path, asked.encoding), 1):
        if not line.strip():
            parts.append([])
            continue
        label, *fields = line.rstrip("\r\n").split("\t")
        if not label.strip():
            raise ValueError(f"{path.name}, line {number}: expected a tag before the first tab")
        where = f"{path.name}, line {number}"
        if not fields and " " in label.strip():
            raise ValueError(f"{where}: expected a tag and attributes between tabs, got {line!r:.60}")
        item: dict[str, float] = {}
        for each in filter(None, fields):
            name, value = _attribute(each, where)
            item[name] = item.get(name, 0.0) + value
        parts[-1].append((label.strip(), item))
    parts = [part for part in parts if part]
    tags: list[list[Any]] = [[label for label, _ in part] for part in parts]
    attributes: list[list[Any]] = [[item for _, item in part] for part in parts]
    words = [[_word_of(item) for item in part] for part in attributes]
    has_words = all(word is not None for part in words for word in part)
    return Tagged(words if has_words else numbered(tags), tags, attributes, has_words)  # type: ignore[arg-type]


def _attribute(text: str, where: str) -> tuple[str, float]:
    r"""Name and value, after the first colon that no backslash stands before; \: and \\ are plain."""
    pieces = re.split(r"(?<!\\)((?:\\\\)*):", text, maxsplit=1)
    name = pieces[0] + (pieces[1] if len(pieces) > 1 else "")
    value = 1.0
    if len(pieces) > 1:
        try:
            value = float(pieces[2])
        except ValueError:
            raise ValueError(
                f"{where}: expected a number after the colon of an attribute (a colon in its name is "
                f"written \\:), got {text!r:.60}"
            ) from None
    return re.sub(r"\\([:\\])", r"\1", name), value


def _word_of(item: dict[str, float]) -> str | None:
    found = (_WORD_ITSELF.fullmatch(name) for name in item)
    return next((match[1] for match in found if match), None)
