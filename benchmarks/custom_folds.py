"""A thousand folds of an own density, whose time is that of calls of compiled programs."""

from __future__ import annotations

import time

import jax.numpy as jnp
import numpy as np
from reproduce.cases import machine

import fitonce as fo

POINTS, RUNS = 1000, 25


def _log_density(params: dict, data: dict, weights: np.ndarray) -> jnp.ndarray:
    mean = params["level"] + data["x"] @ params["slopes"]
    scale = jnp.exp(params["log_scale"])
    return jnp.sum(weights * (-0.5 * ((data["y"] - mean) / scale) ** 2 - params["log_scale"]))


def main() -> None:
    print(machine())
    rng = np.random.default_rng(0)
    x = rng.normal(size=(POINTS, 4))
    data = {"y": x @ [1.0, -0.5, 0.2, 0.0] + rng.normal(size=POINTS), "x": x}
    start = {"level": 0.0, "slopes": np.zeros(4), "log_scale": 0.0}
    fit = fo.fit(fo.models.Custom(_log_density, start), data)
    for method in ("ij", "onestep", "exact", "auto"):
        seconds, used = [], []
        for _ in range(RUNS + 1):  # the first one compiles
            begun, before = time.perf_counter(), time.process_time()
            fo.cross_validate(fit, fo.folds.points(POINTS), method=method)
            seconds.append(time.perf_counter() - begun)
            used.append(time.process_time() - before)
        middle, processor = np.median(seconds[1:]), np.median(used[1:])
        print(
            f"{method}: {POINTS} folds in {middle:.3f} s, {processor:.3f} s of the processor, the median of "
            f"{RUNS} (the fastest {min(seconds[1:]):.3f} s, the first {seconds[0]:.2f} s)"
        )
