"""Fits of hmmlearn: the same model, parameters and objective, priors included.

hmmlearn need not be installed: what is read are the attributes of a fitted model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fitonce.bridges.classes import kind_of
from fitonce.core.arguments import naming, refusal, require
from fitonce.core.numerics import as_numbers, is_number
from fitonce.core.wording import counted
from fitonce.data.sequences import Sequences, sequences
from fitonce.fitting.fit import Fit, fit_at
from fitonce.models.emissions.base import Emission
from fitonce.models.emissions.categories import Categorical, Multinomial
from fitonce.models.emissions.counts import Poisson
from fitonce.models.emissions.gaussian import Gaussian
from fitonce.models.emissions.mixture import GaussianMixture
from fitonce.models.hmm import HMM

_LETTERS = {
    "s": ("initial",),
    "t": ("transition",),
    "m": ("mean",),
    "c": ("variance", "covariance"),
    "w": ("weight",),
    "l": ("rate",),
    "e": ("probability",),
}
_NOTHING = 1e-10  # probabilities below this are zeros: EM only approaches them
_NO_COUNTS = 1e-20  # as good as zero, and its logarithm is a number
# A subclass that has one of these is another model, or is fitted to another objective.
_OWN = (
    "_compute_likelihood", "_compute_log_likelihood", "_do_mstep", "_do_estep",
    "_accumulate_sufficient_statistics", "_initialize_sufficient_statistics", "_fit_log",
    "_fit_scaling", "fit",
)  # fmt: skip


def from_hmmlearn(model: Any, X: Any, lengths: Any = None, *, zeros: float = _NOTHING) -> Fit:
    """A `Fit` at the parameters of a fitted hmmlearn model, whose objective is that model's own: its
    log-likelihood, and the priors that its EM has by default.

    The status says how far EM stopped from a minimum, in standard errors; `fit.polish()` goes on to it.
    Initial, transition and emission probabilities that are zero (below `zeros`) stay exact zeros, in
    folds too, unless these would leave them; the status says whether they are optima on the boundary,
    see `fo.zero_probabilities`. Exact zeros that EM began with are meant, as in a left-to-right chain:
    those of what `init_params` does not draw. They are no parameters in AIC and BIC; other zeros are.

    Args:
        model: a `GaussianHMM` or `GMMHMM` (all four covariance types), `PoissonHMM`, `CategoricalHMM` or
            `MultinomialHMM`, or of a subclass that changes neither density nor EM.
        X, lengths: the data, as hmmlearn has them.
        zeros: probabilities below this are zeros: EM only approaches them.
    """
    require(is_number(zeros) and 0 <= zeros < 0.1, "zeros", "a number from 0 to 0.1", zeros)
    kind = kind_of(model, "hmmlearn", _READERS, _OWN)
    if not hasattr(model, "transmat_"):
        raise ValueError(f"the {kind} must be fitted first: it has no transmat_")
    data = read_lengths(X, lengths)
    columns, came = 1 if kind == "CategoricalHMM" else int(model.n_features), len(data.channels)
    if came != columns:
        wanted = counted(columns, "column")
        raise ValueError(f"X must have {wanted}, as the {kind} was fitted to, got {came}")
    emission, params = _READERS[kind](model, data, zeros)
    params["initial"] = without_dust(model.startprob_, zeros)
    params["transition"] = without_dust(model.transmat_, zeros)
    estimated = _estimated(model, params)
    learned = {name for letter in model.params for name in _LETTERS.get(letter, ())}
    made = HMM(
        int(model.n_components),
        emission,
        initial_concentration=model.startprob_prior,
        transition_concentration=model.transmat_prior,
        frozen={name: value for name, value in params.items() if name not in learned},
    )
    return fit_at(made.zeros.held(estimated), data, params)


_PROBABILITIES = {"initial": "startprob_", "transition": "transmat_", "probability": "emissionprob_"}


def _estimated(model: Any, params: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Parameters with zeros where these are estimates alone. EM keeps a zero that it begins with, and
    begins with what it was given where `init_params` lacks the letter: an exact zero is meant there."""
    fitted = bool(getattr(getattr(model, "monitor_", None), "history", ()))
    drawn = str(model.init_params) if fitted else ""
    found = dict(params)
    for letter in "ste":
        for name in set(_LETTERS[letter]) & set(params) if letter not in drawn else ():
            exact = np.asarray(getattr(model, _PROBABILITIES[name])).reshape(params[name].shape) == 0
            found[name] = np.where(exact, 1.0, params[name])
    return found


def read_lengths(X: Any, lengths: Any) -> Sequences:
    """Rows of all sequences, one after another, and their lengths."""
    rows = as_numbers(X, finite=False)
    if rows is None or rows.ndim not in (1, 2) or not rows.size:
        raise refusal("X", "an array of numbers, (steps,) or (steps, channels)", X)
    with naming("X"):
        read = sequences(rows.reshape(len(rows), -1), lengths=lengths)
    called = X.columns if hasattr(X, "columns") else read.channels  # of a table
    return replace(read, channels=tuple(map(str, called)))


def without_dust(probabilities: Any, zeros: float) -> np.ndarray:
    """Probabilities in float64 that sum to one, and are zero where they were below `zeros`."""
    given = np.asarray(probabilities, float)
    found = np.where(given < zeros, 0.0, given)
    return found / found.sum(-1, keepdims=True)


def _one_for_all(name: str, value: Any, width: int) -> np.ndarray:
    """A prior's value of the last `width` axes, which must be the same for all states and components."""
    array = np.asarray(value, float)
    flat = array.reshape(-1, *array.shape[array.ndim - width :]) if array.ndim > width else array[None]
    if np.ptp(flat, 0).any():
        raise ValueError(f"{name} must be one for all states and components, got shape {array.shape}")
    return flat[0]


def _means_prior(model: Any) -> dict[str, Any]:
    centre = _one_for_all("means_prior", model.means_prior, 1)
    weight = _one_for_all("means_weight", model.means_weight, 0)
    return {"mean_centre": centre, "mean_weight": float(weight)}


def _gaussian(model: Any, data: Sequences, zeros: float) -> tuple[Emission, dict[str, np.ndarray]]:
    """hmmlearn adds `covars_prior` to every entry of a sum of squares, and `covars_weight` less what a
    flat prior has to its mass."""
    shape, channels = model.covariance_type, len(data.channels)
    matrices = shape in ("full", "tied")
    spread = np.asarray(model._covars_, float)  # `covars_` is expanded, and wrong if spherical
    strength = max(float(model.covars_weight) - (channels if matrices else 1), 0.0)
    squares = np.asarray(model.covars_prior, float)
    if squares.ndim > (2 if matrices else 1):
        raise ValueError(f"covars_prior must be one for all states, got shape {squares.shape}")
    spread = spread[:, 0] if shape == "spherical" and spread.ndim == 2 else spread
    emission = Gaussian(shape, strength=strength, squares=squares, **_means_prior(model))
    if shape == "full":
        _require_spread(spread, model, data)
    name = "covariance" if matrices else "variance"
    return emission, {"mean": np.asarray(model.means_, float), name: spread}


def _require_spread(covariances: np.ndarray, model: Any, data: Sequences) -> None:
    """Raise where a state has no spread in some direction, such as one that holds a single point."""
    found = np.linalg.eigvalsh(covariances)
    flat = np.flatnonzero(found[:, 0] <= 1e-12 * found[:, -1])
    if flat.size:
        shares = model.predict_proba(data.values[data.observed.all(-1)])[:, flat[0]]
        row, size = int(shares.argmax()), len(data.channels)  # hmmlearn has no missing rows
        raise ValueError(
            f"state {flat[0]} of the model holds {shares.sum():.1f} observations, most of all row {row} "
            "of X, with a singular covariance: the likelihood has no maximum there; fit fewer states, "
            f"covars_prior=0.1 * np.eye({size}) (a number is added to every entry, which does not "
            "help), or covariance_type='diag' or 'tied'"
        )


def _mixture(model: Any, data: Sequences, zeros: float) -> tuple[Emission, dict[str, np.ndarray]]:
    """Priors as its M step divides: (squares + those of the prior) / (mass + strength)."""
    shape, channels, count = model.covariance_type, len(data.channels), int(model.n_mix)
    weights = without_dust(model.weights_, zeros)
    if (weights == 0).any():
        raise ValueError("weights_ has zeros, components without data; fit with fewer (n_mix)")
    matrices = shape in ("full", "tied")
    prior = _one_for_all("covars_prior", model.covars_prior, 2 if matrices else int(shape == "diag"))
    weight = _one_for_all("covars_weight", model.covars_weight, int(shape == "diag"))
    if matrices:
        means = count if shape == "tied" else 1
        strength, squares = weight + means + channels + 1.0, prior
    elif shape == "diag":
        strength, squares = 2.0 * prior + 3.0, 2.0 * weight
    else:  # its own sums over channels: one of the mean's prior in each, and twice alpha + 1 in all
        strength, squares = 1.0 + 2.0 * (prior + 1.0) / channels, 2.0 * weight / channels
    strength = _one_for_all("covars_prior", strength, 0)
    component = Gaussian(shape, strength=float(strength), squares=squares, **_means_prior(model))
    emission = GaussianMixture(count, component, model.weights_prior)
    name = "covariance" if matrices else "variance"
    params = {"weight": weights, "mean": model.means_, name: model.covars_}
    return emission, {key: np.asarray(value, float) for key, value in params.items()}


def _poisson(model: Any, data: Sequences, zeros: float) -> tuple[Emission, dict[str, np.ndarray]]:
    if np.any(np.asarray(model.lambdas_weight) != 0) or np.any(np.asarray(model.lambdas_prior) != 0):
        raise ValueError("lambdas_prior and lambdas_weight must be 0, as they are by default")
    # EM halves the rate of a state without counts for ever; ours are positive.
    return Poisson(), {"rate": np.maximum(np.asarray(model.lambdas_, float), _NO_COUNTS)}


def _categorical(model: Any, data: Sequences, zeros: float) -> tuple[Emission, dict[str, np.ndarray]]:
    probability = without_dust(model.emissionprob_, zeros)[:, None]
    prior = _one_for_all("emissionprob_prior", model.emissionprob_prior, 1)
    prior = prior.ravel()[0] if np.ptp(prior) == 0 else prior
    return Categorical(probability.shape[-1], prior), {"probability": probability}


def _multinomial(model: Any, data: Sequences, zeros: float) -> tuple[Emission, dict[str, np.ndarray]]:
    probability = without_dust(model.emissionprob_, zeros)[:, None]
    trials = np.unique(np.asarray(model.n_trials))
    known = int(trials[0]) if len(trials) == 1 else None
    return Multinomial(1.0, known), {"probability": probability}


_READERS = {
    "GaussianHMM": _gaussian,
    "GMMHMM": _mixture,
    "PoissonHMM": _poisson,
    "CategoricalHMM": _categorical,
    "MultinomialHMM": _multinomial,
}
