"""Block bootstrap from one fit against exact refits of the same draws, and coverage of intervals."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd

import fitonce as fo
from reproduce import cases, traffic

DRAWS = 200
CHAINS, STEPS = 200, 1000
LEVEL = 0.9


def main() -> None:
    series = traffic.load(10_000)
    fit = traffic.fit(series)
    for block in (22, 288):
        _against_refits(fit, block)
    _coverage()


def _against_refits(fit: fo.Fit, block: int) -> None:
    times = {}
    results = {}
    for method in ("ij", "newton", "exact"):
        started = time.perf_counter()
        results[method] = fo.bootstrap(fit, "block", n=DRAWS, block=block, method=method)
        times[method] = time.perf_counter() - started
    model = fit.to_dataframe()["se"].to_numpy()
    approximate, newton, exact = results.values()
    table = pd.DataFrame(
        {
            "name": exact.table["name"],
            "se, exact refits": exact.table["se"],
            "se, one fit": approximate.table["se"],
            "ratio": approximate.table["se"] / exact.table["se"],
            "newton / exact": newton.table["se"] / exact.table["se"],
            "se, H alone (control)": model,
            "control / exact": model / exact.table["se"],
        }
    )
    print(
        f"\nfirst 10,000 steps, blocks of {block}, {DRAWS} draws: {times['ij']:.1f} s from one fit, "
        f"{times['newton']:.1f} s by newton ({newton.n_failed} without a number), "
        f"{times['exact']:.1f} s by exact refits ({exact.n_failed} without a certificate)"
    )
    print(table.to_string(index=False, float_format=lambda v: f"{v:.4g}"))


def _coverage() -> None:
    """How often 90 % intervals hold the value that made the data."""
    model = fo.models.GaussianHMM(2, covariance="fixed", mean_scale=10.0)
    truth = {"mean[0,0]": -1.5, "mean[1,0]": 1.5, "transition[0,0]": 0.9, "transition[1,0]": 0.1}
    inside = {kind: dict.fromkeys(truth, 0) for kind in ("block", "iid", "H alone")}
    used = 0
    for seed in range(CHAINS):
        start = {"initial": [0.5, 0.5], "transition": [[0.9, 0.1], [0.1, 0.9]], "mean": [[-1.5], [1.5]]}
        fit = fo.fit(model, cases.two_states(3.0, STEPS, seed), init=start)
        if not fit.ok:
            continue
        used += 1
        normal = fit.to_dataframe().set_index("name")
        for kind in ("block", "iid"):
            table = fo.bootstrap(fit, kind, n=500, level=LEVEL, seed=seed).table.set_index("name")
            for name, value in truth.items():
                inside[kind][name] += table["low"][name] <= value <= table["high"][name]
        for name, value in truth.items():
            inside["H alone"][name] += abs(normal["value"][name] - value) <= 1.645 * normal["se"][name]
    spread = np.sqrt(LEVEL * (1 - LEVEL) / used)
    print(
        f"\ncoverage of {100 * LEVEL:g} % intervals on {used} simulated chains of {STEPS} steps "
        f"(a right one is within {100 * 2 * spread:.0f} of {100 * LEVEL:g})"
    )
    table = pd.DataFrame(inside) / used * 100
    print(table.to_string(float_format=lambda v: f"{v:.1f}"))
