"""Folds in groups that fill the lanes of the loops, on threads of this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fitonce.core.lanes import LANES
from fitonce.core.thread_pool import THREADS

_OPERATIONS = 6e5  # of a group
_MOST_BLOCKS = 32  # how often a group fills the lanes


def in_groups(work: Callable[[slice], Any], folds: int, operations: float) -> list[Any]:
    """work(slice) of each group of folds, in order; `operations` are about those of one fold. Where they
    are few, a group fills the lanes several times, so that Python around the loops counts for less."""
    size = LANES * int(np.clip(_OPERATIONS / (LANES * operations), 1, _MOST_BLOCKS))
    groups = [slice(at, min(at + size, folds)) for at in range(0, folds, size)]
    return THREADS.run(work, groups, operations * size)
