"""Losses of forecasts by how many steps ahead they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fitonce.results.standard_errors import Terms, spread_of

if TYPE_CHECKING:
    from fitonce.results.result import CVResult


def table_of(cv: CVResult) -> pd.DataFrame:
    """See `CVResult.by_steps_ahead`."""
    rows = cv.pointwise
    if cv.loss == "joint":
        raise ValueError("by_steps_ahead needs a loss of each step, got loss='joint', one of each fold")
    if cv.dropped is None:
        raise ValueError(
            "by_steps_ahead needs to know what each fold left out, which this old file does not say"
        )
    ahead = _steps_ahead(cv)
    fold, places = rows["fold"].to_numpy(), rows["cluster"].to_numpy()
    ok = cv.folds["ok"].to_numpy(bool)
    found = []
    for step in range(1, int(ahead.max()) + 1):
        here = ahead == step
        used = ok & (np.bincount(fold[here], minlength=len(ok)) > 0)
        loss, control = (
            Terms.of(rows[name].to_numpy(float)[here], fold[here], places[here], used)
            for name in ("loss", "control")
        )
        # Forecasts that far from neighbouring origins err together, as joint losses of blocks do.
        spread = spread_of(loss, float(np.hypot(cv.memory, step / np.sqrt(12.0))))
        found.append((step, _mean(loss), spread.se, _mean(control), int(used.sum())))
    columns = ["steps_ahead", "loss", "se", "control", "folds"]
    return pd.DataFrame(found, columns=columns).set_index("steps_ahead")


def _mean(terms: Terms) -> float:
    return terms.mean if len(terms.shares) else float("nan")


def _steps_ahead(cv: CVResult) -> np.ndarray:
    """(rows,) how many steps each point that is scored is after the last one that its fold keeps of the
    sequence; 0 where it keeps none."""
    lengths, rows = cv.summary.lengths, cv.pointwise
    ends, firsts = np.cumsum(lengths), np.full((len(cv.folds), len(lengths)), -1)
    fine = cv.summary.edges is None and bool((rows["site"] >= 0).all())
    for fold, dropped in enumerate(cv.dropped or () if fine else ()):
        sequences, first, count = np.unique(
            np.searchsorted(ends, dropped, "right"), return_index=True, return_counts=True
        )
        fine = fine and bool((dropped[first] + count == ends[sequences]).all())
        firsts[fold, sequences] = dropped[first]
    owner, site = rows["fold"].to_numpy(), rows["site"].to_numpy()
    ahead = np.zeros(len(rows), int)
    if fine:
        sequence = np.searchsorted(ends, site, "right")
        first = firsts[owner, sequence]
        ahead = np.where(first > (ends - lengths)[sequence], site - first + 1, 0)
    if not ahead.any():
        raise ValueError(
            "by_steps_ahead needs folds that leave out the ends of sequences, such as "
            f"fo.folds.future(data, start=[...], horizon=...), got {cv.left_out}"
        )
    return ahead
