"""Matrices of statsmodels' state-space models for any data, with steps and regressors of their own.

Their models keep the matrices of the last parameters in themselves: one thread at a time may ask.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd

from fitonce.models.space.system import PEER_MATRICES, Series

# Their models made anew for other data, by model and data: kept, since they are costly to make.
_MADE: WeakKeyDictionary[Any, WeakKeyDictionary[Series, list[Any]]] = WeakKeyDictionary()


def channel_names(peer: Any) -> list[str]:
    """Names of the columns of the user's table; x0, x1, ... where it had none.

    statsmodels calls such columns y, a name that a user may have given, too.
    """
    table = getattr(getattr(peer, "data", None), "orig_endog", None)
    named = isinstance(table, pd.DataFrame) or (isinstance(table, pd.Series) and table.name is not None)
    given = peer.endog_names if isinstance(peer.endog_names, list) else [peer.endog_names]
    return list(map(str, given)) if named else [f"x{number}" for number in range(len(given))]


def regressors(peer: Any) -> dict[str, np.ndarray]:
    """The user's columns of `exog`, by statsmodels' names. They are x1, x2, ... where those names come
    twice, or where statsmodels counted columns of a trend."""
    if peer.exog is None:
        return {}
    trends = _trend_names(peer)
    columns = np.asarray(peer.exog, float).reshape(len(peer.exog), -1).T[len(trends) :]
    names = getattr(peer, "exog_names", None)
    names = [names] if isinstance(names, str) else list(names or ())
    counted = trends != list(map(str, names[: len(trends)]))
    names = names[len(trends) :]
    if counted or len({*map(str, names)}) != len(columns):
        names = [f"x{number + 1}" for number in range(len(columns))]
    return dict(zip(map(str, names), columns, strict=True))


def _trend_names(peer: Any) -> list[str]:
    """Names of the first columns of `exog`, which an ARIMA makes for its trend: "const", "drift"."""
    order = getattr(peer, "_spec_arima", None)
    return [] if order is None else list(map(str, order.construct_trend_names()))


def parameter_names(peer: Any) -> tuple[str, ...]:
    """Names of parameters in statsmodels. Coefficients of an ARIMA's trend and regressors are called as
    their columns are, since statsmodels may count columns of a trend as x1."""
    names = list(map(str, peer.param_names))
    trends = _trend_names(peer)
    if trends:
        columns = [*trends, *regressors(peer)]
        names[: len(columns)] = columns
    return tuple(names)


def varying(peer: Any) -> set[str]:
    """Names of the matrices that have an entry for each step."""
    return {name for name in PEER_MATRICES if peer.ssm[name].ndim > PEER_MATRICES[name]}


def matrices(peer: Any, params: np.ndarray, steps: Series) -> dict[str, np.ndarray]:
    """Matrices by name, with a first axis of one entry, or of one for each step of all sequences."""
    moving, lengths = varying(peer), np.diff(steps.starts)
    each = [_updated(one, params) for one in models_of(peer, steps)]
    found = {}
    for name in PEER_MATRICES:
        if name not in moving:
            found[name] = each[0][name]
            continue
        parts = zip(each, lengths, strict=True)
        found[name] = np.concatenate([one[name][:count] for one, count in parts])
    return found


def _updated(peer: Any, params: np.ndarray) -> dict[str, np.ndarray]:
    """Matrices of one model by name, with a first axis of steps."""
    peer.update(params, transformed=True, complex_step=np.iscomplexobj(params))
    found = {}
    for name, axes in PEER_MATRICES.items():
        array = np.array(peer.ssm[name])
        array = array if np.iscomplexobj(params) else array.real  # after complex ones they stay so
        found[name] = np.moveaxis(array, -1, 0) if array.ndim == axes + 1 else array[None]
    drift = found["state_intercept"]
    if len(drift) > 1:  # the last leads to a step whose regressors are not known
        drift[-1] = np.where(np.isnan(drift[-1]), 0.0, drift[-1])
    return found


def models_of(peer: Any, steps: Series) -> list[Any]:
    """The model itself where its matrices do not vary or the steps are its own; else one made for each
    sequence."""
    if not varying(peer) or _is_own(peer, steps):
        return [peer]
    made = _MADE.setdefault(peer, WeakKeyDictionary())
    if steps not in made:
        parts = [steps.sequence(number) for number in range(len(steps.starts) - 1)]
        made[steps] = [_of_steps(peer, part) for part in parts]
    return made[steps]


def _is_own(peer: Any, steps: Series) -> bool:
    """Whether the steps are those the model was made for: by regressors or, where it has none, by
    observations."""
    if len(steps.starts) > 2 or len(steps.y) != len(peer.endog):
        return False
    if steps.covariates.shape[1]:
        return np.array_equal(steps.covariates.T, list(regressors(peer).values()))
    seen = np.where(steps.seen, steps.y, np.nan)
    return np.array_equal(seen, np.asarray(peer.endog, float).reshape(seen.shape), equal_nan=True)


def _of_steps(peer: Any, steps: Series) -> Any:
    """The model made anew for one sequence and a further step, with the same first state."""
    # The further step differs: statsmodels refuses constant regressors, as few steps may have, beside
    # a trend.
    known = np.concatenate([steps.covariates, steps.covariates[-1:] + 1.0])
    how: dict[str, Any] = {"exog": known} if known.shape[1] else {}
    begin = getattr(getattr(peer, "_spec_arima", peer), "trend_offset", 1)
    if begin != 1:  # which clones of a VARMAX or an ARIMA would not keep
        how["trend_offset"] = begin
    if getattr(peer, "simple_differencing", False):  # data and regressors are differences already
        (p, _, q), (seasonal_p, _, seasonal_q, season) = peer.order, peer.seasonal_order
        how["order"], how["seasonal_order"] = (p, 0, q), (seasonal_p, 0, seasonal_q, season)
        how["simple_differencing"] = False
    try:
        found = peer.clone(np.zeros((len(known), steps.y.shape[1])), **how)
    except NotImplementedError as error:
        raise ValueError(
            f"{type(peer).__name__} of statsmodels has matrices that change with time: for other data "
            "and for later steps it needs a method clone(endog, exog=), which it does not have"
        ) from error
    found.ssm.initialization = peer.ssm.initialization
    return found
