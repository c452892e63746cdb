"""Threads of BLAS, which on small matrices cost more than they give."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SMALL = 256  # rows of a matrix that one thread multiplies or factors as fast as several


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS in one thread of this process."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


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
