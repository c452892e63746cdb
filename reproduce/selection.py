"""How often the number of states is found, and how well what was chosen predicts.

Series of a Gaussian HMM (unit noise, means some standard deviations apart, states that last ten steps) are given
to models with one state up to one more than the truth. Rules: the least held-out loss; the simplest within one
paired standard error of it; the simplest that is not clearly worse (the default of `fo.select`); AIC, BIC and
ICL. `excess` is the loss of the chosen model on a fresh long series, above that of the best candidate there.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

import fitonce as fo
from reproduce import chosen
from reproduce.cases import machine

SERIES, FRESH = 200, 5000
STAY = 0.9
SCORES = ("pointwise", "joint")
KINDS = ("points", "blocks")
RULES = ("least", "one se", "clear")
CRITERIA = ("aic", "bic", "icl")


def series(states: int, apart: float, steps: int, rng: np.random.Generator) -> np.ndarray:
    """(T,) of a chain that moves to any other state with the same probability."""
    moves = np.cumsum((rng.random(steps) > STAY) * rng.integers(1, max(states, 2), steps))
    return apart * ((rng.integers(states) + moves) % states) + rng.normal(size=steps)


def one(states: int, apart: float, steps: int, seed: int) -> list[dict[str, Any]]:
    """What each rule chooses on one series."""
    rng = np.random.default_rng(seed)
    x, fresh = series(states, apart, steps, rng), series(states, apart, FRESH, rng)
    candidates = range(1, states + 2)
    fits = {str(k): fo.fit(fo.models.GaussianHMM(k), x) for k in candidates}
    ahead = {name: -fit.log_likelihood_of(fresh)[0] / FRESH for name, fit in fits.items()}
    picks = {name: _by_criterion(fits, name) for name in CRITERIA}
    for kind, score in product(KINDS, SCORES):
        folds = {
            "points": lambda: fo.folds.iid(x, percent=10, n=20, seed=seed),
            "blocks": lambda: fo.folds.blocks(x, percent=10, n=20, seed=seed),
        }[kind]()
        results = {name: fo.cross_validate(fit, folds, loss=score) for name, fit in fits.items()}
        found = fo.compare(results)
        table = found.table.loc[list(fits)]
        near = (table["difference"] <= table["difference_se"]) | (table.index == found.best)
        tied = [name for name in fits if name in found.tied]
        rules = {"least": found.best, "one se": str(table.index[near][0]), "clear": tied[0]}
        picks |= {f"{kind} {score} {rule}": name for rule, name in rules.items()}
        picks[f"{kind} {score} tied"] = str(len(tied))
    best = min(ahead.values())
    return [
        {"rule": rule, "pick": int(name), "excess": ahead.get(name, np.nan) - best}
        for rule, name in picks.items()
    ]


def _by_criterion(fits: dict[str, fo.Fit], name: str) -> str:
    def value(fit: fo.Fit) -> float:
        size, count, deviance = len(fit.theta), fit.n_sites, -2.0 * fit.log_likelihood
        if name == "aic":
            return 2.0 * size + deviance
        shares = fit.posterior()
        unsure = -2.0 * float(np.sum(shares * np.log(np.maximum(shares, 1e-300))))
        return np.log(count) * size + deviance + (unsure if name == "icl" else 0.0)

    return min(fits, key=lambda key: value(fits[key]))


CELLS = {
    f"K {states} apart {apart} T {steps}": (states, float(apart), steps)
    for states, apart, steps in product((1, 2, 3, 4), (1, 2, 3), (200, 1000, 5000))
    if states > 1 or apart == 1
}


def main(part: str | None = None) -> None:
    print(f"{machine()}; {SERIES} series a cell, FITONCE_SERIES changes it; cells take minutes")
    count = int(os.environ.get("FITONCE_SERIES", SERIES))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for name in chosen(part, CELLS):
            states, apart, steps = CELLS[name]
            rows = pool.map(partial(one, states, apart, steps), range(count), chunksize=1)
            _show(name, states, pd.DataFrame([row for some in rows for row in some]), count)


def _show(name: str, states: int, found: pd.DataFrame, count: int) -> None:
    print(f"{name}, {count} series: true, too few, too many in %; excess loss in 1e-3 nats a point")
    for rule, rows in found.groupby("rule", sort=False):
        if str(rule).endswith("tied"):
            print(
                f"  {rule:>26}: more than one model not clearly worse in {100 * (rows['pick'] > 1).mean():.0f} %"
            )
            continue
        shares = [100 * (rows["pick"] == states).mean(), 100 * (rows["pick"] < states).mean()]
        print(
            f"  {rule:>26}: {shares[0]:.0f}, {shares[1]:.0f}, {100 - sum(shares):.0f}; "
            f"{1e3 * rows['excess'].mean():.2f}",
            flush=True,
        )
