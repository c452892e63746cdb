"""Time and memory of H and J and of a fold as the series grows (simulated traffic)."""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

import fitonce as fo

LENGTHS = (5_000, 10_000, 50_000, 500_000)
FOLDS = 8
PARAMS = {
    "rate": 17.0,
    "day_share": np.array([0.81, 1, 1.03, 1.04, 1.05, 1.09, 0.98]) / 7,
    "a": 3.0,
    "b": 0.25,
    "initial": np.array([0.5, 0.5]),
    "transition": np.array([[0.99, 0.01], [0.02, 0.98]]),
}


def measure(steps: int) -> dict[str, float]:
    weeks = -(-steps // (7 * 288))
    full = fo.datasets.simulate_events(weeks, missing=0.0)
    series = fo.sequences(full.values[0, :steps, 0])
    fit = fo.fit_at(fo.models.EventCounts(steps_per_day=288), series, PARAMS)
    folds = fo.folds.blocks(series, percent=10, n=FOLDS, seed=0)
    times = {
        "derivatives": _warm(lambda: fit.objective.cross(fit.theta)),
        "ij": _warm(lambda: fo.cross_validate(fit, folds, method="ij")),
        "onestep": _warm(lambda: fo.cross_validate(fit, folds, method="onestep")),
    }
    times["peak_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return times


def _warm(work: Callable[[], object]) -> float:
    """Best of two runs after one that compiles."""
    work()
    times = []
    for _ in range(2):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    print(f"{os.cpu_count()} cores, {platform.machine()}; warm; {FOLDS} folds of 10 %, time per fold")
    print(
        f"{'T':>8} {'H and J':>10} {'us/step':>10} {'ij / fold':>11} {'onestep / fold':>15} {'peak':>9}"
    )
    for steps in LENGTHS:
        command = [sys.executable, "-m", "benchmarks.scaling", str(steps)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        row = json.loads(done.stdout.splitlines()[-1])
        # ij's own share is the call less the H and J that it contains.
        ij = (row["ij"] - row["derivatives"]) / FOLDS
        both = row["derivatives"]
        print(
            f"{steps:>8,} {both:>8.3f} s {both / steps * 1e6:>10.2f} "
            f"{ij * 1e3:>8.2f} ms {row['onestep'] / FOLDS * 1e3:>12.2f} ms {row['peak_gib']:>5.2f} GiB"
        )


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
