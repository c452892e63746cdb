"""The paper's first figure but for its times: the counts, and each left-out point's loss by `ij` against
its exact refit, with the control behind."""

from __future__ import annotations

from typing import Any

import numpy as np

import fitonce as fo
from reproduce import draw, traffic
from reproduce.record import Record

METHODS = ("none", "ij")


def main() -> None:
    record = Record(
        "traffic-scatter", "Time-varying Poisson process: point by point", ["fig:dodgers_withinseq"]
    )
    fit = traffic.subset(record)
    table = record.table(
        f"Absolute difference of a left-out point's loss from its exact refit, {traffic.N} folds",
        ["left out", "points", "none, mean", "ij, mean", "none, largest", "ij, largest"],
    )
    panels = {}
    for (kind, percent), folds in traffic.fold_sets(fit.data).items():
        exact = traffic.certified(fit, folds).pointwise["loss"].to_numpy()
        found = {m: _losses(fo.cross_validate(fit, folds, method=m)) for m in METHODS}
        off = [np.abs(losses - exact) for losses in found.values()]
        means, most = ([f"{over(part):.1e}" for part in off] for over in (np.nanmean, np.nanmax))
        table.add(f"{kind} {percent} %", f"{len(exact):,}", *means, *most)
        panels[f"{kind} {percent} %"] = (exact, found)
    record.figure(
        _counts(fit.data),
        "traffic-counts.png",
        "The counts that are cross-validated (the paper's top panel).",
    )
    record.figure(
        _panels(panels),
        "traffic-scatter.png",
        "Each dot is a left-out point: its loss after an exact refit (across) and approximated (up).",
    )
    record.differs += traffic.DIFFERS
    record.write()


def _losses(cv: fo.CVResult) -> np.ndarray:
    return cv.pointwise["loss"].to_numpy()


def _counts(data: fo.Sequences) -> Any:
    figure, axes = draw.panels(1, 1, 9.0, 2.2)
    counts = np.where(data.observed, data.values, np.nan)[0].ravel()
    axes[0, 0].plot(np.arange(len(counts)) / traffic.STEPS_PER_DAY, counts, lw=0.4, color="#2c6fbb")
    axes[0, 0].set_xlabel("day", fontsize=8)
    axes[0, 0].set_ylabel("cars in five minutes", fontsize=8)
    axes[0, 0].margins(x=0.01)
    axes[0, 0].tick_params(labelsize=7)
    return figure


def _panels(panels: dict[str, Any]) -> Any:
    figure, axes = draw.panels(2, len(traffic.PERCENTS))
    for axis, (label, (exact, found)) in zip(axes.flat, panels.items(), strict=True):
        draw.scatter(axis, exact, found, label)
    draw.name_axes(figure, axes, "loss, exact refit", "loss, approximated")
    return figure
