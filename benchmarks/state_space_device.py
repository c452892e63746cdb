"""Local levels by JAX on one device: many short series, and one that is long, step by step and in rounds.

Compiling is said apart. A time is of one call from and to arrays of NumPy, the best of five. Memory is the
most that XLA held at a time so far. `python -m benchmarks.state_space_device` needs no other library.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import fitonce as fo
from fitonce.objectives.families import objective_of

_LONGEST_SCAN = 100_000  # steps one after the other


def main() -> None:
    device = jax.devices()[0]
    print(f"{device.device_kind}, JAX {jax.__version__}, Python {platform.python_version()}")
    rng = np.random.default_rng(0)
    short = np.cumsum(rng.normal(size=(10_000, 100)), 1) + rng.normal(size=(10_000, 100))
    for kernel in ("scan", "tree", "native"):
        _said("10,000 series of 100 steps", list(short), kernel)
    for steps in (10_000, 100_000, 1_000_000):
        x = np.cumsum(rng.normal(size=steps)) + rng.normal(size=steps)
        for kernel in ("scan", "tree", "native"):
            if kernel != "scan" or steps <= _LONGEST_SCAN:
                _said(f"one series of {steps:,} steps", x, kernel)


def _said(name: str, data: Any, kernel: str) -> None:
    objective = objective_of(fo.models.Structural(), data, kernel)
    theta = objective.space.to_free({"level": np.array(1.0), "noise": np.array(1.0)})[None]
    weights = objective.base[None]
    value = _timed(lambda: objective.log_likelihoods(theta, weights))
    both = _timed(lambda: objective.values_and_gradients(theta, weights))
    stats = jax.devices()[0].memory_stats() if kernel != "native" else None
    memory = "" if not stats else f"; {stats['peak_bytes_in_use'] / 2**20:,.0f} MiB"
    compiling = "" if kernel == "native" else f"; compiling {value[2]:.1f} s and {both[2]:.1f} s"
    print(
        f"{name}, {kernel}: likelihood {1e3 * value[1]:.1f} ms, with gradient {1e3 * both[1]:.1f} ms"
        f"{compiling}{memory} (value {value[0][0]:.6f})",
        flush=True,
    )


def _timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What it returns, seconds of the best of five calls, and how much longer the first one took."""
    seconds = []
    for _ in range(6):
        start = time.perf_counter()
        found = work()
        seconds.append(time.perf_counter() - start)
    return found, min(seconds[1:]), seconds[0] - min(seconds[1:])


if __name__ == "__main__":
    main()
