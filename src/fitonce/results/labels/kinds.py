"""Doubtful labels by kind of error: which tag was given where the model says which.

Most disagreements are of few kinds, such as names that the model has never seen. In one list by
probability, a rare confusion of two types is far down; by kind it is a line of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from fitonce.core.arguments import shown
from fitonce.results.labels.entities import are_chunks, kind_of

_WORDS = 8  # of a kind, that are shown
_PRINTED = 16  # kinds
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

    Returns `label`, `rather`, `count`, `loss` (the largest) and `words` (those of the largest losses).
    Confusions of two types of entities are first, as a model often misses a name or finds one where
    none is, and then others, each by count.
    """
    ranked = rows.sort_values("loss", ascending=False, kind="stable")
    found = [
        {
            "label": label,
            "rather": rather,
            "count": len(some),
            "loss": float(some["loss"].iloc[0]),
            "words": ", ".join(list(dict.fromkeys(map(str, some["word"])))[:_WORDS]),
        }
        for (label, rather), some in ranked.groupby(["label", "rather"], sort=False)
    ]
    table = pd.DataFrame(found, columns=["label", "rather", "count", "loss", "words"])
    crossed = table["label"].map(_type(tags)) != table["rather"].map(_type(tags))
    crossed &= (table["label"] != "O") & (table["rather"] != "O")
    order = np.lexsort((-table["loss"], -table["count"], ~crossed.astype(bool)))
    return table.iloc[order].reset_index(drop=True)


def _type(tags: Sequence[str]) -> Callable[[str], str]:
    return kind_of if are_chunks(tags) else str


def lines_of(kinds: pd.DataFrame, more: str) -> list[str]:
    """To print, a line for each kind; `more` says where the rest is."""
    pairs = [f"{row['label']} -> {row['rather']}" for row in kinds.to_dict("records")]
    width = max(map(len, pairs), default=0)
    lines = [
        f"  {pair:{width}} {count:>5,}  {_cut(words)}".rstrip()
        for pair, count, words in zip(pairs, kinds["count"], kinds["words"], strict=True)
    ]
    rest = len(lines) - _PRINTED
    return lines[:_PRINTED] + ([f"  and {rest} more kinds: {more}, or --json"] if rest > 0 else [])


def _cut(words: str) -> str:
    if len(words) <= _WIDTH:
        return words
    return words[:_WIDTH].rsplit(", ", 1)[0] + ", ..."
