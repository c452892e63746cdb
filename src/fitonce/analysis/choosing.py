"""The rule of `select`: which models are near the best, and which of these is the simplest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

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


def simplest_of(table: pd.DataFrame, names: list[str]) -> str:
    """Of some models: that with the fewest parameters, and of several such that with the lowest loss."""
    return min(names, key=lambda name: tuple(table.loc[name, ["parameters", "estimate"]]))


def criteria(fits: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The number of parameters, AIC, and BIC with observed sites as observations. They are of the sites
    for which every model has a density: autoregressions condition on their first steps."""
    common = np.minimum.reduce([fitted.objective.base for fitted in fits.values()])
    count, rows = float(common.sum()), {}
    for name, fitted in fits.items():
        deviance, size = -2.0 * fitted.log_likelihood, len(fitted.theta)
        if not np.array_equal(common, fitted.objective.base):
            theta = fitted.theta[None]
            deviance = -2.0 * float(fitted.objective.log_likelihoods(theta, common[None])[0])
        aic, bic = 2.0 * size + deviance, np.log(count) * size + deviance
        rows[name] = {"parameters": size, "aic": aic, "bic": bic}
    return rows
