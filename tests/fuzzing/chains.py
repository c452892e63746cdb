"""Hidden Markov models against a forward algorithm."""

from __future__ import annotations

from typing import Any

import numpy as np

import fitonce as fo
from fuzzing.judges import Chain, close, log_densities
from fuzzing.reading import as_given, check_folds, make_folds, own_reading
from fuzzing.scoring import check_answers, check_losses

MADE = {
    "poisson": fo.models.Poisson,
    "binomial": lambda: fo.models.Binomial(trials=30),
    "negative-binomial": fo.models.NegativeBinomial,
    "zero-inflated": fo.models.ZeroInflatedPoisson,
    "gaussian": lambda: fo.models.Gaussian(scale=1.0),
    "spherical": lambda: fo.models.Gaussian("spherical", scale=1.0),
    "fixed": lambda: fo.models.Gaussian("fixed"),
    "full": lambda: fo.models.Gaussian("full", scale=1.0),
    "tied": lambda: fo.models.Gaussian("tied", scale=1.0),
    "student-t": fo.models.StudentT,
    "log-normal": fo.models.LogNormal,
    "gamma": fo.models.Gamma,
    "zero-inflated-gamma": fo.models.ZeroInflatedGamma,
    "exponential": fo.models.Exponential,
    "beta": fo.models.Beta,
    "von-mises": fo.models.VonMises,
    "categorical": lambda: fo.models.Categorical(4),
}
FLAT = ("poisson", "binomial", "fixed")  # emissions whose parameters have flat priors


def judge(recipe: dict[str, Any]) -> None:
    """Raise unless everything about the model of a recipe is right; refusals pass through."""
    given, lengths = as_given(recipe["data"], recipe["form"])
    own, kind, options = own_reading(given, lengths), recipe["emission"], dict(recipe["options"])
    states = options.pop("n_states", recipe["states"])
    model = fo.models.HMM(states, MADE[kind](), **options)
    if recipe["fit"] is None:
        channels = 1 if own is None else own[0].shape[1]
        params = drawn(kind, int(states), channels, recipe)
        fit = fo.fit_at(model, given, params, lengths=lengths)
        for name in params:
            close(f"parameter {name}", fit.params[name], params[name])
    else:
        fit = fo.fit(model, given, lengths=lengths, restarts=1, optima=0, progress=False)
    assert own is not None, "accepted: data that cannot be read"

    def at(values: Any) -> list[Chain]:
        return [Chain.of(values, log_densities(kind, values, part)) for part in own]

    seen = [~np.isnan(part).all(1) for part in own]
    if not check_answers(fit, at(fit.params), seen, paths=True):
        return
    folds = make_folds(recipe["folds"], given, lengths=lengths)
    units = np.concatenate(seen)
    units = np.array([one.any() for one in seen]) if folds.kind == "sequences" else units
    check_folds(folds, recipe["folds"], units, np.array([len(one) for one in seen]))
    method = recipe["fit"] or "none"
    cv = fo.cross_validate(
        fit, folds, method=method, loss=recipe["loss"], optima=0, progress=False, check=_checked(method)
    )
    check_losses(cv, folds, at, seen)
    if method == "exact" and kind in FLAT and not options:
        check_minima(cv, folds, at, seen)


def _checked(method: str) -> Any:
    return None if method == "auto" else False


def check_minima(cv: Any, folds: Any, at: Any, seen: list[np.ndarray]) -> None:
    """An exact refit of a fold is better for what the fold keeps than the full fit is."""
    ends = np.cumsum([len(one) for one in seen])[:-1]
    for fold, out in enumerate(folds.dropped):
        kept = np.concatenate(seen).copy()
        if folds.kind == "sequences":
            number = np.repeat(np.arange(len(seen)), [len(one) for one in seen])
            kept[np.isin(number, out)] = False
        else:
            kept[out] = False
        values = []
        for params in (cv.params(fold), cv.fit.params):
            chain = [np.ravel(params[name]) for name in ("initial", "transition")]
            with np.errstate(divide="ignore"):
                prior = 0.1 * np.log(np.concatenate(chain)).sum()
            pairs = zip(at(params), np.split(kept, ends), strict=True)
            likelihood = sum(part.log_likelihood(one) for part, one in pairs)
            values.append(prior + likelihood)
        if cv.folds["status"].iloc[fold].startswith("converged") and np.isfinite(values[1]):
            worse = values[1] - values[0]
            assert worse < 1e-6 * (1 + abs(values[1])), f"exact refit of fold {fold}: worse by {worse:g}"


def drawn(kind: str, states: int, channels: int, recipe: dict[str, Any]) -> dict[str, Any]:
    """Parameters at random; `far`: how far emissions are from usual values, in logarithms."""
    rng, far = np.random.default_rng(recipe["seed"]), recipe["far"]
    shape = (states, channels)
    found = {"transition": _simplex(rng, (states, states), recipe["zeros"])}
    if not recipe["options"].get("stationary"):
        found["initial"] = _simplex(rng, (states,), recipe["zeros"])
    if recipe["options"].get("end_prior"):
        found["end"] = rng.uniform(0.05, 0.9, states)

    def positive(middle: float) -> np.ndarray:
        return middle * np.exp(far**0.5 * rng.normal(size=shape))

    def centre() -> np.ndarray:
        return 5.0 * far * rng.normal(size=shape)

    def share() -> np.ndarray:
        return 1.0 / (1.0 + np.exp(far**0.5 * rng.normal(size=shape)))

    made: dict[str, Any] = {
        "poisson": lambda: {"rate": positive(5.0)},
        "binomial": lambda: {"rate": share()},
        "negative-binomial": lambda: {"mean": positive(5.0), "size": positive(3.0)},
        "zero-inflated": lambda: {"rate": positive(5.0), "zeros": share()},
        "gaussian": lambda: {"mean": centre(), "variance": positive(30.0)},
        "spherical": lambda: {"mean": centre(), "variance": positive(30.0)[:, 0]},
        "fixed": lambda: {"mean": centre()},
        "full": lambda: {"mean": centre(), "covariance": _covariance(rng, (states,), channels)},
        "tied": lambda: {"mean": centre(), "covariance": _covariance(rng, (), channels)},
        "student-t": lambda: {"location": centre(), "scale": positive(5.0), "df": positive(5.0)},
        "log-normal": lambda: {"mean": rng.normal(size=shape), "variance": positive(1.0)},
        "gamma": lambda: {"mean": positive(5.0), "shape": positive(2.0)},
        "zero-inflated-gamma": lambda: {"mean": positive(5.0), "shape": positive(2.0), "zeros": share()},
        "exponential": lambda: {"mean": positive(5.0)},
        "beta": lambda: {"mean": share(), "precision": positive(5.0)},
        "von-mises": lambda: {"mean": rng.uniform(-3, 3, shape), "concentration": positive(1.0)},
        "categorical": lambda: {"probability": _simplex(rng, (*shape, 4), recipe["zeros"])},
    }
    return found | made[kind]()


def _simplex(rng: np.random.Generator, shape: tuple[int, ...], zeros: float) -> np.ndarray:
    """Probabilities along the last axis, some of them zero."""
    found = rng.gamma(1.0, size=shape) + 1e-3
    found[rng.random(shape) < zeros] = 0.0
    found[..., 0] += found.sum(-1) == 0
    return found / found.sum(-1, keepdims=True)


def _covariance(rng: np.random.Generator, batch: tuple[int, ...], channels: int) -> np.ndarray:
    factor = 5.0 * rng.normal(size=(*batch, channels, channels))
    return factor @ np.swapaxes(factor, -1, -2) + np.eye(channels)
