"""Losses site by site: which sites a model does not predict, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fitonce.core.wording import counted

if TYPE_CHECKING:
    from fitonce.results.result import CVResult

_NAMED = 5  # sites in a sentence
_MOST = 0.5  # of the loss: how few sites carry this much


def table_of(cv: CVResult) -> pd.DataFrame:
    """See `CVResult.site_losses`."""
    rows = cv.pointwise[cv.pointwise["site"] >= 0]
    rows = rows[cv.folds["ok"].to_numpy()[rows["fold"].to_numpy()]]
    if rows.empty:
        raise ValueError("a joint loss belongs to folds, not to sites; use loss='pointwise'")
    found = rows.groupby("site").agg(
        sequence=("sequence", "first"), time=("time", "first"), loss=("loss", "mean"),
        control=("control", "mean"), folds=("loss", "size"),
    ).reset_index()  # fmt: skip
    names, shown = cv.fit.places, cv.summary
    where = [found[name].to_numpy() for name in ("sequence", "time", "site")]
    called = [f"site {site}" for site in found["site"]] if names is None else names.places(*where)
    found.insert(0, "place", called)
    found.insert(4, "value", np.asarray(shown.values)[found["site"].to_numpy()])
    whole = found["loss"].sum()
    found["share"] = found["loss"] / whole if whole > 0 else np.nan
    return found.sort_values("loss", ascending=False, kind="stable", ignore_index=True)


def sentence_of(table: pd.DataFrame) -> str:
    """Which sites have the largest losses, and how few of them carry half of all losses."""
    top = ", ".join(f"{row.place} ({row.loss:.3g})" for row in table.head(_NAMED).itertuples())
    parts = table["share"].to_numpy()
    if not (np.isfinite(parts).all() and (parts >= 0).all()):
        return top
    few = int(np.searchsorted(np.cumsum(parts), _MOST)) + 1
    carry = (
        f"{few:,} of {counted(len(parts), 'site')} {'carries' if few == 1 else 'carry'} half of the loss"
    )
    return f"{top}; {carry}"
