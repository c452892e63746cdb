"""What folds are called: one of a single site or sequence by its name, others by their number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fitonce.results.dropped import flat
from fitonce.results.summary import FitSummary, Result


def named_folds(result: Result, fitted: FitSummary | None = None) -> dict[int, str]:
    """By number: the name of each fold of a single site or sequence, where the data have names.

    Args:
        result: of cross-validation.
        fitted: the summary with the names to use; None: that of the result.
    """
    fitted = result.summary if fitted is None else fitted
    rows = None if fitted.places is None else places_of_folds(result, fitted)
    if rows is None or fitted.places is None:
        return {}
    alone = rows[~rows["fold"].duplicated(keep=False)]
    if fitted.places.sites is None:  # then only sequences have names
        alone = alone[alone["site"] < 0]
    where = (alone[name].to_numpy() for name in ("sequence", "time", "site"))
    return dict(zip(alone["fold"].tolist(), fitted.places.places(*where), strict=True))


def name_of_fold(named: dict[int, str], fold: Any) -> str:
    """ "Anson", or "fold 3" where it has no name."""
    return named.get(fold, f"fold {fold}")


def places_of_folds(result: Result, fitted: FitSummary) -> pd.DataFrame | None:
    """What folds scored or, for a joint loss, left out: `fold`, `sequence`, `time` and `site` of each;
    None where that is not known."""
    rows = result.pointwise
    if not (rows["sequence"] < 0).all():
        return rows
    if result.dropped is None or result.scheme == "structures":
        return None
    fold, site = flat(result.dropped)
    sequence = np.repeat(np.arange(len(fitted.lengths)), fitted.lengths)[site]
    time = site - (np.cumsum(fitted.lengths) - fitted.lengths)[sequence]
    return pd.DataFrame({"fold": fold, "sequence": sequence, "time": time, "site": site})
