"""Calls that may neither hang nor take more memory than there is room for."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 20  # seconds of work until a call counts as hung
_BUSY = 6  # times that by the clock: others may be at work
ROOM = 6 * 2**30  # bytes that the process may add to its addresses


@contextmanager
def watched(patience: int = PATIENCE) -> Iterator[None]:
    """More work than these seconds is an error, so is hanging, and so is too much memory."""

    def hung(*_):
        raise TimeoutError(f"still at work after {patience} s of work, or {_BUSY * patience} s")

    before = resource.getrlimit(resource.RLIMIT_AS)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    old = {each: signal.signal(each, hung) for each in (signal.SIGALRM, signal.SIGPROF)}
    resource.setrlimit(resource.RLIMIT_AS, (held + ROOM, before[1]))
    signal.setitimer(signal.ITIMER_PROF, patience)
    signal.alarm(_BUSY * patience)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        for each, handler in old.items():
            signal.signal(each, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)
