"""Doubtful labels by kind of error: which tag was given where the model says which.

Most disagreements are of few kinds, such as names that the model has never seen. In one list by
probability, a rare confusion of two types, or an entity that nobody labelled, is far down; by kind it is
a line of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from fitonce.core.arguments import shown
from fitonce.results.labels.entities import are_chunks, kind_of

_WORDS = 8  # of a kind, that are shown
_PRINTED, _OF_GROUP = 16, 10  # kinds, and kinds of one of several groups
GROUPS = {
    "another type": "another type of entity",
    "entity dropped": "an entity where none was given (labelled O), perhaps dropped",
    "same type": "the same type, begun or ended elsewhere",
    "entity missed": "no entity where one was given",
    "another tag": "another tag",
}  # of kinds of errors, in their order, and what was predicted
_WIDTH = 88  # characters of words in a line


def require_tag(name: str, tag: str | None, tags: Sequence[str]) -> None:
    """Raise unless it is a tag, the type of an entity, or None."""
    if tag is None or (isinstance(tag, str) and tag in (*tags, *_types(tags))):
        return
    types = f", or a type: {', '.join(_types(tags))}" if _types(tags) else ""
    raise ValueError(f"{name} must be one of the tags {', '.join(tags)}{types}; got {shown(tag)}")


def _types(tags: Sequence[str]) -> list[str]:
    if not are_chunks(tags):
        return []
    return list(dict.fromkeys(kind_of(tag) for tag in tags if tag != "O" and "-" in tag))


def of_tags(
    rows: pd.DataFrame, tags: Sequence[str], label: str | None, rather: str | None
) -> pd.DataFrame:
    """The rows of a given `label` for which the model says `rather`: tags, or types of entities; None:
    any."""
    for name, wanted in (("label", label), ("rather", rather)):
        require_tag(name, wanted, tags)
        if wanted is not None:
            meant = [tag for tag in tags if tag == wanted or (wanted not in tags and tag[2:] == wanted)]
            rows = rows[rows[name].isin(meant)]
    return rows


def kinds_of(rows: pd.DataFrame, tags: Sequence[str]) -> pd.DataFrame:
    """One row per kind of the doubtful labels `rows`, which have `label`, `rather`, `word` and `loss`.

    Returns `label`, `rather`, `group` (of `GROUPS`), `count`, `loss` (the largest) and `words` (those of
    the largest losses). Confusions of two types of entities are first, then entities where none was
    given, as a model often misses a name; each by count, those where none was given by loss.
    """
    ranked = rows.sort_values("loss", ascending=False, kind="stable")
    chunks, order = are_chunks(tags), list(GROUPS)
    found: list[dict[str, Any]] = [
        {
            "label": label,
            "rather": rather,
            "group": _group(str(label), str(rather)) if chunks else "another tag",
            "count": len(some),
            "loss": float(some["loss"].iloc[0]),
            "words": ", ".join(list(dict.fromkeys(map(str, some["word"])))[:_WORDS]),
        }
        for (label, rather), some in ranked.groupby(["label", "rather"], sort=False)
    ]
    found.sort(key=lambda row: (order.index(row["group"]), *_place(row)))
    return pd.DataFrame(found, columns=["label", "rather", "group", "count", "loss", "words"])


def _group(label: str, rather: str) -> str:
    if label == "O":
        return "entity dropped"
    if rather == "O":
        return "entity missed"
    return "same type" if kind_of(label) == kind_of(rather) else "another type"


def _place(row: dict[str, Any]) -> tuple[float, float]:
    """In its group: the surest of entities that may have been dropped, the most frequent of others."""
    by = (-row["loss"], -row["count"])
    return by if row["group"] == "entity dropped" else by[::-1]


def groups_in(kinds: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The groups that there are, in their order, with their kinds."""
    return [(name, kinds[kinds["group"] == name]) for name in GROUPS if (kinds["group"] == name).any()]


def lines_of(kinds: pd.DataFrame, more: str) -> list[str]:
    """To print, a line for each kind, below that of its group where there are several; `more` says where
    the rest is."""
    groups = groups_in(kinds)
    pairs = [f"{row['label']} -> {row['rather']}" for row in kinds.to_dict("records")]
    width, most = max(map(len, pairs), default=0), _OF_GROUP if len(groups) > 1 else _PRINTED
    lines = []
    for name, some in groups:
        lines += [f"  {GROUPS[name]}:"] if len(groups) > 1 else []
        lines += [
            f"    {row['label'] + ' -> ' + row['rather']:{width}} {row['count']:>5,}  "
            f"{_cut(row['words'])}".rstrip()
            for row in some.head(most).to_dict("records")
        ]
        if len(some) > most:
            lines.append(f"    and {len(some) - most} more kinds: {more}, or --json")
    return lines


def _cut(words: str) -> str:
    if len(words) <= _WIDTH:
        return words
    return words[:_WIDTH].rsplit(", ", 1)[0] + ", ..."
