"""What folds predict for the labels that they leave out, made when a result is asked for it."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import numpy as np
import pandas as pd

from fitonce.data.labelled import Labelled
from fitonce.fitting.curvature import Curvature
from fitonce.folds import Folds
from fitonce.objectives.abilities import HasLabels
from fitonce.results.labels.heldout import HeldoutLabels


def heldout_labels(curve: Curvature, folds: Folds, thetas: Any, ok: np.ndarray) -> HeldoutLabels | None:
    """Of the `ok` (F,) folds, at thetas (F, D); None where the model is not one of labels."""
    objective = curve.objective
    if not isinstance(objective, HasLabels):
        return None
    data = cast(Labelled, objective.collection)
    make = partial(_made, objective, data.labels, folds, thetas, curve.theta, np.flatnonzero(ok))
    whole = folds.kind == "sequences"
    return HeldoutLabels(data.tags, data.lengths, data.words, whole, make, folds.together)


def _made(
    objective: HasLabels,
    labels: np.ndarray,
    folds: Folds,
    thetas: Any,
    full_fit: np.ndarray,
    used: np.ndarray,
) -> pd.DataFrame:
    dropped, scored = ([part[fold] for fold in used] for part in (folds.dropped, folds.scored))
    own = objective.heldout_tags(lambda row: thetas[int(used[row])], dropped, scored)
    control = objective.heldout_tags(lambda row: full_fit, dropped, scored)
    return pd.DataFrame(
        {
            "fold": used[own.fold],
            "site": own.site,
            "label": labels[own.site],
            "predicted": own.tag,
            "control": control.tag,
            "loss": own.loss,
            "predicted_chance": own.chance,
        }
    )
