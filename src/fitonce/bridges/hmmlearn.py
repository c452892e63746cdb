"""Fits of hmmlearn: the same model, parameters and objective, priors included.

hmmlearn need not be installed: what is read are the attributes of a fitted model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fitonce.data.sequences import Sequences, sequences
from fitonce.fitting.fit import Fit, fit_at
from fitonce.models.emissions.base import Emission
from fitonce.models.emissions.counts import Categorical, Poisson
from fitonce.models.emissions.gaussian import Gaussian
from fitonce.models.hmm import HMM

_LETTERS = {
    "s": ("initial",),
    "t": ("transition",),
    "m": ("mean",),
    "l": ("rate",),
    "e": ("probability",),
}
_NOTHING = 1e-10  # probabilities below this are zeros: EM only approaches them


def from_hmmlearn(model: Any, X: Any, lengths: Any = None) -> Fit:
    """A `Fit` at the parameters of a fitted hmmlearn model, whose objective is that model's own: its
    log-likelihood, and the priors that its EM has by default.

    The status says how far EM stopped from a minimum, in standard errors; `fit.polish()` goes on to it.
    Initial and transition probabilities that are zero (below 1e-10) stay exact zeros, in folds too.

    Args:
        model: a `GaussianHMM` (all four covariance types), `PoissonHMM` or `CategoricalHMM`.
        X, lengths: the data, as hmmlearn has them.
    """
    kind = type(model).__name__
    readers = {"GaussianHMM": _gaussian, "PoissonHMM": _poisson, "CategoricalHMM": _categorical}
    if kind not in readers:
        raise ValueError(f"from_hmmlearn reads {', '.join(readers)}, got {kind}")
    if not hasattr(model, "transmat_"):
        raise ValueError(f"the {kind} must be fitted first: it has no transmat_")
    data = read_lengths(X, lengths)
    emission, params = readers[kind](model, data)
    params["initial"] = _without_dust(model.startprob_)
    params["transition"] = _without_dust(model.transmat_)
    learned = {name for letter in model.params for name in _LETTERS.get(letter, ())}
    learned |= {"variance", "covariance"} if "c" in model.params else set()
    made = HMM(
        int(model.n_components),
        emission,
        initial_concentration=model.startprob_prior,
        transition_concentration=model.transmat_prior,
        support=params["transition"] > 0,
        initial_support=params["initial"] > 0,
        frozen={name: value for name, value in params.items() if name not in learned},
    )
    return fit_at(made, data, params)


def read_lengths(X: Any, lengths: Any) -> Sequences:
    """Rows of all sequences, one after another, and their lengths."""
    rows = np.asarray(X, float)
    rows = rows[:, None] if rows.ndim == 1 else rows
    return sequences(rows, lengths=lengths)


def _without_dust(probabilities: Any) -> np.ndarray:
    found = np.where(np.asarray(probabilities) < _NOTHING, 0.0, probabilities)
    return found / found.sum(-1, keepdims=True)


def _gaussian(model: Any, data: Sequences) -> tuple[Emission, dict[str, np.ndarray]]:
    """hmmlearn adds `covars_prior` to every entry of a sum of squares, and `covars_weight` less what a
    flat prior has to its mass."""
    if np.any(np.asarray(model.means_weight) != 0):
        raise ValueError(
            "means_weight must be 0, as it is by default: such a prior depends on variances"
        )
    shape, channels = model.covariance_type, len(data.channels)
    spread = np.asarray(model._covars_, float)  # `covars_` is expanded, and wrong if spherical
    strength = max(float(model.covars_weight) - (channels if shape in ("full", "tied") else 1), 0.0)
    squares = np.asarray(model.covars_prior, float)
    if squares.ndim > (2 if shape in ("full", "tied") else 1):
        raise ValueError(f"covars_prior must be one for all states, got shape {squares.shape}")
    name = "covariance" if shape in ("full", "tied") else "variance"
    spread = spread[:, 0] if shape == "spherical" and spread.ndim == 2 else spread
    emission = Gaussian(shape, strength=strength, squares=squares)
    return emission, {"mean": np.asarray(model.means_, float), name: spread}


def _poisson(model: Any, data: Sequences) -> tuple[Emission, dict[str, np.ndarray]]:
    if np.any(np.asarray(model.lambdas_weight) != 0) or np.any(np.asarray(model.lambdas_prior) != 0):
        raise ValueError("lambdas_prior and lambdas_weight must be 0, as they are by default")
    return Poisson(), {"rate": np.asarray(model.lambdas_, float)}


def _categorical(model: Any, data: Sequences) -> tuple[Emission, dict[str, np.ndarray]]:
    prior, probability = np.asarray(model.emissionprob_prior, float), np.asarray(model.emissionprob_)
    if prior.ndim > 0 and np.ptp(prior) > 0:
        raise ValueError("emissionprob_prior must be one number for all categories")
    if (probability < _NOTHING).any():
        raise ValueError(
            "emissionprob_ has zeros, which a fit here cannot hold; fit with emissionprob_prior above 1"
        )
    emission = Categorical(probability.shape[1], float(prior.ravel()[0]))
    return emission, {"probability": probability[:, None]}
