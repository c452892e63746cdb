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
    "exog_tvtp", "tvtp", "_initialization", "_initial_probabilities",
)  # fmt: skip
_PURPOSES = ("regime_transition", "exog", "variance")


def data() -> tuple[np.ndarray, np.ndarray]:
    """y (T,) and two known quantities (T, 2), which last some steps."""
    rng = np.random.default_rng(0)
    z = np.cumsum(rng.random(STEPS) < 0.12) % 2
    known = rng.normal(size=(STEPS, 2)).round(3)
    noise = rng.normal(size=STEPS) * np.array([0.5, 1.0])[z]
    return (np.array([0.0, 2.5])[z] + known @ [0.8, -0.5] + noise).round(4), known


def model(name: str) -> Any:
    from statsmodels.tsa.regime_switching.markov_regression import MarkovRegression

    y, known = data()
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
    }  # fmt: skip
    made = MarkovRegression(y, **arguments[name])
    if name in ("known", "tvtp"):
        made.initialize_known([0.8, 0.2])
    return made


NAMES = ["mean", "variance", "mixed", "trend", "slopes", "three", "known", "tvtp"]


def fitted(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model(name).fit(disp=False)


class Results:
    """A stand-in with the attributes of results."""


def stored(name: str) -> Any:
    """A stand-in for results, with `llf`."""
    found = json.loads(STORED.read_text())[name]
    results, made = Results(), type("MarkovRegression", (), {})()
    for key, value in found["model"].items():
        setattr(made, key, np.array(value) if key in ("endog", "exog", "exog_tvtp") and value else value)
    made.parameters = {
        (k, purpose): places[k] for purpose, places in found["places"].items() for k in range(len(places))
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
            "model": {key: _plain(getattr(made, key)) for key in _ATTRIBUTES},
            "places": {p: [made.parameters[k, p] for k in states] for p in _PURPOSES},
            "params": np.asarray(results.params).tolist(),
            "transition": results.regime_transition.tolist(),
            "llf": float(results.llf),
        }
    STORED.write_text(json.dumps(everything) + "\n")


if __name__ == "__main__":
    _store()
