"""The paper's traffic data and model, shared by its two tables."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

import fitonce as fo

STEPS_PER_DAY = 288
FOLDER = Path(os.environ.get("FITONCE_DATA", Path(__file__).parents[2] / "shared" / "data"))


def load(steps: int | None = None) -> fo.Sequences:
    """The first `steps` counts of the Dodgers data, or all 50,400."""
    try:
        series = fo.datasets.load("dodgers", FOLDER)
    except ValueError as error:
        sys.exit(f"reproduce: {error}")
    if steps is None:
        return series
    return fo.sequences(np.where(series.observed, series.values, np.nan)[0, :steps])


def fit(series: fo.Sequences, restarts: int = 3) -> fo.Fit:
    """The full fit, certified."""
    found = fo.fit(fo.models.EventCounts(steps_per_day=STEPS_PER_DAY), series, restarts=restarts)
    if not found.ok:
        sys.exit(f"reproduce: the fit is {found.status}")
    return found
