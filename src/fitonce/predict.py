"""Most probable states: tags of a model of labels, hidden states of a chain."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from fitonce.engines.chain import best_path
from fitonce.fit import Fit
from fitonce.labelled import UNKNOWN, Labelled, labelled
from fitonce.labels import LabelObjective
from fitonce.models.base import ChainModel
from fitonce.numerics import in_float64
from fitonce.problem import objective_of
from fitonce.shelves import Shelves, shelved
from fitonce.weighting import A


@in_float64
def predict(fit: Fit, features: Any = None) -> list[Any]:
    """The most probable tags of each sequence, together (Viterbi); for a chain its hidden states, an
    array (T_n,) of integers for each sequence.

    Args:
        fit: of a model of labels, or of a chain.
        features: as for `fo.labelled`, or what it returned; for a chain, other data. None: those of the
            fit.
    """
    if isinstance(fit, Fit) and isinstance(fit.model, ChainModel):
        return _states(fit, features)
    data = _read(fit, features)
    program = fit.problem.program
    tags = np.array(data.tags)
    found = []
    for number, path in enumerate(_shelves(fit, data).best_paths(program, fit.theta)):
        if path is None:
            raise _impossible(number, int(data.lengths[number]))
        found.append(tags[path].tolist())
    return found


@in_float64
def marginals(fit: Fit, features: Any = None) -> list[np.ndarray]:
    """p(z_t | x) of each tag at each token, an array (T_n, K) for each sequence; labels are not used.

    Args:
        fit: of a model of labels.
        features: as for `predict`.
    """
    data = _read(fit, features)
    shelves, everyone = _shelves(fit, data), np.arange(data.n_sequences)
    nothing = np.full((data.n_sequences, shelves.longest), UNKNOWN, np.int32)
    thetas = np.tile(fit.theta, (data.n_sequences, 1))
    found: list[np.ndarray] = [np.zeros(0)] * data.n_sequences
    for some, logs in shelves.log_marginals(fit.problem.program, thetas, everyone, nothing):
        for row, values in zip(some, logs, strict=True):
            found[row] = np.exp(values[: data.lengths[row]])
            if not found[row].sum() > 0:
                raise _impossible(int(row), int(data.lengths[row]))
    return found


def _states(fit: Fit, data: Any) -> list[np.ndarray]:
    objective, read = (fit.problem, fit.data) if data is None else objective_of(fit.model, data)
    if objective.program.space.size != len(fit.theta):
        raise ValueError(f"data must have the {len(fit.data.channels)} channels of the fit's data")
    chain = fit.model.potentials(fit.params_at(fit.theta), objective.prepared)
    everything = jnp.ones(len(objective.base))
    ((_, unary, pairwise),) = A().terms(chain, everything, objective.layout)
    paths, _ = best_path(unary, pairwise[None], objective.layout.lengths)
    return [np.asarray(path)[:length] for path, length in zip(paths, read.lengths, strict=True)]


def _impossible(sequence: int, length: int) -> ValueError:
    return ValueError(f"sequence {sequence} of {length} tokens has no tags that support= allows")


def _read(fit: Fit, features: Any) -> Labelled:
    if not isinstance(fit, Fit) or not isinstance(fit.problem, LabelObjective):
        raise ValueError("predictions need a Fit of a model of labels, such as LinearChainCRF")
    trained: Labelled = fit.data
    if features is None:
        return trained
    data = features
    if not isinstance(features, Labelled):
        # Labels are not used; any will do. What is no list of arrays is refused before they are read.
        parts = features if hasattr(features, "__len__") else []
        lengths = [len(part) if hasattr(part, "__len__") else 0 for part in parts]
        named = [[trained.tags[0]] * length for length in lengths]
        data = labelled(features, named, tags=trained.tags)
    if data.features.shape[1] != trained.features.shape[1]:
        raise ValueError(
            f"the model was fitted with {trained.features.shape[1]} features, "
            f"got {data.features.shape[1]}"
        )
    if data.tags != trained.tags:
        raise ValueError(
            f"the model was fitted with tags {', '.join(trained.tags)}, got {', '.join(data.tags)}; "
            "read the data with fo.labelled(..., tags=) of the training data"
        )
    return data


def _shelves(fit: Fit, data: Labelled) -> Shelves:
    if data is fit.data:
        found: Shelves = fit.problem.layout.shelves
        return found
    design, scores = fit.model.design(data.features, data.lengths)
    return shelved(design, scores, data.lengths)
