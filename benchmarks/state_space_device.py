"""State-space models by JAX on one device: many short series, and one that is long, step by step ("scan")
and in rounds ("tree"), beside the native filter on a core of the same machine.

Compiling is said apart. A time is of one call from and to arrays of NumPy, the best of five. Memory is the
most that XLA held at a time, each case in a process of its own.
`python -m benchmarks.state_space_device` needs no library of the other benchmarks.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

CASES = {
    "10,000 local levels of 100 steps": ("level", 10_000, 100, ("scan", "tree", "native")),
    "one local level of 10,000 steps": ("level", 1, 10_000, ("scan", "tree", "native")),
    "one local level of 100,000 steps": ("level", 1, 100_000, ("tree", "native")),
    "one local level of 1,000,000 steps": ("level", 1, 1_000_000, ("tree", "native")),
    "1,000 series of 100 steps with trend and 4 seasons": ("seasons", 1_000, 100, ("scan", "tree")),
    "10 series of 2,000 steps with trend and 4 seasons": ("seasons", 10, 2_000, ("scan", "tree")),
}


def main() -> None:
    for name, (_, _, _, kernels) in CASES.items():
        for kernel in kernels:
            apart(name, kernel)


def apart(name: str, kernel: str) -> None:
    """One case in a process of its own, for its memory."""
    words = [sys.executable, "-m", "benchmarks.state_space_device", name, kernel]
    subprocess.run(words, check=True, env=os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"})


def one(name: str, kernel: str) -> None:
    """One case, in this process."""
    import jax

    import fitonce as fo
    from fitonce.objectives.families import objective_of

    if name == next(iter(CASES)) and kernel == "scan":
        kind = jax.devices()[0].device_kind
        print(f"{kind}, JAX {jax.__version__}, Python {platform.python_version()}", flush=True)
    kind, count, steps, _ = CASES[name]
    rng = np.random.default_rng(0)
    shape = (count, steps)
    data = np.cumsum(rng.normal(size=shape), 1) + rng.normal(size=shape)
    model = fo.models.Structural() if kind == "level" else fo.models.Structural("trend", seasonal=4)
    objective = objective_of(model, list(data), kernel)
    theta, weights = objective.start(None)[None], objective.base[None]
    value = _timed(lambda: objective.log_likelihoods(theta, weights))
    both = _timed(lambda: objective.values_and_gradients(theta, weights))
    stats = jax.devices()[0].memory_stats() if kernel != "native" else None
    memory = "" if not stats else f"; {stats['peak_bytes_in_use'] / 2**20:,.0f} MiB"
    compiling = "" if kernel == "native" else f"; compiling {value[2]:.1f} s and {both[2]:.1f} s"
    print(
        f"{name}, {kernel}: likelihood {1e3 * value[1]:.1f} ms, with gradient {1e3 * both[1]:.1f} ms"
        f"{compiling}{memory}; {value[0][0]:.6f} nats",
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
    if len(sys.argv) > 2:
        one(*sys.argv[1:])
    else:
        main()
