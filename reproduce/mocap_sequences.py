"""Leave one sequence out of 100: AR(0) to AR(5) and NAR(1) with 16 states (the paper's figure).

For each model: parameters, the cross-validated loss per sequence by the paper's expansion, its error
and that of `auto` (10 folds) against exact refits (all folds for AR(0) and AR(1), 10 for the others),
the loss of 24 test sequences, and times. MOCAP_MODELS="AR(0) AR(1)" runs some of them,
MOCAP_FOLDS=100 more refits; fits and rows are kept in out/mocap and read from there, and so are refits,
a batch at a time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

import jax
import numpy as np

import fitonce as fo
from fitonce.hessian import Dense
from reproduce import cases, mocap, mocap_sequences_page

FOLDER = cases.OUT / "mocap"
FEW = int(os.environ.get("MOCAP_FOLDS", "10"))


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    mocap_sequences_page.tell([measure(name) for name in mocap.chosen_orders()])


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
        "scatter": np.stack(
            [truth, *(ij.folds[c].to_numpy()[which] for c in ("loss", "control"))]
        ).tolist(),
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
