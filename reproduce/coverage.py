"""How often intervals cover: the estimate of a cross-validation, a paired difference and joint losses.

Series are simulated, and each is fitted and cross-validated by one step. What an interval should cover is the
expected loss of the procedure on fresh series: the mean of the estimates of all series of a cell, whose own
error is printed. Coverage is of the series that are not called too short to tell; `none` is the share that one
standard error covers if points are taken as independent.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import fitonce as fo
from fitonce.results.standard_errors import Spread
from reproduce import chosen
from reproduce.cases import machine

MAIN, OTHER = 1000, 300  # series
LEVELS = (0.68, 0.95)
MINUTES = "some cells take minutes: name them with --part"


class Found(NamedTuple):
    """Of one series: an estimate, its spread, and the standard error of independent points."""

    estimate: float
    spread: Spread
    independent: float


def chain(dwell: float, steps: int, rng: np.random.Generator) -> np.ndarray:
    """States 0 and 1, each left after `dwell` steps on average."""
    return (rng.integers(2) + np.cumsum(rng.random(steps) < 1.0 / dwell)) % 2


def of_result(cv: fo.CVResult) -> Found:
    losses = cv.pointwise["loss"].to_numpy()
    places = len(cv.pointwise["cluster"].unique())
    return Found(cv.estimate, Spread(cv.se, cv.dof), float(losses.std(ddof=1) / np.sqrt(places)))


def validated(model: Any, data: Any, folds: fo.Folds, **how: Any) -> fo.CVResult:
    fit = fo.fit(model, data, restarts=2, optima=0)
    return fo.cross_validate(fit, folds, method="onestep", check=False, **how)


def counts(dwell: float, steps: int, seed: int, loss: str = "pointwise") -> Found:
    rng = np.random.default_rng(seed)
    x = rng.poisson(np.array([3.0, 9.0])[chain(dwell, steps, rng)]).astype(float)
    folds = fo.folds.blocks(x, percent=10, n=30, seed=seed)
    return of_result(validated(fo.models.PoissonHMM(2), x, folds, loss=loss))


def difference(dwell: float, steps: int, seed: int) -> Found:
    """Of one state from two."""
    rng = np.random.default_rng(seed)
    x = rng.poisson(np.array([3.0, 9.0])[chain(dwell, steps, rng)]).astype(float)
    folds = fo.folds.blocks(x, percent=10, n=30, seed=seed)
    results = {k: validated(fo.models.PoissonHMM(k), x, folds) for k in (2, 1)}
    row = fo.compare(results).table.loc["1"]
    if np.isnan(row["difference_se"]):  # it is the better one
        other = fo.compare(results).table.loc["2"]
        return Found(-other["difference"], Spread(other["difference_se"], other["dof"]), np.nan)
    return Found(row["difference"], Spread(row["difference_se"], row["dof"]), np.nan)


def autoregression(dwell: float, steps: int, seed: int) -> Found:
    rng = np.random.default_rng(seed)
    states, x = chain(dwell, steps, rng), np.zeros(steps)
    for t in range(1, steps):
        x[t] = (0.9, 0.2)[states[t]] * x[t - 1] + (0.5, 1.5)[states[t]] * rng.normal()
    model = fo.models.ARHMM(2, 1, noise="state")
    folds = fo.folds.blocks(x[:, None], percent=10, n=30, seed=seed)
    return of_result(validated(model, x[:, None], folds))


def sequences(count: int, seed: int) -> Found:
    rng = np.random.default_rng(seed)
    data = [rng.poisson(np.array([3.0, 9.0])[chain(10.0, 40, rng)]).astype(float) for _ in range(count)]
    fit = fo.fit(fo.models.PoissonHMM(2), data, restarts=2, optima=0)
    folds = fo.folds.structures(fit.data)
    return of_result(fo.cross_validate(fit, folds, method="onestep", check=False))


CELLS: dict[str, tuple[Callable[[int], Found], int]] = {
    **{
        f"HMM dwell {dwell} T {steps}": (
            partial(counts, dwell, steps),
            MAIN if steps == 300 else OTHER,
        )
        for steps in (100, 300, 1000, 3000)
        for dwell in (2, 5, 10, 20, 50)
    },
    **{
        f"joint dwell {dwell} T {steps}": (partial(counts, dwell, steps, loss="joint"), OTHER)
        for steps, dwell in ((300, 2), (300, 20), (1000, 20))
    },
    **{
        f"difference dwell {dwell} T {steps}": (partial(difference, dwell, steps), OTHER)
        for steps, dwell in ((300, 2), (300, 20), (1000, 20))
    },
    **{
        f"AR(1)-HMM dwell {dwell} T {steps}": (partial(autoregression, dwell, steps), OTHER)
        for steps, dwell in ((300, 20), (1000, 20))
    },
    **{f"{count} sequences": (partial(sequences, count), OTHER) for count in (10, 40, 200)},
}


def main(part: str | None = None) -> None:
    print(f"{machine()}; {MINUTES}")
    print(
        "coverage in % of intervals of 68 and 95 %, +- its Monte Carlo error; sd of the estimates / rms se"
    )
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for name in chosen(part, CELLS):
            one, series = CELLS[name]
            print(_line(name, list(pool.map(one, range(series), chunksize=10))), flush=True)


def _line(name: str, found: list[Found]) -> str:
    estimates = np.array([one.estimate for one in found])
    errors = np.abs(estimates - estimates.mean())
    dof = np.array([one.spread.dof for one in found])
    told = dof >= 2  # the others are called too short to tell
    half = np.array([[one.spread.half_width(level) for level in LEVELS] for one in found])
    covered = errors[:, None] <= half
    wrong = errors <= np.array([one.independent for one in found])
    count = max(int(told.sum()), 1)
    shares = 100 * covered[told].sum(0) / count
    monte_carlo = 100 * np.sqrt([0.68 * 0.32 / count, 0.95 * 0.05 / count])
    spreads = np.array([one.spread.se for one in found])
    ratio = estimates.std() / np.sqrt(np.nanmean(spreads**2))
    return (
        f"{name:>28}: {shares[0]:.0f} +- {monte_carlo[0]:.0f}, {shares[1]:.0f} +- {monte_carlo[1]:.0f}; "
        f"sd / se {ratio:.2f}; dof {np.median(dof):.0f}, too short in {100 * np.mean(~told):.0f} %; "
        f"none: {100 * np.mean(wrong):.0f}; mean of {len(found)} estimates {estimates.mean():.4f} "
        f"+- {estimates.std() / np.sqrt(len(found)):.4f}"
    )
