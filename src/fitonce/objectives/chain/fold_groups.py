"""Folds on threads of this process: loops run without Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fitonce.core.lanes import LANES
from fitonce.core.parallel import cores


class FoldGroups:
    """Groups of folds on threads, one for each core."""

    def __init__(self) -> None:
        self._reset()
        if hasattr(os, "register_at_fork"):  # a child process has none of the threads
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    def run(self, work: Callable[[slice], Any], folds: int) -> list[Any]:
        """work(slice) of each group, in order."""
        groups = [slice(start, min(start + LANES, folds)) for start in range(0, folds, LANES)]
        return self._map(work, groups)

    def each(self, work: Callable[[int], Any], folds: int) -> list[Any]:
        """work(fold) of each fold, in order."""
        return self._map(work, range(folds))

    def _map(self, work: Callable[[Any], Any], parts: Sequence[Any]) -> list[Any]:
        if len(parts) == 1:
            return [work(parts[0])]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(cores())
        return list(self._pool.map(work, parts))


GROUPS = FoldGroups()
