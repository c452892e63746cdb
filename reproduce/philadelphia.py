"""Every single tract of Philadelphia left out: `none`, `ij`, `onestep` and `loo` against exact refits.

The paper's last experiment, on violent crimes and on all crimes of 2018 (PHILADELPHIA_KINDS="violent"
runs one of them). The couplings are per edge; the paper's, which counts edges twice, are half of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fitonce as fo
from fitonce.crossval.loo import sweep
from reproduce import chosen, philadelphia_page, published, traffic
from reproduce.record import Record

BETAS = (0.2, 2.0, 10.0, 20.0)
KINDS = tuple(os.environ.get("PHILADELPHIA_KINDS", "violent total").split())
PARTS = [f"{kind} {beta:g}" for kind in KINDS for beta in BETAS]
STYLES = ("A", "B")
METHODS = ("none", "ij", "onestep")
_COLD = """
import fitonce as fo
data = fo.datasets.load_map("philly", {folder!r})
fit = fo.fit(fo.models.PottsMixture(data.graph, beta=2.0), data.table["violent"])
print(fo.cross_validate(fit, fo.folds.points(data.table["violent"]), method="ij", scheme="B"))
"""


def load() -> fo.datasets.MapData:
    """The map, from the folder that `traffic` finds."""
    return fo.datasets.load_map("philly", traffic.FOLDER)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started


def main(part: str | None = None) -> None:
    if part is not None:
        for kind, beta in (name.split() for name in chosen(part, PARTS)):
            _one(load(), kind, float(beta))
        return
    record = Record("philadelphia", "Crime in Philadelphia, every tract left out", ["fig:crime_tracts"])
    data = load()
    record.beside("census tracts", published.PHILADELPHIA_TRACTS, len(data.table))
    record.beside("parameters", published.PHILADELPHIA_PARAMETERS, 2)
    _, seconds = timed(_cold_start)
    record.say(f"A fresh process, from its start to all {len(data.table)} folds by ij: {seconds:.1f} s.")
    plan, seconds = timed(lambda: fo.plan(fo.models.PottsMixture(data.graph, beta=1.0)))
    record.say(f"Plan, {seconds:.2f} s: {plan}.")
    found = {}
    for kind in KINDS:
        for beta in BETAS:
            for style, results in _one(data, kind, beta).items():
                found[kind, beta, style] = results
    philadelphia_page.tell(record, found)
    philadelphia_page.draw_all(record, found, data)
    record.write()


def _cold_start() -> None:
    script = _COLD.format(folder=str(traffic.FOLDER))
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def _one(data: fo.datasets.MapData, kind: str, beta: float) -> dict[str, dict[str, fo.CVResult]]:
    """Print the tables of one model; returns each style's results by method."""
    counts = data.table[kind]
    model = fo.models.PottsMixture(data.graph, beta=beta)
    fit, fitting = timed(lambda: fo.fit(model, counts))
    along = fo.curvature(fit, "B").objective
    along.cross(fit.theta)
    _, derivatives = timed(lambda: along.cross(fit.theta))  # which takes H along
    _, hessian = timed(lambda: fit.objective.hessians(fit.theta[None], fit.objective.base[None]))
    rates = ", ".join(f"{rate:.2f}" for rate in fit.params["rate"])
    print(f"{kind}, beta {beta:g} an edge: rates {rates}; {fit.status}")
    print(f"  fit {fitting:.1f} s, H and J {derivatives:.2f} s warm, one Hessian alone {hessian:.2f} s")
    folds = fo.folds.points(counts)
    styles = {}
    loo = {"sweep": fo.loo(fit, refine=False), "loo": fo.loo(fit)}
    for scheme in STYLES:
        found = {
            name: fo.cross_validate(fit, folds, method=name, scheme=scheme, check=False, optima=0)
            for name in METHODS
        }
        found |= loo
        found["auto"] = fo.cross_validate(fit, folds, scheme=scheme, optima=0)
        found["exact"] = fo.cross_validate(fit, folds, method="exact", scheme=scheme, optima=0)
        _table(scheme, found, hessian * len(folds))
        styles[scheme] = found
    _inference(fit)
    print()
    return styles


def _table(scheme: str, found: dict[str, fo.CVResult], public: float) -> None:
    """Errors of each fold's loss against its certified refit."""
    truth = found["exact"].folds["loss"].to_numpy()
    failed = found["exact"].n_failed
    note = f", {failed} refits without a certificate left out" if failed else ""
    print(f"  style {scheme}{note}; public way (a Hessian for each fold) {public:.0f} s;")
    print(
        "  none, ij, onestep without checks; sweep: loo without refits; loo is of style A in both tables"
    )
    heads = f"{'mean error':>11} {'largest':>9} {'relative':>9} {'time':>8} {'public/this':>12}"
    print(f"  {'method':>8} {'estimate':>9} {heads}")
    for name, cv in found.items():
        off = np.abs(cv.folds["loss"].to_numpy() - truth)
        relative = np.nanmean(off / np.abs(truth))
        print(
            f"  {name:>8} {cv.estimate:>9.4f} {np.nanmean(off):>11.1e} {np.nanmax(off):>9.1e} "
            f"{relative:>9.1e} {cv.seconds:>6.1f} s {public / cv.seconds:>11.0f}x"
        )


def _inference(fit: fo.Fit) -> None:
    """What the one sweep's first-order loss misses of inference at each fold's own parameters."""
    folds, losses, slopes = sweep(fit)
    moves = fo.curvature(fit).solve(slopes.T).T
    first = losses + np.einsum("td,td->t", slopes, moves)
    scored = np.array(list(folds.scored))
    full = fit.objective.pointwise_losses(fit.theta + moves, folds.weights, scored)[:, 0]
    off, control = np.abs(first - full), np.abs(losses - full)
    print(
        f"  one sweep against full inference at the same parameters: mean {off.mean():.1e}, largest "
        f"{off.max():.1e} (control: {control.mean():.1e}, {control.max():.1e})"
    )
