"""The six labelled sequences of Fox et al.: leave each out, and decoded states beside the actions.

AR(0), AR(1), AR(2) and NAR(1) with 8 states; all six folds, exact ones too. Then the most likely states
of AR(1) against the labelled actions: which actions each state stands for, and how much of the labels
the best such naming explains.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd

import fitonce as fo
from reproduce import cases, mocap, traffic

STATES = 8
MODELS = ("AR(0)", "AR(1)", "AR(2)", "NAR(1)")


def main() -> None:
    print(cases.machine())
    data = fo.datasets.load("mocap6", traffic.FOLDER)
    parts = [data.values[n, : data.lengths[n]] for n in range(6)]  # noqa: PD011
    scale = np.concatenate(parts).std(0)
    sequences = [part / scale for part in parts]
    for name in MODELS:
        started = time.perf_counter()
        fit = fo.fit(mocap.model(name, STATES), sequences, restarts=5)
        took = time.perf_counter() - started
        if not fit.ok:
            print(f"{name:>7}: {fit.status}")
            continue
        folds = fo.folds.structures(fit.data)
        exact = fo.cross_validate(fit, folds, method="exact", check=False)
        truth = exact.folds["loss"].to_numpy()
        text = []
        for method in ("none", "ij", "auto"):
            cv = fo.cross_validate(fit, folds, method=method)
            off = np.abs(cv.folds["loss"].to_numpy() - truth)
            text.append(f"{method} {cv.estimate:.1f} (mean error {off.mean():.2g}, {cv.seconds:.0f} s)")
        print(
            f"{name:>7}: D = {len(fit.theta):5,}, fit {took:.0f} s; loss per sequence: exact "
            f"{np.nanmean(truth):.1f} +- {exact.se:.1f}, {int(exact.folds['ok'].sum())} of 6 certified, "
            f"{exact.seconds:.0f} s; " + ", ".join(text),
            flush=True,
        )
        if name == "AR(1)":
            _actions(fit)


def _actions(fit: fo.Fit) -> None:
    folder = Path(traffic.FOLDER) / "mocap6"
    labels = pd.read_csv(folder / "actions_per_tstep.csv")["action_name"].to_numpy()
    states = np.concatenate(fo.predict(fit))
    table = pd.crosstab(pd.Series(labels, name="action"), pd.Series(states, name="state"))
    print("\nsteps of each action in each decoded state, AR(1):")
    print(table.to_string())
    named = table.idxmax(axis=0)
    right = np.mean([named[state] == label for state, label in zip(states, labels, strict=True)])
    most = table.sum(axis=1).max() / len(labels)
    print(
        f"naming each state by its most frequent action explains {right:.1%} of the steps; always saying "
        f"the most frequent action {most:.1%}"
    )
    _plot(fit, states, labels)


def _plot(fit: fo.Fit, states: np.ndarray, labels: np.ndarray) -> None:
    import matplotlib.pyplot as plt

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
        plt.Line2D([], [], marker="s", ls="", color=plt.get_cmap("tab20")(code / 19), label=name)
        for code, name in enumerate(names)
    ]
    figure.legend(handles=handles, loc="lower center", ncols=6, fontsize=7)
    figure.suptitle("Labelled actions and decoded states (AR(1), 8 states)", fontsize=10)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    path = cases.OUT / "mocap6.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    print(f"wrote {path}")
