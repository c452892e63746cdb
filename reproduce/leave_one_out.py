"""`loo` on every observed point of the traffic data, against exact refits of some of them."""

from __future__ import annotations

import os
import platform
import time

import numpy as np

import fitonce as fo
from reproduce import cases, traffic

RANDOM, INFLUENTIAL = 200, 50


def main() -> None:
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    series = traffic.load()
    fit = traffic.fit(series, restarts=1)
    for label in ("first call", "compiled"):
        started = time.perf_counter()
        cv = fo.loo(fit)
        print(f"{label}: {time.perf_counter() - started:.1f} s")
    print(cv)
    refitted = int((cv.folds["rung"] != "onestep").sum())
    print(f"  {refitted} points with a bad verdict were refitted exactly\n")
    sweep = fo.loo(fit, refine=False)
    effect = fo.influence(fit)
    print(effect)
    chosen = np.random.default_rng(0).choice(len(cv.folds), RANDOM, replace=False)
    top = effect.table["displacement"].to_numpy().argsort()[::-1][:INFLUENTIAL]
    print("\nabsolute error of a point's loss against its certified exact refit")
    heads = f"{'control':>9} {'sweep':>9} {'loo':>9} {'actual / estimated, largest':>28}"
    print(f"{'points':>20} {'':>8} {heads}")
    for label, points in ((f"{RANDOM} random", chosen), (f"{INFLUENTIAL} most influential", top)):
        sites = sweep.pointwise["site"].to_numpy()[points]
        exact = cases.certified(fit, fo.folds.sites(sites[:, None], series))
        truth = exact.folds["loss"].to_numpy()
        errors = {
            name: np.abs(losses.to_numpy()[points] - truth)
            for name, losses in (
                ("control", sweep.folds["control"]),
                ("sweep", sweep.folds["loss"]),
                ("loo", cv.folds["loss"]),
            )
        }
        ratio = (errors["sweep"] / sweep.folds["error"].to_numpy()[points]).max()
        for what, over in (("mean", np.mean), ("largest", np.max)):
            cells = " ".join(f"{over(error):>9.1e}" for error in errors.values())
            tail = f"{ratio:>28.2f}" if what == "largest" else ""
            print(f"{label:>20} {what:>8} {cells} {tail}")
    ax = effect.plot()
    cases.OUT.mkdir(exist_ok=True)
    ax.figure.savefig(cases.OUT / "influence.png", dpi=120)
    print(f"\nplot of influence along the data: {cases.OUT / 'influence.png'}")
