"""Every single tract of Philadelphia left out: `none`, `ij`, `onestep` and `loo` against exact refits.

The paper's last experiment, on violent crimes and on all crimes of 2018. The couplings are per edge;
the paper's, which counts edges twice, are half of them.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fitonce as fo
from fitonce.loo import sweep
from reproduce import cases, traffic

BETAS = (0.2, 2.0, 10.0, 20.0)
KINDS = ("violent", "total")
STYLES = ("A", "B")
METHODS = ("none", "ij", "onestep")
SHOWN = (*METHODS, "sweep")
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


def main() -> None:
    print(cases.machine())
    _, seconds = timed(_cold_start)
    print(f"a fresh process, from its start to all 384 folds by ij (beta 2): {seconds:.1f} s")
    data = load()
    plan, seconds = timed(lambda: fo.plan(fo.models.PottsMixture(data.graph, beta=1.0)))
    print(f"plan, {seconds:.2f} s: {plan}\n")
    cases.OUT.mkdir(exist_ok=True)
    for kind in KINDS:
        panels = {style: _panels() for style in STYLES}
        for column, beta in enumerate(BETAS):
            for style, found in _one(data, kind, beta).items():
                _scatter(panels[style][1][:, column], found, beta)
        for style, (figure, _) in panels.items():
            figure.suptitle(
                f"{kind} crimes, style {style}: every tract left out, against its exact refit"
            )
            drawn = cases.OUT / f"philadelphia_{kind}_{style}.png"
            figure.savefig(drawn, dpi=110)
            print(f"scatter of {', '.join(SHOWN)} against exact: {drawn}")
    _map(data)


def _cold_start() -> None:
    script = _COLD.format(folder=str(traffic.FOLDER))
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def _one(data: fo.datasets.MapData, kind: str, beta: float) -> dict[str, dict[str, fo.CVResult]]:
    """Print the tables of one model; returns each style's results by method."""
    counts = data.table[kind]
    model = fo.models.PottsMixture(data.graph, beta=beta)
    fit, fitting = timed(lambda: fo.fit(model, counts))
    fo.curvature(fit, "B").objective.derivatives(fit.theta)
    _, derivatives = timed(lambda: fo.curvature(fit, "B").objective.derivatives(fit.theta))
    _, hessian = timed(lambda: fit.problem.hessians(fit.theta[None], fit.problem.base[None]))
    rates = ", ".join(f"{rate:.2f}" for rate in fit.params["rate"])
    print(f"{kind}, beta {beta:g} an edge: rates {rates}; {fit.status}")
    print(f"  fit {fitting:.1f} s, H and J {derivatives:.2f} s warm, one Hessian alone {hessian:.2f} s")
    folds = fo.folds.points(counts)
    styles = {}
    for scheme in STYLES:
        found = {
            name: fo.cross_validate(fit, folds, method=name, scheme=scheme, check=False)
            for name in METHODS
        }
        found["sweep"] = fo.loo(fit, refine=False)
        found["loo"] = fo.loo(fit)
        found["auto"] = fo.cross_validate(fit, folds, scheme=scheme)
        found["exact"] = fo.cross_validate(fit, folds, method="exact", scheme=scheme)
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
    full = fit.problem.pointwise_losses(fit.theta + moves, folds.weights, scored)[:, 0]
    off, control = np.abs(first - full), np.abs(losses - full)
    print(
        f"  one sweep against full inference at the same parameters: mean {off.mean():.1e}, largest "
        f"{off.max():.1e} (control: {control.mean():.1e}, {control.max():.1e})"
    )


def _panels() -> tuple[Any, Any]:
    import matplotlib.pyplot as plt

    rows, columns = len(SHOWN), len(BETAS)
    return plt.subplots(rows, columns, figsize=(3.6 * columns, 3.4 * rows), layout="constrained")


def _scatter(axes: Any, found: dict[str, fo.CVResult], beta: float) -> None:
    """One column of panels: each method's losses against the refits'."""
    for ax, name in zip(axes, SHOWN, strict=True):
        found[name].plot(found["exact"], ax)
        ax.set_title(f"{name}, beta {beta:g} an edge", fontsize=9)


def _map(data: fo.datasets.MapData) -> None:
    import matplotlib.pyplot as plt

    counts = data.table["violent"]
    fit = fo.fit(fo.models.PottsMixture(data.graph, beta=2.0), counts)
    figure, axes = plt.subplots(2, 2, figsize=(12, 11), layout="constrained")
    fo.plot_map(fit, data.polygons, show="data", label="violent crimes, 2018", ax=axes[0, 0])
    fo.plot_map(fit, data.polygons, show="class", ax=axes[0, 1])
    fo.plot_map(fo.loo(fit), data.polygons, label="held-out loss", ax=axes[1, 0])
    fo.plot_map(np.log10(fo.influence(fit).table["displacement"]), data.polygons,
                label="log10 displacement", ax=axes[1, 1])  # fmt: skip
    for ax, title in zip(axes.flat, ("data", "class", "leave-one-out", "influence"), strict=True):
        ax.set_title(title)
    figure.savefig(cases.OUT / "philadelphia_map.png", dpi=120)
    print(f"maps: {cases.OUT / 'philadelphia_map.png'}")
