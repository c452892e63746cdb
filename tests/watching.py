"""Calls that may neither hang nor take more memory than there is room for."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 20  # seconds until a call counts as hung
ROOM = 6 * 2**30  # bytes that the process may add to its addresses


@contextmanager
def watched(patience: int = PATIENCE) -> Iterator[None]:
    """Hanging for longer than these seconds is an error, and so is too much memory."""

    def hung(*_):
        raise TimeoutError(f"still at work after {patience} s")

    before = resource.getrlimit(resource.RLIMIT_AS)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    old = signal.signal(signal.SIGALRM, hung)
    resource.setrlimit(resource.RLIMIT_AS, (held + ROOM, before[1]))
    signal.alarm(patience)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)
        resource.setrlimit(resource.RLIMIT_AS, before)
