"""Inside one motion-capture sequence of 1,484 steps, five states: points, blocks, the future left out.

Gaussian, AR(1) and NAR(1) emissions; none, ij, onestep and auto against exact refits. For the
autoregressions a fold also drops, and does not score, the step after each one that it leaves out: the
left-out step is a regressor there. The paper leaves the Gaussian's points and blocks out and finds
blocks weak, and the future of all three and finds NAR(1) weak. MOCAP_MODELS="AR(0) AR(1)" runs some.
"""

from __future__ import annotations

import os
import time
from typing import Any, NamedTuple

import numpy as np

import fitonce as fo
from reproduce import cases, draw, mocap, published, traffic
from reproduce.record import Record

STATES = 5
FOLDS = {"AR(0)": 10, "AR(1)": 10, "NAR(1)": 3}  # of each kind; a refit of NAR(1) takes a minute
STARTS = {"AR(0)": 30, "AR(1)": 30, "NAR(1)": 8}  # of the future, at most
METHODS = ("none", "ij", "onestep", "auto")
MODELS = tuple(os.environ.get("MOCAP_MODELS", "AR(0) AR(1) NAR(1)").split())
GAUSSIAN = "AR(0)"
PERCENTS = (2, 5, 10)
INSIDE = [f"{kind} {percent} %" for kind in ("i.i.d.", "block") for percent in PERCENTS]
FUTURES = {"AR(0)": 147, "AR(1)": 147, "NAR(1)": 29}  # how many of the last steps begin the future
COLUMNS = [
    "model",
    "left out",
    "exact loss",
    "certified",
    *METHODS,
    "ij good",
    "time, ij",
    "time, exact",
]
DIFFERS = [
    "Data: a sequence of the same length and channels, of a trial chosen by us; channels are divided by "
    "their standard deviation. The paper's trial is not named.",
    "Definition: AR(0) is the paper's Gaussian, with one noise variance that is learned and shared by "
    "the states.",
    f"Definition: {', '.join(f'{count} folds of {name}' for name, count in FOLDS.items())} for each kind "
    "of points and blocks; the paper has 10.",
    f"Definition: where the future is left out, {', '.join(f'{n} starts of {m}' for m, n in STARTS.items())}"
    ", evenly spread over the paper's range, each scored on its first step.",
    "Definition: for the autoregressions the step after a left-out one is dropped too (not scored), "
    "since the left-out step is its regressor. The paper shows points and blocks for the Gaussian "
    "alone.",
    f"Definition: weights of the networks have a prior standard deviation of {mocap.WEIGHTS}; the paper "
    "does not give its own.",
]


class Panel(NamedTuple):
    """Losses of left-out points by exact refits, and by each method."""

    model: str
    label: str
    exact: np.ndarray
    found: dict[str, np.ndarray]


def main() -> None:
    record = Record(
        "mocap-within",
        "Inside one sequence of motion capture: points, blocks, the future",
        ["fig:appendix_withinseq", "fig:appendix_LFO"],
        differs=list(DIFFERS),
    )
    whole = fo.datasets.load("mocap_long", traffic.FOLDER)
    series = whole.values[0] / whole.values[0].std(0)
    record.beside("steps", published.MOCAP_LONGEST, f"{len(series):,}")
    for name, number in (("AR(1)", published.MOCAP_FUTURE), ("NAR(1)", published.MOCAP_FUTURE_NAR)):
        record.beside(f"first start of the future, {name}", number, len(series) - FUTURES[name])
    text = "Mean absolute error of a fold's loss against its certified refit, nats a point"
    record.table(f"{text}; points and blocks left out", COLUMNS)
    record.table(f"{text}; the future left out", COLUMNS)
    fits, panels = {}, []
    for name in MODELS:  # what the paper has
        with record.waiting(f"{name}, its fit and what the paper leaves out of it"):
            fits[name] = _fitted(record, name, series)
            labels = ["future", *INSIDE] if name == GAUSSIAN else ["future"]
            panels += _rows(record, fits[name], name, labels)
        _draw(record, panels)
    for name in MODELS:  # and what it does not have
        if name != GAUSSIAN and fits[name].ok:
            with record.waiting(f"{name}, its points and blocks"):
                panels += _rows(record, fits[name], name, INSIDE)
            _draw(record, panels)
    record.write()


def _rows(record: Record, fit: fo.Fit, name: str, labels: list[str]) -> list[Panel]:
    """The rows of one model in the two tables."""
    within, future = record.tables
    panels = []
    for label, folds in _folds(fit, name).items():
        if label in labels:
            cells, panel = _row(fit, name, label, folds)
            (future if label == "future" else within).add(name, label, *cells)
            record.save()
            panels.append(panel)
    return panels


def _fitted(record: Record, name: str, series: np.ndarray) -> fo.Fit:
    started = time.perf_counter()
    fit = fo.fit(mocap.model(name, STATES), series, restarts=3)
    took = time.perf_counter() - started
    record.say(f"{name}: {len(fit.theta):,} parameters, fit {took:.0f} s; {fit.status}.")
    return fit


def _folds(fit: fo.Fit, name: str) -> dict[str, fo.Folds]:
    """None where the fit is no minimum: there is nothing to expand around."""
    if not fit.ok:
        return {}
    data, order, future = fit.data, 0 if name == GAUSSIAN else 1, FUTURES[name]
    made = {
        label: fo.folds.followed_by(folds, data, order)
        for label, folds in cases.percent_folds(data, PERCENTS, FOLDS[name]).items()
    }
    last = int(data.lengths[0])
    starts = np.unique(np.linspace(last - future, last - 1, min(future, STARTS[name])).astype(int))
    made["future"] = fo.folds.future(data, [int(start) for start in starts], horizon=1)
    return made


def _row(fit: fo.Fit, name: str, label: str, folds: fo.Folds) -> tuple[list[str], Panel]:
    exact = fo.cross_validate(fit, folds, method="exact", optima=0, check=False)
    sound = exact.folds["ok"].to_numpy()
    usable = sound[exact.pointwise["fold"].to_numpy()]
    errors, found, good, seconds = [], {}, "", ""
    for method in METHODS:
        options: dict[str, Any] = {} if method == "auto" else {"check": "all"}
        cv = fo.cross_validate(fit, folds, method=method, **options)
        off = (cv.folds["loss"] - exact.folds["loss"]).abs().to_numpy()[sound]
        errors.append(f"{off.mean():.1e}")
        found[method] = cv.pointwise["loss"].to_numpy()[usable]
        if method == "ij":
            good = f"{int((cv.folds['verdict'] == 'good').to_numpy()[sound].sum())} of {len(off)}"
            seconds = f"{cv.seconds:.0f} s"
    loss = f"{exact.folds['loss'].to_numpy()[sound].mean():.3f}"
    cells = [loss, f"{sound.sum()} of {len(sound)}", *errors, good, seconds, f"{exact.seconds:.0f} s"]
    return cells, Panel(name, label, exact.pointwise["loss"].to_numpy()[usable], found)


def _draw(record: Record, panels: list[Panel]) -> None:
    """The paper's two figures, as far as they go."""
    for future, file, text in (
        (False, "mocap-within.png", "a point or block of the sequence left out"),
        (True, "mocap-future.png", "the first step of the future that is left out"),
    ):
        chosen = [panel for panel in panels if (panel.label == "future") == future]
        if not chosen:
            continue
        columns = 3
        rows = -(-len(chosen) // columns)
        figure, axes = draw.panels(rows, columns, 2.9, 2.6)
        chosen.sort(key=lambda panel: (MODELS.index(panel.model), "block" in panel.label))
        for axis, panel in zip(axes.flat, chosen, strict=False):
            shown = {method: panel.found[method] for method in ("none", "ij", "auto")}
            draw.scatter(axis, panel.exact, shown, f"{panel.model}, {panel.label}")
        for axis in axes.flat[len(chosen) :]:
            axis.set_axis_off()
        draw.name_axes(figure, axes, "loss, exact refit", "loss, approximated")
        record.figure(
            figure,
            file,
            f"Each dot is {text}: its loss after an exact refit (across), approximated (up).",
        )
