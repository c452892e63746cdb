"""The paper's traffic data, model and folds, shared by its tables and figures."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

import fitonce as fo
from reproduce import published
from reproduce.record import Record

STEPS_PER_DAY = 288
FOLDER = Path(os.environ.get("FITONCE_DATA", Path(__file__).parents[2] / "shared" / "data"))
SUBSET, N, PERCENTS = 10_000, 10, (2, 5, 10)
MAKERS = {"i.i.d.": fo.folds.iid, "contiguous": fo.folds.blocks}
DIFFERS = [
    "Data: the same series. Counts that are marked as missing are neither fitted nor scored; the paper "
    "does not say what it did with them.",
    "Definition: the paper gives no numbers for its priors; ours are weak and written in `EventCounts`. "
    "Which steps are left out is drawn anew.",
    "Definition: a block of m % has floor(mT/100) steps, the paper's index set one more.",
    "Definition: an exact refit here is certified: its gradient vanishes and its Hessian is positive.",
]


def load(steps: int | None = None) -> fo.Sequences:
    """The first `steps` counts of the Dodgers data, or all 50,400."""
    try:
        series = fo.datasets.load("dodgers", FOLDER)
    except ValueError as error:
        sys.exit(f"reproduce: {error}")
    if steps is None or steps >= series.n_sites:
        return series
    return fo.sequences(np.where(series.observed, series.values, np.nan)[0, :steps])


def fit(series: fo.Sequences, restarts: int = 3) -> fo.Fit:
    """The full fit, certified."""
    found = fo.fit(fo.models.EventCounts(steps_per_day=STEPS_PER_DAY), series, restarts=restarts)
    if not found.ok:
        sys.exit(f"reproduce: the fit is {found.status}")
    return found


def subset(record: Record) -> fo.Fit:
    """The fit of the paper's subset, its sizes told to the record."""
    found = fit(load(SUBSET))
    record.beside("steps", published.TRAFFIC_SUBSET, f"{found.data.n_sites:,}")
    record.beside("parameters", published.TRAFFIC_PARAMETERS, len(found.theta))
    record.say(f"{found.data}. Fit: {found.status}.")
    return found


def fold_sets(
    data: fo.Sequences, percents: tuple[int, ...] = PERCENTS
) -> dict[tuple[str, int], fo.Folds]:
    """i.i.d. and contiguous folds of each size."""
    return {
        (kind, percent): make(data, percent=percent, n=N, seed=0)
        for kind, make in MAKERS.items()
        for percent in percents
    }


def certified(fit: fo.Fit, folds: fo.Folds) -> fo.CVResult:
    """Exact refits; folds without a certificate are told."""
    exact = fo.cross_validate(fit, folds, method="exact", optima=0)
    if exact.n_failed:
        print(exact)
    return exact
