"""Connected regions of Philadelphia left out: how `ij`, `onestep` and `auto` hold up, with control."""

from __future__ import annotations

import numpy as np

import fitonce as fo
from reproduce import cases, philadelphia

PERCENTS = (5.0, 10.0)
BETAS = (2.0, 20.0)
FOLDS = 50
METHODS = ("none", "ij", "onestep", "auto")


def main() -> None:
    print(cases.machine())
    print(f"{FOLDS} balls; error of a fold's mean loss against its certified refit; violent crimes\n")
    data = philadelphia.load()
    counts = data.table["violent"]
    for beta in BETAS:
        fit = fo.fit(fo.models.PottsMixture(data.graph, beta=beta), counts)
        for percent in PERCENTS:
            folds = fo.folds.regions(fit.model, percent=percent, n=FOLDS, seed=0)
            for scheme in ("A", "B"):
                _table(fit, folds, scheme, f"beta {beta:g}, {percent:g} % of tracts, style {scheme}")


def _table(fit: fo.Fit, folds: fo.Folds, scheme: str, label: str) -> None:
    exact = cases.certified(fit, folds, scheme=scheme)
    truth = exact.folds["loss"].to_numpy()
    print(f"{label}: exact {exact.estimate:.4f} +- {exact.se:.4f}, {exact.seconds:.1f} s, "
          f"{exact.n_failed} without a certificate")  # fmt: skip
    heads = f"{'mean error':>11} {'largest':>9} {'relative':>9} {'good':>5} {'fair':>5} {'bad':>5}"
    print(f"  {'method':>8} {'estimate':>9} {heads} {'time':>8}")
    for method in METHODS:
        options = {} if method == "auto" else {"check": "all"}
        cv = fo.cross_validate(fit, folds, method=method, scheme=scheme, optima=0, **options)
        off = np.abs(cv.folds["loss"].to_numpy() - truth)
        counts = cv.folds["verdict"].value_counts()
        told = " ".join(f"{counts.get(name, 0):>5}" for name in ("good", "fair", "bad"))
        print(
            f"  {method:>8} {cv.estimate:>9.4f} {np.nanmean(off):>11.1e} {np.nanmax(off):>9.1e} "
            f"{np.nanmean(off / np.abs(truth)):>9.1e} {told} {cv.seconds:>6.1f} s"
        )
