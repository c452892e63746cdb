"""The record, tables and figures of left-out sequences of motion capture, from the rows measured."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import numpy as np

from reproduce import draw, mocap, published
from reproduce.record import Record

Row = dict[str, Any]
DIFFERS = [
    f"Data: {mocap.TRAIN + mocap.TEST} trials of the same database with the same channels, chosen by "
    "us: the paper's list is not at hand. Channels are divided by their standard deviation.",
    "Definition: the noise variance is learned and shared by the states; the prior mean of B is the "
    "identity for the latest step and zero for others. D counts emission parameters, as the paper does.",
    "Definition: exact refits are certified minima reached from the full fit. The paper refits AR(0) "
    "and AR(1) on all folds by EM, and others by BFGS on three folds, whose times it multiplies; our "
    "folds are in the tables.",
    "Machine: the paper gives its losses and times in a figure only, without numbers.",
    f"Definition: weights of the networks have a prior standard deviation of {mocap.WEIGHTS}; the paper "
    "does not give its own.",
]


def tell(rows: list[Row]) -> Record:
    """Print, draw and write all of it."""
    machines = sorted({row["machine"] for row in rows})
    record = Record(
        "mocap-sequences",
        "Motion capture, one sequence left out",
        ["fig:supp_mocap"],
        machine="; ".join(machines),
        differs=list(DIFFERS),
    )
    record.beside("sequences", published.MOCAP_SEQUENCES, mocap.TRAIN + mocap.TEST)
    record.beside("training sequences", published.MOCAP_TRAINING, mocap.TRAIN)
    record.beside("states", published.MOCAP_STATES, mocap.STATES)
    largest = max(rows, key=lambda row: row["D"])
    record.beside("largest D", published.MOCAP_PARAMETERS, f"{largest['D']:,}, {largest['name']}")
    absent = [name for name in mocap.ORDERS if name not in {row["name"] for row in rows}]
    if absent:
        record.say(f"Not measured yet: {', '.join(absent)}.")
    _losses(record, rows)
    _errors(record, rows)
    _times(record, rows)
    _figures(record, rows)
    record.write()
    return record


def _losses(record: Record, rows: list[Row]) -> None:
    table = record.table(
        "Loss per sequence ± standard error; none and ij on all folds, exact on those refitted",
        ["model", "D", "all parameters", "none", "ij", "exact", "refits", "test"],
    )
    for row in rows:
        ij, exact, test = (f"{row[key]:.1f} ± {row[f'{key}_se']:.1f}" for key in ("ij", "exact", "test"))
        sizes = (f"{row['D']:,}", f"{row['all']:,}")
        table.add(row["name"], *sizes, f"{row['none']:.1f}", ij, exact, row["refits"], test)
    whole = all(row["refits"] == mocap.TRAIN for row in rows)
    judges = ("none", "ij", *(["exact"] if whole else []), "test")  # folds that differ do not compare
    least = {key: min(rows, key=itemgetter(key))["name"] for key in judges}
    told = ", ".join(f"{name} by {key}" for key, name in least.items())
    record.say(f"Least loss among the models measured: {told}.")


def _errors(record: Record, rows: list[Row]) -> None:
    table = record.table(
        "Mean absolute error of a left-out sequence's loss against its certified refit, nats a sequence",
        ["model", "refits", "certified", "none", "ij", "auto", "ij good", "ij, where good"],
    )
    for row in rows:
        quiet = f"{row['quiet_off']:.2g}" if row["quiet"] else ""
        errors = (f"{row[key]:.2g}" for key in ("none_off", "ij_off", "auto_off"))
        table.add(row["name"], row["refits"], row["certified"], *errors, row["quiet"], quiet)


def _times(record: Record, rows: list[Row]) -> None:
    table = record.table(
        "Seconds: H, its factor, J with all folds and losses, these three together (ij), and 100 exact "
        "refits",
        [
            "model",
            "fit",
            "H",
            "factor",
            "J, folds",
            "ij, all",
            "auto, 10 folds",
            "a refit",
            "100 refits",
            "machine",
        ],
    )
    for row in rows:
        whole = f"{row['all_refits_s']:,.0f}{'' if row['refits'] == mocap.TRAIN else ' (scaled)'}"
        parts = [f"{row[key]:.1f}" for key in ("H_s", "factor_s", "folds_s", "acv_s")]
        times = (f"{row['fit_s']:.0f}", *parts, f"{row['auto_s']:.0f}", f"{row['refit_s']:.1f}", whole)
        table.add(row["name"], *times, row["machine"])
    measured = [row for row in rows if "one_core_s" in row]
    if measured:
        caption = "Seconds of ij, all folds, from a fit at hand, without an accelerator"
        table = record.table(caption, ["model", "one core", "all cores", "ratio", "cores", "machine"])
    for row in measured:
        one, every = row["one_core_s"], row["all_cores_s"]
        cells = (f"{one:.1f}", f"{every:.1f}", f"{one / every:.2f}", row["cores"])
        table.add(row["name"], *cells, row["cores_machine"])


def _figures(record: Record, rows: list[Row]) -> None:
    caption = "A training sequence, its twelve channels (the paper's top panel)."
    record.figure(_sequence(), "mocap-sequence.png", caption)
    bare = [row["name"] for row in rows if len(row["scatter"]) < 3]
    if bare:
        record.say(
            f"Without the control in their panels, which was kept in the tables only: {', '.join(bare)}."
        )
    record.figure(
        _scatter(rows),
        "mocap-sequences.png",
        "Each dot is a left-out sequence: its loss after an exact refit (across) and approximated (up).",
    )
    record.figure(
        _summary(rows),
        "mocap-sequences-times.png",
        "Losses with two standard errors (exact: of the folds refitted, the others of all), and times.",
    )


def _sequence() -> Any:
    figure, axes = draw.panels(1, 1, 8.0, 2.6)
    longest = max(mocap.trials().train, key=len)
    axes[0, 0].plot(longest, lw=0.9)
    axes[0, 0].set_xlabel("step", fontsize=8)
    axes[0, 0].set_ylabel("channel / its sd", fontsize=8)
    return figure


def _scatter(rows: list[Row]) -> Any:
    columns = min(len(rows), 4)
    figure, axes = draw.panels(-(-len(rows) // columns), columns, 2.7, 2.7)
    for axis, row in zip(axes.flat, rows, strict=False):
        exact, *others = (np.array(part, float) for part in row["scatter"])
        names = ("ij", "none")[: len(others)]
        found = dict(sorted(zip(names, others, strict=True), key=lambda pair: pair[0] == "ij"))
        draw.scatter(axis, exact, found, f"{row['name']}, D = {row['D']:,}")
    for axis in axes.flat[len(rows) :]:
        axis.set_axis_off()
    draw.name_axes(figure, axes, "loss, exact refit", "loss, approximated")
    return figure


def _summary(rows: list[Row]) -> Any:
    figure, axes = draw.panels(1, 2, 4.6, 3.4)
    place, left, right = np.arange(len(rows)), axes[0, 0], axes[0, 1]
    for shift, key, label in ((-0.2, "ij", "ij"), (-0.05, "exact", "exact"), (0.25, "test", "test")):
        spread = [2 * row[f"{key}_se"] for row in rows]
        left.errorbar(place + shift, [row[key] for row in rows], spread, fmt="o", ms=4, label=label)
    left.plot(place + 0.1, [row["none"] for row in rows], "x", color="0.5", label="none (control)")
    left.set_ylabel("loss per sequence", fontsize=8)
    for key, label in (
        ("acv_s", "ij"),
        ("all_cores_s", "ij, all cores, no accelerator"),
        ("one_core_s", "ij, one core"),
        ("all_refits_s", "exact, 100 folds"),
    ):
        seconds = np.array([row.get(key, np.nan) for row in rows], float)
        if np.isfinite(seconds).any():
            right.plot(place, seconds, "o-", ms=4, label=label)
    right.set_yscale("log")
    right.set_ylabel("seconds", fontsize=8)
    for axis in (left, right):
        axis.set_xticks(place, [row["name"] for row in rows], fontsize=8)
        axis.legend(fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4)
    return figure
