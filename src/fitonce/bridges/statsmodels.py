"""Fits of statsmodels' Markov-switching models: the same model, parameters and log-likelihood.

statsmodels need not be installed: what is read are the attributes of its results.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from fitonce.bridges.statsmodels_matrices import channel_names
from fitonce.bridges.statsmodels_space import from_state_space
from fitonce.data.sequences import Sequences, sequences
from fitonce.fitting.fit import Fit, fit_at
from fitonce.models.emissions.base import Emission
from fitonce.models.emissions.switching import SwitchingRegression
from fitonce.models.emissions.switching_autoregression import SwitchingAutoregression
from fitonce.models.hidden.stationary import is_irreducible
from fitonce.models.hmm import HMM

_KINDS = ("MarkovRegression", "MarkovAutoregression")
_NOTHING = 1e-13  # transition probabilities below this are zeros: their optimiser only approaches them
_APART = 1e-6  # nats for each of the log-likelihood's: how far ours may be from theirs


@dataclass(frozen=True)
class _Part:
    """Values of parameters, arguments of the HMM, covariates (T,) by name, and frozen values."""

    params: dict[str, np.ndarray] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    covariates: dict[str, np.ndarray] = field(default_factory=dict)
    frozen: dict[str, np.ndarray] = field(default_factory=dict)


def from_statsmodels(results: Any) -> Fit:
    """A `Fit` at the parameters of statsmodels' results, whose objective is theirs: the log-likelihood,
    without priors.

    The status says how far their optimiser stopped from a minimum, in standard errors; `fit.polish()`
    goes on to it. Transition probabilities that are zero (below 1e-13) stay exact zeros, in folds too
    unless these would leave them.
    After `initialize_known` the data begin with two steps without observations (one for an
    autoregression), as their filter moves known probabilities on before the first observation.

    State-space models (`UnobservedComponents`, `SARIMAX`, `DynamicFactor`, `VARMAX` and others) keep
    their own functions from parameters to matrices. What is diffuse is exactly so here, whatever it is
    there, so that log-likelihoods differ; `polish()` goes to the optimum of the exact one. Only with
    `enforce_stationarity=False` does a large variance stay as it is, and the first `loglikelihood_burn`
    steps of a sequence do not count in likelihoods, as there. Nothing keeps autoregressions stationary
    here. `exog` become covariates of the data, and other data and forecasts need their own.

    Args:
        results: of a state-space model, a `MarkovRegression` or a `MarkovAutoregression`. Switching
            models may have trends, regressors, weights and variances that switch or do not, and
            transition probabilities that depend on `exog_tvtp`.
            Autoregressions around regressors or trends in time are refused, as their emissions would
            depend on earlier values of these. Their optimiser keeps each state's autoregression
            stationary; `polish()` and folds do not.
    """
    model = getattr(results, "model", None)
    kind = type(results if model is None else model).__name__
    if model is not None and hasattr(model, "ssm"):
        return from_state_space(results)
    if model is None or kind not in _KINDS:
        fitted = ", which must be fitted first: model.fit()" if model is None and kind in _KINDS else ""
        raise ValueError(
            f"from_statsmodels reads results of {', '.join(_KINDS)} and of state-space models, got "
            f"{kind}{fitted}"
        )
    values = np.asarray(results.params, float)
    lagged = kind == "MarkovAutoregression"
    y = np.asarray(model.orig_endog if lagged else model.endog, float).ravel()
    if not np.isfinite(y).all():
        raise ValueError("endog has missing values, of which statsmodels has no log-likelihood")
    if not (np.isfinite(values).all() and np.isfinite(results.llf)):
        raise ValueError(
            f"the results must have finite parameters and log-likelihood, got llf = {results.llf:g}; "
            "fit the model from other starting values"
        )
    emission, regression = (_autoregression if lagged else _regression)(model, values)
    chain = _varying(model, values) if model.tvtp else _plain(results)
    first = _first(model)
    made = HMM(
        int(model.k_regimes),
        emission,
        initial_concentration=1.0,
        transition_concentration=1.0,
        transition_scale=None,
        frozen=chain.frozen | first.frozen,
        **(chain.arguments | first.arguments),
    )
    # Their filter moves known first probabilities twice before the first observation of a regression,
    # and once before the first of an autoregression, which is only conditioned on.
    lead = 0 if made.stationary else 1 if lagged else 2
    known = regression.covariates | chain.covariates
    data = _data(channel_names(model)[0], y, known, lead, _index(model, len(y)))
    fit = fit_at(made, data, regression.params | chain.params | first.params)
    if abs(fit.log_likelihood - results.llf) > _APART * (1.0 + abs(results.llf)):
        raise ValueError(
            f"the log-likelihood of these parameters is {fit.log_likelihood:.6f} here and "
            f"{results.llf:.6f} there, so that the model was not read as it is meant; please report it"
        )
    return fit


def _index(model: Any, steps: int) -> pd.Index | None:
    """That of the user's table, if it was one."""
    given = getattr(getattr(getattr(model, "data", None), "orig_endog", None), "index", None)
    return given if isinstance(given, pd.Index) and len(given) == steps else None


def _data(
    name: str, y: np.ndarray, covariates: dict[str, np.ndarray], lead: int, index: pd.Index | None
) -> Sequences:
    """One sequence, with so many steps before it, and an index if there are none."""
    table = pd.DataFrame({name: np.concatenate([np.full(lead, np.nan), y])})
    if index is not None and not lead:
        table.index = index
    beside = {
        key: np.concatenate([column[:1].repeat(lead), column]) for key, column in covariates.items()
    }
    return sequences(table, covariates=beside or None)


def _regression(model: Any, values: np.ndarray) -> tuple[Emission, _Part]:
    """The emission, its parameters and covariates."""
    rows = len(np.asarray(model.endog))
    design = np.zeros((rows, 0)) if model.exog is None else np.asarray(model.exog, float)
    names = [] if model.exog is None else [str(name) for name in model.exog_names]
    switches = np.asarray(model.switching_coeffs, bool)
    states = range(int(model.k_regimes))
    coefficients = np.array([values[list(model.parameters[k, "exog"])] for k in states])
    coefficients = coefficients.reshape(len(states), design.shape[1])
    variance = np.array([values[list(model.parameters[k, "variance"])] for k in states])
    level = _level(design, "exog")
    others = np.arange(design.shape[1]) != (-1 if level is None else level)
    own, common = np.flatnonzero(others & switches), np.flatnonzero(others & ~switches)
    by_state = bool(model.switching_variance)
    emission = SwitchingRegression(
        tuple(names[j] for j in own),
        tuple(names[j] for j in common),
        mean="zero" if level is None else "state" if switches[level] else "shared",
        variance="state" if by_state else "shared",
        coefficient_scale=None,
        strength=0.0,
    )
    params = {"variance": variance if by_state else variance[0]}
    if level is not None:
        mean = coefficients[:, [level]] * design[0, level]
        params["mean"] = mean if switches[level] else mean[0]
    if len(own):
        params["coefficients"] = coefficients[:, None, own]
    if len(common):
        params["shared_coefficients"] = coefficients[:1, common]
    covariates = {names[j]: design[:, j] for j in (*own, *common)}
    return emission, _Part(params, covariates=covariates)


def _autoregression(model: Any, values: np.ndarray) -> tuple[Emission, _Part]:
    """The emission and its parameters; what cannot be one is refused by name."""
    design = np.zeros((1, 0)) if model.exog is None else np.asarray(model.exog, float)
    if design.shape[1] > 1 or _level(design, "exog") != (0 if design.shape[1] else None):
        raise ValueError(
            "a MarkovAutoregression with exog or a trend in time depends on their earlier values, which "
            "an emission here cannot; use trend='c' or trend='n' without exog"
        )
    switches, by_state = set(map(bool, model.switching_ar)), bool(model.switching_variance)
    if len(switches) > 1:
        raise ValueError("switching_ar must be the same for all lags, got " + str(model.switching_ar))
    own, moving = switches == {True}, bool(np.any(model.switching_coeffs))
    if by_state and (own or moving) and model.order > 1:
        raise ValueError(
            "switching_variance of a MarkovAutoregression of order above 1 is read by the state of an "
            "earlier step in statsmodels, so that its log-likelihood is that of another model; fit "
            "fo.models.SwitchingAutoregression"
        )
    emission = SwitchingAutoregression(
        int(model.order),
        weight="state" if own else "shared",
        variance="state" if by_state else "shared",
        mean="zero" if not design.shape[1] else "state" if moving else "shared",
        weight_scale=None,
        strength=0.0,
    )

    def of(purpose: str) -> np.ndarray:
        states = range(int(model.k_regimes))
        return np.array([values[list(model.parameters[k, purpose])] for k in states])

    weight, variance = of("autoregressive"), of("variance")[:, 0]
    params = {"weight": weight if own else weight[0], "variance": variance if by_state else variance[0]}
    if design.shape[1]:
        mean = of("exog")[:, 0] * design[0, 0]
        params["mean"] = mean if moving else mean[0]
    return emission, _Part(params)


def _level(design: np.ndarray, name: str) -> int | None:
    """The column that is constant, if there is one."""
    found = np.flatnonzero(np.ptp(design, axis=0) == 0)
    if len(found) > 1:
        raise ValueError(
            f"{name} has {len(found)} constant columns, trend included, of which one says all"
        )
    if len(found) and design[0, found[0]] == 0:
        raise ValueError(f"{name} has a column of zeros, whose coefficient has no estimate")
    return int(found[0]) if len(found) else None


def _plain(results: Any) -> _Part:
    """Transition probabilities that are the same at every step; theirs are from column to row."""
    moves = np.asarray(results.regime_transition, float)[..., 0].T
    without = np.where(moves < _NOTHING, 0.0, moves)
    if is_irreducible(without > 0):
        moves = without / without.sum(1, keepdims=True)
    return _Part({"transition": moves})


def _varying(model: Any, values: np.ndarray) -> _Part:
    """Logits of transitions against the last state are linear in `exog_tvtp`; ours are against staying,
    and those of covariates that are zero are probabilities."""
    known, states = np.asarray(model.exog_tvtp, float), int(model.k_regimes)
    logits = np.zeros((states, states, known.shape[1]))
    for k in range(states):
        own = values[list(model.parameters[k, "regime_transition"])]
        logits[k, :-1] = own.reshape(states - 1, known.shape[1])
    level = _level(known, "exog_tvtp")
    frozen: dict[str, np.ndarray] = {}
    if level is None:
        frozen["transition"] = moves = np.full((states, states), 1.0 / states)
    else:
        odds = logits[:, :, level] * known[0, level]
        moves = np.exp(odds - odds.max(1, keepdims=True))
        moves /= moves.sum(1, keepdims=True)
    others = [column for column in range(known.shape[1]) if column != level]
    params = {"transition": moves}
    if others:
        stay = logits[np.arange(states), np.arange(states)][:, None]
        params["transition_coefficients"] = (logits - stay)[:, :, others]
    covariates = {f"tvtp{column}": known[:, column] for column in others}
    return _Part(params, {"transition_covariates": tuple(covariates)}, covariates, frozen)


def _first(model: Any) -> _Part:
    """The initial distribution: that in which the chain is steady, or known."""
    if model._initialization == "known":
        first = np.asarray(model._initial_probabilities, float)
        return _Part({"initial": first}, {"initial_support": first > 0}, frozen={"initial": first})
    return _Part(arguments={"stationary": True})
