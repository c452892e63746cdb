"""Progress in lines, for a command whose output goes to a file or a pipe: what is being done, how far it
is and how long it took so far, every few seconds; ever more seldom where it does not go on."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar

from fitonce.core.wording import duration

_Function = TypeVar("_Function", bound=Callable[..., Any])
EVERY = 5.0  # seconds
_WHILE = 1.0


@dataclass
class _Stage:
    what: str
    total: int | None = None
    done: int = 0
    started: float = field(default_factory=time.perf_counter)
    advanced: float = 0.0  # when it last went on

    def line(self) -> str:
        """ "folds: 120 of 1,000, 5 s so far, about 40 s left"."""
        spent = time.perf_counter() - self.started
        if self.total is None:
            return f"{self.what}: {duration(spent)} so far"
        text = f"{self.what}: {self.done:,} of {self.total:,}, {duration(spent)} so far"
        if not self.done:
            return text
        each = ((self.advanced or time.perf_counter()) - self.started) / self.done
        return f"{text}, about {duration(each * (self.total - self.done))} left"


_stages: list[_Stage] = []  # the innermost is the last; empty where nothing is told in lines


def told_in_lines() -> bool:
    """Whether progress is told in lines now, which only a command asks for."""
    return bool(_stages)


def _told() -> _Stage:
    """The innermost stage that has lasted for a while: of one that has just begun there is nothing to
    say."""
    now = time.perf_counter()
    lasting = [stage for stage in list(_stages) if now - stage.started >= _WHILE]
    return (lasting or _stages)[-1]


@contextmanager
def in_lines(what: str) -> Iterator[None]:
    """Tell of the innermost stage of the work inside, on standard error; a terminal has bars instead.
    `what` it is where no stage has begun."""
    if sys.stderr.isatty() or _stages:
        yield
        return
    ended = threading.Event()
    out = sys.stderr

    def tell() -> None:
        last: tuple[int, int] | None = None
        waits = after = 0  # of what has not gone on, twice as long each time
        while not ended.wait(EVERY):
            stage = _told()
            now = (id(stage), stage.done)
            if now == last and waits < after:
                waits += 1
                continue
            waits, after = 0, (2 * after + 1 if now == last else 0)
            last = now
            print(f"fitonce: {stage.line()}", file=out, flush=True)

    _stages.append(_Stage(what))
    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
        _stages.clear()


def told_as(what: str) -> Callable[[_Function], _Function]:
    """A verb whose calls are a stage, told of where none inside has lasted for a while."""

    def decorate(verb: _Function) -> _Function:
        @wraps(verb)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not told_in_lines() or kwargs.get("progress") is False:
                return verb(*args, **kwargs)
            with stage_in_lines(what):
                return verb(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate


@contextmanager
def stage_in_lines(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A stage of such work; yields a function that counts what is done of `total`."""
    mine = _Stage(what, total)
    if _stages:
        _stages[0].what = "the whole command"  # its beginning is over

    def advance(steps: int) -> None:
        mine.done += steps
        mine.advanced = time.perf_counter()

    _stages.append(mine)
    try:
        yield advance
    finally:
        if mine in _stages:
            _stages.remove(mine)
