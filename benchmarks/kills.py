"""Processes that are killed at random while they write a journal, and run again until they are done: whether
any digit differs from a run that nobody disturbed, and what was computed twice.

`python -m benchmarks kills` takes the number of kills from FITONCE_KILLS (1,000). Forks of a warm process start
in milliseconds, so that most of their time is work; every 30th round is killed in processes that start cold."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from reproduce.cases import machine

from benchmarks import injections, stand
from fitonce.crossval.journal import DamagedError, unpacked

KILLS = int(os.environ.get("FITONCE_KILLS", "1000"))
COLD_EVERY = 30
OUT = ["--journal", "journal", "--save", "out.json", "--quiet"]
CASES = [("exact", 0), ("auto", 0), ("exact", 2), ("auto", 2)]


def main(kills: int = KILLS, seed: int = 0) -> None:
    print(machine())
    words = [stand.quick(method, optima=optima) for method, optima in CASES]
    stand.warm_up(*([*each, *OUT] for each in words))
    expected = [_undisturbed(each) for each in words]
    rng, counts, rounds, begun = np.random.default_rng(seed), Counter[str](), 0, time.perf_counter()
    while _killed(counts) < kills:
        case = rounds % len(CASES)
        cold = rounds % COLD_EVERY == COLD_EVERY - 1
        with stand.workplace() as folder:
            digits, seconds = expected[case]
            used = _cold_seconds([*words[case], *OUT]) if cold else seconds
            _round([*words[case], *OUT], folder, digits, used, cold, rng, counts)
        rounds += 1
        if rounds % 10 == 0:
            print(f"{_killed(counts):,} kills in {rounds} runs: {_told(counts)}", flush=True)
    print(f"{_killed(counts):,} kills in {rounds} runs that were resumed until they were done")
    for how in _KILLS:
        print(f"  {how}: {counts[how]:,}")
    print(f"  {_told(counts)}")
    print(f"  took {(time.perf_counter() - begun) / 60.0:.1f} minutes")
    if wrong := {name: counts[name] for name in _WRONG if counts[name]}:
        raise SystemExit(f"benchmarks: {wrong}")


_KILLS = ("forked, at a random time", "forked, while an entry is written", "cold, at a random time")
_WRONG = ("runs whose digits differ", "entries computed twice", "entries lost", "damaged entries")
_WRONG += ("half files", "drafts left at the end", "runs that failed")
_SEEN = ("entries found again", "drafts left by a kill")


def _killed(counts: Counter[str]) -> int:
    return sum(counts[how] for how in _KILLS)


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[name]:,} {name}" for name in (*_SEEN, *_WRONG))


def _undisturbed(words: list[str]) -> tuple[Any, float]:
    """The digits of a run, without a journal, and the seconds that one with a journal computes."""
    with stand.workplace() as folder:
        done = stand.ran(stand.command([*words, "--save", "out.json", "--quiet"]), folder)
        found = stand.digits(folder / "out.json")
        if done.code or found is None:
            raise RuntimeError(done.errors)
        return found, stand.ran(stand.command([*words, *OUT]), folder).seconds


def _round(
    words: list[str],
    folder: Path,
    expected: Any,
    seconds: float,
    cold: bool,
    rng: np.random.Generator,
    counts: Counter[str],
) -> None:
    """Kill and resume until a run is done; half of the rounds are killed in the midst of writing."""
    known: dict[str, int] = {}
    writing = not cold and bool(rng.integers(2))
    while True:
        before = stand.nothing
        if writing and rng.uniform() < 0.9:
            before = _dies_writing(int(rng.integers(1, 4)), float(rng.uniform()))
        process = _cold(words, folder) if cold else stand.start(stand.command(words, before), folder)
        last = rng.uniform() < 0.1  # is not killed at a random time
        late = before is not stand.nothing or last
        code = process.kill_after(np.inf if late else rng.uniform(0.0, 1.1 * seconds))
        _look(folder, known, counts)
        if code != -signal.SIGKILL:
            break
        counts[_KILLS[2 if cold else int(before is not stand.nothing)]] += 1
    counts["runs that failed"] += code != 0
    counts["runs whose digits differ"] += stand.digits(folder / "out.json") != expected
    counts["drafts left at the end"] += len(list(folder.rglob("*.part")))


def _dies_writing(number: int, share: float) -> Callable[[], None]:
    """A process that is killed at a share of the bytes of an entry, of which it writes so many first."""
    die = lambda: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
    return lambda: injections.while_writing(".entry", die, number=number, share=share)


def _cold(words: list[str], folder: Path) -> stand.Running:
    """A process of its own, in which nothing is imported yet."""
    process = subprocess.Popen(
        [sys.executable, "-m", "fitonce", *words], cwd=folder,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return stand.Running(process.pid, folder)


def _cold_seconds(words: list[str]) -> float:
    with stand.workplace() as folder:
        process = _cold(words, folder)
        return os.wait4(process.pid, 0)[2].ru_utime


def _look(folder: Path, known: dict[str, int], counts: Counter[str]) -> None:
    """Compare what is in the folder with what was there after the kill before."""
    entries = {path.name: path.stat().st_ino for path in (folder / "journal").glob("*.entry")}
    counts["entries lost"] += len(known.keys() - entries.keys())
    again = known.keys() & entries.keys()
    same = sum(known[name] == entries[name] for name in again)
    counts["entries found again"] += same
    counts["entries computed twice"] += len(again) - same
    for name in entries:
        try:
            unpacked((folder / "journal" / name).read_bytes())
        except DamagedError:
            counts["damaged entries"] += 1
    result = folder / "out.json"
    counts["half files"] += result.exists() and stand.digits(result) is None
    counts["drafts left by a kill"] += len(list(folder.rglob("*.part")))
    known.clear()
    known.update(entries)


if __name__ == "__main__":
    main()
