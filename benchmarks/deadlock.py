"""The textbook model that waited for itself with jaxlib 0.10, many times, each in its own process."""

from __future__ import annotations

import subprocess
import sys
import time

from reproduce.cases import machine

RUNS, PATIENCE = 50, 120  # seconds
# Full covariances, 12 channels, 5 sequences of 20 steps, two states 3 sd apart.
_CODE = """
import numpy as np, fitonce as fo
rng = np.random.default_rng({seed})
x = [rng.normal(size=(20, 12)) + 3.0 * np.repeat([0, 1], 10)[:, None] for _ in range(5)]
fit = fo.fit(fo.models.GaussianHMM(2, covariance="full"), x, restarts=1, kernel={kernel!r})
assert fit.ok, fit.status
"""


def main() -> None:
    print(machine())
    for kernel, runs in ((None, RUNS), ("scan", RUNS // 10)):
        ended, started = 0, time.perf_counter()
        for seed in range(runs):
            words = [sys.executable, "-c", _CODE.format(seed=seed, kernel=kernel)]
            try:
                ended += subprocess.run(words, timeout=PATIENCE, check=False).returncode == 0
            except subprocess.TimeoutExpired:
                print(f"kernel={kernel!r}, seed {seed}: not done after {PATIENCE} s")
        mean = (time.perf_counter() - started) / runs
        print(f"kernel={kernel!r}: {ended} of {runs} runs end with a certified fit, {mean:.1f} s each")
