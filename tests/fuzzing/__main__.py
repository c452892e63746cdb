"""`make fuzz MINUTES=60`: random inputs on all cores for as long as told."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from math import inf, nan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[2]
SILENT = 600.0  # seconds after which a process that says nothing is ended
LIFE = 900.0  # seconds of a process, so that compiled programs do not pile up


def main() -> int:
    """Run, and print what came of it; 1 where something failed."""
    words = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    words.add_argument("--minutes", type=float, default=5.0)
    words.add_argument("--seed", type=int, default=None, help="by default, of the time")
    words.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    words.add_argument("--kinds", default="chains,labels,files,graphs,columns,dates,beside,places")
    asked = words.parse_args()
    seed = asked.seed if asked.seed is not None else int(time.time())
    print(f"{asked.minutes:g} minutes in {asked.jobs} processes, SEED={seed}", flush=True)
    started = time.monotonic()
    with TemporaryDirectory() as folder:
        killed = run(seed, started + 60 * asked.minutes, folder, asked.jobs, asked.kinds.split(","))
        counts, failures = gathered(Path(folder))
    for kind, recipe in killed:
        from fuzzing.hunting import write_test
        from fuzzing.outcomes import Outcome

        counts[kind, "died"] += 1
        path = write_test(kind, Outcome("died", "the process ended"), recipe)
        failures.add((kind, "died", "", str(path)))
    show(counts, failures, time.monotonic() - started)
    return 1 if failures else 0


def run(
    seed: int, until: float, folder: str, jobs: int, kinds: list[str]
) -> list[tuple[str, dict[str, Any]]]:
    """Processes one after another in so many lanes. Returns the inputs that one of them died of."""
    from fuzzing.hunting import hunt

    context, killed, number = multiprocessing.get_context("spawn"), [], 0
    lanes: dict[int, Any] = {}
    while True:
        now = time.monotonic()
        for lane, process in list(lanes.items()):
            current = Path(folder) / f"current-{process.name}"
            silent = current.exists() and time.time() - current.stat().st_mtime > SILENT
            if silent:
                process.kill()
            if silent or not process.is_alive():
                process.join()
                if process.exitcode and not current.exists():
                    raise RuntimeError(f"a process ended with {process.exitcode} before its first input")
                if current.exists():
                    killed.append(_read(current))
                    current.unlink()
                del lanes[lane]
        if now > until and not lanes:
            return killed
        for lane in set(range(jobs)) - set(lanes) if now < until - 1 else ():
            end = min(until, now + LIFE)
            arguments = (1000 * seed + 10**6 * number, end, folder, number, kinds)
            lanes[lane] = context.Process(target=hunt, args=arguments, name=str(number))
            lanes[lane].start()
            number += 1
        time.sleep(0.5)


def _read(path: Path) -> Any:
    """What a process wrote down."""
    text = path.read_text()
    return eval(text, {"nan": nan, "inf": inf})  # of its own


def gathered(folder: Path) -> tuple[Counter[tuple[str, str]], set[tuple[str, str, str, str]]]:
    """The counts and the failures of all processes."""
    counts: Counter[tuple[str, str]] = Counter()
    failures: set[tuple[str, str, str, str]] = set()
    for path in folder.glob("counts-*"):
        counted, known = _read(path)
        counts.update(counted)
        failures.update(known)
    return counts, failures


def show(
    counts: Counter[tuple[str, str]], failures: set[tuple[str, str, str, str]], seconds: float
) -> None:
    """A table of what came of the inputs, and every failure with its test."""
    other = sorted({found for _, found in counts} - {"right", "refused"})
    print(f"{'':10}{'inputs':>9}{'right':>9}{'refused':>9}" + "".join(f"{one:>24}" for one in other))
    for kind in [*sorted({kind for kind, _ in counts}), "all"]:
        of = [n for (k, _), n in counts.items() if kind in (k, "all")]
        row = [sum(n for (k, o), n in counts.items() if kind in (k, "all") and o == one)
               for one in ("right", "refused", *other)]  # fmt: skip
        cells = "".join(f"{n:>{9 if i < 2 else 24},}" for i, n in enumerate(row))
        print(f"{kind:10}{sum(of):>9,}{cells}")
    total = sum(counts.values())
    print(f"{total / seconds * 3600:,.0f} inputs an hour, {seconds / 60:.1f} minutes")
    for kind, outcome, where, path in sorted(failures):
        print(f"{kind}: {outcome}: {where}\n  {os.path.relpath(path, ROOT)}")
    print(f"failures: {len(failures)}")


if __name__ == "__main__":
    # As in the tests: compiling is most of the time of what is compiled at all.
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".test_cache"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
    sys.exit(main())
