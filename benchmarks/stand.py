"""Commands in processes that are made to fail. They are forks of this one, which has imported the library
and compiled its loops, and so start in milliseconds; JAX is not loaded here, whose threads no fork has."""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

# Of a saved result, what differs from run to run.
_OF_A_RUN = ("about", "seconds", "compiling", "refits_seconds", "refits_most", "digest")
_STREAMS = ("out", "errors")
PATIENCE = 60.0  # seconds


def nothing() -> None:
    """No fault."""


@dataclass
class Ended:
    """A process: its exit code (minus the signal that ended it), what it printed, how many of its own
    processes are still there, and how many seconds it computed."""

    code: int
    out: str
    errors: str
    orphans: int
    seconds: float


@dataclass
class Running:
    """A process that was started, the first of a session of its own."""

    pid: int
    streams: Path

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self, patience: float = PATIENCE) -> Ended:
        """Until it ends, which it must, and what it started with it."""
        end = time.monotonic() + patience
        hung = False
        while True:
            done, status, used = os.wait4(self.pid, os.WNOHANG)
            if done:
                break
            if time.monotonic() > end and not hung:
                hung = True
                self.kill()
            time.sleep(0.002)
        orphans = _left_of(self.pid)
        while orphans and time.monotonic() < end:
            time.sleep(0.05)
            orphans = _left_of(self.pid)
        for one in orphans:
            os.kill(one, signal.SIGKILL)
        out, errors = ((self.streams / name).read_text() for name in _STREAMS)
        if hung:
            errors += f"still there after {patience:g} s"
        code, seconds = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
        return Ended(code, out, errors, len(orphans), seconds)

    def kill_after(self, seconds: float) -> int:
        """Kill it once it has computed for so long, however busy the machine is; its exit code."""
        while True:
            done, status, _ = os.wait4(self.pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            with contextlib.suppress(OSError, ValueError):
                spent = Path(f"/proc/{self.pid}/schedstat").read_text().split()[0]
                if int(spent) / 1e9 >= seconds:
                    self.kill()
            time.sleep(0.002)


def _left_of(session: int) -> list[int]:
    """Processes of a session that are no zombies."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, of = stat.read_text().rpartition(")")[2].split()[:4]
            if int(of) == session and state != "Z":
                found.append(int(stat.parent.name))
    return found


def start(work: Callable[[], Any], folder: Path) -> Running:
    """Do some work in a fork of this process, in a folder."""
    streams = Path(tempfile.mkdtemp(prefix="streams-", dir=folder.parent))
    files = [os.open(streams / name, os.O_CREAT | os.O_WRONLY | os.O_APPEND) for name in _STREAMS]
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        for file in files:
            os.close(file)
        return Running(pid, streams)
    code = 70
    try:
        os.setsid()
        os.chdir(folder)
        for number, file in enumerate(files, 1):
            os.dup2(file, number)
        sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", closefd=False), write_through=True)
        sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb", closefd=False), write_through=True)
        code = _done(work)
    finally:
        os._exit(code)


def _done(work: Callable[[], Any]) -> int:
    """The exit code of work, after what Python does at the end of a process."""
    code = 0
    try:
        work()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    return code


def command(words: list[str], before: Callable[[], Any] = nothing) -> Callable[[], None]:
    """The work of `fitonce WORDS`, with a fault prepared first."""

    def work() -> None:
        sys.argv = ["fitonce", *words]
        before()
        from fitonce.__main__ import main

        main()

    return work


def ran(work: Callable[[], Any], folder: Path) -> Ended:
    return start(work, folder).wait()


def quick(method: str = "exact", folds: int = 12, optima: int = 0, seed: int = 0) -> list[str]:
    """The words of a cross-validation of `write_counts` that takes tenths of a second."""
    words = ["cv", "counts.csv", "--model", "poisson-hmm", "--states", "2", "--restarts", "1"]
    words += ["--optima", str(optima), "--seed", str(seed)]
    return [*words, "--method", method, "--n", str(folds), "--force"]


def write_counts(folder: Path) -> None:
    counts = np.random.default_rng(0).poisson(np.tile(np.repeat([2, 9], 10), 4))
    pd.DataFrame({"count": counts}).to_csv(folder / "counts.csv", index=False)


def digits(path: Path) -> dict[str, Any] | None:
    """Everything in a saved result but what differs from run to run; None unless it is there, whole."""
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    document["fit"] = {key: value for key, value in document["fit"].items() if key != "seconds"}
    return {key: value for key, value in document.items() if key not in _OF_A_RUN}


def warm_up(*calls: list[str]) -> None:
    """Run commands in this process, so that its forks find everything imported and compiled."""
    before = signal.getsignal(signal.SIGINT), sys.argv
    with workplace() as folder, contextlib.chdir(folder):
        for words in calls:
            said = io.StringIO()
            try:
                with contextlib.redirect_stdout(said):
                    command(words)()
            except SystemExit as ended:
                if ended.code:
                    raise RuntimeError(f"fitonce {' '.join(words)} ended with {ended.code}") from None
    signal.signal(signal.SIGINT, before[0])
    sys.argv = before[1]
    if "jax" in sys.modules:
        raise RuntimeError("a process that has JAX cannot be forked")


@contextlib.contextmanager
def workplace() -> Iterator[Path]:
    """A folder with data, beside which the streams of processes are kept."""
    outer = Path(tempfile.mkdtemp(prefix="stand-"))  # which forks do not remove at their end
    folder = outer / "work"
    folder.mkdir()
    write_counts(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(outer, ignore_errors=True)
