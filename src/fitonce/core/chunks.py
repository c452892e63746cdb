"""Work in chunks of one shape, so that one compiled program serves them all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fitonce.core import memory

SMALL_BYTES = 2**23  # of work that takes less time than compiling a program of another shape
_COMMON = (1, 64, 256)  # one row alone is the objective of a fit, which is asked for hundreds of times


def chunks(count: int, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The indices 0 .. count - 1, `size` at a time, with a mask (size,) that is false for padding: the
    last chunk is filled by repeating the last index."""
    for start in range(0, count, size):
        index = np.arange(start, start + size)
        yield np.minimum(index, count - 1), index < count


def pieces(units: np.ndarray, bytes_per_unit: float, limit: float) -> Iterator[np.ndarray]:
    """Some of the units (n,) at a time, at least one, that take at most `limit` bytes."""
    size = max(int(limit // max(bytes_per_unit, 1)), 1)
    for start in range(0, len(units), size):
        yield units[start : start + size]


def common_rows(count: int, bytes_per_row: int) -> np.ndarray:
    """The indices 0 .. count - 1, filled by repeating the last to one of a few common lengths if that is
    little work: rows of any number then run the same few programs."""
    fits = (size for size in _COMMON if size >= count and size * bytes_per_row <= SMALL_BYTES)
    return np.minimum(np.arange(next(fits, count)), count - 1)


def stretches(count: int, bytes_each: float, what: str) -> Iterator[slice]:
    """0 .. count - 1 in stretches that memory allows, for work that needs no common shape."""
    size = max(int(memory.room(SMALL_BYTES * 8, bytes_each, what) // bytes_each), 1)
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def unit_rows(count: int, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows of the identity matrix (count, count) in chunks: their indices (size,), padded as in
    `chunks`, and the rows (size, count)."""
    for index, _ in chunks(count, max(min(size, count), 1)):
        yield index, (index[:, None] == np.arange(count)).astype(float)
