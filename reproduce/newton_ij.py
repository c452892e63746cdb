"""The paper's comparison of one Newton step with `ij`, 10 % left out: do the two agree, and who is
nearer to the exact refits?"""

from __future__ import annotations

from typing import Any

import numpy as np

import fitonce as fo
from reproduce import draw, traffic
from reproduce.record import Record

METHODS = ("none", "ij", "onestep", "newton")


def main() -> None:
    record = Record("newton-ij", "One Newton step against the expansion", ["app:fig_NS_v_IJ"])
    fit = traffic.subset(record)
    table = record.table(
        "Mean absolute difference of a left-out point's loss: from the fold's Newton step, and from its "
        "exact refit",
        ["left out", "method", "from newton", "largest", "from exact", "largest "],
    )
    panels: dict[str, dict[str, np.ndarray]] = {}
    without: list[str] = []
    for (kind, percent), folds in traffic.fold_sets(fit.data).items():
        exact, found, failed = _losses(fit, folds)
        without += failed
        for method, losses in found.items():
            step, refit = np.abs(losses - found["newton"]), np.abs(losses - exact)
            numbers = (step.mean(), step.max(), refit.mean(), refit.max())
            table.add(f"{kind} {percent} %", method, *(f"{number:.1e}" for number in numbers))
        if percent == max(traffic.PERCENTS):
            panels[f"{kind} {percent} %"] = found
    _tell_failed(record, without)
    record.figure(
        _panels(panels),
        "newton-ij.png",
        "Each dot is a left-out point: its loss after one Newton step with the fold's own Hessian "
        "(across) and by the expansion (up).",
    )
    record.differs += traffic.DIFFERS
    record.write()


def _tell_failed(record: Record, reasons: list[str]) -> None:
    why = f": {'; '.join(sorted(set(reasons)))}" if reasons else ""
    record.say(
        "Folds left out of the table and the figure, because a step was reported as failed: "
        f"{len(reasons)} of {traffic.N * 2 * len(traffic.PERCENTS)}{why}."
    )


def _losses(fit: fo.Fit, folds: fo.Folds) -> tuple[np.ndarray, dict[str, np.ndarray], list[str]]:
    """Each point's loss by exact refits and by each method, where all succeeded; why others failed."""
    every = {m: fo.cross_validate(fit, folds, method=m, optima=0) for m in (*METHODS, "exact")}
    sound = np.all([cv.folds["ok"].to_numpy() for cv in every.values()], axis=0)
    rows = sound[every["exact"].pointwise["fold"].to_numpy()]
    losses = {m: cv.pointwise["loss"].to_numpy()[rows] for m, cv in every.items()}
    failed = [
        next(cv.folds["status"][fold] for cv in every.values() if not cv.folds["ok"][fold])
        for fold in np.flatnonzero(~sound)
    ]
    return losses.pop("exact"), losses, failed


def _panels(panels: dict[str, dict[str, np.ndarray]]) -> Any:
    figure, axes = draw.panels(1, len(panels), 3.6, 3.6)
    for axis, (label, found) in zip(axes.flat, panels.items(), strict=True):
        draw.scatter(axis, found["newton"], {m: found[m] for m in ("none", "ij")}, label)
    draw.name_axes(figure, axes, "loss, one Newton step", "loss, expansion (ij)")
    return figure
