"""Waiting for programs of JAX on a CPU, which ends with a sentence where nothing goes on any more.

Python cannot leave a wait inside of JAX: not for an exception of another thread, nor for Ctrl-C. So
whoever calls a program asks again and again whether its arrays are there.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import time
from importlib import metadata
from typing import Any

from fitonce.core.wording import counted

PATIENCE = 300.0  # seconds
_BUSY = 0.01  # of a core: asking takes less, and programs take more
_SHORTEST, _LONGEST = 2e-5, 0.05  # seconds between two questions
_DELAY = 1 / 32  # of the time that a program takes, at most


class StuckError(TimeoutError):
    """A program makes no progress and does not use the processor."""


def settled(found: Any) -> Any:
    """The arrays of a program, once they are there."""
    import jax

    if jax.default_backend() == "cpu":
        for array in jax.tree_util.tree_leaves(found):
            if not array.is_ready():
                _wait_for(array)
    return found


def _wait_for(array: Any) -> None:
    """Until it is there. What counts is the time asked to sleep, which a process that is stopped, or a
    machine that sleeps, does not spend."""
    started, waited, used = time.perf_counter(), 0.0, time.process_time()
    while not array.is_ready():
        pause = min(max(_DELAY * (time.perf_counter() - started), _SHORTEST), _LONGEST)
        time.sleep(pause)
        waited += pause
        if time.process_time() - used > _BUSY * PATIENCE:
            waited, used = 0.0, time.process_time()
        if waited > PATIENCE:
            _leave_without_waiting()
            raise StuckError(
                f"a program of JAX has made no progress for {PATIENCE:.0f} s and does not use the "
                "processor: it waits for threads of its own, or for a callback of an own model (jaxlib "
                f"{metadata.version('jaxlib')}, {counted(os.cpu_count() or 1, 'core')}). Try "
                "method='onestep', one core (taskset -c 0 python ...), or another version of jaxlib"
            )


@functools.cache
def _leave_without_waiting() -> None:
    """From now on the process ends without what JAX does at its end, which waits for the program."""
    atexit.register(_leave)


def _leave() -> None:
    failed = getattr(sys, "last_type", None) is not None  # an exception that nobody caught
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(int(failed))
