"""Cross-validations over changing shapes and families in one process, for as long as told: resident
memory, memory maps, open files and threads, at their lowest and highest between the lines of the table.

Memory goes up and down: compiled programs pile up until all are forgotten (`core/deferred.py`). There is
no growth when what it rises to, and what it falls to, in the second half of the time is at most a tenth
above that of the first half. A sixth of the time, at most five minutes, is left out at the beginning:
libraries are loaded and compiled there.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import networkx as nx
import numpy as np
from reproduce.cases import machine

import fitonce as fo

_GROWTH = 1.1
_LINES = 12  # in the table: of an hour, one every five minutes
_WARM = 300.0  # seconds
_NAMES = ("bytes", "maps", "files", "threads")


def main(minutes: float = 60.0) -> None:
    """For so many minutes: `python -m benchmarks load 10`."""
    print(machine())
    print(f"{minutes:g} minutes of cross-validations over changing shapes and families")
    print(
        f"{'minutes':>8}{'results':>9}{'resident, lowest to highest':>29}{'maps':>8}{'files':>7}{'threads':>9}"
    )
    started, every = time.perf_counter(), 60 * minutes / _LINES
    told, spent, seen = 0.0, 0.0, [(0.0, _state())]
    rng = np.random.default_rng(0)
    for done, (model, data, folds) in enumerate(_cases(rng), 1):
        fit = fo.fit(model, data, restarts=1, optima=0)
        if fit.ok:
            fo.cross_validate(fit, folds(fit.data), method="auto", optima=0, progress=False)
        del fit, model, data, folds
        gc.collect()
        spent = time.perf_counter() - started
        seen.append((spent, _state()))
        if spent - told >= every or spent >= 60 * minutes:
            _tell(spent, done, [state for when, state in seen if when >= told])
            told = spent
        if spent >= 60 * minutes:
            break
    _judge(seen, min(_WARM, 10 * minutes))


def _tell(spent: float, done: int, states: list[tuple[int, int, int, int]]) -> None:
    lowest, highest = min(states)[0] / 2**20, max(states)[0] / 2**20
    _, maps, files, threads = np.max(states, axis=0)
    print(
        f"{spent / 60:>8.1f}{done:>9,}{lowest:>16.0f} to {highest:>5.0f} MiB{maps:>8,}{files:>7}{threads:>9}",
        flush=True,
    )


def _judge(seen: list[tuple[float, tuple[int, int, int, int]]], warm: float) -> None:
    """Say what is higher in the second half than in the first, at its highest or at its lowest."""
    middle = 0.5 * (warm + seen[-1][0])
    first = [state for when, state in seen if warm <= when < middle]
    second = [state for when, state in seen if when >= middle]
    grown = []
    for word, end in (("highest", np.max), ("lowest", np.min)):
        pairs = zip(_NAMES, end(first or second, axis=0), end(second, axis=0), strict=True)
        found = [(name, was, now) for name, was, now in pairs if now > _GROWTH * was]
        grown += [f"{word} {name} {was:,.0f} to {now:,.0f}" for name, was, now in found]
    print("no growth" if not grown else f"grown from the first half to the second: {', '.join(grown)}")
    if grown:
        sys.exit(1)


def _state() -> tuple[int, int, int, int]:
    """Bytes in memory, memory maps, open files and threads of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    maps = Path("/proc/self/maps").read_bytes().count(b"\n")
    files = len(os.listdir("/proc/self/fd"))
    return pages * os.sysconf("SC_PAGE_SIZE"), maps, files, threading.active_count()


def _cases(rng: np.random.Generator) -> Iterator[tuple[Any, Any, Any]]:
    """Models, data and folds without end, hardly two of the same shape."""
    while True:
        for make in (
            _counts,
            _normal,
            _categories,
            _lagged,
            _neural,
            _labels,
            _map,
            _custom,
            _sequences,
        ):
            yield make(rng)


def _states(rng: np.random.Generator, steps: int, states: int) -> np.ndarray:
    return np.cumsum(rng.random(steps) < 0.1) % states


def _blocks(data: Any) -> Any:
    return fo.folds.blocks(data, percent=10, n=10)


def _counts(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    states, steps = int(rng.integers(1, 5)), int(rng.integers(60, 4000))
    data = rng.poisson(4.0 + 9.0 * _states(rng, steps, states))
    return fo.models.PoissonHMM(states), data, _blocks


def _normal(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    states, steps, channels = (int(rng.integers(*ends)) for ends in ((1, 4), (60, 900), (1, 4)))
    z = _states(rng, steps, states)
    data = 3.0 * z[:, None] + rng.normal(size=(steps, channels))
    kind = ("full", "diag", "tied")[int(rng.integers(3))]
    return fo.models.GaussianHMM(states, covariance=kind), data, _blocks


def _categories(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    steps, kinds = int(rng.integers(100, 900)), int(rng.integers(2, 6))
    z = _states(rng, steps, 2)
    data = np.where(rng.random(steps) < 0.7, z % kinds, rng.integers(kinds, size=steps))
    return fo.models.CategoricalHMM(2, kinds), data, _blocks


def _lagged(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    steps, order, channels = (int(rng.integers(*ends)) for ends in ((150, 600), (1, 4), (1, 3)))
    data = np.cumsum(rng.normal(size=(steps, channels)), 0) * 0.2 + rng.normal(size=(steps, channels))
    return fo.models.ARHMM(2, order), data, _blocks


def _neural(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    steps, hidden = int(rng.integers(150, 400)), int(rng.integers(2, 4))
    data = np.sin(np.arange(steps) / 3.0) + 0.3 * rng.normal(size=steps)
    return fo.models.NeuralARHMM(2, 1, hidden=hidden), data, _blocks


def _labels(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    sentences, columns = int(rng.integers(15, 60)), int(rng.integers(2, 7))
    features = [rng.normal(size=(int(rng.integers(2, 12)), columns)) for _ in range(sentences)]
    tags = [["ab"[int(row[0] + 0.5 * rng.normal() > 0)] for row in part] for part in features]
    return fo.models.LinearChainCRF(scale=1.0), fo.labelled(features, tags), fo.folds.structures


def _map(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    rows, columns = int(rng.integers(3, 7)), int(rng.integers(4, 9))
    edges = np.array(nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, columns)).edges)
    data = rng.poisson(np.where(np.arange(rows * columns) % columns < columns // 2, 4.0, 12.0))
    model = fo.models.PottsMixture(edges, n_classes=2, emission="poisson")
    return model, data.astype(float), lambda _: fo.folds.regions(model, percent=10, n=5)


def _custom(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    steps, slope = int(rng.integers(30, 300)), float(rng.normal())

    def log_density(params: Any, x: Any, weights: Any) -> Any:
        return -0.5 * jnp.sum(weights * (x - params["m"] - slope) ** 2)

    model = fo.models.Custom(log_density, {"m": np.array(0.0)})
    return model, rng.normal(size=steps), lambda _: fo.folds.kfold(steps, 5)


def _sequences(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    count, most = int(rng.integers(5, 20)), int(rng.integers(30, 120))
    lengths = rng.integers(20, most, count)
    data = [3.0 * _states(rng, int(n), 2) + rng.normal(size=n) for n in lengths]
    return fo.models.GaussianHMM(2), data, fo.folds.structures
