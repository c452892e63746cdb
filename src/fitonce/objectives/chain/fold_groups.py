"""Folds in groups that fill the lanes of the loops, on threads of this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fitonce.core.lanes import LANES
from fitonce.core.parallel import cores
from fitonce.core.thread_pool import THREADS, WORTH_A_THREAD

_OPERATIONS = 2 * WORTH_A_THREAD  # of a group: beyond, Python around the loops hardly counts
_BYTES = 2**20  # of a group that fills the lanes several times: a limit of memory leaves room for one
_MOST = 32  # how often a group fills the lanes


def group_size(operations: float, bytes_per_fold: float) -> int:
    """How many folds run in a group, by what one takes: where that is little, a group fills the lanes
    several times, so that Python around the loops counts for less."""
    blocks = min(_OPERATIONS / (LANES * operations), _BYTES / (LANES * bytes_per_fold), _MOST)
    return LANES * max(int(blocks), 1)


def in_groups(work: Callable[[slice], Any], folds: int, size: int, operations: float) -> list[Any]:
    """work(slice) of each group of at most `size` folds, in order; `operations` are those of a fold."""
    share = LANES * int(np.ceil(folds / (LANES * cores())))  # with which every core has a group
    if share * operations >= WORTH_A_THREAD:
        size = min(size, share)
    groups = [slice(at, min(at + size, folds)) for at in range(0, folds, size)]
    return THREADS.run(work, groups, operations * size)
