"""Words and tags from JSON: an object a line, or a list of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fitonce.core.wording import listed
from fitonce.data.tagged import TAG, WORD, Tagged, TokenColumns, numbered, read_lines


def read_json_lines(path: Path, asked: TokenColumns) -> Tagged:
    """Lists of tokens and of tags in each object."""
    if asked.sentence is not None:
        raise ValueError("sentence (--group) is for tables: each line of JSON is a sentence")
    words, tags, attributes, has_words = [], [], [], True
    for where, record in _records(path, asked.encoding):
        if not isinstance(record, dict):
            raise ValueError(f"{where}: expected an object, got {type(record).__name__}")
        tokens, labels, named = _sentence(record, asked, where)
        if tokens:
            has_words = has_words and named
            words.append(tokens)
            tags.append([_tag(label, where) for label in labels])
            attributes.append(_attributes(record, asked, len(tokens), where))
    return Tagged(words, tags, attributes if asked.columns else None, has_words)


def _sentence(
    record: dict[str, Any], asked: TokenColumns, where: str
) -> tuple[list[str], list[Any], bool]:
    """Tokens and tags of an object, and whether the tokens are words."""
    key = _key(asked.tag, TAG, record, where, "tags")
    labels = _list(record, key, where)
    if asked.word is None and asked.columns and not any(name.lower() in WORD for name in record):
        return numbered([labels])[0], labels, False
    tokens = _list(record, _key(asked.word, WORD, record, where, "tokens"), where)
    _require_as_many(labels, key, len(tokens), where)
    for token in tokens:
        if not isinstance(token, str) or not token.strip():
            raise ValueError(f"{where}: tokens must be text, got {token!r:.40}")
    return tokens, labels, True


def _attributes(record: dict[str, Any], asked: TokenColumns, count: int, where: str) -> list[Any]:
    columns = {str(name): _list(record, str(name), where) for name in asked.columns}
    for name, column in columns.items():
        _require_as_many(column, name, count, where)
    return [_merged({name: column[k] for name, column in columns.items()}) for k in range(count)]


def _require_as_many(column: list[Any], key: str, count: int, where: str) -> None:
    if len(column) != count:
        raise ValueError(f"{where}: expected as many {key} as tokens, {count}, got {len(column)}")


def _records(path: Path, encoding: str) -> list[tuple[str, Any]]:
    """The objects of a file, each with where it is."""
    lines = read_lines(path, encoding)
    text = "\n".join(lines)
    if text.lstrip().startswith("["):
        try:
            return [(f"{path.name}, entry {k}", each) for k, each in enumerate(json.loads(text))]
        except ValueError as error:
            raise ValueError(f"{path.name} is not JSON: {error}") from None
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append((f"{path.name}, line {number}", json.loads(line)))
            except ValueError as error:
                raise ValueError(f"{path.name}, line {number} is not JSON: {error}") from None
    return found


def _key(
    asked: str | int | None, usual: Sequence[str], record: dict[str, Any], where: str, what: str
) -> str:
    if asked is not None and str(asked) in record:
        return str(asked)
    lower = {key.lower(): key for key in record}
    plural = sorted(usual, key=lambda name: not name.endswith("s"))  # lists are named in the plural
    found = next((lower[name] for name in plural if name in lower), None) if asked is None else None
    if found is None:
        wanted = f"'{asked}'" if asked is not None else f"such as '{what}'"
        raise ValueError(f"{where}: expected a list of {what}, {wanted}, got {listed(record)}")
    return found


def _list(record: dict[str, Any], key: str, where: str) -> list[Any]:
    found = record.get(key)
    if not isinstance(found, list):
        got = "nothing" if found is None else type(found).__name__
        raise ValueError(f"{where}: expected a list in '{key}', got {got}")
    return found


def _tag(label: Any, where: str) -> str | None:
    if label is None or label == "":
        return None
    if not isinstance(label, (str, int)) or isinstance(label, bool):
        raise ValueError(f"{where}: tags must be text, numbers or null, got {label!r:.40}")
    return str(label)


def _merged(values: dict[str, Any]) -> Any:
    """Values of one token by column; a single column of dicts or lists is taken as its attributes."""
    if len(values) == 1:
        (only,) = values.values()
        if isinstance(only, (dict, list)):
            return only
    return {name: value for name, value in values.items() if value is not None}
