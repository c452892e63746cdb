"""EM for chains whose M steps have a closed form: a way down that never goes up, from anywhere.

It slows down near the end, where products with H go on faster.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from fitonce.models.base import MaximisesChain
from fitonce.numerics import in_float64
from fitonce.objective import Objective

MOST_EM = 200
_GAIN = 0.1  # nats: a step that gains less is not worth its time


def can_maximise(objective: Objective) -> bool:
    """Whether an objective is that of a model with M steps."""
    model = objective.program.model
    return isinstance(model, MaximisesChain) and model.can_maximise


@in_float64
def expectation_maximisation(
    objective: Any, start: np.ndarray, weights: np.ndarray, most: int = MOST_EM
) -> np.ndarray:
    """From `start` (D,) at weights (P,), until steps gain little."""
    model, space = objective.program.model, objective.program.space
    theta, best, before = start, start, np.inf
    for _ in range(most):
        value, expected = objective.expectations(theta, weights)
        if not value < before:  # also where it is not a number
            return best
        if before - value < _GAIN:
            return theta
        best, before = theta, value
        new = model.maximise(space.to_params(jnp.asarray(theta)), expected, objective.prepared)
        theta = space.to_free(new)
    return theta
