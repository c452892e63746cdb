"""Plain loops compiled to machine code by Numba, and kept on disk for the next process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba


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
