"""The objective of a fold between two of its optima: a picture of why its fit had to be looked for."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fitonce.crossval.cross_validate import cross_validate
from fitonce.fitting.fit import Fit
from fitonce.folds import Folds
from fitonce.objectives.schemes import resolve_scheme
from fitonce.results.result import CVResult

_POINTS = 61
_BEYOND = 0.35  # of the way between the optima, on both sides


def valleys(fit: Fit, folds: Folds, result: CVResult) -> pd.DataFrame | None:
    """The objective along the line between the optimum that continues the fit's and the one that the
    fold is in, for the fold that gained the most: `fold`, `position` (0 and 1 at the optima) and
    `objective` in nats above the lower one. None where no fold moved."""
    gains = result.folds["gain"].where(result.folds["ok"], 0.0)
    if not (gains > 0).any():
        return None
    fold = int(np.argmax(gains))
    alone = folds.some(np.array([fold]))
    scheme = result.scheme if alone.kind == "sites" and result.scheme in ("A", "B", "C") else None
    local = cross_validate(
        fit, alone, method="exact", scheme=scheme, optima=0, check=False, progress=False
    )
    begin, end = local.theta[0], result.theta[fold]
    if not np.isfinite(begin).all() or np.array_equal(begin, end):
        return None
    along = resolve_scheme(scheme, alone.kind, fit.objective.scheme)
    objective = fit.objective.with_scheme(along)
    position = np.union1d(np.linspace(-_BEYOND, 1.0 + _BEYOND, _POINTS), [0.0, 1.0])
    thetas = begin + position[:, None] * (end - begin)
    weights = np.repeat(alone.rebased(objective.base).weights_of(np.array([0])), len(position), 0)
    values = objective.values_and_gradients(thetas, weights)[0]
    above = values - min(objective(end, weights[0]), objective(begin, weights[0]))
    return pd.DataFrame({"fold": fold, "position": position, "objective": above})
