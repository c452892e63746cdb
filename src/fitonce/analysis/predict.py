"""The most probable tags or hidden states, and posterior probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np

from fitonce.fitting.fit import Fit


def predict(fit: Fit, features: Any = None) -> list[Any]:
    """The jointly most probable tags of each sequence (Viterbi); for a chain its hidden states, an array
    (T_n,) of integers for each sequence.

    Args:
        fit: of a model of labels, or of a chain.
        features: as for `fo.labelled`, or what it returned; for a chain, other data. None: those of the
            fit.
    """
    _require(fit)
    return fit.objective.for_prediction(features).decode(fit.theta)


def marginals(fit: Fit, features: Any = None) -> list[np.ndarray]:
    """Posterior probabilities p(z_t | x) of each tag or hidden state at each step, an array (T_n, K) for
    each sequence; labels are not used.

    Args:
        fit: of a model of labels, or of a chain.
        features: as for `predict`.
    """
    _require(fit)
    objective = fit.objective.for_prediction(features)
    return np.split(objective.state_probabilities(fit.theta), objective.collection.offsets[1:])


def _require(fit: Any) -> None:
    if not isinstance(fit, Fit):
        raise ValueError(f"fit must be a Fit from fo.fit, got {type(fit).__name__}")
