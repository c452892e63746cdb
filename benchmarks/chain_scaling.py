"""Folds a second against the length of a chain, its states and cores, one at a time; with a figure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from reproduce.cases import machine

LENGTHS = (100, 1_000, 10_000, 100_000, 1_000_000)
STATES = (2, 4, 8, 16, 32, 64, 128)
STEPS, FEW_STATES, FOLDS = 10_000, 2, 64
FIGURE = Path(__file__).parents[1] / "docs" / "chain-scaling.png"


def main() -> None:
    print(machine())
    cores = sorted({1, os.cpu_count() or 1})
    by_length = {n: [_measured(n, steps, FEW_STATES) for steps in LENGTHS] for n in cores}
    by_states = {n: [_measured(n, STEPS, states) for states in STATES] for n in cores}
    for name, axis, found in (("T", LENGTHS, by_length), ("K", STATES, by_states)):
        for n, rates in found.items():
            shown = ", ".join(f"{x:,}: {rate:,.3g}" for x, rate in zip(axis, rates, strict=True))
            print(f"{n} core{'s' * (n > 1)}, folds/s at {name} = {shown}", flush=True)
    _draw(by_length, by_states)
    print(f"wrote {FIGURE.name}")


def _measured(cores: int, steps: int, states: int) -> float:
    """Gradients of folds a second, in a process that may use that many cores."""
    words = [sys.executable, "-m", "benchmarks.chain_scaling", str(cores), str(steps), str(states)]
    return float(json.loads(subprocess.run(words, check=True, capture_output=True).stdout))


def _rate(steps: int, states: int) -> float:
    import fitonce as fo
    from fitonce.objectives.families import objective_of

    rng = np.random.default_rng(0)
    counts = rng.poisson(4.0 * (np.cumsum(rng.random(steps) < 0.05) % states + 1)).astype(float)
    objective = objective_of(fo.models.PoissonHMM(states), counts)
    folds = FOLDS if steps * states <= 1_000_000 else 16
    weights = np.ones((folds, steps))
    weights[:, : steps // 10] = 0.0
    thetas = np.tile(objective.start(None), (folds, 1))
    objective.values_and_gradients(thetas[:2], weights[:2])
    repeats, seconds = 0, 0.0
    while seconds < 1.0:
        started = time.perf_counter()
        objective.values_and_gradients(thetas, weights)
        seconds += time.perf_counter() - started
        repeats += 1
    return folds * repeats / seconds


def _draw(by_length: dict[int, list[float]], by_states: dict[int, list[float]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    titles = (f"steps T, K = {FEW_STATES}", f"states K, T = {STEPS:,}")
    drawn = zip(panels, titles, (LENGTHS, STATES), (by_length, by_states), strict=True)
    for panel, title, axis, found in drawn:
        for cores, rates in found.items():
            panel.loglog(axis, rates, "o-", label=f"{cores} core{'s' * (cores > 1)}")
        panel.set_xlabel(title)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("gradients of folds a second")
    panels[0].legend()
    figure.savefig(FIGURE, dpi=120)


if __name__ == "__main__":
    limit, *size = map(int, sys.argv[1:])
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:limit]))
    print(json.dumps(_rate(*size)))
