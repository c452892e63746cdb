"""Results of statsmodels: live, and as `python tests/statsmodels_cases.py` stored them."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

STORED = Path(__file__).parent / "saved" / "statsmodels.json"
STEPS = 90
_ATTRIBUTES = (
    "k_regimes", "switching_coeffs", "switching_variance", "endog", "exog", "exog_names", "endog_names",
    "exog_tvtp", "tvtp", "_initialization", "_initial_probabilities", "orig_endog", "order",
    "switching_ar",
)  # fmt: skip
_PURPOSES = ("regime_transition", "exog", "variance", "autoregressive")


def with_stationary_cycle(peer: Any) -> Any:
    """Unobserved components whose last part is a damped cycle: this as stationary as it is (theirs has a
    diffuse start), all before it diffuse."""
    from statsmodels.tsa.statespace.initialization import Initialization

    start, first = Initialization(peer.k_states), peer.k_states - 2
    start.set((0, first), "diffuse")
    start.set((first, peer.k_states), "stationary")
    peer.ssm.initialization = start
    return peer


def data(name: str = "") -> tuple[np.ndarray, np.ndarray]:
    """y (T,) and two known quantities (T, 2); with "slopes", states differ in how y depends on
    these, with "ar" in how they depend on earlier steps, and with "hamilton" in their means."""
    rng = np.random.default_rng(0)
    z = np.cumsum(rng.random(STEPS) < 0.12) % 2
    known = rng.normal(size=(STEPS, 2)).round(3)
    noise = rng.normal(size=STEPS) * np.array([0.5, 1.0])[z]
    if name.startswith("ar"):
        y = np.zeros(STEPS)
        for t in range(1, STEPS):
            y[t] = 1.0 + np.array([0.9, -0.6])[z[t]] * (y[t - 1] - 1.0) + noise[t]
        return (y - 1.0 if name in ("ar-zero", "ar-known") else y).round(4), known
    if name.startswith("hamilton"):
        y, means = np.zeros(STEPS), np.array([0.0, 4.0])[z]
        for t in range(1, STEPS):
            y[t] = means[t] + 0.5 * (y[t - 1] - means[t - 1]) + 0.5 * noise[t]
        return y.round(4), known
    if name == "slopes":
        return ((known * np.array([[1.5, 0.5], [-1.5, 0.5]])[z]).sum(1) + noise).round(4), known
    return (np.array([0.0, 2.5])[z] + known @ [0.8, -0.5] + noise).round(4), known


def model(name: str) -> Any:
    from statsmodels.tsa.regime_switching.markov_autoregression import MarkovAutoregression
    from statsmodels.tsa.regime_switching.markov_regression import MarkovRegression

    y, known = data(name)
    with_level = np.c_[np.ones(STEPS), known[:, 0]]
    arguments: dict[str, dict[str, Any]] = {
        "mean": {"k_regimes": 2},
        "variance": {"k_regimes": 2, "trend": "n", "exog": known, "switching_exog": False,
                     "switching_variance": True},
        "mixed": {"k_regimes": 2, "exog": known, "switching_exog": [True, False],
                  "switching_variance": True},
        "trend": {"k_regimes": 2, "trend": "ct", "switching_trend": [True, False], "exog": known[:, 0]},
        "slopes": {"k_regimes": 2, "switching_trend": False, "exog": known},
        "three": {"k_regimes": 3},
        "known": {"k_regimes": 2, "exog": known, "switching_exog": False},
        "tvtp": {"k_regimes": 2, "exog": known, "exog_tvtp": with_level},
        "ar": {"k_regimes": 2, "order": 1, "switching_trend": False, "switching_variance": True},
        "ar-noise": {"k_regimes": 2, "order": 2, "switching_trend": False, "switching_ar": False,
                     "switching_variance": True},
        "ar-zero": {"k_regimes": 2, "order": 2, "trend": "n"},
        "ar-known": {"k_regimes": 2, "order": 1, "trend": "n"},
        "hamilton": {"k_regimes": 2, "order": 2, "switching_ar": False},
        "hamilton-own": {"k_regimes": 2, "order": 1, "switching_variance": True},
        "hamilton-known": {"k_regimes": 2, "order": 2, "switching_ar": False},
        "hamilton-steady": {"k_regimes": 2, "order": 1, "switching_ar": False, "exog_tvtp": with_level},
        "steady": {"k_regimes": 2, "exog": known, "exog_tvtp": with_level},
        "ar-tvtp": {"k_regimes": 2, "order": 1, "switching_trend": False, "exog_tvtp": with_level},
    }  # fmt: skip
    kind = MarkovAutoregression if name.startswith(("ar", "hamilton")) else MarkovRegression
    made = kind(y, **arguments[name])
    if name.split("-")[-1] in ("known", "tvtp"):
        made.initialize_known([0.8, 0.2])
    return made


NAMES = ["mean", "variance", "mixed", "trend", "slopes", "three", "known", "tvtp"]
NAMES += ["ar", "ar-noise", "ar-zero", "ar-known", "ar-tvtp"]
NAMES += ["hamilton", "hamilton-own", "hamilton-known", "hamilton-steady", "steady"]


def fitted(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "trend":  # their gradients of steps 1 to 90 lead to infinity
            start = [0.9, 0.1, 0.0, 2.5, 0.0, 0.8, 0.8, 0.5]
            return model(name).fit(start, em_iter=0, method="nm", maxiter=5000, disp=False)
        made = model(name)
        if name.startswith("hamilton"):  # their own start leads to states with the same mean
            start = made.start_params
            for k, mean in enumerate([0.0, 4.0]):
                start[made.parameters[k, "exog"]] = mean
                start[made.parameters[k, "autoregressive"]] = 0.5 / np.arange(1, made.order + 1) ** 2
                if not made.tvtp:
                    start[made.parameters[k, "regime_transition"]] = [0.9, 0.1][k]
            start[made.parameters["variance"]] = 0.3
            return made.fit(start, em_iter=0, disp=False)
        return made.fit(disp=False)


class Results:
    """A stand-in with the attributes of results."""


def stored(name: str) -> Any:
    """A stand-in for results, with `llf`."""
    found = json.loads(STORED.read_text())[name]
    results, made = Results(), type(found["kind"], (), {})()
    for key, value in found["model"].items():
        arrays = ("endog", "exog", "exog_tvtp", "orig_endog")
        setattr(made, key, np.array(value) if key in arrays and value else value)
    made.parameters = {
        (k, purpose): places[k]
        for purpose, places in found["places"].items()
        for k in range(len(places))
    }
    results.model, results.llf = made, found["llf"]
    results.params, results.regime_transition = np.array(found["params"]), np.array(found["transition"])
    return results


def _plain(value: Any) -> Any:
    return np.asarray(value).tolist() if isinstance(value, np.ndarray) else value


def _store() -> None:
    everything = {}
    for name in NAMES:
        results = fitted(name)
        made = results.model
        states = range(made.k_regimes)
        everything[name] = {
            "kind": type(made).__name__,
            "model": {key: _plain(getattr(made, key)) for key in _ATTRIBUTES if hasattr(made, key)},
            "places": {
                purpose: [made.parameters[k, purpose] for k in states]
                for purpose in _PURPOSES
                if purpose in made.parameters.k_parameters
            },
            "params": np.asarray(results.params).tolist(),
            "transition": results.regime_transition.tolist(),
            "llf": float(results.llf),
        }
    STORED.write_text(json.dumps(everything) + "\n")


if __name__ == "__main__":
    _store()
