"""Cards of held-out labels: scores, confusion, suspicious labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.wording import share_in_words
from fitonce.results.notebook.card import Picture, Table, card, figure, more_rows, of_frame
from fitonce.results.notebook.picture import interval, moves, scale_of

_MOST_ROWS = 12
_MOST_TAGS = 20
_MOST_KINDS = 8


def of_scores(found: Any) -> str:
    """Accuracy and F1, over all and by tag."""
    frame = found.table
    first = frame[frame["name"] == "all"]
    rest = frame[(frame["name"] != "all") & (frame["score"] == "f1")]
    shown = [*first.to_dict("records"), *rest.to_dict("records")]
    ends = [(row["value"] - row["se"], row["value"] + row["se"]) for row in shown]
    scale = scale_of([1.0, *(row["value"] for row in shown), *np.ravel(ends)], 8, 152)
    rows = [
        [_name(row), row["value"], row["se"], interval(scale, low, row["value"], high, row["control"]),
         row["control"], int(row["support"])]
        for row, (low, high) in zip(shown[:_MOST_ROWS], ends, strict=False)
    ]  # fmt: skip
    said = [f"{_name(row)} {_with_se(row)}" for row in shown if row["name"] == "all"]
    chosen = [words for words in said if words.startswith(("accuracy", "entity F1"))]
    return card(
        "Held-out labels",
        None,
        ", ".join(chosen),
        table=Table(["score", "value", "se", "value and se", "control", "given"], rows),
        notes=[
            f"On {found.left_out}. Cross: control, at the parameters of the full fit.",
            more_rows(len(rows), len(shown), "scores.table"),
            *found.notes,
        ],
        printed=repr(found),
    )


def _name(row: Any) -> str:
    score = "F1" if row["score"] == "f1" else row["score"]
    if row["name"] == "all":
        return score if row["of"] == "tokens" else f"entity {score}"
    return f"{score} of {'entity' if row['of'] == 'entities' else 'tag'} {row['name']}"


def _with_se(row: Any) -> str:
    spread = f" ± {row['se']:.3f}" if np.isfinite(row["se"]) else ""
    return f"{share_in_words(row['value'])}{spread}" if np.isfinite(row["value"]) else "none"


def of_confusion(found: Any) -> str:
    """Which tags are taken for which."""
    frame = found.table
    total, wrong = int(frame["count"].sum()), frame[frame["label"] != frame["predicted"]]
    drawn = None
    if len(found.tags) <= _MOST_TAGS:
        shares = found.matrix("share").fillna(0.0).to_numpy()
        drawn = Picture(
            moves(shares, list(found.tags), "shares of tags", "to be {1} where {0} is given: {2:.3g}"),
            "Shares of each given tag (down) by what was predicted (across).",
        )
    return card(
        "Confusion of held-out labels",
        None,
        f"{int(wrong['count'].sum()):,} of {total:,} tokens were predicted otherwise",
        table=of_frame(found.most(), ["label", "predicted", "count", "share", "se", "control"]),
        picture=drawn,
        notes=[f"On {found.left_out}."],
        printed=repr(found),
    )


def of_suspects(found: Any) -> str:
    """Labels that are least probable without them."""
    shown = found.by_sentence().head(_MOST_ROWS)
    columns = ["sequence", "time", "sentence", "label", "chance", "rather", "rather_chance"]
    least = f"; the least probable has a chance of {figure(shown['chance'].min())}" if len(shown) else ""
    return card(
        "Suspicious labels",
        None,
        f"{found.n_disagree:,} of {found.n_labels:,} held-out labels were predicted otherwise{least}",
        table=of_frame(shown, columns),
        notes=[
            more_rows(len(shown), len(found.table), "suspects.table"),
            by_kind(found.kinds, "suspects.kinds"),
            *found.notes,
            f"On {found.left_out}.",
        ],
        printed=repr(found),
    )


def by_kind(kinds: pd.DataFrame, more: str) -> str:
    """A note on kinds of error."""
    said = [
        f"{row['label']} → {row['rather']} {row['count']:,} ({row['words'].split(', ')[0]})"
        for row in kinds.head(_MOST_KINDS).to_dict("records")
    ]
    return f"By kind, given → predicted: {', '.join(said)}; {more} has all." if said else ""
