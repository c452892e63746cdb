"""How far out left-out values lie in what folds predict for them, made when a result is asked for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import pandas as pd

from fitonce.core.status import Rung
from fitonce.crossval.batches import Batches, chunk_size
from fitonce.crossval.losses import Scoring
from fitonce.objectives.abilities import PredictsTails
from fitonce.results.heldout_values import COLUMNS, HeldoutValues

_FEW = 1000  # points of a leave-one-out whose predictions each have a pass over the data


def heldout_values(
    scoring: Scoring, method: str, thetas: Any, rungs: Iterable[Rung]
) -> HeldoutValues | None:
    """At thetas (F, D), obtained by `rungs` (F,); None where the model has no tails, or the loss is that
    of folds."""
    objective = scoring.curve.objective
    tailed = isinstance(objective, PredictsTails) and objective.has_tails()
    if not tailed or scoring.folds.kind != "sites" or scoring.loss == "joint":
        return None
    return HeldoutValues(partial(_made, scoring, method, thetas, rungs))


def _made(scoring: Scoring, method: str, thetas: Any, rungs: Iterable[Rung]) -> pd.DataFrame:
    objective, folds = scoring.curve.objective, scoring.folds
    thetas = np.asarray(thetas)
    found = np.full((3, *scoring.counted.shape), np.nan)
    known = np.isfinite(thetas).all(1)
    stepped = known & [rung is Rung.ONESTEP for rung in rungs]
    stepped &= method == "loo" and len(folds) > _FEW
    if stepped.any():  # all from one sweep, to first order as the losses of these points
        sites = folds.all_scored[stepped]
        tails = cast(PredictsTails, objective).leave_one_out_tails
        found[:, stepped, 0] = tails(scoring.curve.theta, thetas[stepped], sites)
    rest = np.flatnonzero(known & ~stepped)
    if rest.size:
        size = chunk_size(objective, len(folds))
        batches = Batches.of_folds(objective, folds, size, progress=False)
        found[:, rest] = replace(scoring, batches=batches).tails(thetas[rest], rest)
    return pd.DataFrame(dict(zip(COLUMNS, found[:, scoring.counted], strict=True)))
