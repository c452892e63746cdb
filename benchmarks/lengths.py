"""New data all the time: 200 series of random lengths and numbers of states, fit and 50 block folds.

One process does all of them, so that what is loaded or compiled for one is there for the next; a program
or a loop that depended on the shape of the data would be compiled 200 times.
"""

from __future__ import annotations

import time

import numpy as np
from reproduce.cases import machine

import fitonce as fo
from fitonce.core.stopwatch import Stopwatch

SERIES, SHORTEST, LONGEST, MOST_STATES, FOLDS = 200, 20, 5_000, 6, 50


def main() -> None:
    print(machine())
    rng = np.random.default_rng(0)
    lengths = np.exp(rng.uniform(np.log(SHORTEST), np.log(LONGEST), SERIES)).astype(int)
    states = rng.integers(1, MOST_STATES + 1, SERIES)
    watch, times, certified, folds_certified = Stopwatch(), [], 0, 0
    for length, count in zip(lengths, states, strict=True):
        z = np.cumsum(rng.random(length) < 0.05) % 3
        counts = rng.poisson(np.array([3.0, 9.0, 20.0])[z])
        started = time.perf_counter()
        fit = fo.fit(fo.models.PoissonHMM(int(count)), counts)
        cv = fo.cross_validate(fit, fo.folds.blocks(counts, percent=10, n=FOLDS, seed=0))
        times.append(time.perf_counter() - started)
        certified += fit.ok
        folds_certified += int(cv.folds["ok"].sum())
    seconds, compiling = watch.read()
    print(
        f"{SERIES} series of {lengths.min()} to {lengths.max()} steps, 1 to {MOST_STATES} states, fit and "
        f"{FOLDS} block folds: mean {np.mean(times):.2f} s, median {np.median(times):.2f}, longest "
        f"{np.max(times):.2f}; the first {times[0]:.2f} s; compiling {compiling:.2f} s, "
        f"{100 * compiling / seconds:.2f} % of all"
    )
    print(
        f"certified: {certified} of {SERIES} fits, {folds_certified:,} of {SERIES * FOLDS:,} folds",
        flush=True,
    )
