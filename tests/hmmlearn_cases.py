"""Models fitted by hmmlearn: live, and as `python tests/hmmlearn_cases.py` stored them: new ones, and
those that it is given by name."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

STORED = Path(__file__).parent / "saved" / "hmmlearn.json"
LENGTHS = [60, 45, 70, 50, 65, 55]
_ATTRIBUTES = (
    "n_components", "startprob_", "transmat_", "startprob_prior", "transmat_prior", "params",
    "covariance_type", "means_", "_covars_", "covars_prior", "covars_weight", "means_prior",
    "means_weight", "lambdas_", "lambdas_prior", "lambdas_weight", "emissionprob_",
    "emissionprob_prior", "n_mix", "weights_", "weights_prior", "covars_", "n_trials",
    "n_features",
)  # fmt: skip


def data(name: str) -> np.ndarray:
    """That of the model of this name."""
    kind, rng = name.split()[0], np.random.default_rng(0)
    z = np.concatenate([np.cumsum(rng.random(length) < 0.1) % 2 for length in LENGTHS])
    if kind == "PoissonHMM":
        return rng.poisson(np.array([[2.0, 7.0], [9.0, 3.0]])[z])
    if kind == "MultinomialHMM":
        table = np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])
        return rng.multinomial(5, table[z])
    if kind == "GMMHMM":
        centre = np.array([[[0.0, 0.0], [4.0, 0.5]], [[1.0, 6.0], [7.0, 7.0]]])
        return centre[z, (rng.random(len(z)) < 0.4).astype(int)] + rng.normal(size=(len(z), 2))
    if name == "CategoricalHMM zeros":  # the last category only in the second state
        table = np.array([[0.6, 0.3, 0.1, 0.0], [0.1, 0.2, 0.6, 0.1]])
        return np.array([rng.choice(4, p=table[k]) for k in z])[:, None]
    if kind == "CategoricalHMM":
        table = np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])
        return np.array([rng.choice(3, p=table[k]) for k in z])[:, None]
    mix = np.array([[1.0, 0.4], [0.0, 0.8]])
    return np.array([[0.0, 0.0], [2.5, -1.5]])[z] + rng.normal(size=(len(z), 2)) @ mix


def fitted(name: str, n_iter: int = 200) -> Any:
    """A live model; `name` such as "GaussianHMM diag", with "pulled" after it for a prior of means."""
    from hmmlearn import hmm

    kind, shape, pulled = [*name.split(), "", ""][:3]
    how = {"covariance_type": shape} if shape not in ("", "zeros") else {}
    how |= {"n_mix": 2} if kind == "GMMHMM" else {}
    how |= {"means_weight": 2.0, "means_prior": 1.0} if pulled else {}
    logging.getLogger("hmmlearn").setLevel(logging.ERROR)  # MultinomialHMM always warns
    model = getattr(hmm, kind)(2, n_iter=n_iter, tol=1e-9, random_state=1, **how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(data(name), LENGTHS)


NAMES = [
    *(f"GaussianHMM {shape}" for shape in ("diag", "spherical", "full", "tied")),
    *(f"GMMHMM {shape}" for shape in ("diag", "spherical", "full", "tied")),
    "GaussianHMM tied pulled",
    "GMMHMM tied pulled",
    "PoissonHMM",
    "CategoricalHMM",
    "CategoricalHMM zeros",
    "MultinomialHMM",
]


def stored(name: str) -> tuple[Any, float]:
    """A stand-in with the attributes of a fitted model, and the score of its data."""
    found = json.loads(STORED.read_text())[name]
    made = type(name.split()[0], (), {})()
    for key, value in found["attributes"].items():
        setattr(made, key, np.array(value) if isinstance(value, list) else value)
    return made, found["score"]


def _store() -> None:
    everything = json.loads(STORED.read_text())
    for name in NAMES:
        if name in everything and name not in sys.argv:  # those of hmmlearn 0.3.3 stay as they are
            continue
        model = fitted(name)
        attributes = {}
        for key in _ATTRIBUTES:
            if hasattr(model, key):
                value = getattr(model, key)
                attributes[key] = value.tolist() if isinstance(value, np.ndarray) else value
        score = float(model.score(data(name), LENGTHS))
        everything[name] = {"attributes": attributes, "score": score}
    STORED.write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    _store()
