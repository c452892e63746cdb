"""Models fitted by hmmlearn: live, and as `python tests/hmmlearn_cases.py` stored them."""

from __future__ import annotations

import json
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
    "emissionprob_prior",
)  # fmt: skip


def data(kind: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    z = np.concatenate([np.cumsum(rng.random(length) < 0.1) % 2 for length in LENGTHS])
    if kind == "PoissonHMM":
        return rng.poisson(np.array([[2.0, 7.0], [9.0, 3.0]])[z])
    if kind == "CategoricalHMM":
        table = np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])
        return np.array([rng.choice(3, p=table[k]) for k in z])[:, None]
    mix = np.array([[1.0, 0.4], [0.0, 0.8]])
    return np.array([[0.0, 0.0], [2.5, -1.5]])[z] + rng.normal(size=(len(z), 2)) @ mix


def fitted(name: str, n_iter: int = 200) -> Any:
    """A live model; `name` such as "GaussianHMM diag"."""
    from hmmlearn import hmm

    kind, _, shape = name.partition(" ")
    how = {"covariance_type": shape} if shape else {}
    model = getattr(hmm, kind)(2, n_iter=n_iter, tol=1e-9, random_state=1, **how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(data(kind), LENGTHS)


NAMES = [
    *(f"GaussianHMM {shape}" for shape in ("diag", "spherical", "full", "tied")),
    "PoissonHMM",
    "CategoricalHMM",
]


def stored(name: str) -> tuple[Any, float]:
    """A stand-in with the attributes of a fitted model, and the score of its data."""
    found = json.loads(STORED.read_text())[name]
    made = type(name.split()[0], (), {})()
    for key, value in found["attributes"].items():
        setattr(made, key, np.array(value) if isinstance(value, list) else value)
    return made, found["score"]


def _store() -> None:
    everything = {}
    for name in NAMES:
        model = fitted(name)
        attributes = {}
        for key in _ATTRIBUTES:
            if hasattr(model, key):
                value = getattr(model, key)
                attributes[key] = value.tolist() if isinstance(value, np.ndarray) else value
        score = float(model.score(data(name.split()[0]), LENGTHS))
        everything[name] = {"attributes": attributes, "score": score}
    STORED.write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    _store()
