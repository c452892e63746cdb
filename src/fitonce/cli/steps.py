"""Fits and folds of a command, and what its report takes beside them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd

from fitonce.analysis.influence import Influence, influence
from fitonce.cli.catalogue import FoldChoice
from fitonce.cli.errors import complain, stoppable
from fitonce.cli.request import Request
from fitonce.crossval.cross_validate import cross_validate
from fitonce.fitting.fit import Fit, fit
from fitonce.folds import Folds
from fitonce.objectives.families import family_of
from fitonce.results.result import CVResult

_EXACT = 20  # folds of a report that are also refitted
_FEW_PARAMETERS, _FEW_POINTS = 500, 200_000  # so that influence takes seconds


def fitted(request: Request, model: Any, data: Any) -> Fit:
    """The fit of what was asked to what was read."""
    return fit(model, data, restarts=request.restarts, seed=request.seed, progress=request.bars)


def folds_for(choice: FoldChoice, models: Collection[Any], data: Any) -> Folds:
    """Folds that score what every model has a density for: an autoregression only conditions on its
    first steps, so those of the highest order count."""
    seen = [(model, family_of(model).modelled(model, data)) for model in models]
    return choice.build(*min(seen, key=lambda pair: float(pair[1].weights.sum())))


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
    if len(fit.theta) > _FEW_PARAMETERS or len(fit.objective.base) > _FEW_POINTS:
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
