"""What folds scored, in few words: from where to where, or which sequences."""

from __future__ import annotations

import pandas as pd

from fitonce.names import Names
from fitonce.portrait import Portrait
from fitonce.report.given import Result

_LISTED = 3


def sequence_names(fitted: Portrait) -> tuple[str, ...]:
    """What sequences are called."""
    if fitted.places is not None:
        return fitted.places.sequences
    return tuple(f"sequence {number}" for number in range(len(fitted.lengths)))


def spans(result: Result, fitted: Portrait) -> pd.Series:
    """By fold: its first and its last place in time, or else a few of its sites or sequences; empty for
    a joint loss, which has no places."""
    rows = result.pointwise.sort_values(["fold", "sequence", "site"], kind="stable")
    along_time = fitted.edges is None and (rows["site"] >= 0).all()
    within = rows.groupby("fold")
    shown = pd.concat([within.head(1), within.tail(1)]) if along_time else within.head(_LISTED)
    names = fitted.places or _numbered(fitted)
    words = names.places(*(shown[name].to_numpy() for name in ("sequence", "time", "site")))
    said = pd.Series(words, index=shown["fold"].to_numpy()).groupby(level=0).unique()
    if along_time:
        return said.map(" to ".join)
    more = within.size() - _LISTED
    return said.map(", ".join) + more.map(lambda count: f" and {count} more" if count > 0 else "")


def _numbered(fitted: Portrait) -> Names:
    on_graph = fitted.edges is not None
    sites = tuple(f"site {number}" for number in range(fitted.lengths.sum())) if on_graph else None
    return Names(sequence_names(fitted), sites)
