"""The common part of objectives on data that a model prepares."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from fitonce.core.deferred import jax
from fitonce.core.numerics import Array, as_floats, in_float64
from fitonce.core.parameters import Params
from fitonce.core.wording import counted
from fitonce.data.sequences import Sequences, sequences
from fitonce.objectives import priors
from fitonce.objectives.base import Objective


def require_fit(objective: Objective) -> None:
    """Raise if the model cannot be fitted to these data, though they might be predicted."""
    check = getattr(objective.model, "check_to_fit", None)
    if check is not None:
        check(objective.data, objective.prepared)  # type: ignore[attr-defined]


def require_same_channels(data: Sequences, fitted: Sequences) -> None:
    """Raise unless data to predict for have as many channels as those of the fit."""
    if len(data.channels) != len(fitted.channels):
        channels = counted(len(fitted.channels), "channel")
        got = counted(len(data.channels), "channel")
        raise ValueError(f"data must have the {channels} of the fit's data, got {got}")


def require_counts(model: Any, data: Any) -> Any:
    """Raise if a model is too large to be fitted to data, which its objective may take long to find; the
    data, read where the model has sequences to count."""
    check = getattr(model, "check_counts", None)
    if check is None:
        return data
    read = sequences(data)
    read.require_observed()
    check(read)
    return read


class PreparedObjective(Objective):
    """`prepared`, `layout`: the data as the model and the scheme read them."""

    prepared: Any
    layout: Any

    @property
    def bytes_per_fold(self) -> int:
        return int(self.model.bytes_per_fold(self.prepared))

    @in_float64
    def start(self, rng: np.random.Generator | None) -> np.ndarray:
        return self.space.to_free(self.model.start(self.prepared, rng))

    def free_or_none(self, params: Params) -> np.ndarray | None:
        """The free vector of what an M step found; None where that has none: an empty state has no best
        parameters, one at a single point no positive variance."""
        try:
            return self.space.to_free(params)
        except ValueError:
            return None

    @in_float64
    def log_prior(self, theta: np.ndarray) -> float:
        return float(priors.log_prior(self.program, jax.device_put(theta), self.prepared))

    @in_float64
    def coordinates(self, weights: np.ndarray) -> Array:  # type: ignore[override]
        w = jax.device_put(as_floats(weights))
        path = partial(self.scheme.path, layout=self.layout)
        return path(w) if w.ndim == 1 else jax.vmap(path)(w)
