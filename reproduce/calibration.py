"""Estimated against actual errors of fold losses, for `none`, `ij`, `onestep` and `auto`.

An actual error is against the best optimum of the fold that is known: of certified exact refits that look for
others, and of cold refits from random starts that know nothing of the full fit. Folds without a certified refit
are counted apart. In the table, folds whose best optimum is not the one that continues the full fit's are a
series of their own ("elsewhere"): there `none`, `ij` and `onestep`, which are local, approximate something else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd

import fitonce as fo
from reproduce import cases, chosen, cold, traffic

METHODS = ("none", "ij", "onestep", "auto")
STARTS = 5  # cold refits of each fold
ROUNDING = 1e-7  # of losses of folds that are refitted, by two minimisers
FOLDS = 64


def _of_traffic() -> tuple[fo.Fit, dict[str, fo.Folds]]:
    series = traffic.load(10_000)
    return traffic.fit(series), cases.percent_folds(series, (2, 10), FOLDS)


def _of_separation(separation: float) -> tuple[fo.Fit, dict[str, fo.Folds]]:
    fit = cases.simulated(separation, 1500)
    return fit, cases.percent_folds(fit.data, (2, 10), FOLDS)


def _of_mocap() -> tuple[fo.Fit, dict[str, fo.Folds]]:
    fit = cases.mocap()
    folds = cases.percent_folds(fit.data, (2, 10), FOLDS // 2)
    return fit, {**folds, "sequences": fo.folds.structures(fit.data)}


SERIES: dict[str, Callable[[], tuple[fo.Fit, dict[str, fo.Folds]]]] = {
    "traffic": _of_traffic,
    **{f"{sd:g} sd": partial(_of_separation, sd) for sd in (1.0, 2.0, 3.0, 4.0)},
    "mocap6": _of_mocap,
}
"""Each series to its fit and its folds."""


def collect(names: list[str]) -> tuple[pd.DataFrame, dict[str, int]]:
    """One row per series, fold and method: `estimated`, `actual`, `verdict`, `tolerance`; and how many
    folds of each series have no certified refit."""
    rows, uncertified = [], {}
    for name in names:
        fit, sets = SERIES[name]()
        uncertified[name] = 0
        print(f"{name}: {fit.status}")
        for kind, folds in sets.items():
            exact = fo.cross_validate(fit, folds, method="exact")
            certain, which = exact.folds["ok"], np.arange(len(folds))
            uncertified[name] += int((~certain).sum())
            refits = cold.side_by_side(fit, folds, which, STARTS)
            better = refits.objectives < cold.objectives(fit, folds, which, exact.theta) - 0.01
            best = exact.folds["loss"].mask(better, cold.losses(fit, folds, which, refits.thetas))
            moved = better | (exact.folds["optimum"] != 0).to_numpy()
            others = int((exact.folds["optimum"] != 0).sum())
            print(
                f"  {kind}: {others} of {len(folds)} folds in other optima, {better.sum()} better by cold refits"
            )
            for method in METHODS:
                check = {} if method == "auto" else {"check": "all"}
                cv = fo.cross_validate(fit, folds, method=method, **check)
                rows.append(
                    pd.DataFrame(
                        {
                            "series": np.where(moved, f"{name}, elsewhere", name),
                            "folds": kind,
                            "method": method,
                            "estimated": cv.folds["error"],
                            "actual": (cv.folds["loss"] - best).abs(),
                            "distance": cv.folds["distance"],
                            "verdict": cv.folds["verdict"],
                            "tolerance": cv.tolerance,
                        }
                    )[certain]
                )
    return pd.concat(rows, ignore_index=True), uncertified


def main(part: str | None = None) -> None:
    table, uncertified = collect(chosen(part, SERIES))
    ratio = table["actual"] / table["estimated"].clip(lower=ROUNDING)
    table = table.assign(
        ratio=ratio,
        above=~(ratio <= 3),
        good=table["verdict"] == "good",
        broken=(table["verdict"] == "good") & (table["actual"] > table["tolerance"]),
    )
    print("\nestimated against actual error of a fold's loss; ratio = actual / estimated")
    heads = ("series", "method", "folds", "mean error", "median", "95 %", "largest", "over 3", "good")
    print(" ".join(f"{head:>10}" for head in heads) + f"{'good, off by more than promised':>34}")
    for (name, method), part in table.groupby(["series", "method"], sort=False):
        _row(str(name), str(method), part)
    _row("all", "all", table)
    print(f"folds without a certified refit: {uncertified}")
    _draw(table)


def _row(name: str, method: str, part: pd.DataFrame) -> None:
    middle, high, most = np.quantile(part["ratio"], [0.5, 0.95, 1.0])
    print(
        f"{name:>10} {method:>10} {len(part):>10} {part['actual'].mean():>10.1e} {middle:>10.2f} "
        f"{high:>10.2f} {most:>10.2f} {100 * part['above'].mean():>8.1f} % {part['good'].sum():>10} "
        f"{part['broken'].sum():>33}"
    )


def _draw(table: pd.DataFrame) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 4), layout="constrained")
    colours = {"good": "#1b7837", "fair": "#e08214", "bad": "#b2182b"}
    for axes, method in zip(figure.subplots(1, 4, sharex=True, sharey=True), METHODS, strict=True):
        part = table[(table["method"] == method) & (table["actual"] > 0)]
        for verdict, colour in colours.items():
            some = part[part["verdict"] == verdict]
            axes.plot(some["estimated"], some["actual"], ".", ms=3, color=colour, label=verdict)
        ends = np.array([part["estimated"].min(), part["estimated"].max()])
        axes.plot(ends, ends, color="black", lw=0.8, label="equal")
        axes.plot(ends, 3 * ends, color="black", lw=0.8, ls="--", label="three times")
        axes.set(xscale="log", yscale="log", title=method, xlabel="estimated error of the fold's loss")
    figure.axes[0].set_ylabel("actual error")
    figure.axes[0].legend(fontsize=8)
    cases.OUT.mkdir(exist_ok=True)
    figure.savefig(cases.OUT / "calibration.png", dpi=120)
    print(f"scatter: {cases.OUT / 'calibration.png'}")
