"""Waiting for programs of JAX on a CPU, which ends with a sentence where nothing goes on any more.

Python cannot leave a wait inside of JAX: not for an exception of another thread, nor for Ctrl-C. So
whoever calls a program asks again and again whether its arrays are there.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import sys
import threading
import time
from typing import Any

PATIENCE = 300.0  # seconds
_PATIENCE_WITH_CALLBACKS = 12  # times that: they may wait for a network
_BUSY = 0.01  # of a core: programs take more
_SHORTEST, _LONGEST = 2e-5, 0.05  # seconds between two questions
_DELAY = 1 / 32  # of the time that a program takes, at most


class StuckError(TimeoutError):
    """A program makes no progress and does not use the processor."""


def wait_for(found: Any) -> Any:
    """The arrays of a program, once they are there."""
    import jax

    if jax.default_backend() == "cpu":
        for array in jax.tree_util.tree_leaves(found):
            if not array.is_ready():
                _wait_for_one(array)
    return found


def _wait_for_one(array: Any) -> None:
    """Until it is there. What counts is the time asked to sleep, which a process that is stopped, or a
    machine that sleeps, does not spend. Another callback, or another line of one, is progress."""
    started, waited, used = time.perf_counter(), 0.0, _used()
    callbacks: set[Any] = set()
    while not array.is_ready():
        pause = min(max(_DELAY * (time.perf_counter() - started), _SHORTEST), _LONGEST)
        time.sleep(pause)
        waited += pause
        before, callbacks = callbacks, _callbacks() if pause == _LONGEST else callbacks
        if _used() - used > _BUSY * PATIENCE or callbacks != before:
            waited, used = 0.0, _used()
        if waited > PATIENCE * (_PATIENCE_WITH_CALLBACKS if callbacks else 1):
            _leave_at_exit()
            raise StuckError(_said())


def _used() -> float:
    """Seconds of the processor of all other threads: asking is no progress."""
    return time.process_time() - time.thread_time()


def _callbacks() -> set[Any]:
    """Where other threads are within callbacks of a model, unless these wait for JAX themselves."""
    found, own = set(), threading.get_ident()
    for thread, frame in sys._current_frames().items():
        if thread != own and _package(frame) not in ("jax", "jaxlib") and _is_callback(frame):
            found.add((thread, id(frame), frame.f_lasti))
    return found


def _is_callback(frame: Any) -> bool:
    while frame is not None and frame.f_globals.get("__name__") != "jax._src.callback":
        frame = frame.f_back
    return frame is not None


def _package(frame: Any) -> str:
    return str(frame.f_globals.get("__name__")).split(".", 1)[0]


def _said() -> str:
    from importlib import metadata  # only this sentence needs them

    from fitonce.core.wording import counted

    here = f"jaxlib {metadata.version('jaxlib')}, {counted(os.cpu_count() or 1, 'core')}"
    return (
        f"a JAX program made no progress for {PATIENCE:.0f} s and used no processor. It waits for its "
        "own threads or for a callback of your model. Try method='onestep', one core "
        f"(taskset -c 0 python ...) or another jaxlib (here {here})"
    )


@functools.cache
def _leave_at_exit() -> None:
    """From now on the process ends without what JAX does at its end, which waits for the program. It
    fails, whatever it was asked to return: Python does not tell."""
    atexit.register(leave, 1)


def leave(code: int) -> None:
    """End the process at once."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # none, broken, or closed
            stream.flush()
    os._exit(code)
