"""Rows out of the order of their dates: every door refuses them, and says which dates."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pandas as pd
import pytest

import fitonce as fo
from fitonce.data.reading import Columns, read_file

polars = pytest.importorskip("polars")
DAYS = pd.date_range("2024-01-01", periods=40, name="day")
Y = pd.Series(np.random.default_rng(0).normal(size=40), DAYS, name="y")
SHUFFLED = np.random.default_rng(1).permutation(40)


@lru_cache
def fitted():
    return fo.fit(fo.models.GaussianHMM(1), Y)


ORDERS = {
    "reversed": (Y[::-1], "2024-02-09 is followed by 2024-02-08"),
    "shuffled": (Y.iloc[SHUFFLED], "dates of data must increase"),
    "twice": (pd.concat([Y[:20], Y[19:]]), "2024-01-20 occurs twice"),
}
DOORS = {
    "sequences": fo.sequences,
    "a list": lambda y: fo.sequences([Y, y]),
    "a dict": lambda y: fo.sequences({"a": Y.to_frame(), "b": y.to_frame()}),
    "lengths": lambda y: fo.sequences(y, lengths=[len(y)]),
    "group": lambda y: fo.sequences(y.to_frame().assign(who="a"), group="who"),
    "index": lambda y: fo.sequences(y.reset_index(), index="day"),
    "polars": lambda y: fo.sequences(polars.from_pandas(y.reset_index()), index="day"),
    "periods": lambda y: fo.sequences(y.to_period("D")),
    "zone": lambda y: fo.sequences(y.tz_localize("Europe/Oslo")),
    "text": lambda y: fo.sequences(y.set_axis(y.index.strftime("%d.%m.%Y"))),
    "fit": lambda y: fo.fit(fo.models.GaussianHMM(1), y),
    "folds": lambda y: fo.folds.future(y, start=[30]),
    "splitter": lambda y: fo.folds.from_splitter(3, y),
    "score": lambda y: fitted().score(y),
    "decode": lambda y: fitted().decode(y),
    "estimator": lambda y: fo.sklearn.Estimator(fo.models.GaussianHMM(1)).fit(y.to_frame()),
}


@pytest.mark.parametrize("door", list(DOORS))
@pytest.mark.parametrize("order", list(ORDERS))
def test_rows_out_of_order_are_refused(door, order):
    y, sentence = ORDERS[order]
    sentence = (
        sentence.replace("of data", "of data.*") if door in ("a list", "a dict", "group") else sentence
    )
    if door == "text":  # as the user wrote them
        sentence = {
            "reversed": "09.02.2024 is followed by 08.02.2024",
            "twice": "20.01.2024 occurs twice",
        }.get(order, sentence)
    with pytest.raises(ValueError, match=sentence):
        DOORS[door](y)


@pytest.mark.parametrize(("order", "same"), [("reversed", True), ("shuffled", True), ("twice", False)])
def test_files_follow_the_same_rule_and_are_sorted(tmp_path, order, same):
    ORDERS[order][0].to_csv(tmp_path / "y.csv")
    if not same:
        with pytest.raises(ValueError, match=r"'day' must differ .* 2024-01-20 occurs twice. Name the"):
            read_file(tmp_path / "y.csv", Columns())
        return
    found = read_file(tmp_path / "y.csv", Columns())
    np.testing.assert_array_equal(found.data.shown_values, Y)
    assert "rows were sorted by 'day'" in found.notes


@pytest.mark.parametrize(
    "index",
    [
        pd.RangeIndex(40)[::-1],  # numbers of rows of a larger table
        pd.Index(np.arange(40)[::-1], name="depth"),
        pd.Index([*range(1, 13), *range(1, 13), *range(1, 13), 1, 2, 3, 4], name="month"),
        pd.Index([f"site {k % 7}" for k in range(40)]),
        pd.Index(DAYS.strftime("%d/%m/%Y")),
        pd.date_range("2024-10-27", periods=40, freq="15min", tz="Europe/Oslo"),  # an hour comes twice
    ],
)
def test_other_indices_are_names_and_may_be_in_any_order(index):
    data = fo.sequences(Y.set_axis(index))
    np.testing.assert_array_equal(data.shown_values, Y)


def test_numbers_that_say_when_must_increase():
    with pytest.raises(
        ValueError, match="dates of data must increase from row to row, but year 2024 is f"
    ):
        fo.sequences(Y.set_axis(pd.Index(2024 - np.arange(40), name="year")))


QUARTERS = [f"{year}{sign}" for year in range(2007, 2017) for sign in ("Q1", "Q2", "Q3", "Q4")]


@pytest.mark.parametrize(
    "index",
    [
        *(DAYS.strftime(form) for form in ("%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%B %d %Y", "%Y%m%d")),
        pd.Index(QUARTERS),
        pd.Index([f"{one[:4]}-{one[4:]}" for one in QUARTERS]),
        pd.CategoricalIndex(DAYS),
        pd.RangeIndex(1980, 2020),
        pd.Index(range(1980, 2020), name="Jahr"),
    ],
)
def test_times_in_other_words(index):
    y = Y.set_axis(index)
    np.testing.assert_array_equal(fo.sequences(y).shown_values, Y)
    with pytest.raises(ValueError, match=f"{index[39]}.* is followed by .*{index[38]}"):
        fo.sequences(y[::-1])


def test_text_is_to_be_read_as_dates_before_it_is_sorted():
    with pytest.raises(ValueError, match=r"\(pd.to_datetime, then data.sort_index\(\)\)"):
        fo.sequences(Y.set_axis(DAYS.strftime("%Y/%m/%d"))[::-1])


def test_sorted_rows_give_the_loss_of_the_data_in_time():
    def loss(y):
        fit = fo.fit(fo.models.GaussianHMM(1), y)
        return fo.cross_validate(fit, fo.folds.future(y, start=[30])).estimate

    assert loss(Y[::-1].sort_index()) == loss(Y.to_numpy())
