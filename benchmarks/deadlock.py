"""Two models that waited for themselves with jaxlib 0.10, many times, each in its own process."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from reproduce.cases import machine

RUNS, PATIENCE = 50, 300  # seconds
CORES = 2  # on one core nothing waits, on many it waits more rarely
# Full covariances, 12 channels, 5 sequences of 20 steps, two states 3 sd apart.
_HMM = """
import numpy as np, fitonce as fo
rng = np.random.default_rng({seed})
x = [rng.normal(size=(20, 12)) + 3.0 * np.repeat([0, 1], 10)[:, None] for _ in range(5)]
fit = fo.fit(fo.models.GaussianHMM(2, covariance="full"), x, restarts=1, kernel={kernel!r})
assert fit.ok, fit.status
"""
# A spatial autoregression of 49 areas as a Custom, in which every fold has a factor and an inverse.
_CAR = """
import sys
sys.path.insert(0, "tests")
from lapack_densities import car
import fitonce as fo
model, data = car(seed={seed})
fit = fo.fit(model, data)
found = fo.cross_validate(fit, fo.folds.points(49))
"""


def main() -> None:
    print(machine())
    _many("a CAR, cross-validated", _CAR, RUNS)
    for kernel, runs in ((None, RUNS), ("scan", RUNS // 10)):
        _many(f"a Gaussian HMM, kernel={kernel!r}", _HMM, runs, kernel=kernel)


def _many(name: str, code: str, runs: int, **given: object) -> None:
    ended, started = 0, time.perf_counter()
    for seed in range(runs):
        words = [sys.executable, "-c", code.format(seed=seed, **given)]
        try:
            done = subprocess.run(words, timeout=PATIENCE, check=False, preexec_fn=_on_few_cores)
            ended += done.returncode == 0
        except subprocess.TimeoutExpired:
            print(f"{name}, seed {seed}: not done after {PATIENCE} s")
    mean = (time.perf_counter() - started) / runs
    print(f"{name}: {ended} of {runs} returned, {mean:.1f} s each", flush=True)


def _on_few_cores() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
