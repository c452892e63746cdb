"""States of several steps in one: tuples (z_t, z_t-1, ..., z_t-p), E = K^(p + 1) of them, the last of
which changes fastest."""

from __future__ import annotations

import numpy as np


def histories(states: int, memory: int) -> np.ndarray:
    """(E, p + 1) the states of each tuple, the latest first."""
    return np.indices((states,) * (memory + 1)).reshape(memory + 1, -1).T


def moves_on(states: int, memory: int) -> tuple[np.ndarray, np.ndarray]:
    """(E, 1) tuples, and (E, K) those that they move on to."""
    every = np.arange(states ** (memory + 1))[:, None]
    return every, every // states + np.arange(states) * states**memory


def repeated(states: int, memory: int) -> np.ndarray:
    """(K,) the tuples that repeat one state."""
    return np.arange(states) * sum(states**power for power in range(memory + 1))
