"""Chunks of one shape: every index once, padding by the last."""

from __future__ import annotations

import numpy as np
import pytest

from fitonce.core.chunks import SMALL_BYTES, chunks, common_rows, unit_rows


@pytest.mark.parametrize(("count", "size"), [(1, 1), (5, 2), (6, 3), (2, 4)])
def test_chunks_have_one_shape_and_every_index_once(count, size):
    made = list(chunks(count, size))
    assert {len(index) for index, _ in made} == {size}
    np.testing.assert_array_equal(
        np.concatenate([index[real] for index, real in made]), np.arange(count)
    )
    index, real = made[-1]
    assert (index[~real] == count - 1).all()


@pytest.mark.parametrize(
    ("count", "need", "length"),
    [
        (1, 1, 1),
        (2, 1, 64),
        (64, 1, 64),
        (65, 1, 256),
        (257, 1, 257),
        (2, SMALL_BYTES, 2),
        (2, SMALL_BYTES // 64, 64),
    ],
)
def test_few_rows_are_padded_to_common_lengths_where_that_is_little_work(count, need, length):
    rows = common_rows(count, need)
    assert len(rows) == length
    np.testing.assert_array_equal(rows[:count], np.arange(count))
    assert (rows[count:] == count - 1).all()


def test_unit_rows_make_up_the_identity():
    whole = np.zeros((5, 5))
    for index, rows in unit_rows(5, 2):
        whole[index] = rows
    np.testing.assert_array_equal(whole, np.eye(5))
