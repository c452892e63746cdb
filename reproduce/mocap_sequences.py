"""Leave one sequence out of 100: AR(0) to AR(5) and NAR(1) with 16 states (the paper's figure).

For each model: parameters, the cross-validated loss per sequence by the paper's expansion, its error
and that of `auto` (10 folds) against exact refits (all folds for AR(0) and AR(1), 10 for the others), the
loss of 24 test sequences, and times. MOCAP_MODELS="AR(0) AR(1)" runs some of them, MOCAP_FOLDS=100 more
refits; fits and rows are kept in out/mocap and read from there, and so are refits, a batch at a time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import fitonce as fo
from fitonce.hessian import Dense
from reproduce import cases, mocap

FOLDER = cases.OUT / "mocap"
FEW = int(os.environ.get("MOCAP_FOLDS", "10"))


def main() -> None:
    print(f"{cases.machine()}, {jax.default_backend()}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows = [measure(name) for name in mocap.chosen_orders()]
    print(
        f"\n{'model':>7} {'D':>7} {'all':>7} {'none':>8} {'ij':>8} {'se':>6} {'exact':>8} {'se':>6} "
        f"{'folds':>5} {'test':>8} {'se':>6}   loss per sequence"
    )
    for row in rows:
        print(
            f"{row['name']:>7} {row['D']:7,} {row['all']:7,} {row['none']:8.2f} {row['ij']:8.2f} "
            f"{row['ij_se']:6.2f} {row['exact']:8.2f} {row['exact_se']:6.2f} {row['refits']:5} "
            f"{row['test']:8.2f} {row['test_se']:6.2f}"
        )
    print(
        f"\n{'model':>7} {'folds':>6} {'exact':>9} {'none':>8} {'ij':>8} {'auto':>8}   mean error of a fold"
    )
    for row in rows:
        print(
            f"{row['name']:>7} {row['refits']:6} {row['exact']:9.2f} {row['none_off']:8.2g} "
            f"{row['ij_off']:8.2g} {row['auto_off']:8.2g}   {row['certified']} certified; of the "
            f"{row['quiet']} that ij's verdict calls good: ij {row['quiet_off']:.2g}"
        )
    print(
        f"\n{'model':>7} {'fit':>6} {'H':>6} {'factor':>6} {'J, folds':>8} {'ACV':>6} {'1 core':>7} "
        f"{'auto, 10':>8} {'refit':>7} {'100 refits':>11}   s"
    )
    for row in rows:
        print(
            f"{row['name']:>7} {row['fit_s']:6.0f} {row['H_s']:6.1f} {row['factor_s']:6.1f} "
            f"{row['folds_s']:8.1f} {row['acv_s']:6.1f} {row['one_core_s']:7.1f} {row['auto_s']:8.0f} "
            f"{row['refit_s']:7.1f} {row['all_refits_s']:10,.0f}{'' if row['refits'] == 100 else '*'}   "
            f"{row.get('machine', 'one H200')}"
        )
    print("* measured per fold times folds")
    winners = {
        key: min(rows, key=lambda row, k=key: row[k])["name"] for key in ("none", "ij", "exact", "test")
    }
    print("least loss: " + ", ".join(f"{key} {name}" for key, name in winners.items()))
    _plot(rows)


def fitted(name: str, data: mocap.Trials) -> tuple[fo.Fit, float]:
    """The fit, from its file where there is one, and the time that it took."""
    path = FOLDER / f"{_plain(name)}.npz"
    model = mocap.model(name)
    if path.exists():
        with np.load(path) as file:
            params = {key: file[key] for key in file.files if key != "seconds"}
            return fo.fit_at(model, data.train, params), float(file["seconds"])
    fit = fo.fit(model, data.train, restarts=2, seed=0)
    np.savez(path, seconds=fit.seconds, **fit.params)
    return fit, fit.seconds


def measure(name: str) -> dict[str, Any]:
    """One row of the tables; kept as it is once it is there."""
    kept = FOLDER / f"{_plain(name)}-{FEW}-{jax.default_backend()}.json"
    others = sorted(FOLDER.glob(f"{_plain(name)}-*.json"))
    for path in (kept, *others):  # also what another machine measured
        if path.exists():
            return json.loads(path.read_text())
    data = mocap.trials()
    fit, seconds = fitted(name, data)
    print(f"{name}: {fit.status}", flush=True)
    everyone = fo.folds.structures(fit.data)
    every = name in ("AR(0)", "AR(1)") or len(everyone) <= FEW
    chosen = everyone if every else fo.folds.structures(fit.data, n=FEW, seed=0)
    which = np.array([dropped[0] for dropped in chosen.dropped])
    few = fo.folds.structures(fit.data, n=10, seed=0)
    started = time.perf_counter()
    auto = fo.cross_validate(fit, few)
    auto_s = time.perf_counter() - started
    ij = fo.cross_validate(fit, everyone, method="ij", check="all")
    started = time.perf_counter()
    exact = fo.cross_validate(fit, chosen, method="exact", check=False, journal=FOLDER / "journal")
    exact_s = time.perf_counter() - started
    times = _times(fit, everyone)
    test = -fit.log_likelihood_of(data.test)
    truth = exact.folds["loss"].to_numpy()
    sound = exact.folds["ok"].to_numpy()
    quiet = (ij.folds["verdict"].to_numpy()[which] == "good") & sound

    def off(column: str, rows: np.ndarray = sound) -> float:
        gap = np.abs(ij.folds[column].to_numpy()[which] - truth)[rows]
        return float(gap.mean()) if gap.size else float("nan")

    ours = [int(dropped[0]) for dropped in few.dropped]
    among = [int(np.flatnonzero(which == number)[0]) for number in ours]
    auto_off = np.abs(auto.folds["loss"].to_numpy() - truth[among])

    row = {
        "name": name,
        "D": mocap.emission_parameters(fit),
        "all": len(fit.theta),
        "none": ij.control,
        "ij": ij.estimate,
        "ij_se": ij.se,
        "exact": float(truth[sound].mean()),
        "exact_se": exact.se,
        "test": float(test.mean()),
        "test_se": float(test.std(ddof=1) / np.sqrt(len(test))),
        "refits": len(chosen),
        "certified": int(sound.sum()),
        "none_off": off("control"),
        "ij_off": off("loss"),
        "auto_off": float(auto_off.mean()),
        "quiet": int(quiet.sum()),
        "quiet_off": off("loss", quiet),
        "ij_some": float(ij.folds["loss"].to_numpy()[which].mean()),
        "fit_s": seconds,
        **times,
        "one_core_s": _one_core(name),
        "machine": f"{cases.machine()}, {jax.default_backend()}",
        "auto_s": auto_s,
        "refit_s": exact_s / len(chosen),
        "all_refits_s": exact_s / len(chosen) * 100,
        "scatter": np.stack([truth, ij.folds["loss"].to_numpy()[which]]).tolist(),
    }
    kept.write_text(json.dumps(row))
    return row


def _plain(name: str) -> str:
    """A name for files."""
    return name.replace("(", "").replace(")", "")


def _times(fit: fo.Fit, folds: fo.Folds) -> dict[str, float]:
    """ACV from a fit at hand, compiled: H, its factor, and J with all folds and losses."""
    objective, theta, base = fit.problem, fit.theta, fit.problem.base
    objective.hessians(theta[None], base[None])
    started = time.perf_counter()
    hessian = objective.hessians(theta[None], base[None])[0]
    formed = time.perf_counter()
    Dense(hessian, fit.names).solve(theta)
    factored = time.perf_counter()
    fo.cross_validate(fit, folds, method="ij", check=False)
    ended = time.perf_counter()
    return {
        "H_s": formed - started,
        "factor_s": factored - formed,
        "folds_s": ended - factored,
        "acv_s": ended - started,
    }


def _one_core(name: str) -> float:
    """The same in a process that may use one core."""
    if jax.default_backend() != "cpu" or os.environ.get("MOCAP_ONE_CORE") == "0":
        return float("nan")
    code = f"from reproduce import mocap_sequences as m; m.print_times({name!r})"
    command = ["taskset", "-c", "0", sys.executable, "-c", code]
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def print_times(name: str) -> None:
    fit, _ = fitted(name, mocap.trials())
    print(_times(fit, fo.folds.structures(fit.data))["acv_s"])


def _plot(rows: list[dict[str, Any]]) -> Path:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, len(rows), figsize=(2.6 * len(rows), 6.2), squeeze=False)
    for axis, row in zip(axes[0], rows, strict=True):
        exact, ij = np.array(row["scatter"])
        ends = [np.nanmin([exact, ij]), np.nanmax([exact, ij])]
        axis.plot(ends, ends, "k--", lw=0.8)
        axis.plot(exact, ij, "o", ms=3, color="#c0392b")
        axis.set_title(f"{row['name']}, D = {row['D']:,}", fontsize=9)
        axis.set_xlabel("exact", fontsize=8)
        axis.tick_params(labelsize=7)
    axes[0, 0].set_ylabel("ij", fontsize=8)
    for axis in axes[1]:
        axis.remove()
    place = np.arange(len(rows))
    names = [row["name"] for row in rows]
    left = figure.add_subplot(2, 2, 3)
    for shift, key, label in ((-0.2, "ij", "ij"), (0.0, "exact", "exact"), (0.2, "test", "test, 24")):
        left.errorbar(
            place + shift, [r[key] for r in rows], [2 * r[f"{key}_se"] for r in rows], fmt="o", ms=4, label=label
        )  # fmt: skip
    left.plot(place, [r["none"] for r in rows], "x", color="0.5", label="none (control)")
    left.set_xticks(place, names, fontsize=8)
    left.set_ylabel("loss per sequence, two standard errors", fontsize=8)
    left.legend(fontsize=7)
    right = figure.add_subplot(2, 2, 4)
    for key, label in (
        ("acv_s", "ACV"),
        ("one_core_s", "ACV, one core"),
        ("all_refits_s", "exact, 100 folds"),
    ):
        right.plot(place, [r[key] for r in rows], "o-", ms=4, label=label)
    right.set_yscale("log")
    right.set_xticks(place, names, fontsize=8)
    right.set_ylabel("seconds", fontsize=8)
    right.legend(fontsize=7)
    figure.tight_layout()
    path = cases.OUT / "mocap_sequences.png"
    figure.savefig(path, dpi=130)
    plt.close(figure)
    print(f"wrote {path}")
    return path
