"""Run the named benchmarks, or all of them but those that must be asked for."""

from __future__ import annotations

import sys
from importlib import import_module  # of those that run: forks of `kills` and `faults` cannot have JAX

NAMES = (
    "scaling",
    "peers",
    "dynamax-peers",
    "hmmlearn-peers",
    "statsmodels-peers",
    "state-space",
    "state-space-device",
    "device",
    "fails-safely",
    "graphs",
    "orders",
    "crf",
    "crfsuite",
    "large",
    "many-sequences",
    "autoregressive-peers",
    "report",
    "start",
    "instant",
    "chains",
    "lengths",
    "chain-scaling",
    "plan",
    "instant-crf",
    "deadlock",
    "custom-folds",
    "motion",
    "best-of-many",
    "grid-search",
    "estimator-checks",
    "examples",
    "refits",
    "faults",
    "kills",
    "limits",
    "load",
    "entered",
)
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
    module = import_module(f"benchmarks.{name.replace('-', '_')}")
    module.main(*(numbers if name == "load" else []))
    print()
