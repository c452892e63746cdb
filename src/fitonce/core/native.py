"""Plain loops compiled to machine code by Numba, and kept on disk for the next process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from math import prod
from threading import local
from typing import Any

import numba
import numpy as np

_LINE = 64  # bytes that a processor reads at once
_MOST_HELD = 2**24  # numbers in an array that is kept


def compiled(function: Callable[..., Any]) -> Any:
    """`function` compiled at its first call, without Python's lock, so that threads run side by side.

    Machine code is kept beside the source or in the user's cache folder. Where neither can be written
    to, it is compiled again in every process.
    """
    made: Any = numba.njit(nogil=True, error_model="numpy")(function)
    with suppress(RuntimeError):  # no folder to write to
        made.enable_caching()
    return made


def inlined(function: Callable[..., Any]) -> Any:
    """A part of compiled functions that becomes part of their machine code."""
    made: Any = numba.njit(nogil=True, error_model="numpy", forceinline=True)(function)
    return made


class Scratch(local):
    """Arrays of each thread that are used again: fresh memory costs more than the loops that fill it."""

    def __init__(self) -> None:
        self._held: dict[str, np.ndarray] = {}

    def take(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """An array of any content, until the next one of this name; aligned for wide instructions."""
        count = prod(shape)
        held = self._held.get(name)
        if held is None or held.size < count:
            raw = np.empty(count + _LINE // 8)
            first = -raw.ctypes.data % _LINE // 8
            held = raw[first : first + count]
            if count <= _MOST_HELD:
                self._held[name] = held
        return held[:count].reshape(shape)

    def zeros(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """The same, with zeros."""
        found = self.take(name, shape)
        found[:] = 0.0
        return found
