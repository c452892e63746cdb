"""Likelihoods and states of data, those of a fit or others, at the parameters of the fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fitonce.core.numerics import in_float64
from fitonce.objectives.families import objective_of
from fitonce.objectives.schemes import Structures

if TYPE_CHECKING:
    from fitonce.fitting.fit import Fit


@in_float64
def log_likelihoods(fit: Fit, data: Any) -> np.ndarray:
    """(N,) log p(x_n) of the sequences of other data."""
    if not fit.objective.traits.sequences:
        raise ValueError(f"log_likelihood_of needs a model of sequences, got {fit.model}")
    objective = objective_of(fit.model, data)
    if objective.space.size != len(fit.theta):
        counts = len(fit.theta), objective.space.size
        raise ValueError(
            "data must have the channels (or features) of the data of the fit: expected "
            f"{counts[0]} parameters, got {counts[1]}"
        )
    along = objective.with_scheme(Structures())
    everyone = np.arange(len(along.base))[None]
    same = objective.space == fit.objective.space  # else its coordinates are in other units
    theta = fit.theta if same else objective.space.to_free(fit.params)
    return -along.pointwise_losses(theta[None], along.base[None], everyone)[0]
