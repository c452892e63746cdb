"""`fo.plan` beside what happens: time and peak memory of every call, predicted and measured.

Each call runs in a process of its own, after a fit where it needs one, and what it adds to the resident
memory at its peak is measured there. Compiled programs are not kept between processes. Ratios are of
measured to predicted; times below 0.1 s and memory below 16 MiB count as these.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from reproduce.cases import machine

ROOT = Path(__file__).parents[1]
_LEAST_SECONDS, _LEAST_BYTES = 0.1, 2.0**24
_CALLS = ("fit", "none", "ij", "onestep", "newton", "auto", "exact", "loo", "influence", "bootstrap")
_CASES = {
    "107 counts, 3 states, 100 blocks": """
states = np.repeat([0, 1, 2, 1, 0, 1], [20, 15, 17, 20, 18, 17])
data = rng.poisson(np.array([12.0, 19.0, 29.0])[states])
model, kind = fo.models.PoissonHMM(3), "block"
folds = lambda read: fo.folds.blocks(read, percent=10, n=100)
""",
    "40 x 200 Gaussian, 3 states, leave one sequence out": """
means = np.array([[0.0, 0.0], [2.5, 0.0], [0.0, 2.5]])
paths = [np.cumsum(rng.random(200) < 0.1) % 3 for _ in range(40)]
data = [means[z] + rng.normal(size=(200, 2)) for z in paths]
model, kind, folds = fo.models.GaussianHMM(3), "block", fo.folds.structures
""",
    "traffic, 50,400 counts, 2 states, 1,000 folds": """
from reproduce import traffic
data, model, kind = traffic.load(), fo.models.PoissonHMM(2), "block"
folds = lambda read: fo.folds.iid(read, percent=10, n=1000)
""",
    "CRF, 2,000 sentences of Universal NER, 200 sentences out": """
from reproduce import ner
train = ner.ewt("train")
words, tags = train.words[:2000], train.tags[:2000]
data = fo.labelled(fo.word_features(words), tags, tags=train.tag_names, words=words)
model, kind = fo.models.LinearChainCRF(), "structures"
folds = lambda read: fo.folds.structures(read, n=200, seed=0)
""",
    "Potts mixture on a 12 x 12 grid, 50 regions": """
import networkx as nx
edges = np.array(nx.convert_node_labels_to_integers(nx.grid_2d_graph(12, 12)).edges)
data = rng.poisson(np.where(np.arange(144) % 12 < 6, 4.0, 11.0)).astype(float)
model, kind = fo.models.PottsMixture(edges, n_classes=2, emission="poisson"), "block"
folds = lambda read: fo.folds.regions(model, percent=10, n=50)
""",
}
BEFORE = """
import json, sys, time
sys.path.insert(0, {root!r})
import numpy as np
import fitonce as fo
rng = np.random.default_rng(0)
for name in fo.__all__:
    getattr(fo, name)
"""
PLANNED = """
from fitonce.objectives.families import objective_of
read = objective_of(model, data).collection
started = time.perf_counter()
rows = fo.plan(model, data, folds(read)).to_frame()
print(json.dumps([time.perf_counter() - started, rows[["seconds", "bytes"]].T.to_dict("list")]))
"""
MEMORY = """
def memory(key):
    with open("/proc/self/status") as file:
        return 1024 * next(int(line.split()[1]) for line in file if line.startswith(key))

def measured(work):
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins anew
    before, started = memory("VmRSS"), time.perf_counter()
    found = work()
    seconds = time.perf_counter() - started
    print(json.dumps([seconds, memory("VmHWM") - before]))
    return found
"""
_MEASURED = (
    MEMORY
    + """
call = {call!r}
if call == "fit":
    measured(lambda: fo.fit(model, data))
else:
    fit = fo.fit(model, data)
    chosen = folds(fit.data)
    if call == "bootstrap":
        measured(lambda: fo.bootstrap(fit, kind))
    elif call in ("loo", "influence"):
        measured(lambda: getattr(fo, call)(fit))
    else:
        measured(lambda: fo.cross_validate(fit, chosen, method=call, progress=False))
"""
)


def main() -> None:
    """All cases and calls; PLAN_CASES and PLAN_CALLS choose some by their beginnings."""
    print(machine())
    wanted, calls = (os.environ.get(name, "").split(",") for name in ("PLAN_CASES", "PLAN_CALLS"))
    within = total = 0
    for name, source in _CASES.items():
        if not any(name.startswith(start) for start in wanted):
            continue
        spent, planned = _run(source + PLANNED)
        print(f"{name}; the plan took {spent:.1f} s")
        print(f"  {'':<10}{'predicted':>22}{'measured':>22}{'ratio':>7}{'ratio':>7}")
        for call in (call for call in _CALLS if any(call.startswith(start) for start in calls)):
            if call in planned:
                ratios = _row(
                    call, planned[call], _run(source + _MEASURED.replace("{call!r}", repr(call)))
                )
                total += len(ratios)
                within += sum(0.5 <= ratio <= 2.0 for ratio in ratios)
    print(f"{within} of {total} within a factor of two")


def _row(call: str, planned: list[float], measured: list[float]) -> list[float]:
    ratios = [
        max(there, least) / max(here, least)
        for here, there, least in zip(
            planned, measured, (_LEAST_SECONDS, _LEAST_BYTES), strict=True
        )
    ]  # fmt: skip
    shown = "".join(f"{s:>11.3g} s{b / 2**20:>5.0f} MiB" for s, b in (planned, measured))
    print(f"  {call:<10}{shown}" + "".join(f"{ratio:>7.2f}" for ratio in ratios), flush=True)
    return ratios


def _run(source: str) -> Any:
    """The JSON that a fresh process prints last."""
    before = BEFORE.format(root=str(ROOT))
    environment = os.environ | {"FITONCE_CACHE": "off"}
    done = subprocess.run(
        [sys.executable, "-c", before + source], capture_output=True, text=True, env=environment
    )
    if done.returncode:
        sys.exit(f"benchmarks plan: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])
