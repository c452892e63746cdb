"""The paper's timing table: 1,000 folds of 10 % on all 50,400 steps, beside its hours.

Each method has a process of its own. Process: from its start to the result, imports, reading, making
folds and compilation included, less the fit; first call: `cross_validate` alone, which compiles; warm:
the same call again. As in the paper, no time includes the fit (which compiles H and J on its way).
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import time

import fitonce as fo
from reproduce import traffic

FOLDS = 1000
PAPER_HOURS = {
    ("iid", "ij"): 11.0 / 60, ("iid", "newton"): 98.6, ("iid", "exact"): 682.2,
    ("blocks", "ij"): 10.6 / 60, ("blocks", "newton"): 99.1, ("blocks", "exact"): 683.9,
}  # fmt: skip
SAMPLED = {"newton": 12, "exact": 100}  # of 1,000 folds; `python -m reproduce exact` runs all of them


def measure(kind: str, method: str, born: float) -> dict[str, float]:
    """Cold and warm seconds of one method, in this process, and its peak memory."""
    series = traffic.load()
    fit = traffic.fit(series, restarts=1)
    n = SAMPLED.get(method, FOLDS)
    folds = getattr(fo.folds, kind)(series, percent=10, n=n, seed=0)
    start = time.perf_counter()
    fo.cross_validate(fit, folds, method=method)
    first = time.perf_counter() - start
    process = time.time() - born - fit.seconds
    start = time.perf_counter()
    result = fo.cross_validate(fit, folds, method=method)
    warm = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "folds": n,
        "process": process,
        "first": first,
        "warm": warm,
        "fit": fit.seconds,
        "peak_gib": peak,
        "estimate": result.estimate,
        "control": result.control,
    }


def main() -> None:
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    print(
        "process: a fresh one, less its fit; newton and exact: 12 and 100 folds measured, scaled; "
        "checks included\n"
    )
    names = ("folds", "method", "process", "first call", "warm", "1,000 folds", "paper", "exact/this")
    row_format = "{:>7} {:>8} {:>8} {:>10} {:>8} {:>12} {:>8} {:>10} {:>8} {:>8}"
    print(row_format.format(*names, "peak", "estimate"))
    for kind in ("iid", "blocks"):
        rows = {method: _fresh(kind, method) for method in ("ij", "onestep", "auto", "newton", "exact")}
        full = {m: r["warm"] * FOLDS / r["folds"] for m, r in rows.items()}
        for method, row in rows.items():
            hours = PAPER_HOURS.get((kind, method))
            paper = "-" if hours is None else f"{hours:.1f} h"
            print(
                f"{kind:>7} {method:>8} {row['process']:>6.1f} s {row['first']:>8.1f} s "
                f"{row['warm']:>6.1f} s {full[method]:>10.1f} s {paper:>8} "
                f"{full['exact'] / full[method]:>9.0f}x "
                f"{row['peak_gib']:>4.1f} GiB {row['estimate']:>8.4f}"
            )
        print(f"{'':>7} control {rows['ij']['control']:.4f} (none), fit {rows['ij']['fit']:.1f} s cold")


def _fresh(kind: str, method: str) -> dict[str, float]:
    command = [sys.executable, "-m", "reproduce.traffic_timing", kind, method, str(time.time())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], float(sys.argv[3]))))
