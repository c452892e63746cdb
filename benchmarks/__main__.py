"""Run the named benchmarks, or all of them but those that must be asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable

from benchmarks import (
    autoregressive_peers,
    best_of_many,
    chain_scaling,
    chains,
    crf,
    crfsuite,
    deadlock,
    dynamax_peers,
    estimator_checks,
    examples,
    fails_safely,
    faults,
    graphs,
    grid_search,
    hmmlearn_peers,
    instant,
    instant_crf,
    kills,
    large,
    lengths,
    limits,
    load,
    many_sequences,
    motion,
    peers,
    plan,
    refits,
    report,
    scaling,
    start,
    state_space,
    state_space_device,
    statsmodels_peers,
)

NAMES: dict[str, Callable[..., None]] = {
    "scaling": scaling.main,
    "peers": peers.main,
    "dynamax-peers": dynamax_peers.main,
    "hmmlearn-peers": hmmlearn_peers.main,
    "statsmodels-peers": statsmodels_peers.main,
    "state-space": state_space.main,
    "state-space-device": state_space_device.main,
    "fails-safely": fails_safely.main,
    "graphs": graphs.main,
    "crf": crf.main,
    "crfsuite": crfsuite.main,
    "large": large.main,
    "many-sequences": many_sequences.main,
    "autoregressive-peers": autoregressive_peers.main,
    "report": report.main,
    "start": start.main,
    "instant": instant.main,
    "chains": chains.main,
    "lengths": lengths.main,
    "chain-scaling": chain_scaling.main,
    "plan": plan.main,
    "instant-crf": instant_crf.main,
    "deadlock": deadlock.main,
    "motion": motion.main,
    "best-of-many": best_of_many.main,
    "grid-search": grid_search.main,
    "estimator-checks": estimator_checks.main,
    "examples": examples.main,
    "refits": refits.main,
    "faults": faults.main,
    "kills": kills.main,
    "limits": limits.main,
    "load": load.main,
}

ASKED = ("kills",)  # a thousand processes that are killed

numbers = [float(word) for word in sys.argv[1:] if word.isdigit()]  # after load: its minutes
chosen = [word for word in sys.argv[1:] if not word.isdigit()] or [
    name for name in NAMES if name not in ASKED
]
unknown = sorted(set(chosen) - set(NAMES))
if unknown:
    sys.exit(f"benchmarks: expected names from {', '.join(NAMES)}; got {', '.join(unknown)}")
for name in chosen:
    print(f"== {name} ==")
    NAMES[name](*(numbers if name == "load" else []))
    print()
