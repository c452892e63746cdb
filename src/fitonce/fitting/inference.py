"""Likelihoods and states of data, those of a fit or others, at the parameters of the fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fitonce.core.arguments import require_count
from fitonce.core.numerics import in_float64
from fitonce.data.indices import indices_of, of_states, site_index
from fitonce.data.sequences import Sequences, sequences_like, with_lengths
from fitonce.objectives.abilities import HasContinuousStates, HasLabels
from fitonce.objectives.base import Objective
from fitonce.objectives.labels.predictions import read_labelled
from fitonce.objectives.schemes import Structures
from fitonce.objectives.simulation import Simulator, require_seed
from fitonce.results.laplace_error import LaplaceError
from fitonce.results.smoothed import Smoothed

if TYPE_CHECKING:
    from fitonce.fitting.fit import Fit

_MOST_DRAWS = 10**6  # of paths: their error is then far below that of the approximation


@in_float64
def log_likelihoods(fit: Fit, data: Any, lengths: Any, called: str = "log_likelihood_of") -> np.ndarray:
    """(N,) log p(x_n) of the sequences of other data; of models of labels, log p(y_n | x_n). `called`:
    what the user did."""
    if isinstance(fit.objective, HasLabels):
        return _of_labels(fit, data, lengths)
    if not fit.objective.traits.sequences:
        of_fit = "" if called == "log_likelihood_of" else "; fit.score() is that of the fit's own data"
        raise ValueError(f"{called} of other data needs a model of sequences, got {fit.model}{of_fit}")
    return _of_sequences(fit.objective.for_prediction(_given(fit, data, lengths)), fit.theta)


def _of_labels(fit: Fit, data: Any, lengths: Any) -> np.ndarray:
    if lengths is not None:
        raise ValueError("lengths= is for one array of all sequences; labelled data have their own")
    objective: Any = fit.objective
    read = fit.model.prepare(read_labelled(objective.data, data))
    return _of_sequences(objective.on(read), fit.theta)


def _of_sequences(objective: Objective, theta: np.ndarray) -> np.ndarray:
    along = objective.with_scheme(Structures())
    everyone = np.arange(len(along.base))[None]
    return -along.pointwise_losses(theta[None], along.base[None], everyone)[0]


def posterior(fit: Fit, sequence: Any = None) -> Any:
    """(sites, K) probabilities of the states, see `Fit.posterior`."""
    sites = fit.objective.collection
    number = None if sequence is None else sites.sequence_number(sequence)
    found = fit.objective.state_probabilities(fit.theta)
    if number is None:
        return of_states(found, site_index(sites))
    indices = indices_of(sites)
    return of_states(found[sites.sites_of(number)], None if indices is None else indices[number])


def decode(fit: Fit, data: Any, lengths: Any, sequence: Any = None) -> Any:
    """The most probable states of each sequence, or of one, see `fo.predict`."""
    objective = fit.objective.for_prediction(_given(fit, data, lengths))
    sites = objective.collection
    number = None if sequence is None else sites.sequence_number(sequence)
    paths, indices = objective.decode(fit.theta), indices_of(sites)
    if indices is not None:
        paths = [pd.Series(p, index=i, name="state") for p, i in zip(paths, indices, strict=True)]
    return paths if number is None else paths[number]


def marginals(fit: Fit, data: Any, lengths: Any) -> list[Any]:
    """Probabilities of the states of each sequence, see `fo.marginals`."""
    objective = fit.objective.for_prediction(_given(fit, data, lengths))
    collection = objective.collection
    parts = np.split(objective.state_probabilities(fit.theta), collection.offsets[1:])
    indices = indices_of(collection) or (None,) * len(parts)
    return [of_states(part, index) for part, index in zip(parts, indices, strict=True)]


def simulator(fit: Fit, verb: str) -> Simulator:
    """What makes random data and forecasts at the parameters of a fit, for `verb`."""
    if not fit.objective.traits.simulates:
        got = type(fit.model).__name__
        raise ValueError(f"{verb} needs an HMM or a state-space model, got {got}")
    return fit.objective.simulator(fit.theta)


def smoothed(fit: Fit, data: Any, lengths: Any, sequence: Any = None) -> Smoothed:
    """See `Fit.smoothed`."""
    objective = _continuous(fit, "smoothed", data, lengths, sequence)
    return _of_one(objective.smoothed(fit.theta), sequence)


def components(fit: Fit, data: Any, lengths: Any, sequence: Any = None) -> Smoothed:
    """See `Fit.components`."""
    objective = _continuous(fit, "components", data, lengths, sequence)
    return _of_one(objective.components(fit.theta), sequence)


def _of_one(found: Smoothed, sequence: Any) -> Smoothed:
    return found if sequence is None else found.of_sequence(sequence)


def laplace_error(fit: Fit, draws: int, seed: int) -> LaplaceError:
    """See `Fit.laplace_error`."""
    require_count("draws", draws, least=4, most=_MOST_DRAWS)
    require_seed(seed)
    if not (isinstance(fit.objective, HasContinuousStates) and fit.objective.approximation):
        raise ValueError(f"laplace_error needs a state-space model of counts, got {fit.model}")
    return fit.objective.laplace_error(fit.theta, int(draws), int(seed))


def _continuous(fit: Fit, verb: str, data: Any, lengths: Any, sequence: Any) -> Any:
    """The objective of a state-space model on data, those of the fit if None, which have `sequence`."""
    if not isinstance(fit.objective, HasContinuousStates):
        raise ValueError(f"{verb} needs a state-space model, got {type(fit.model).__name__}")
    objective = fit.objective.for_prediction(_given(fit, data, lengths))
    if sequence is not None:
        objective.collection.sequence_number(sequence)  # raises before the work, not after it
    return objective


def _given(fit: Fit, data: Any, lengths: Any) -> Any:
    """Data for `Objective.for_prediction`; where lengths of sequences are given, read as those."""
    if lengths is None:
        return data
    if data is None:
        raise ValueError("lengths= needs the data that they are of")
    known = fit.objective.collection
    if isinstance(known, Sequences):
        return sequences_like(known, data, lengths)
    return with_lengths(data, lengths)
