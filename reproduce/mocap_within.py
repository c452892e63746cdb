"""Inside one motion-capture sequence of 1,484 steps, five states: points, blocks, the future left out.

Gaussian, AR(1) and NAR(1) emissions; none, ij, onestep and auto against exact refits. For the
autoregressions a fold also drops, and does not score, the step after each one that it leaves out: the
left-out step is a regressor there. The paper leaves the Gaussian's points and blocks out and finds
blocks weak, and the future of all three and finds NAR(1) weak.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import fitonce as fo
from reproduce import cases, mocap, traffic

STATES, N = 5, 10
METHODS = ("none", "ij", "onestep", "auto")
MODELS = ("AR(0)", "AR(1)", "NAR(1)")
FUTURES = {"AR(0)": 147, "AR(1)": 147, "NAR(1)": 29}  # how many of the last steps begin the future


def main() -> None:
    print(cases.machine())
    whole = fo.datasets.load("mocap_long", traffic.FOLDER)
    series = whole.values[0] / whole.values[0].std(0)
    results = {}
    for name in MODELS:
        started = time.perf_counter()
        fit = fo.fit(mocap.model(name, STATES), series, restarts=3)
        print(
            f"{name}: D = {len(fit.theta):,}, fit {time.perf_counter() - started:.0f} s; {fit.status}",
            flush=True,
        )
        if not fit.ok:  # nothing to expand around: said above, and left out
            continue
        order = 0 if name == "AR(0)" else 1
        for label, folds in _folds(fit.data, order, FUTURES[name]).items():
            results[name, label] = _row(fit, name, label, folds)
    _plot(results)


def _folds(data: fo.Sequences, order: int, future: int) -> dict[str, fo.Folds]:
    made = {
        label: fo.folds.followed_by(folds, data, order)
        for label, folds in cases.percent_folds(data, (2, 5, 10), N).items()
    }
    last = int(data.lengths[0])
    starts = np.unique(np.linspace(last - future, last - 1, min(future, 30)).astype(int))
    made["future"] = fo.folds.future(data, [int(start) for start in starts], horizon=1)
    return made


def _row(fit: fo.Fit, name: str, label: str, folds: fo.Folds) -> dict[str, Any]:
    exact = fo.cross_validate(fit, folds, method="exact", check=False)
    sound = exact.folds["ok"].to_numpy()
    truth = exact.pointwise["loss"].to_numpy()
    usable = sound[exact.pointwise["fold"].to_numpy()]
    text, found = [], {}
    for method in METHODS:
        options: dict[str, Any] = {} if method == "auto" else {"check": "all"}
        cv = fo.cross_validate(fit, folds, method=method, **options)
        off = (cv.folds["loss"] - exact.folds["loss"]).abs().to_numpy()[sound]
        points = np.abs(cv.pointwise["loss"].to_numpy() - truth)[usable]
        verdicts = cv.folds["verdict"].value_counts()
        good = (cv.folds["verdict"] == "good").to_numpy()[sound]
        found[method] = (truth[usable], cv.pointwise["loss"].to_numpy()[usable])
        text.append(
            f"{method} {off.mean():.1e} (points {points.mean():.1e}; {verdicts.get('good', 0)} good, "
            f"these {off[good].mean() if good.any() else float('nan'):.1e}; {cv.seconds:.0f} s)"
        )
    print(
        f"  {label:>11}: exact {exact.folds['loss'].to_numpy()[sound].mean():8.3f}, {sound.sum()} of "
        f"{len(sound)} certified, {exact.seconds:.0f} s; mean error of a fold: " + ", ".join(text),
        flush=True,
    )
    return found


def _plot(results: dict[tuple[str, str], Any]) -> None:
    import matplotlib.pyplot as plt

    labels = list(dict.fromkeys(label for _, label in results))
    figure, axes = plt.subplots(len(MODELS), len(labels), figsize=(2.2 * len(labels), 2.3 * len(MODELS)))
    for (name, label), found in results.items():
        axis = axes[MODELS.index(name), labels.index(label)]
        for method, colour in (("ij", "#c0392b"), ("auto", "#2c6fbb")):
            axis.plot(*found[method], ".", ms=2, color=colour, label=method)
        ends = [np.nanmin(found["ij"][0]), np.nanmax(found["ij"][0])]
        axis.plot(ends, ends, "k--", lw=0.7)
        axis.set_title(f"{name}, {label}", fontsize=8)
        axis.tick_params(labelsize=6)
    axes[0, 0].legend(fontsize=7)
    axes[-1, 0].set_xlabel("exact loss of a point", fontsize=7)
    axes[-1, 0].set_ylabel("approximate", fontsize=7)
    figure.tight_layout()
    path = cases.OUT / "mocap_within.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    print(f"wrote {path}")
