"""Threads of BLAS, which on small matrices cost more than they give."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SMALL = 256  # rows of a matrix that one thread multiplies or factors as fast as several


_lock = threading.Lock()
_inside: list[Any] = []  # the limits that are set, one for each call; the first remembers what was


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS in one thread of this process, until the last of the calls that asked for it is over."""
    with _lock:
        _inside.append(None if _inside else _controller().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            if len(_inside) == 1:
                _inside[0].restore_original_limits()
            _inside.pop()


@contextmanager
def blas_threads_for(size: int) -> Iterator[None]:
    """Work on matrices with `size` rows: by one thread of BLAS if they are small."""
    if size > _SMALL:
        yield
        return
    with one_blas_thread():
        yield


@functools.cache
def _controller() -> Any:
    """Of the libraries that are loaded when it is first needed: finding them takes some milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
