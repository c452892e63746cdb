"""Plain loops compiled to machine code by Numba, and kept on disk for the next process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numba

_Function = TypeVar("_Function", bound=Callable[..., object])


def compiled(function: _Function) -> _Function:
    """`function` compiled at its first call, without Python's lock, so that threads run side by side.

    Machine code is kept beside the source or in the user's cache folder. Where neither can be written
    to, it is compiled again in every process.
    """
    made = numba.njit(nogil=True, error_model="numpy")(function)
    try:
        made.enable_caching()
    except RuntimeError:  # no folder to write to
        pass
    return made


def inlined(function: _Function) -> _Function:
    """A part of compiled functions that becomes part of their machine code."""
    return numba.njit(nogil=True, error_model="numpy", forceinline=True)(function)
