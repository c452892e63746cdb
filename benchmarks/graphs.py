"""Time and memory of a sweep on a graph, against what the plan says before it runs."""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import time

import networkx as nx
import numpy as np
from scipy.spatial import Delaunay

import fitonce as fo
from fitonce.objectives.families import objective_of

WIDTHS = (4, 6, 8, 10, 12, 14, 16)
PLANAR = 2000


def grid(width: int) -> np.ndarray:
    """Edges of a square grid."""
    found = nx.convert_node_labels_to_integers(nx.grid_2d_graph(width, width))
    return np.array(found.edges)


def planar(sites: int, seed: int = 0) -> np.ndarray:
    """Edges of a Delaunay triangulation of random points: a planar graph, as maps have."""
    corners = Delaunay(np.random.default_rng(seed).random((sites, 2))).simplices
    pairs = np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [0, 2]]])
    return np.unique(np.sort(pairs, 1), axis=0)


def model_of(name: str) -> fo.models.PottsMixture:
    if name == "map":
        from reproduce.philadelphia import load

        return fo.models.PottsMixture(load().graph, beta=0.8)
    if name == "planar":
        return fo.models.PottsMixture(planar(PLANAR), beta=0.8)
    return fo.models.PottsMixture(grid(int(name)), beta=0.8)


def measure(name: str) -> dict[str, object]:
    started = time.perf_counter()
    try:
        model = model_of(name)
        before = time.perf_counter()
        plan = fo.plan(model)
    except ValueError as refused:
        return {"refused": str(refused), "plan": time.perf_counter() - started}
    planned = time.perf_counter() - before
    counts = np.random.default_rng(0).poisson(np.where(np.arange(plan.sites) % 3, 4.0, 12.0))
    rates = {"rate": np.array([4.0, 12.0])}
    fo.fit_at(fo.models.PottsMixture([(0, 1)], beta=0.8), [4, 12], rates)  # what any fit takes
    floor = _peak()
    objective, theta, base = _objective(model, counts, rates)
    sweep = min(_seconds(lambda: objective.values_and_gradients(theta, base)) for _ in range(3))
    swept = _peak()
    both = min(_seconds(lambda: objective.cross(theta[0])) for _ in range(2))
    return {
        "nodes": plan.sites,
        "width": plan.width,
        "entries": plan.entries,
        "bytes": plan.bytes,
        "guess": plan.seconds,
        "plan": planned,
        "sweep": sweep,
        "derivatives": both,
        "swept": swept - floor,
        "curved": _peak() - floor,
    }


def _objective(model: fo.models.PottsMixture, counts: np.ndarray, rates: dict) -> tuple:
    """F without the H and J that a fit begins with."""
    objective = objective_of(model, counts)
    return objective, objective.space.to_free(rates)[None], objective.base[None]


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _seconds(work: object) -> float:
    started = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - started


def main() -> None:
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores, {platform.machine()}; one fold; sweep: a value and its gradient")
    times = f"{'plan':>8} {'guess':>9} {'sweep':>9} {'ns/entry':>9} {'H and J':>9}"
    memory = f"{'plan says':>10} {'sweep':>9} {'H and J':>9}"
    print(f"{'graph':>10} {'nodes':>6} {'width':>6} {'entries':>12} {times} {memory}")
    for name in (*map(str, WIDTHS), "map", "planar"):
        command = [sys.executable, "-m", "benchmarks.graphs", name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        row = json.loads(done.stdout.splitlines()[-1])
        label = f"grid {name}" if name.isdigit() else name
        if "refused" in row:
            print(f"{label:>10} refused after {row['plan']:.1f} s: {row['refused']}")
            continue
        rate = 1e9 * row["sweep"] / row["entries"]
        says, swept, curved = (row[key] / 2**20 for key in ("bytes", "swept", "curved"))
        print(
            f"{label:>10} {row['nodes']:>6,} {row['width']:>6} {row['entries']:>12,} "
            f"{row['plan']:>6.2f} s {1e3 * row['guess']:>6.1f} ms {1e3 * row['sweep']:>6.1f} ms "
            f"{rate:>9.0f} "
            f"{row['derivatives']:>7.2f} s {says:>6.1f} MiB {swept:>5.0f} MiB {curved:>5.0f} MiB"
        )


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
