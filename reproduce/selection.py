"""How often the number of states is found, and how well what was chosen predicts.

Series of a Gaussian HMM (unit noise, means some standard deviations apart, states that last ten steps) are
given to models with one state up to one more than the truth; so are maps of counts with two or three
classes, and autoregressions of order two with orders one to four. `excess` is the loss of the chosen model
on fresh data, above that of the best candidate there.

Designs: the default of `fo.select` (60 stretches, each scored as a whole), the same without the search for
other optima in the folds, 20 stretches as a whole and one by one, blocks of 10 % and single points drawn at
random, and the future. All but the default are without the search, and of the first 50 series. Rules: the least
loss; the simplest within one paired standard error; the simplest within a margin of some nats (the
default). AIC, BIC and ICL on the same fits.

The whole study takes hours. With FITONCE_KEEP=FOLDER each series is written there as it is done, and a
run that was stopped goes on from it; FITONCE_KEEP=reproduce/kept has the series that were run so far, and
FITONCE_SERIES=0 prints these and runs none. FITONCE_OTHERS is the number of series that the other designs
are given.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import fitonce as fo
from reproduce import chosen
from reproduce.cases import machine

SERIES, FRESH = 200, 5000
OTHERS = int(os.environ.get("FITONCE_OTHERS", 50))  # series that other designs than the default have
STAY = 0.9
LONG = 1000  # steps: from here only the default, and what was the default before


class Task(NamedTuple):
    """Candidates by name, the simplest first, data, and fresh data to judge the choice by."""

    candidates: dict[str, Any]
    data: Any
    fresh: Any
    along_time: bool = True


def series(states: int, apart: float, steps: int, rng: np.random.Generator) -> np.ndarray:
    """(T,) of a chain that moves to any other state with the same probability."""
    moves = np.cumsum((rng.random(steps) > STAY) * rng.integers(1, max(states, 2), steps))
    return apart * ((rng.integers(states) + moves) % states) + rng.normal(size=steps)


def chain(states: int, apart: float, steps: int, seed: int) -> Task:
    rng = np.random.default_rng(seed)
    models = {str(k): fo.models.GaussianHMM(k) for k in range(1, states + 2)}
    return Task(models, series(states, apart, steps, rng), series(states, apart, FRESH, rng))


def autoregression(steps: int, seed: int) -> Task:
    rng = np.random.default_rng(seed)

    def made(steps: int) -> np.ndarray:
        x = np.zeros(steps + 50)
        for t in range(2, len(x)):
            x[t] = 0.5 * x[t - 1] - 0.3 * x[t - 2] + rng.normal()
        return x[50:, None]

    models = {str(p): fo.models.ARHMM(1, p, noise="state") for p in (1, 2, 3, 4)}
    return Task(models, made(steps), made(FRESH))


def potts(classes: int, side: int, seed: int) -> Task:
    """Counts on a narrow grid, its classes in bands with ragged edges."""
    rng, width = np.random.default_rng(seed), 6
    size = side * width
    edges = [(k, k + 1) for k in range(size) if k % width < width - 1]
    edges += [(k, k + width) for k in range(size - width)]
    rates = np.array([3.0, 8.0, 16.0])[:classes]

    def made() -> np.ndarray:
        row = np.arange(size) // width + rng.integers(-1, 2, size)
        return rng.poisson(rates[np.clip(row * classes // side, 0, classes - 1)]).astype(float)

    models = {
        str(k): fo.models.PottsMixture(edges, n_classes=k, emission="poisson", beta=0.6)
        for k in range(1, classes + 2)
    }
    return Task(models, made(), made(), along_time=False)


def designs(task: Task, seed: int) -> dict[str, dict[str, Any]]:
    """Arguments of `fo.select` by name."""
    found: dict[str, dict[str, Any]] = {"stretches joint, searched": {}}
    if seed >= OTHERS:
        return found
    if not task.along_time:
        return found | {"stretches joint": {"optima": 0}}
    steps = len(task.data)
    blocks = partial(fo.folds.blocks, percent=10, n=20, seed=seed)
    found["blocks one by one"] = {"folds": blocks, "loss": "pointwise", "optima": 0}
    if steps >= LONG:
        return found
    stretches = partial(fo.folds.kfold, k=20)
    begin = [int(steps * share) for share in np.linspace(0.3, 0.9, 7)]
    ahead = partial(fo.folds.future, start=begin, horizon=steps // 10)
    points = partial(fo.folds.iid, percent=10, n=20, seed=seed)
    return found | {
        "stretches joint": {"optima": 0},
        "20 stretches joint": {"folds": stretches, "loss": "joint", "optima": 0},
        "20 stretches one by one": {"folds": stretches, "loss": "pointwise", "optima": 0},
        "blocks joint": {"folds": blocks, "loss": "joint", "optima": 0},
        "points one by one": {"folds": points, "loss": "pointwise", "optima": 0},
        "future joint": {"folds": ahead, "loss": "joint", "optima": 0},
    }


def one(make: Callable[[int], Task], seed: int) -> list[dict[str, Any]]:
    """What each rule chooses on one series."""
    task = make(seed)
    picks: dict[str, str] = {}
    refused: dict[str, bool] = {}
    fits = {name: fo.fit(model, task.data) for name, model in task.candidates.items()}
    ahead = {name: _fresh_loss(fit, task) for name, fit in fits.items()}
    for design, how in designs(task, seed).items():
        found = fo.select(fits, task.data, progress=False, **how)
        table = found.table
        if not picks:
            picks |= {"aic": table["aic"].idxmin(), "bic": table["bic"].idxmin()}
            picks["icl"] = (
                table["bic"] + pd.Series({name: _entropy(fits[name]) for name in fits})
            ).idxmin()
        near = (table["difference"] <= table["difference_se"]) | (table.index == found.best)
        picks[f"{design}: least"] = found.best
        picks[f"{design}: one se"] = str(table.index[near][0])
        picks[f"{design}: margin"] = found.simplest
        refused[f"{design}: margin"] = len(found.as_good) > 1
    best = min(ahead.values())
    return [
        {
            "rule": rule,
            "pick": int(name),
            "excess": ahead[name] - best,
            "refused": refused.get(rule, False),
        }
        for rule, name in picks.items()
    ]


def _fresh_loss(fit: Any, task: Task) -> float:
    """The mean loss per point on fresh data."""
    if task.along_time:
        return float(-fit.log_likelihood_of(task.fresh)[0] / len(task.fresh))
    return -fo.fit_at(fit.model, task.fresh, fit.params).log_likelihood / len(task.fresh)


def _entropy(fit: Any) -> float:
    """Twice that of the states, by which ICL is above BIC."""
    shares = np.asarray(fit.posterior())
    return -2.0 * float(np.sum(shares * np.log(np.maximum(shares, 1e-300))))


CELLS: dict[str, tuple[int, Callable[[int], Task]]] = {
    **{
        f"{states} states {apart} sd T {steps}": (states, partial(chain, states, float(apart), steps))
        for steps, states, apart in product((200, 1000, 5000), (1, 2, 3, 4), (1, 2, 3))
        if states > 1 or apart == 1
    },
    "AR(2) T 200": (2, partial(autoregression, 200)),
    "AR(2) T 1000": (2, partial(autoregression, 1000)),
    "map of 2 classes": (2, partial(potts, 2, 14)),
    "map of 3 classes": (3, partial(potts, 3, 14)),
}


def main(part: str | None = None) -> None:
    count = int(os.environ.get("FITONCE_SERIES", SERIES))
    print(f"{machine()}; {count} series a cell (FITONCE_SERIES); cells take minutes")
    everything = []
    # Not forked: maps are compiled by JAX, whose threads a fork would lose.
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        for name in chosen(part, CELLS):
            truth, make = CELLS[name]
            rows = [row for some in _each(pool, name, make, count) for row in some]
            if rows:
                found = pd.DataFrame(rows).assign(truth=truth)
                everything.append(found)
                _show(f"{name}, {count or 'kept'} series", found)
    if not everything:
        raise ValueError("expected series of these cells in the folder FITONCE_KEEP, got none")
    _show("all of them", pd.concat(everything))
    _average(everything)


def _each(
    pool: ProcessPoolExecutor, name: str, make: Callable[[int], Task], count: int
) -> Iterator[list[dict[str, Any]]]:
    """The rows of each series of a cell, those that were kept by an earlier run first."""
    folder = os.environ.get("FITONCE_KEEP")
    kept: dict[int, list[dict[str, Any]]] = {}
    keep = Path(folder) / f"{name}.jsonl" if folder else Path(os.devnull)
    if folder and keep.exists():
        found = dict(map(json.loads, keep.read_text().splitlines()))
        kept = {seed: _unpacked(rules) for seed, rules in found.items() if seed < count or not count}
    yield from kept.values()
    left = [seed for seed in range(count) if seed not in kept]
    with keep.open("a") as file:
        for seed, rows in zip(left, pool.map(partial(one, make), left, chunksize=1), strict=True):
            packed = {
                row["rule"]: [row["pick"], round(row["excess"], 7), row["refused"]] for row in rows
            }
            print(json.dumps([seed, packed]), file=file, flush=True)
            yield rows


def _unpacked(rules: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """The rows of a series that was kept."""
    columns = ("pick", "excess", "refused")
    return [{"rule": rule, **dict(zip(columns, row, strict=True))} for rule, row in rules.items()]


def _average(cells: list[pd.DataFrame]) -> None:
    """Over cells with the same weight, whatever the number of their series; and the excess of each rule less
    that of AIC on the same series."""
    print("the same weight for each cell; excess less that of AIC on the same series")
    for rule in cells[0]["rule"].unique():
        of_rule, of_aic = ([cell[cell["rule"] == name] for cell in cells] for name in (rule, "aic"))
        true = 100 * np.mean([(rows["pick"] == rows["truth"]).mean() for rows in of_rule])
        few = 100 * np.mean([(rows["pick"] < rows["truth"]).mean() for rows in of_rule])
        own = [1e3 * rows["excess"].to_numpy() for rows in of_rule]
        aic = [
            1e3 * rows["excess"].to_numpy()[: len(one)] for rows, one in zip(of_aic, own, strict=True)
        ]
        apart = [one - other for one, other in zip(own, aic, strict=True)]
        (mean, error), (less, less_error) = _mean_of_means(own), _mean_of_means(apart)
        print(
            f"  {rule:>36}: {true:3.0f}, {few:3.0f}, {100 - true - few:3.0f}; {mean:6.2f} +- {error:.2f}; "
            f"{less:+.2f} +- {less_error:.2f}"
        )


def _mean_of_means(cells: list[np.ndarray]) -> tuple[float, float]:
    variances = [cell.var(ddof=1) / len(cell) for cell in cells]
    return float(np.mean([cell.mean() for cell in cells])), float(
        np.sqrt(np.sum(variances)) / len(cells)
    )


def _show(name: str, found: pd.DataFrame) -> None:
    print(
        f"{name}: true, too few, too many in %; excess loss in 1e-3 nats a point; no clear winner in %; "
        "number of series"
    )
    for rule, rows in found.groupby("rule", sort=False):
        true, few = (
            100 * share.mean() for share in (rows["pick"] == rows["truth"], rows["pick"] < rows["truth"])
        )
        error = rows["excess"].std() / np.sqrt(len(rows))
        unclear = f"{100 * rows['refused'].mean():.0f}" if str(rule).endswith("margin") else "-"
        print(
            f"  {rule:>36}: {true:3.0f}, {few:3.0f}, {100 - true - few:3.0f}; "
            f"{1e3 * rows['excess'].mean():6.2f} +- {1e3 * error:.2f}; {unclear}; {len(rows)}",
            flush=True,
        )
