"""Limits before allocation: predicted beside measured memory and time for cases of every family, runs
below a hard limit, and what is refused.

Each case runs in a process of its own. What `fo.plan` predicts of the fit and of one call after it
stands beside what they add to resident memory at their peak, and beside their time. Where a case has a
`memory_limit`, the kernel holds the process to it as well (RLIMIT_DATA: what was there before the call,
and the limit). Ratios are of measured to predicted; below 16 MiB and 0.1 s counts as these.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
from reproduce.cases import machine

from benchmarks.limits_cases import CASES, REFUSED, Case
from benchmarks.plan import BEFORE, MEMORY, PLANNED, ROOT

_LEAST_SECONDS, _LEAST_BYTES = 0.1, 2.0**24
_RUN = """
import resource
limit, call = {limit!r}, {call!r}
how = {{}} if limit is None else {{"memory_limit": limit}}
bound = limit is not None

def held(work):
    if bound:
        from fitonce.core.memory import checked_limit
        most = memory("VmData") + int(checked_limit(limit))
        resource.setrlimit(resource.RLIMIT_DATA, (most, resource.RLIM_INFINITY))
    try:
        return measured(work)
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

fit = held(lambda: fo.fit(model, data, **how))
chosen = folds(fit.data)
if call in ("loo", "influence", "bootstrap"):
    held(lambda: getattr(fo, call)(fit, *(["block"] if call == "bootstrap" else []), **how))
else:
    held(lambda: fo.cross_validate(fit, chosen, method=call, progress=False, **how))
"""
_REFUSAL = """
refused = None
started = time.perf_counter()
try:
    exec(compile({source!r}, "case", "exec"))
except fo.MemoryLimitError as error:
    refused = str(error)
except ValueError as error:
    refused = str(error)
print(json.dumps([refused, time.perf_counter() - started, memory("VmHWM")]))
"""


def main() -> None:
    """All cases; LIMITS_CASES chooses some by the beginnings of their names, with semicolons between them."""
    print(machine())
    wanted = os.environ.get("LIMITS_CASES", "").split(";")
    chosen = [case for case in CASES if any(case.name.startswith(start) for start in wanted)]
    print(f"{'':<38}{'':<10}{'predicted':>20}{'measured':>20}{'ratio':>7}{'ratio':>7}")
    ratios = [row for case in chosen for row in _rows(case)]
    if ratios:
        time_ratio, bytes_ratio = np.array(ratios).T
        print(_within("memory", bytes_ratio), _within("time", time_ratio), sep="\n")
    for name, source in REFUSED.items():
        if any(name.startswith(start) for start in wanted):
            _refuse(name, source)


def _within(what: str, ratios: np.ndarray) -> str:
    near = int(np.sum((ratios >= 0.5) & (ratios <= 2.0)))
    return (
        f"{what}: {near} of {len(ratios)} within a factor of two, measured {np.median(ratios):.2f} of "
        f"what was predicted at the median, {ratios.min():.2f} to {ratios.max():.2f}"
    )


def _rows(case: Case) -> list[list[float]]:
    """A line for the fit and one for the call, and their ratios."""
    limited = PLANNED if case.limit is None else PLANNED.replace(
        "folds(read))", f"folds(read), memory_limit={case.limit!r})"
    )  # fmt: skip
    planned = _run(case.source + limited)[-1][1]
    measured = _run(case.source + MEMORY + _RUN.format(limit=case.limit, call=case.call))
    found = []
    for label, call, there in zip((case.name, ""), ("fit", case.call), measured, strict=True):
        here = planned[call]
        least = (_LEAST_SECONDS, _LEAST_BYTES)
        pairs = zip(here, there, least, strict=True)
        found.append([max(b, lowest) / max(a, lowest) for a, b, lowest in pairs])
        shown = "".join(f"{s:>9.3g} s{b / 2**20:>6.0f} MiB" for s, b in (here, there))
        print(f"{label:<38}{call:<10}{shown}" + "".join(f"{r:>7.2f}" for r in found[-1]), flush=True)
        if case.limit is not None and there[1] > _bytes(case.limit):
            sys.exit(f"benchmarks limits: {case.name} took more than its limit")
    return found


def _bytes(text: str) -> float:
    from fitonce.core.memory import checked_limit

    return checked_limit(text)


def _refuse(name: str, source: str) -> None:
    refused, seconds, peak = _run(MEMORY + _REFUSAL.format(source=source))[-1]
    if refused is None:
        sys.exit(f"benchmarks limits: {name} was not refused")
    print(f"{name}: refused after {seconds:.2g} s, process at most {peak / 2**20:.0f} MiB: {refused}")


def _run(source: str) -> list[Any]:
    """The JSON lines that a fresh process prints."""
    environment = os.environ | {"FITONCE_CACHE": "off"}
    program = BEFORE.format(root=str(ROOT)) + source
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment
    )
    if done.returncode:
        sys.exit(f"benchmarks limits: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
