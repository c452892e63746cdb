"""Other optima of the folds: before and after the search, against 50 cold starts of every fold.

Those of the earthquakes with two states are by SciPy, the others by the library's own descents, side by side.

A fold is off where its objective is over a hundredth of a nat above the lowest that any of the three found, and
off by more than promised where its loss then differs by more than the tolerance. The shift is that of the estimate,
from before to after, in its standard errors. A Hessian counts as the gradients that take as long. With
`FITONCE_STARTS=0` only times and estimates are printed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import fitonce as fo
from reproduce import cases, chosen, cold, mocap, traffic

STARTS = int(os.environ.get("FITONCE_STARTS", 50))  # none: times only
MOST_FOLDS = 20  # that are started cold, drawn by seed, where all are too many
OFF = 0.01  # nats
Case = Callable[[], tuple[Any, Any, fo.Folds, int, int]]  # model, data, folds, cold folds, cold starts


def earthquakes(states: int) -> Any:
    folds = fo.folds.blocks(cases.EARTHQUAKES, percent=10, n=100, seed=0)
    return fo.models.PoissonHMM(states), cases.EARTHQUAKES, folds, 100, STARTS


def motion(states: int, kind: str) -> Any:
    data = fo.datasets.load("mocap6", traffic.FOLDER)
    folds = {
        "points": lambda: fo.folds.iid(data, percent=10, n=20, seed=0),
        "blocks": lambda: fo.folds.blocks(data, percent=10, n=20, seed=0),
        "sequences": lambda: fo.folds.structures(data),
    }[kind]()
    return fo.models.GaussianHMM(states), data, folds, MOST_FOLDS, STARTS


def bank() -> Any:
    """5,000 counts of four states, as of calls at a bank."""
    rng = np.random.default_rng(0)
    states = np.cumsum(rng.random(5000) < 0.03) % 4
    x = rng.poisson(np.array([2.0, 6.0, 12.0, 25.0])[states]).astype(float)
    folds = fo.folds.blocks(x, percent=10, n=30, seed=0)
    return fo.models.PoissonHMM(4), x, folds, MOST_FOLDS, STARTS


def map_of_80() -> Any:
    """8 x 10 sites of three classes of counts."""
    rng = np.random.default_rng(0)
    edges = [(k, k + 1) for k in range(80) if k % 10 < 9] + [(k, k + 10) for k in range(70)]
    counts = rng.poisson(np.array([3.0, 8.0, 15.0])[np.arange(80) // 27])
    model = fo.models.PottsMixture(edges, n_classes=3, emission="poisson", beta=1.0)
    return model, counts, fo.folds.regions(model, percent=10, n=40, seed=0), MOST_FOLDS, STARTS


def network() -> Any:
    """NAR(1) on six sequences of motion capture."""
    data = fo.datasets.load("mocap6", traffic.FOLDER)
    return mocap.model("NAR(1)", 3), data, fo.folds.structures(data), 6, min(20, STARTS)


CASES: dict[str, Case] = {
    **{f"earthquakes {k}": (lambda k=k: earthquakes(k)) for k in (2, 3, 4, 5)},
    **{
        f"motion {k} {kind}": (lambda k=k, kind=kind: motion(k, kind))
        for k in (5, 8)
        for kind in ("points", "blocks", "sequences")
    },
    "bank": bank,
    "map": map_of_80,
    "NAR(1)": network,
}


def main(part: str | None = None) -> None:
    print(cases.machine())
    for name in chosen(part, [*CASES, "small", "picture"]):
        if name == "picture":
            picture()
        elif name == "small":
            if STARTS:  # nothing else is printed of it
                small()
        else:
            _show(name, *CASES[name]())


def small(sets: int = 24) -> None:
    """Short simulated series, mostly with more states than are true: how many folds called good are off."""
    good = off = broken = others = missed = 0
    for seed in range(sets):
        model, data = _short_series(seed)
        folds, which = fo.folds.blocks(data, percent=10, n=10, seed=0), np.arange(10)
        fit = fo.fit(model, data)
        cv = fo.cross_validate(fit, folds)
        refits = cold.side_by_side(fit, folds, which, STARTS)
        lower = refits.objectives < cold.objectives(fit, folds, which, cv.theta) - OFF
        wrong = np.abs(cold.losses(fit, folds, which, refits.thetas) - cv.folds["loss"]) > cv.tolerance
        is_good = (cv.folds["verdict"] == "good").to_numpy()
        good, others = good + is_good.sum(), others + (~is_good).sum()
        off, broken = off + (lower & is_good).sum(), broken + (lower & is_good & wrong).sum()
        missed += (lower & ~is_good).sum()
    print(
        f"small: {sets} series of 40 to 150 steps, 10 folds each: of {good} folds called good {off} are off, "
        f"{broken} by more than promised; of {others} others {missed} are off ({STARTS} cold starts)"
    )


def _short_series(seed: int) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(seed)
    steps, states, true = int(rng.integers(40, 150)), int(rng.integers(2, 6)), int(rng.integers(1, 4))
    state = np.cumsum(rng.random(steps) < 0.1) % true
    if seed % 2:
        return fo.models.PoissonHMM(states), rng.poisson(np.array([3.0, 8.0, 15.0])[state]).astype(float)
    return fo.models.GaussianHMM(states), rng.normal(2.0 * state, 1.0)


def picture() -> None:
    """The two optima of one fold of the earthquakes with four states."""
    model, data, folds, *_ = earthquakes(4)
    fit = fo.fit(model, data)
    before, after = (fo.cross_validate(fit, folds, optima=n) for n in (0, 10))
    fold = int(after.folds["gain"].idxmax())
    dropped, years = folds.dropped[fold], np.arange(1900, 2007)
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), sharey=True)
    labels = ("continued from the full fit", "found by the search")
    for axis, cv, label in zip(axes, (before, after), labels, strict=True):
        axis.axvspan(years[dropped[0]], years[dropped[-1]], color="0.9", label="left out")
        axis.plot(years, data, ".", color="0.35", ms=4)
        states = fit.objective.state_probabilities(cv.theta[fold])
        rates = np.ravel(cv.params(fold)["rate"])
        axis.plot(
            years, states @ rates, color="#1b4f8a", lw=1.5, label="mean of the states, given all years"
        )
        for rate in rates:
            axis.axhline(rate, color="#c2410c", lw=0.8, ls="--")
        loss, value = cv.folds["loss"][fold], fit.objective(cv.theta[fold], folds.weights[fold])
        axis.set_title(f"{label}\nobjective {value:.2f}, held-out loss {loss:.2f}", fontsize=10)
    axes[0].plot([], [], color="#c2410c", lw=0.8, ls="--", label="rates of the states")
    axes[0].set_ylabel("earthquakes")
    axes[0].legend(fontsize=8, loc="upper right")
    figure.tight_layout()
    path = Path("docs") / "optima.png"
    figure.savefig(path, dpi=110)
    print(f"fold {fold}: {after.folds['gain'][fold]:.2f} nats; wrote {path}")


def _show(name: str, model: Any, data: Any, folds: fo.Folds, n_cold: int, starts: int) -> None:
    started = time.perf_counter()
    fit = fo.fit(model, data)
    fitted = time.perf_counter() - started
    before = fo.cross_validate(fit, folds, optima=0)
    after = fo.cross_validate(fit, folds)
    each = fit.objective.gradients_per_hessian
    work = [
        int(cv.folds["gradients"].sum() + each * cv.folds["hessians"].sum()) for cv in (before, after)
    ]
    print(f"{name}: {fit.optima.sentence}; fit {fitted:.1f} s")
    print(
        f"  estimate {before.estimate:.4f} before, {after.estimate:.4f} +- {after.se:.4f} after, "
        f"{(after.estimate - before.estimate) / after.se:+.2f} se (control {after.control:.4f}); "
        f"{(after.folds['optimum'] != 0).sum()} of {len(folds)} folds moved, {after.optima_search}"
    )
    print(
        f"  {before.seconds:.1f} s and {work[0]:,} gradients before, {after.seconds:.1f} s and {work[1]:,} after",
        flush=True,
    )
    if starts:
        _against_cold(name, fit, folds, before, after, n_cold, starts)


def _against_cold(
    name: str, fit: fo.Fit, folds: fo.Folds, before: Any, after: Any, n_cold: int, starts: int
) -> None:
    which = np.arange(len(folds))
    if len(folds) > n_cold:
        which = np.sort(np.random.default_rng(0).choice(len(folds), n_cold, replace=False))
    started = time.perf_counter()
    by = cold.refits if name == "earthquakes 2" else cold.side_by_side
    refits = by(fit, folds, which, starts)
    cold_seconds = time.perf_counter() - started
    values = {
        label: cold.objectives(fit, folds, which, cv.theta[which])
        for label, cv in (("before", before), ("after", after))
    }
    lowest = np.minimum(np.minimum(values["before"], values["after"]), refits.objectives)
    off = {label: value > lowest + OFF for label, value in values.items()}
    good = (after.folds["verdict"] == "good").to_numpy()[which]
    wrong = np.abs(cold.losses(fit, folds, which, refits.thetas) - after.folds["loss"].to_numpy()[which])
    broken = (
        off["after"] & good & (refits.objectives < values["after"] - OFF) & (wrong > after.tolerance)
    )
    below = int((values["after"] < refits.objectives - OFF).sum())
    print(
        f"  folds off: before {off['before'].sum()}, after {off['after'].sum()}, of them called good "
        f"{(off['after'] & good).sum()}, off by more than promised {broken.sum()}, of {len(which)} started cold {starts} times; {below} below the cold starts"
    )
    print(
        f"  cold: {cold_seconds:.0f} s and {refits.gradients:,} gradients for {len(which)} folds",
        flush=True,
    )
