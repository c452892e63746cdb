"""Much work in pieces of one shape: what is compiled for the first piece serves them all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def chunks(count: int, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The numbers below `count`, `size` at a time, and which of them are real: the last piece is padded
    by repeating the last number."""
    for start in range(0, count, size):
        index = np.arange(start, start + size)
        yield np.minimum(index, count - 1), index < count


def unit_rows(count: int, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The rows of an identity matrix (count, count), some at a time: their numbers (size,), the last
    repeated, and the rows (size, count)."""
    for numbers, _ in chunks(count, max(min(size, count), 1)):
        rows = np.zeros((len(numbers), count))
        rows[np.arange(len(numbers)), numbers] = 1.0
        yield numbers, rows
