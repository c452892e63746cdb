"""The six labelled sequences of Fox et al.: leave each out, and decoded states beside the actions.

AR(0), AR(1), AR(2) and NAR(1) with 8 states; all six folds, exact ones too. Then the most likely states
of AR(1) against the labelled actions: which actions each state stands for, and how much of the labels
the best such naming explains. MOCAP_MODELS="AR(0) AR(1)" runs some; fits are
kept in out/mocap6 and read from there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fitonce as fo
from reproduce import cases, mocap, published, traffic
from reproduce.record import Record

STATES, RESTARTS = 8, 5
EVERY = ("AR(0)", "AR(1)", "AR(2)", "NAR(1)")
MODELS = tuple(os.environ.get("MOCAP_MODELS", "").split()) or EVERY
METHODS = ("none", "ij", "auto")
SHOWN = "AR(1)"  # whose states are decoded
DIFFERS = [
    f"Data: the paper has {published.MOCAP_SEQUENCES.text} trials of this database; these are the six "
    "that Fox et al. labelled, each left out once.",
    f"Definition: {STATES} states, and channels divided by their standard deviation.",
]


def main() -> None:
    record = Record("mocap6", "Six labelled sequences of motion capture", [], differs=list(DIFFERS))
    table = record.table(
        f"Loss of a left-out sequence, {STATES} states; mean absolute error against certified refits, "
        "nats a sequence",
        ["model", "parameters", "fit", "exact loss", "certified", *METHODS, "time, ij", "time, exact"],
    )
    sequences = _sequences()
    absent = [name for name in EVERY if name not in MODELS]
    if absent:
        record.say(f"Not measured yet: {', '.join(absent)}.")
    for name in MODELS:
        with record.waiting(f"{name}, its fit and folds"):
            path = cases.OUT / "mocap6" / f"{mocap.plain(name)}.npz"
            fit, took = mocap.fitted(path, mocap.model(name, STATES), sequences, RESTARTS)
            if fit.ok:
                table.add(name, f"{len(fit.theta):,}", f"{took:.0f} s", *_row(fit))
            else:
                record.say(f"{name}: {took:.0f} s; {fit.status}.")
        if fit.ok and name == SHOWN:
            _actions(record, fit)
        record.write()


def _sequences() -> list[np.ndarray]:
    """Channels divided by their standard deviation."""
    data = fo.datasets.load("mocap6", traffic.FOLDER)
    parts = [data.values[n, : data.lengths[n]] for n in range(data.n_sequences)]  # noqa: PD011
    scale = np.concatenate(parts).std(0)
    return [part / scale for part in parts]


def _row(fit: fo.Fit) -> list[str]:
    folds = fo.folds.structures(fit.data)
    exact = fo.cross_validate(fit, folds, method="exact", optima=0, check=False)
    sound = exact.folds["ok"].to_numpy()
    errors, seconds = [], {}
    for method in METHODS:
        cv = fo.cross_validate(fit, folds, method=method)
        off = (cv.folds["loss"] - exact.folds["loss"]).abs().to_numpy()[sound]
        errors.append(f"{off.mean():.2g}")
        seconds[method] = f"{cv.seconds:.0f} s"
    loss = f"{exact.folds['loss'].to_numpy()[sound].mean():.1f} ± {exact.se:.1f}"
    return [loss, f"{sound.sum()} of {len(sound)}", *errors, seconds["ij"], f"{exact.seconds:.0f} s"]


def _actions(record: Record, fit: fo.Fit) -> None:
    """Decoded states beside the labels, which the fit has not seen."""
    folder = Path(traffic.FOLDER) / "mocap6"
    labels = pd.read_csv(folder / "actions_per_tstep.csv")["action_name"].to_numpy()
    states = np.concatenate(fo.predict(fit))
    counts = pd.crosstab(pd.Series(labels, name="action"), pd.Series(states, name="state"))
    heads = ["action", *(f"state {state}" for state in counts.columns)]
    table = record.table(f"Steps of each labelled action in each decoded state, {SHOWN}", heads)
    for action, row in counts.iterrows():
        table.add(action, *row)
    named = counts.idxmax(axis=0)
    right = np.mean([named[state] == label for state, label in zip(states, labels, strict=True)])
    most = counts.sum(axis=1).max() / len(labels)
    record.say(
        f"Naming each state of {SHOWN} by its most frequent action explains {right:.1%} of the steps; "
        f"always saying the most frequent action {most:.1%} (control)."
    )
    record.figure(
        _plot(fit, states, labels), "mocap6.png", f"Labelled actions and decoded states, {SHOWN}."
    )


def _plot(fit: fo.Fit, states: np.ndarray, labels: np.ndarray) -> Any:
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    names, codes = np.unique(labels, return_inverse=True)
    figure, axes = plt.subplots(6, 1, figsize=(9, 7))
    for axis, start, length in zip(axes, fit.data.offsets, fit.data.lengths, strict=True):
        both = np.stack([codes[start : start + length], states[start : start + length]]).astype(float)
        top = axis.inset_axes((0, 0.5, 1, 0.45))
        top.imshow(both[:1], aspect="auto", cmap="tab20", vmin=0, vmax=19)
        low = axis.inset_axes((0, 0.0, 1, 0.45))
        low.imshow(both[1:], aspect="auto", cmap="Set2", vmin=0, vmax=7)
        for part, text in ((top, "action"), (low, "state")):
            part.set_yticks([0], [text], fontsize=7)
            part.set_xticks([])
        axis.set_axis_off()
    handles = [
        Line2D([], [], marker="s", ls="", color=plt.get_cmap("tab20")(code / 19), label=name)
        for code, name in enumerate(names)
    ]
    figure.legend(handles=handles, loc="lower center", ncols=6, fontsize=7)
    figure.subplots_adjust(left=0.07, right=0.99, top=0.99, bottom=0.1)
    plt.close(figure)
    return figure
