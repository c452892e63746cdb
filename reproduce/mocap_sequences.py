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
from collections.abc import Callable

import jax
import numpy as np
import pandas as pd

import fitonce as fo
from fitonce.fitting.hessian import DenseHessian
from reproduce import cases, mocap, mocap_sequences_page
from reproduce.mocap_sequences_page import Row

FOLDER = cases.OUT / "mocap"
FEW = int(os.environ.get("MOCAP_FOLDS", "10"))
AUTO = 10  # folds of `auto`, among those that are refitted
EVERY_FOLD = ("AR(0)", "AR(1)")  # models whose folds are all refitted


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows = [measure(name) for name in mocap.chosen_orders()]
    mocap_sequences_page.tell([row | cores(row["name"]) for row in rows])


def fitted(name: str, data: mocap.Trials) -> tuple[fo.Fit, float]:
    """The fit, and the time that it took."""
    return mocap.fitted(FOLDER / f"{mocap.plain(name)}.npz", mocap.model(name), data.train, restarts=2)


def measure(name: str) -> Row:
    """One row of the tables; kept as it is once it is there, also if another machine measured it."""
    kept = [FOLDER / f"{mocap.plain(name)}-{FEW}-{backend}.json" for backend in ("cpu", "gpu")]
    for path in kept:
        if path.exists():
            return json.loads(path.read_text())
    data = mocap.trials()
    fit, seconds = fitted(name, data)
    print(f"{name}: {fit.status}", flush=True)
    test = -fit.log_likelihood_of(data.test)
    row = {
        "name": name,
        "D": mocap.emission_parameters(fit),
        "all": len(fit.theta),
        "test": float(test.mean()),
        "test_se": float(test.std(ddof=1) / np.sqrt(len(test))),
        "fit_s": seconds,
        "machine": _machine(),
        **_against_refits(fit, FEW if name not in EVERY_FOLD else mocap.TRAIN),
        **_times(fit, fo.folds.structures(fit.data)),
    }
    kept[jax.default_backend() != "cpu"].write_text(json.dumps(row))
    return row


def _against_refits(fit: fo.Fit, refits: int) -> Row:
    """Estimates from all folds, and their errors on those that are refitted."""
    everyone = fo.folds.structures(fit.data)
    chosen = everyone if refits >= len(everyone) else fo.folds.structures(fit.data, n=refits, seed=0)
    few = chosen.some(np.arange(min(AUTO, len(chosen))))
    auto, auto_s = _timed(lambda: fo.cross_validate(fit, few))
    ij = fo.cross_validate(fit, everyone, method="ij", check="all")
    exact, exact_s = _timed(
        lambda: fo.cross_validate(fit, chosen, method="exact", check=False, journal=FOLDER / "journal")
    )
    which = [dropped[0] for dropped in chosen.dropped]
    told = ij.folds.iloc[which].reset_index(drop=True)
    truth, sound = exact.folds["loss"], exact.folds["ok"]
    good = (told["verdict"] == "good") & sound
    return {
        "none": ij.control,
        "ij": ij.estimate,
        "ij_se": ij.se,
        "exact": float(truth[sound].mean()),
        "exact_se": exact.se,
        "refits": len(chosen),
        "certified": int(sound.sum()),
        "none_off": _off(told["control"], truth, sound),
        "ij_off": _off(told["loss"], truth, sound),
        "auto_off": _off(auto.folds["loss"], truth[: len(few)], sound[: len(few)]),
        "quiet": int(good.sum()),
        "quiet_off": _off(told["loss"], truth, good),
        "auto_s": auto_s,
        "refit_s": exact_s / len(chosen),
        "all_refits_s": exact_s / len(chosen) * mocap.TRAIN,
        "scatter": [truth.tolist(), told["loss"].tolist(), told["control"].tolist()],
    }


def _off(found: pd.Series, truth: pd.Series, rows: pd.Series) -> float:
    """Mean absolute error on some rows; nan where there are none."""
    return float((found - truth).abs()[rows].mean())


def _timed(work: Callable[[], fo.CVResult]) -> tuple[fo.CVResult, float]:
    started = time.perf_counter()
    return work(), time.perf_counter() - started


def _machine() -> str:
    """With the accelerator's name, where one was used."""
    device = jax.devices()[0]
    return cases.machine() if device.platform == "cpu" else f"{device.device_kind}, {cases.machine()}"


def _times(fit: fo.Fit, folds: fo.Folds) -> dict[str, float]:
    """ACV from a fit at hand, compiled: H, its factor, and J with all folds and losses."""
    objective, theta, base = fit.objective, fit.theta, fit.objective.base
    objective.hessians(theta[None], base[None])
    started = time.perf_counter()
    hessian = objective.hessians(theta[None], base[None])[0]
    formed = time.perf_counter()
    DenseHessian(hessian, fit.names).solve(theta)
    factored = time.perf_counter()
    fo.cross_validate(fit, folds, method="ij", check=False)
    ended = time.perf_counter()
    return {
        "H_s": formed - started,
        "factor_s": factored - formed,
        "folds_s": ended - factored,
        "acv_s": ended - started,
    }


def cores(name: str) -> Row:
    """The same from a process on one core, and from one on all cores of this machine; measured once."""
    kept = FOLDER / f"{mocap.plain(name)}-cores.json"
    if jax.default_backend() == "cpu" and not kept.exists():
        every = sorted(os.sched_getaffinity(0))
        seconds = {
            "one_core_s": _on_cores(name, every[:1]),
            "all_cores_s": _on_cores(name, every),
            "cores": len(every),
            "cores_machine": cases.machine(),
        }
        kept.write_text(json.dumps(seconds))
    return json.loads(kept.read_text()) if kept.exists() else {}


def _on_cores(name: str, which: list[int]) -> float:
    code = f"from reproduce import mocap_sequences as m; m.print_times({name!r})"
    command = ["taskset", "-c", ",".join(map(str, which)), sys.executable, "-c", code]
    threads = str(len(which))
    env = os.environ | {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def print_times(name: str) -> None:
    """For a process of its own."""
    fit, _ = fitted(name, mocap.trials())
    print(_times(fit, fo.folds.structures(fit.data))["acv_s"])
