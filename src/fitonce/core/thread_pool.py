"""Parts of one piece of work on threads, one for each core: for loops that do not hold Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import local
from typing import Any, TypeVar

import numpy as np

from fitonce.core.memory import shared
from fitonce.core.parallel import cores
from fitonce.core.threads import one_blas_thread

_Part = TypeVar("_Part")
WORTH_A_THREAD = 3e5  # operations, about a millisecond: fewer take less time than the Python around them


class Threads:
    """Threads that are started at their first use."""

    def __init__(self) -> None:
        self._reset()
        if hasattr(os, "register_at_fork"):  # a child process has none of the threads
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._local = local()

    def run(
        self, work: Callable[[_Part], Any], parts: Sequence[_Part], operations: float = np.inf
    ) -> list[Any]:
        """work(part) of each part, in order. `operations` are about those of one part's loops: if few,
        all run in this thread, as the Python around loops runs in one thread at a time anyway."""
        # Threads that wait for each other's threads would wait forever.
        inside = getattr(self._local, "inside", False)
        if len(parts) == 1 or inside or operations < WORTH_A_THREAD:
            return [work(part) for part in parts]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(cores(), initializer=self._mark)
        with one_blas_thread():  # threads of BLAS would compete with these
            return list(self._pool.map(shared(work, min(cores(), len(parts))), parts))

    def _mark(self) -> None:
        self._local.inside = True


THREADS = Threads()
