"""Motion capture: the data, the models and the folds that its tables share.

Channels are divided by their standard deviation in the training sequences, so that the priors mean
the same for all of them. The trials are a stand-in for those of Fox et al. (2014): 124 of the same
database, with the same channels and preprocessing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

import fitonce as fo
from reproduce import traffic

STATES, TRAIN, TEST, LONGEST = 16, 100, 24, 100
WEIGHTS = 0.3  # prior standard deviation of a network's weights; the paper does not give its own
ORDERS = ("AR(0)", "AR(1)", "AR(2)", "AR(3)", "AR(4)", "AR(5)", "NAR(1)")


class Trials(NamedTuple):
    """Standardised sequences (T_n, 12)."""

    train: list[np.ndarray]
    test: list[np.ndarray]


def chosen_orders() -> tuple[str, ...]:
    """All models, or those that MOCAP_MODELS names, such as "AR(0) AR(1)"."""
    return tuple(os.environ.get("MOCAP_MODELS", "").split()) or ORDERS


def trials() -> Trials:
    """100 of the 124 trials to train on and 24 to test on, up to 100 steps of each."""
    data = fo.datasets.load("mocap124_standin", traffic.FOLDER)
    order = np.random.default_rng(0).permutation(data.n_sequences)
    parts = [data.values[n, : min(data.lengths[n], LONGEST)] for n in order]
    scale = np.concatenate(parts[:TRAIN]).std(0)
    scaled = [part / scale for part in parts]
    return Trials(scaled[:TRAIN], scaled[TRAIN:])


def model(name: str, states: int = STATES) -> fo.models.HMM:
    """ "AR(p)" or "NAR(1)"."""
    order = int(name[name.index("(") + 1 : -1])
    if name.startswith("NAR"):
        return fo.models.NeuralARHMM(states, order, weight_scale=WEIGHTS)
    return fo.models.ARHMM(states, order)


def fitted(
    path: Path, definition: fo.models.HMM, sequences: list[np.ndarray], restarts: int
) -> tuple[fo.Fit, float]:
    """The fit, from its file where there is one, and the time that it took."""
    if path.exists():
        with np.load(path) as file:
            params = {key: file[key] for key in file.files if key != "seconds"}
            seconds = float(file["seconds"])
        fit = fo.fit_at(definition, sequences, params)
        if fit.ok:  # else the file is of another definition
            return fit, seconds
    fit = fo.fit(definition, sequences, restarts=restarts, seed=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, seconds=fit.seconds, **fit.params)
    return fit, fit.seconds


def plain(name: str) -> str:
    """Of a model, for files."""
    return name.replace("(", "").replace(")", "")


def emission_parameters(fit: fo.Fit) -> int:
    """What the paper counts as D: without the chain's, and without the variance."""
    return sum(not name.startswith(("initial", "transition", "variance")) for name in fit.names)
