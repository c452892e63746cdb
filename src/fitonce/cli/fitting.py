"""Fits and folds of a command, and what its report takes beside them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd

from fitonce.cli.choices import FoldChoice
from fitonce.cli.loading import Loaded
from fitonce.cli.speaking import complain, stoppable
from fitonce.crossval import cross_validate
from fitonce.fit import Fit, fit
from fitonce.folds import Folds
from fitonce.influence import Influence, influence
from fitonce.models.base import Conditions
from fitonce.result import CVResult

_EXACT = 20  # folds of a report that are also refitted
_FEW_PARAMETERS, _FEW_POINTS = 500, 200_000  # so that influence takes seconds


def fitted(loaded: Loaded, restarts: int, seed: int, bars: bool | None) -> Fit:
    """The fit of what was asked to what was read."""
    return fit(loaded.model, loaded.data, restarts=restarts, seed=seed, progress=bars)


def folds_for(choice: FoldChoice, models: Collection[Any], data: Any) -> Folds:
    """Folds that score what every model has a density for: an autoregression only conditions on its
    first steps, so those of the highest order count."""
    widest = max(models, key=_order)
    seen = widest.modelled(data) if isinstance(widest, Conditions) else data
    return choice.build(widest, seen)


def _order(model: Any) -> int:
    return int(getattr(getattr(model, "emission", None), "order", 0))


def validated(fit: Fit, folds: Folds, bars: bool | None, **how: Any) -> tuple[CVResult, bool]:
    """Cross-validate; Ctrl-C ends with what there is. Returns the result and whether that happened."""
    with stoppable() as stop:
        result = cross_validate(fit, folds, progress=bars, stop=stop, **how)
        return result, stop()


def made_for_report(fit: Fit, folds: Folds, result: CVResult) -> dict[str, Any]:
    """What the result says of some folds beside exact refits of them, and influence."""
    more: dict[str, Any] = {}
    which = np.unique(np.linspace(0, len(folds) - 1, min(_EXACT, len(folds))).astype(int))
    try:
        more["scatter"] = _pairs(fit, folds, which, result)
        more["scatter_labels"] = (result.method, f"exact refits of {len(which)} folds")
    except ValueError as error:
        complain(f"the report has no exact refits: {error}")
    more["influence"] = influence_for_report(fit)
    return more


def influence_for_report(fit: Fit) -> pd.DataFrame | None:
    """The table, where it takes seconds."""
    if len(fit.theta) > _FEW_PARAMETERS or len(fit.problem.base) > _FEW_POINTS:
        return None
    try:
        found = influence(fit)
    except ValueError as error:
        complain(f"the report has no influence: {error}")
        return None
    return found.table if isinstance(found, Influence) else None


def _pairs(fit: Fit, folds: Folds, which: np.ndarray, result: CVResult) -> pd.DataFrame:
    some = folds.some(which)
    how: dict[str, Any] = {"check": False, "progress": False, "loss": result.loss}
    if folds.kind == "sites" and result.scheme in ("A", "B", "C"):
        how["scheme"] = result.scheme
    exact = cross_validate(fit, some, method="exact", **how).pointwise
    rows = result.pointwise[result.pointwise["fold"].isin(which)].reset_index(drop=True)
    pairs = rows[["fold", "sequence", "time", "site", "control"]]
    return pairs.assign(approximate=rows["loss"], exact=exact["loss"])
