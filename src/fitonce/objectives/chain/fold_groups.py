"""Folds in groups that fill the lanes of the loops, on threads of this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fitonce.core.lanes import LANES
from fitonce.core.thread_pool import THREADS


def in_groups(work: Callable[[slice], Any], folds: int) -> list[Any]:
    """work(slice) of each group of folds, in order."""
    return THREADS.run(work, [slice(at, min(at + LANES, folds)) for at in range(0, folds, LANES)])
