"""State-space models on five series: fold losses against cold refits by statsmodels, and verdicts.

Each fold is refitted by statsmodels from its own start, which knows nothing of the full fit, from the parameters of
all data, and once more from where these ended; the best of the four counts. Its parameters are judged by our
likelihood, whose diffuse start is exact. The reference of a fold is the better of that refit and of ours (`exact`);
`better` counts folds in which statsmodels is ahead by more than 0.01 nats, `behind` those in which it is behind by as
much. Errors are of the mean loss of a fold's points; `none` is the control. `over 3`: folds whose actual error exceeds
three times the estimated one. A fold is `off` if it is called good and its error is larger than promised.

FITONCE_FOLDS is the number of folds of each kind (20; 6 for CO2, whose refits take seconds each).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import fitonce as fo
from reproduce import chosen
from reproduce.cases import machine

METHODS = ("none", "ij", "onestep", "auto", "exact")
ROUNDING = 1e-7  # of losses of folds that are refitted, by two minimisers
AHEAD = 0.01  # nats
NAMES = {
    "sigma2.irregular": "noise",
    "sigma2.level": "level",
    "sigma2.trend": "slope",
    "sigma2.seasonal": "seasonal",
    "sigma2.cycle": "cycle",
    "frequency.cycle": "frequency",
    "damping.cycle": "damping",
}


class Case(NamedTuple):
    """A series, our model of it, and the same in statsmodels."""

    series: np.ndarray
    model: Any
    peer: dict[str, Any]
    folds: int = 20


def _nile() -> Case:
    from statsmodels.datasets import nile

    return Case(
        nile.load_pandas().data["volume"].to_numpy(float),
        fo.models.Structural("local"),
        {"level": "llevel"},
    )


def _co2() -> Case:
    from statsmodels.datasets import co2

    period = 365.25 / 7
    seasons = [{"period": period, "harmonics": 4}]
    model = fo.models.Structural("trend", seasonal=period, harmonics=4)
    return Case(
        co2.load_pandas().data["co2"].to_numpy(float),
        model,
        {"level": "lltrend", "freq_seasonal": seasons},
        6,
    )


def _sunspots() -> Case:
    from statsmodels.datasets import sunspots

    model = fo.models.Structural("local", cycle=True, periods=(5.0, 20.0))
    peer = {
        "level": "llevel",
        "cycle": True,
        "stochastic_cycle": True,
        "damped_cycle": True,
        "cycle_period_bounds": (5.0, 20.0),
    }
    return Case(sunspots.load_pandas().data["SUNACTIVITY"].to_numpy(float), model, peer)


def _macrodata() -> Case:
    from statsmodels.datasets import macrodata

    values = 100.0 * np.log(macrodata.load_pandas().data["realgdp"].to_numpy(float))
    return Case(values, fo.models.Structural("trend"), {"level": "lltrend"})


def _elnino() -> Case:
    from statsmodels.datasets import elnino

    values = elnino.load_pandas().data.iloc[:, 1:].to_numpy(float).ravel()
    return Case(values, fo.models.Structural("local", seasonal=12), {"level": "llevel", "seasonal": 12})


SERIES: dict[str, Callable[[], Case]] = {
    "nile": _nile,
    "co2": _co2,
    "sunspots": _sunspots,
    "macrodata": _macrodata,
    "elnino": _elnino,
}


def main(part: str | None = None) -> None:
    print(machine())
    tables = []
    for name in chosen(part, SERIES):
        tables += _series(name, SERIES[name]())
    table = pd.concat(tables, ignore_index=True)
    print("\nverdicts, all series")
    print(f"{'method':>10} {'folds':>6} {'median ratio':>13} {'over 3':>8} {'good':>6} {'off':>4}")
    for method, rows in table.groupby("method", sort=False):
        above = 100.0 * rows["above"].mean()
        print(
            f"{method:>10} {len(rows):>6} {rows['ratio'].median():>13.2f} {above:>6.1f} % "
            f"{int(rows['good'].sum()):>6} {int(rows['off'].sum()):>4}"
        )


def _series(name: str, case: Case) -> list[pd.DataFrame]:
    fit = fo.fit(case.model, case.series)
    print(f"\n{name}, {len(case.series):,} steps, {case.model}: {fit.status}")
    count = min(case.folds, int(os.environ.get("FITONCE_FOLDS", case.folds)))
    steps = len(case.series)
    horizon = max(steps // 50, 1)
    origins = np.linspace(0.8 * steps, steps - max(horizon, 2), count).astype(int)
    kinds = {
        "blocks of 5 %": fo.folds.blocks(fit.data, percent=5, n=count, seed=0),
        "blocks of 10 %": fo.folds.blocks(fit.data, percent=10, n=count, seed=0),
        "rolling future": fo.folds.future(fit.data, start=origins, horizon=horizon),
    }
    return [_kind(kind, folds, fit, case) for kind, folds in kinds.items()]


def _kind(kind: str, folds: fo.Folds, fit: fo.Fit, case: Case) -> pd.DataFrame:
    results = {
        method: fo.cross_validate(
            fit,
            folds,
            method=method,
            progress=False,
            **({} if method in ("auto", "exact") else {"check": "all"}),
        )
        for method in METHODS
    }
    objective = fit.objective
    peers = np.stack([_refit(case, fit, dropped) for dropped in folds.dropped])
    weights = np.ones((len(folds), len(objective.base)))
    for row, dropped in zip(weights, folds.dropped, strict=True):
        row[dropped] = 0.0
    values = objective.values_and_gradients(peers, weights)[0]
    own = objective.values_and_gradients(results["exact"].theta, weights)[0]
    ahead = values < own - AHEAD
    losses = np.array(
        [
            _loss(fit, theta, row, scored)
            for theta, row, scored in zip(peers, weights, folds.scored, strict=True)
        ]
    )
    best = np.where(ahead, losses, results["exact"].folds["loss"])
    print(
        f"  {kind}, {len(folds)} folds: statsmodels better in {ahead.sum()}, behind in "
        f"{(values > own + AHEAD).sum()} (by at most {np.nanmax(values - own):.2f} nats); its mean loss "
        f"{np.nanmean(losses):.4f}"
    )
    rows = []
    for method, cv in results.items():
        loss, error = cv.folds["loss"].to_numpy(), cv.folds["error"].to_numpy()
        actual = np.abs(loss - best)
        ratio = actual / np.maximum(error, ROUNDING)
        good = (cv.folds["verdict"] == "good").to_numpy()
        off = good & ~(actual <= np.maximum(cv.tolerance, ROUNDING))
        print(
            f"    {method:>8}: mean loss {np.nanmean(loss):.4f}, mean error {np.nanmean(actual):.1e}, largest "
            f"{np.nanmax(actual):.1e}; {good.sum()} good, of these off {off.sum()}"
        )
        rows.append(
            pd.DataFrame(
                {"method": method, "ratio": ratio, "above": ~(ratio <= 3), "good": good, "off": off}
            )
        )
    return pd.concat(rows, ignore_index=True)


def _refit(case: Case, fit: fo.Fit, dropped: np.ndarray) -> np.ndarray:
    """(D,) our free parameters where statsmodels ends, from its own start."""
    from statsmodels.tsa.api import UnobservedComponents

    kept = case.series.copy()
    kept[dropped] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = UnobservedComponents(kept, **case.peer)
        given = [float(fit.params[NAMES.get(name, "seasonal")]) for name in model.param_names]
        ends = [model.fit(start, disp=0, maxiter=500) for start in (None, given)]
        ends += [model.fit(end.params, method="bfgs", disp=0, maxiter=500) for end in ends]
        best = max(ends, key=lambda end: float(np.nan_to_num(end.llf, nan=-np.inf)))
    values = dict(zip(model.param_names, best.params, strict=True))
    params = {NAMES.get(name, "seasonal"): np.array(value) for name, value in values.items()}
    return fit.objective.space.to_free(params)


def _loss(fit: fo.Fit, theta: np.ndarray, weights: np.ndarray, scored: np.ndarray) -> float:
    seen = scored[fit.objective.steps.seen[scored, 0]]
    return float(fit.objective.pointwise_losses(theta[None], weights[None], seen[None]).mean())
