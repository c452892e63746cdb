"""What folds scored, in few words: from where to where, or which sequences."""

from __future__ import annotations

import pandas as pd

from fitonce.data.places import Names
from fitonce.results.summary import FitSummary, Result

_LISTED = 3


def sequence_names(fitted: FitSummary) -> tuple[str, ...]:
    """What sequences are called."""
    if fitted.places is not None:
        return fitted.places.sequences
    return tuple(f"sequence {number}" for number in range(len(fitted.lengths)))


def spans(result: Result, fitted: FitSummary) -> pd.Series:
    """By fold: its first and its last place in time, or else a few of its sites or sequences; empty for
    a joint loss, which has no places."""
    rows = result.pointwise
    names = fitted.places or _numbered(fitted)
    if fitted.edges is None and (rows["site"] >= 0).all():
        return _stretches(rows, names)
    within = rows.groupby("fold")
    shown = within.head(_LISTED)
    words = pd.Series(_words(names, shown), index=shown["fold"].to_numpy())
    more = within.size() - _LISTED
    ends = more.map(lambda count: f" and {count} more" if count > 0 else "")
    return words.groupby(level=0).agg(", ".join) + ends


def _stretches(rows: pd.DataFrame, names: Names) -> pd.Series:
    """Along time: from where to where, and how many where there are others between them."""
    sites = rows.groupby("fold")["site"]
    first, last = (_words(names, rows.loc[which]) for which in (sites.idxmin(), sites.idxmax()))
    count, wide = sites.size(), sites.max() - sites.min() + 1
    scattered = count < 0.5 * wide  # half: missing sites are not scored
    said = [
        one if one == two else f"{n:,} points from {one} to {two}" if apart else f"{one} to {two}"
        for one, two, n, apart in zip(first, last, count, scattered, strict=True)
    ]
    return pd.Series(said, index=count.index)


def _words(names: Names, rows: pd.DataFrame) -> list[str]:
    return names.places(*(rows[name].to_numpy() for name in ("sequence", "time", "site")))


def _numbered(fitted: FitSummary) -> Names:
    on_graph = fitted.edges is not None
    sites = tuple(f"site {number}" for number in range(fitted.lengths.sum())) if on_graph else None
    return Names(sequence_names(fitted), sites)
