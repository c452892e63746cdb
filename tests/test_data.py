# ruff: noqa: PD011 - the values of Sequences, not of pandas
from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import fitonce as fo

NAN = np.nan
Frame = pd.DataFrame


def lists(read: fo.Sequences) -> list:
    """The sequences as nested lists, None where not observed."""
    return [
        [
            [v if o else None for v, o in zip(*step, strict=True)]
            for step in zip(values[:length], seen[:length], strict=True)
        ]
        for values, seen, length in zip(
            read.values.tolist(), read.observed.tolist(), read.lengths.tolist(), strict=True
        )
    ]


ONE = [[[1.0], [2.0], [3.0]]]
GAP = [[[1.0], [None], [3.0]]]
PAIR = [[[1.0, 2.0], [3.0, 4.0]]]
TWO = [[[1.0], [2.0], [3.0]], [[4.0]]]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (np.array([1.0, 2.0, 3.0]), ONE),
        (np.array([[1.0], [2.0], [3.0]]), ONE),
        (np.array([1, 2, 3], np.int8), ONE),
        (np.array([1, 2, 3], np.float32), ONE),
        (jnp.array([1.0, 2.0, 3.0]), ONE),
        (np.array([True, False]), [[[1.0], [0.0]]]),
        (np.array([[1, 2], [3, 4]]), PAIR),
        (np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]), [*PAIR, [[5.0, 6.0], [7.0, 8.0]]]),
        ([1, 2, 3], ONE),
        ((1.0, 2.0, 3.0), ONE),
        ([1, None, 3], GAP),
        ([1, pd.NA, NAN, 3], [[[1.0], [None], [None], [3.0]]]),
        (np.array([1, None, 3], object), GAP),
        (np.ma.array([1, 2, 3], mask=[0, 1, 0]), GAP),
        (np.ma.array([[[1], [2], [3]]], mask=[[[0], [1], [0]]]), GAP),
        (pd.Series([1.0, 2.0, 3.0]), ONE),
        (pd.Series([1, None, 3], dtype="Int64"), GAP),
        (Frame({"a": [1, 3], "b": [2.0, 4.0]}), PAIR),
        (Frame({"a": pd.array([1, None], "Int64"), "b": [True, False]}), [[[1.0, 1.0], [None, 0.0]]]),
        ([np.array([1, 2, 3]), np.array([4.0])], TWO),
        ([[1, 2, 3], [4]], TWO),
        ([Frame({"a": [1, 2, 3]}), Frame({"a": [4]})], TWO),
        (np.array([[1, NAN], [NAN, NAN], [5, 6]]), [[[1.0, None], [None, None], [5.0, 6.0]]]),
    ],
)
def test_reads_values_and_what_is_missing(data, expected):
    read = fo.sequences(data)
    assert lists(read) == expected
    assert read.values.dtype == np.float64


def test_missing_value_is_missing_as_nan_is():
    assert lists(fo.sequences([1, -1, NAN], missing=-1)) == [[[1.0], [None], [None]]]


def test_group_column_splits_rows_in_order_of_appearance():
    frame = Frame({"who": ["b", "a", "b", "b"], "x": [1, 4, 2, 3]})
    for labels in (frame["who"], pd.Categorical(frame["who"], ["a", "b", "never"])):
        read = fo.sequences(frame.assign(who=labels), group="who")
        assert lists(read) == TWO
        assert read.channels == ("x",)


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (np.ones((3, 2)), ("x0", "x1")),
        (Frame({"a": [1], 7: [2]}), ("a", "7")),
        (pd.Series([1], name="y"), ("y",)),
        (pd.Series([1]), ("x0",)),
    ],
)
def test_channel_names(data, names):
    assert fo.sequences(data).channels == names


@pytest.fixture
def uneven() -> fo.Sequences:
    return fo.sequences([np.array([[1, NAN], [NAN, NAN], [2, 3]]), np.array([[4, 5]])])


def test_counts_valid_sites_and_weights(uneven):
    assert (uneven.n_sequences, uneven.n_sites) == (2, 4)
    assert uneven.valid.tolist() == [[True, True, True], [True, False, False]]
    assert uneven.weights.tolist() == [1.0, 0.0, 1.0, 1.0]
    assert uneven.sites.to_dict("list") == {
        "sequence": [0, 0, 0, 1],
        "time": [0, 1, 2, 0],
        "observed": [True, False, True, True],
    }


def test_missing_and_padding_entries_hold_zero(uneven):
    assert not uneven.values[~uneven.observed].any()
    assert not uneven.observed[~uneven.valid].any()


def test_repr_gives_counts_lengths_and_missing_sites(uneven):
    assert repr(uneven) == "Sequences(2 sequences of 1 to 3 steps, 2 channels, 1 of 4 sites missing)"
    assert repr(fo.sequences(np.ones((1200, 2)))) == (
        "Sequences(1 sequence of 1,200 steps, 2 channels, 0 of 1,200 sites missing)"
    )


def test_reading_twice_is_reading_once_and_copies_the_input(uneven):
    assert fo.sequences(uneven) is uneven
    data = np.ones(3)
    read = fo.sequences(data)
    data[0] = 5.0
    assert read.values[0, 0, 0] == 1.0


def test_sequences_pass_through_jit(uneven):
    assert jax.jit(lambda data: data.values.sum())(uneven) == 15.0


GROUPED = Frame({"g": ["a", None], "x": [1.0, 2.0]})


@pytest.mark.parametrize(
    ("data", "options", "sentence"),
    [
        ([1.0], {"missing": "-1"}, "missing must be a number, got '-1'"),
        (
            fo.sequences([1.0]),
            {"missing": -1},
            "data has been read already; pass lengths, missing, group",
        ),
        (
            fo.sequences([1.0]),
            {"group": "g"},
            "data has been read already; pass lengths, missing, group",
        ),
        ([], {}, "data must hold at least one sequence, got none"),
        (np.ones((0, 3, 1)), {}, "data must hold at least one sequence, got none"),
        ([np.ones((2, 1)), np.ones((2, 3))], {}, "must have the same channels, got widths [1, 3]"),
        (
            [Frame({"a": [1], "b": [2]}), Frame({"b": [1], "c": [2]})],
            {},
            "data: sequence 1 must have the columns of sequence 0, a, b, in any order, got b, c",
        ),
        (np.ones(3), {"group": "g"}, "group='g' needs a DataFrame, got ndarray"),
        (Frame({"x": [1]}), {"group": "g"}, "group='g' is not a column; columns are ['x']"),
        (GROUPED, {"group": "g"}, "group='g' must label every row, but row 1 has none"),
        ([1.0, [2.0]], {}, "a list must hold numbers or sequences, got a mixture of both"),
        ({"x": [1]}, {}, "data must be an array, a DataFrame, a list of arrays or a dict of Data"),
        (Frame({"x": [1], "y": ["a"]}), {}, "data must be numeric, but column 'y' is "),
        (Frame({"x": [1j]}), {}, "data must be numeric, but column 'x' is complex128"),
        (pd.Series(pd.date_range("2020", periods=2), name="day"), {}, "but column 'day' is datetime64"),
        (["1", "2"], {}, "data must be numeric and rectangular, got dtype <U1"),
        ([1.0, 1j], {}, "data must be numeric and rectangular, got dtype complex128"),
        (np.array(["2020"], "M8[D]"), {}, "data must be numeric and rectangular, got dtype datetime64"),
        ([[1], [[1, 2], [3]]], {}, "sequence 1 must be numeric and rectangular, got list"),
        (np.array([object()]), {}, "data must be numeric and rectangular, got ndarray"),
        (np.ones((1, 1, 1, 1)), {}, "data must have shape (T,) or (T, channels), got (1, 1, 1, 1)"),
        ([np.ones(2), np.ones((1, 1, 1))], {}, "sequence 1 must have shape (T,) or (T, channels)"),
        ([np.ones(2), []], {}, "sequence 1 must not be empty, got shape (0, 1)"),
        (np.ones((2, 0)), {}, "data must not be empty, got shape (2, 0)"),
        (
            [1.0, 2.0, -np.inf, np.inf],
            {},
            "data must be finite or NaN (missing), got infinity at step 2",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(data, options, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        fo.sequences(data, **options)
