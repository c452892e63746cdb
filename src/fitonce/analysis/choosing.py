"""The rule of `select`: which models are near the best, and which of these is the simplest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fitonce.objectives.abilities import HasContinuousStates

_CHANCE = 0.32  # of a difference beyond one standard error, in either direction


def judged(table: pd.DataFrame, best: str, margin: float) -> tuple[list[str], list[str]]:
    """Of a table with `nats` and `p`: the models within a margin of the best, from which to choose, and
    those that predict about as well, also by their standard errors. Where losses are not in nats both
    are by standard errors, and without those nothing is known."""
    within_se = table["p"] >= _CHANCE
    in_nats = table["nats"].notna()
    near = np.where(in_nats, table["nats"] < margin, within_se | table["p"].isna())
    near = near | (table.index == best)
    names = table.index.map(str)
    return list(names[near]), list(names[near | within_se])


def simplest_of(table: pd.DataFrame, names: list[str], unknown: Mapping[str, int]) -> str:
    """Of some models: that with the fewest parameters and unknown first states, such as a fixed slope,
    and of several such that with the lowest loss."""

    sizes = table["parameters"] + pd.Series(unknown)
    return min(names, key=lambda name: (sizes[name], table["estimate"][name]))


class Criteria(NamedTuple):
    """By model: the number of `parameters`, how many of them are `at_zero`, `aic` and `bic`; and
    `given`, the number of observed steps at the beginning of each sequence that likelihoods are given,
    as first states are unknown; `unknown`: the number of these by model."""

    rows: dict[str, dict[str, Any]]
    given: int
    unknown: dict[str, int]


def criteria(fits: Mapping[str, Any]) -> Criteria:
    """The number of parameters, AIC, and BIC with observed sites as observations. Parameters at zero
    count: before the fit nobody knew which would end there. They are of the sites for which every model
    has a density: autoregressions condition on their first steps. Where nothing is known about first
    states, likelihoods have no common unit; those of what follows have, given as many steps as determine
    the first states of every model."""
    common = np.minimum.reduce([fitted.objective.base for fitted in fits.values()])
    first, given = _determining(fits, common)
    count, rows = float(common.sum() - first.sum()), {}
    for name, fitted in fits.items():
        deviance, size = -2.0 * fitted.log_likelihood, fitted.n_parameters
        if given or not np.array_equal(common, fitted.objective.base):
            deviance = -2.0 * _log_likelihood(fitted, common)
        if given:
            deviance += 2.0 * _log_likelihood(fitted, first)
        with np.errstate(divide="ignore"):
            aic, bic = 2.0 * size + deviance, np.log(count) * size + deviance
        known = {"aic": aic, "bic": bic} if count else {"aic": np.nan, "bic": np.nan}
        rows[name] = {"parameters": size, "at_zero": fitted.at_zero, **known}
    return Criteria(rows, given, {name: _unknown(one) for name, one in fits.items()})


def _unknown(fitted: Any) -> int:
    """How many first states of a sequence nothing is known about."""
    objective = fitted.objective
    return objective.n_unknown_starts if isinstance(objective, HasContinuousStates) else 0


def _log_likelihood(fitted: Any, weights: np.ndarray) -> float:
    """Of the observations that have weight 1."""
    return float(fitted.objective.log_likelihoods(fitted.theta[None], weights[None])[0])


def _determining(fits: Mapping[str, Any], common: np.ndarray) -> tuple[np.ndarray, int]:
    """The observations at the beginning of each sequence (P,) that determine the first states of every
    model, and how many these are in each."""
    unknown = [fitted for fitted in fits.values() if _unknown(fitted)]
    if not unknown:
        return np.zeros_like(common), 0
    sites = unknown[0].objective.collection
    before = np.concatenate([[0.0], np.cumsum(common)])
    rank = before[1:] - np.repeat(before[sites.offsets], sites.lengths)
    for given in range(1, int(rank.max()) + 1):
        first = common * (rank <= given)
        if not any(np.isnan(_log_likelihood(fitted, first)) for fitted in unknown):
            break
    return first, given
