"""Dates that a table lacks are pointed out where it is read."""

import warnings

import numpy as np
import pandas as pd
import pytest

import fitonce as fo
from fitonce.data.gaps import GapsWarning
from fitonce.data.reading import Columns, read_file


def table(index):
    return pd.Series(np.arange(len(index), dtype=float), pd.DatetimeIndex(index.tolist()))


def days(n, *without, **more):
    return pd.date_range("2024-01-01", periods=n, **more).delete(list(without))


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (days(30, 9, 10), "2 steps, the first of them 2024-01-10: .*as data.asfreq\\('D'\\) does"),
        (days(30, 9, tz="Europe/Berlin"), "1 step, the first of them 2024-01-10: .*'D'"),
        (days(30, 4, freq="h"), "1 step, the first of them 2024-01-01 04:00:00: .*asfreq\\('h'\\)"),
        (days(20, 7, 8, freq="MS"), "2 steps, the first of them 2024-08-01: .*asfreq\\('MS'\\)"),
        (days(20, 7, freq="QE"), "1 step, the first of them 2025-12-31: "),
        (days(20, 5, freq="W"), "1 step, the first of them 2024-02-11: .*asfreq\\('7D'\\)"),
        (days(60, 20, freq="B"), "1 step, the first of them 2024-01-29: .*asfreq\\('B'\\)"),
        (days(24 * 120, 2500, freq="h", tz="Europe/Berlin"), "1 step, .* of them 2024-04-14 05:00"),
        (days(24 * 40, 500, freq="h"), "1 step, the first of them 2024-01-21 20:00:00"),
    ],
)
def test_gaps_in_regular_dates_are_pointed_out(index, said):
    with pytest.warns(GapsWarning, match=f"dates of data lack {said}"):
        read = fo.sequences(table(index))
    assert read.n_sites == len(index)


@pytest.mark.parametrize("freq", ["D", "h", "MS", "ME", "QE", "B"])
def test_what_the_warning_advises_gives_missing_steps_rows(freq):
    part = table(days(40, 11, 12, 30, freq=freq))
    with pytest.warns(GapsWarning) as caught:
        fo.sequences(part)
    advice = str(caught[0].message).split("asfreq('")[1].split("'")[0]
    read = fo.sequences(part.asfreq(advice))
    assert (read.n_sites, int(read.weights.sum())) == (40, 37)


OPEN = pd.DatetimeIndex(
    [day + pd.Timedelta(hours=hour) for day in days(20, freq="B") for hour in range(9, 17)]
)


@pytest.mark.parametrize(
    "index",
    [
        days(30),
        days(60, freq="B"),
        days(60, freq=pd.offsets.CustomBusinessDay(weekmask="Mon Tue Wed Thu")),
        days(30, freq="MS"),
        days(30, freq="ME"),
        days(24 * 120, freq="h", tz="Europe/Berlin"),
        days(120, tz="Europe/Berlin"),
        OPEN,
        days(400)[np.flatnonzero(np.random.default_rng(0).random(400) < 0.3)],  # irregular
        days(30) + pd.to_timedelta(np.random.default_rng(0).uniform(0, 9, 30), "h"),
        pd.DatetimeIndex(["2024-01-01", "2024-01-02", "2024-01-05"]),
    ],
)
def test_regular_and_irregular_dates_are_read_without_a_word(index):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fo.sequences(table(index))


def test_all_sequences_are_counted_and_periods_have_gaps_too():
    with pytest.warns(GapsWarning, match="lack 3 steps in 2 sequences, the first of them 2024-01-05"):
        fo.sequences([table(days(9, 4)), table(days(9, 5, 6)), table(days(9))])
    months = pd.period_range("2024-01", periods=12, freq="M").delete([6])
    with pytest.warns(GapsWarning, match=r"lack 1 step, .* 2024-07-01: .*as data.reindex\(\.\.\.\)"):
        fo.sequences(pd.Series(np.ones(11), months))


def test_days_of_a_shorter_week_are_not_advised_to_be_business_days():
    """Rows for their Fridays would be rows that are not missing."""
    week = pd.offsets.CustomBusinessDay(weekmask="Mon Tue Wed Thu")
    with pytest.warns(GapsWarning, match=r"lack 1 step, .* 2024-01-23: .*as data.reindex\(\.\.\.\)"):
        fo.sequences(table(days(60, 13, freq=week)))


@pytest.mark.parametrize("gaps", [True, False])
def test_files_have_notes_and_no_warnings(gaps, tmp_path):
    path = tmp_path / "x.csv"
    table(days(30, 9, 10)).rename("x").rename_axis("day").reset_index().to_csv(path, index=False)
    read = read_file(path, Columns(gaps=gaps))
    assert read.data.n_sites == (30 if gaps else 28)
    assert ("inserted 2 missing steps to make 'day' regular" in read.notes) is gaps
