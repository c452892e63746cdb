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
from multiprocessing import get_context
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


def difference(dwell: float, steps: int, seed: int, loss: str = "pointwise") -> Found:
    """Of one state from two: of points in random blocks, or of the stretches that `select` scores."""
    rng = np.random.default_rng(seed)
    x = rng.poisson(np.array([3.0, 9.0])[chain(dwell, steps, rng)]).astype(float)
    folds = fo.folds.blocks(x, percent=10, n=30, seed=seed)
    if loss == "joint":
        folds = fo.folds.kfold(x, 20)
    results = {k: validated(fo.models.PoissonHMM(k), x, folds, loss=loss) for k in (2, 1)}
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


def potts_map(beta: float, length: int, seed: int) -> Found:
    """Counts of two classes on a strip of a grid, drawn from the Potts field by Gibbs sampling."""
    rng, width = np.random.default_rng(seed), 6
    size = width * length
    edges = [(k, k + 1) for k in range(size) if k % width < width - 1]
    edges += [(k, k + width) for k in range(size - width)]
    classes = _field(beta, length, width, rng)
    counts = rng.poisson(np.array([3.0, 9.0])[classes]).astype(float)
    model = fo.models.PottsMixture(edges, n_classes=2, emission="poisson", beta=beta)
    folds = fo.folds.regions(model, percent=5, n=30, seed=seed)
    return of_result(validated(model, counts, folds))


def _field(beta: float, length: int, width: int, rng: np.random.Generator) -> np.ndarray:
    """(length * width,) after 200 sweeps over the black and the white squares."""
    black = np.add.outer(np.arange(length), np.arange(width)) % 2 == 0
    field = rng.integers(0, 2, (length, width))
    for _ in range(200):
        for colour in (black, ~black):
            alike = np.pad(2 * field - 1, 1)
            around = alike[:-2, 1:-1] + alike[2:, 1:-1] + alike[1:-1, :-2] + alike[1:-1, 2:]
            ones = rng.random(field.shape) < 1.0 / (1.0 + np.exp(-beta * around))
            field = np.where(colour, ones, field)
    return field.ravel().astype(int)


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
        f"joint difference dwell {dwell} T {steps}": (
            partial(difference, dwell, steps, loss="joint"),
            OTHER,
        )
        for steps, dwell in ((300, 2), (300, 20), (1000, 20))
    },
    **{
        f"AR(1)-HMM dwell {dwell} T {steps}": (partial(autoregression, dwell, steps), OTHER)
        for steps, dwell in ((300, 20), (1000, 20))
    },
    **{
        f"map beta {beta} of {6 * length} sites": (partial(potts_map, beta, length), OTHER)
        for beta, length in ((0.3, 30), (0.6, 30), (0.6, 80), (0.8, 80))
    },
    **{f"{count} sequences": (partial(sequences, count), OTHER) for count in (10, 40, 200)},
}


def main(part: str | None = None) -> None:
    print(f"{machine()}; {MINUTES}")
    print(
        "coverage in % of intervals of 68 and 95 %, +- its Monte Carlo error; sd of the estimates / rms se"
    )
    # Not forked: maps are compiled by JAX, whose threads a fork would lose.
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
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
