"""What an accelerator does, in one call: 1,000 folds of traffic by each method, and what the benchmarks
`large`, `crf` and `state-space-device` say of one layer and two series.

Each release records what this prints on one H200. Without an accelerator it only says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import jax
import numpy as np
from reproduce import cases, mocap, traffic

import fitonce as fo
from benchmarks import crf, large, state_space_device
from fitonce.core.numerics import in_float64

FOLDS = 1000
AIMS = {"exact": 1.3, "onestep": 1.0, "ij": 0.7}
CALLS = 3


def main() -> None:
    device = jax.devices()[0]
    if device.platform == "cpu":
        print("device: needs an accelerator that JAX sees, got a CPU; nothing was measured")
        return
    print(f"{device.device_kind}, {cases.machine()}, JAX {jax.__version__}", flush=True)
    series = traffic.load()
    fit = traffic.fit(series, restarts=1)
    print(f"fit of {series.n_sites:,} steps: {fit.seconds:.1f} s, {fit.status}", flush=True)
    folds_of_traffic(fit)
    gradients_of_traffic(fit)
    print("\n11,712 emission parameters:", flush=True)
    model, data = mocap.model("AR(5)"), mocap.trials().train
    large.formed(*large.near_a_minimum(model, data))
    print("\nlabels of 12,543 sentences:", flush=True)
    crf.row(crf.data(), "iob2")
    print("\nstate-space models:", flush=True)
    for name in ("10,000 local levels of 100 steps", "one local level of 1,000,000 steps"):
        state_space_device.apart(name, "tree")


def folds_of_traffic(fit: fo.Fit) -> None:
    """Seconds of the first call of each method, which compiles, and of the best of two later ones."""
    for kind in ("iid", "blocks"):
        folds = getattr(fo.folds, kind)(fit.data, percent=10, n=FOLDS, seed=0)
        for method, aim in AIMS.items():
            seconds, cv = [], None
            for _ in range(CALLS):
                cv = _timed(
                    lambda m=method, f=folds: fo.cross_validate(fit, f, method=m, optima=0), seconds
                )
            print(
                f"{FOLDS:,} {kind} folds, {method}: {min(seconds[1:]):.2f} s (first call {seconds[0]:.1f} s, "
                f"aim {aim} s); estimate {cv.estimate:.6f}, se {cv.se:.6f}, none {cv.control:.6f}, "
                f"{int(cv.folds['ok'].sum()):,} usable",
                flush=True,
            )


@in_float64
def gradients_of_traffic(fit: fo.Fit) -> None:
    """1,000 gradients, with weights that are sent and that are there."""
    objective = fit.objective
    weights = fo.folds.iid(fit.data, percent=10, n=FOLDS, seed=0).weights
    thetas = np.tile(fit.theta, (FOLDS, 1))
    there = jax.device_put(weights)
    for words, given in (("on the host", weights), ("on the device", there)):
        seconds: list[float] = []
        for _ in range(CALLS):
            _timed(lambda w=given: objective.values_and_gradients(thetas, w), seconds)
        print(f"{FOLDS:,} gradients, weights {words}: {1e3 * min(seconds[1:]):.0f} ms", flush=True)


def _timed(work: Callable[[], object], seconds: list[float]) -> object:
    started = time.perf_counter()
    found = work()
    seconds.append(time.perf_counter() - started)
    return found
