"""Ctrl-C in a command: the first asks for the results so far where there will be some, and stops
otherwise; the next stops, the one after leaves the process. The exit code is 130 each time.

An exception can be swallowed on its way up (callbacks of JAX do so) or wait for threads; so a process
that is still there a little later is left as well. Files are written whole or not at all: nothing is
half done then.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

STOPPED = 130
_GRACE = 5.0  # seconds between the exception and leaving
_stages: list[list[int]] = []  # signals that came in scopes which end with the results so far
_leaving: list[threading.Timer] = []
_state = {"working": False, "raised": False}


def listen() -> Any:
    """Handle the signal from now on; returns the handler before, None outside of the main thread."""
    _state.update(working=False, raised=False)
    try:
        return signal.signal(signal.SIGINT, _interrupted)
    except ValueError:
        return None


def working() -> None:
    """From here on somebody catches a KeyboardInterrupt; before, the process is left at once."""
    _state["working"] = True


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """A scope that can end with the results so far; yields whether it was asked to."""
    here: list[int] = []
    before = None
    if signal.getsignal(signal.SIGINT) is not _interrupted:  # called by a test, or by a program
        before = listen()
        working()
    _stages.append(here)
    try:
        yield lambda: bool(here)
    finally:
        _stages.remove(here)
        if before is not None:
            signal.signal(signal.SIGINT, before)
            for timer in _leaving:  # the exception, if any, is the caller's
                timer.cancel()


def _interrupted(number: int, frame: Any) -> None:
    if _state["raised"] or not _state["working"]:
        _leave()
    if _stages and not _stages[-1]:
        _stages[-1].append(number)
        _say("stopping after this round with the results so far; Ctrl-C again stops immediately")
        return
    _state["raised"] = True
    timer = threading.Timer(_GRACE, _leave)
    timer.daemon = True
    _leaving.append(timer)
    timer.start()
    raise KeyboardInterrupt


def end() -> None:
    """Leave a process that was interrupted without what Python does at its end, which waits for threads
    and gives further signals their default."""
    if _state["raised"]:
        sys.stdout.flush()
        os._exit(STOPPED)


def _leave() -> None:
    _say("interrupted")
    os._exit(STOPPED)


def _say(text: str) -> None:
    os.write(2, f"fitonce: {text}\n".encode())  # not print, which may be what was interrupted
