"""Faults of the machine, set up in the process that calls these: a signal or an error at a stage of a command,
a disk that fills up, a clock that jumps, a worker that dies."""

from __future__ import annotations

import errno
import functools
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fitonce.core import writing

Act = Callable[[], Any]


def send(number: signal.Signals, times: int = 1) -> Act:
    """Signals to this process, as Ctrl-C or a batch system would send them."""

    def act() -> None:
        for _ in range(times):
            os.kill(os.getpid(), number)

    return act


def fail(number: int = errno.ENOSPC) -> Act:
    """An error of the file system."""

    def act() -> None:
        raise OSError(number, os.strerror(number))

    return act


def jump(seconds: float, clock: str = "time") -> Act:
    """A clock of the module `time` is off by so many seconds from now on."""

    def act() -> None:
        real = getattr(time, clock)
        setattr(time, clock, lambda: real() + seconds)

    return act


def at_call(owner: Any, name: str, act: Act, number: int = 1) -> None:
    """Act at a call of a function, before it."""
    real, calls = getattr(owner, name), [0]

    @functools.wraps(real)
    def called(*args: Any, **how: Any) -> Any:
        calls[0] += 1
        if calls[0] == number:
            act()
        return real(*args, **how)

    setattr(owner, name, called)


def at_stage(stage: str, act: Act) -> None:
    """Act in the midst of a stage of `fitonce cv`; of files, after half of their bytes."""
    from fitonce.cli.request import Request
    from fitonce.crossval.batches import Batches
    from fitonce.fitting import search

    if stage == "reading":
        at_call(Request, "loaded", act)
    elif stage == "fit":
        at_call(search, "finish", act)
    elif stage == "folds":
        at_call(Batches, "map", act, number=3)
    else:
        while_writing(FILES[stage], act)


FILES = {"journal": ".entry", "save": "out.json", "plot": "plot.png", "report": "report.html"}
STAGES = ("import", "reading", "fit", "folds", *FILES)


def while_writing(
    ending: str, act: Act, *, number: int = 1, share: float = 0.5, call: str = "write"
) -> None:
    """Act while a file whose name ends so is written, the first or a later one: after a share of its bytes, or
    before another `call` (open, fsync, replace)."""
    drafts = [0]

    def mine(name: Any) -> bool:
        return Path(name).name.rpartition(".part")[0].rpartition(".")[0].endswith(ending)

    def opened(name: Any, mode: str) -> Any:
        if "x" not in mode or not mine(name):
            return open(name, mode)
        drafts[0] += 1
        if drafts[0] != number:
            return open(name, mode)
        if call == "open":
            act()
        return _Interrupted(name, mode, act, share) if call == "write" else open(name, mode)

    writing.open = opened  # type: ignore[attr-defined]
    if call in ("fsync", "replace"):
        real = getattr(os, call)

        def called(what: Any, *rest: Any) -> Any:
            path = os.readlink(f"/proc/self/fd/{what}") if call == "fsync" else what
            if mine(path) and drafts[0] == number:
                act()
            return real(what, *rest)

        setattr(os, call, called)


class _Interrupted:
    """A file in the midst of whose bytes something happens."""

    def __init__(self, name: Any, mode: str, act: Act, share: float) -> None:
        self._file, self._act, self._share = open(name, mode), act, share  # noqa: SIM115

    def __enter__(self) -> _Interrupted:
        return self

    def __exit__(self, *_: Any) -> None:
        self._file.close()

    def write(self, content: bytes) -> None:
        room = int(self._share * len(content))
        self._file.write(content[:room])
        self._file.flush()
        self._act()
        self._file.write(content[room:])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class Disk:
    """A file system with room for so many bytes; `used` counts those that were written."""

    def __init__(self, room: float) -> None:
        self.room, self.used = room, 0

    def __enter__(self) -> Disk:
        writing.open = self._opened  # type: ignore[attr-defined]
        return self

    def __exit__(self, *_: Any) -> None:
        del writing.open  # type: ignore[attr-defined]

    def _opened(self, name: Any, mode: str) -> Any:
        return OnDisk(open(name, mode), self) if "x" in mode else open(name, mode)


class OnDisk(_Interrupted):
    """A file on such a disk; what is removed from it does not make room, as others write too."""

    def __init__(self, file: Any, disk: Disk) -> None:
        self._file, self._disk = file, disk

    def write(self, content: bytes) -> None:
        room = int(min(len(content), self._disk.room - self._disk.used))
        self._file.write(content[:room])
        self._file.flush()
        self._disk.used += room
        if room < len(content):
            fail()()
