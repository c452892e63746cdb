"""Columns and times that look like something else than what they were taken for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fitonce.data.reading import Columns, read_file


def notes_of(folder, table, **columns):
    path = folder / "table.csv"
    pd.DataFrame(table).to_csv(path, index=False)
    return read_file(path, Columns(**columns))


WALKS = {
    "seq_id": np.repeat([4, 1, 7], 5),
    "tstep_id": np.tile(np.arange(5), 3),
    "count": np.arange(15) % 4 * 3,
}


def said(found):
    return [note for note in found.notes if "looks like" in note or "only counts" in note]


def test_identifiers_and_counters_are_pointed_out_with_their_options(tmp_path):
    found = notes_of(tmp_path, WALKS)
    assert said(found) == [
        "'seq_id' is modelled as a number, but looks like a name of sequences: --group seq_id",
        "'tstep_id' is modelled as a number, but only counts rows: --time tstep_id, if these are the "
        "steps",
    ]
    assert "to model the others only: --columns count" in found.notes
    found = notes_of(tmp_path, WALKS, modelled=("count",))
    assert said(found) == ["'seq_id' is not used, but looks like a name of sequences: --group seq_id"]
    assert said(notes_of(tmp_path, WALKS, modelled=("count",), group="seq_id", time="tstep_id")) == []


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("n", range(12)),
        ("k", [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]),
        ("k", [1, 2, 3, 1, 2, 3, 4, 1, 2, 1, 2, 3]),
    ],
)
def test_a_column_that_goes_up_by_one_is_a_counter(tmp_path, name, values):
    table = {name: list(values), "x": [2.0, 3.5, 1.0] * 4}
    assert said(notes_of(tmp_path, table))[0].startswith(f"'{name}' is modelled as a number, but only")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("dose", [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]),  # constant in stretches, but of no such name
        ("subject", [1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2]),  # no stretches
        ("valid", [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]),
        ("count", [0, 1, 0, 0, 1, 0, 2, 0, 1, 0, 1, 0]),
        ("count", [5, 4, 3, 2, 1, 0, 5, 4, 3, 2, 1, 0]),
    ],
)
def test_others_are_not(tmp_path, name, values):
    assert said(notes_of(tmp_path, {name: values, "x": [2.0, 3.5, 1.0] * 4})) == []


@pytest.mark.parametrize("name", ["seq_id", "subject", "Trial", "patient_no", "mouseID", "id_of_walk"])
def test_names_of_sequences(tmp_path, name):
    table = {name: list("aaaabbbbcccc"), "x": [2.0, 3.5, 1.0] * 4}
    assert said(notes_of(tmp_path, table))[0].endswith(f"looks like a name of sequences: --group {name}")


def test_nights_that_become_missing_are_pointed_out_and_days_can_be_sequences(tmp_path):
    times = pd.date_range("2024-01-01", periods=24 * 10, freq="h")
    open_ = times[(times.hour >= 8) & (times.hour < 18)]
    table = {"time": open_, "x": np.arange(len(open_)) % 7 * 1.5}
    found = notes_of(tmp_path, table)
    assert (
        "no row is from 18:00 to 8:00 on any day, and 126 of 226 steps became missing; use "
        "--no-gaps if nothing happens over the night (states go on where they stopped, as in opening "
        "hours and trading days), --group day if each day starts afresh, and neither if states go on "
        "changing while nobody counts"
    ) in found.notes
    found = notes_of(tmp_path, table, group="day")
    assert found.data.lengths.tolist() == [10] * 10
    assert found.data.names.sequences[1] == "2024-01-02"
    assert not any("no row is from" in note for note in found.notes)


def test_weekends_that_become_missing_are_pointed_out_and_weeks_can_be_sequences(tmp_path):
    days = pd.bdate_range("2024-01-03", periods=20)  # a Wednesday
    table = {"date": days, "x": np.arange(20) % 7 * 1.5}
    found = notes_of(tmp_path, table)
    assert any("no row is from a Saturday or Sunday, and 8 of 28" in note for note in found.notes)
    found = notes_of(tmp_path, {"date": days[:18], "x": np.arange(18) % 7 * 1.5}, group="week")
    assert found.data.lengths.tolist() == [3, 5, 5, 5]
    assert found.data.names.sequences[:2] == ("2024-01-01", "2024-01-08")
    hours = pd.date_range("2024-01-01", periods=24 * 28, freq="h")
    hours = hours[hours.day_of_week < 5]
    found = notes_of(tmp_path, {"time": hours, "x": np.arange(len(hours)) % 7 * 1.5})
    assert any("no row is from a Saturday or Sunday, and 144 of 624" in note for note in found.notes)


def test_days_need_times(tmp_path):
    with pytest.raises(ValueError, match="'day' is not a column, and without a column of times"):
        notes_of(tmp_path, {"x": [1.0, 2.0, 3.5]}, group="day")
    with pytest.raises(ValueError, match="--group week needs a column of dates"):
        notes_of(tmp_path, {"t": [1, 2, 4], "x": [1.0, 2.0, 3.5]}, group="week", time="t")


def test_steps_can_be_the_weekdays_that_have_rows(tmp_path):
    """As pandas' business days; dates with the day first, a holiday in between."""
    days = pd.bdate_range("2024-03-27", periods=30)
    kept = days.drop(pd.to_datetime(["2024-04-01", "2024-04-10"]))
    table = {"day": kept.strftime("%d.%m.%Y"), "x": np.arange(28) % 7 * 1.5}
    found = notes_of(tmp_path, table, weekdays=True)
    assert found.data.lengths.tolist() == [30]
    assert found.table.index.size == 30
    assert np.flatnonzero(found.table["x"].isna()).tolist() == [3, 10]
    assert np.flatnonzero(found.data.weights == 0).tolist() == [3, 10]
    assert "inserted 2 missing steps to make 'day' regular" in found.notes
    assert not any("no row is from" in note for note in found.notes)
    hint = "2 weekdays without a row are closed up like the weekends; --weekdays makes such days missing"
    assert hint in notes_of(tmp_path, table, gaps=False).notes
    assert any(
        "use --weekdays if nothing happens over the weekend" in n
        for n in notes_of(tmp_path, table).notes
    )
    six = pd.date_range("2024-01-01", periods=28)
    six = six[six.day_of_week != 6]
    assert notes_of(
        tmp_path, {"d": six, "x": np.arange(24.0) % 5}, weekdays=True
    ).data.lengths.tolist() == [24]


def test_formats_of_dates_are_told_from_all_sequences(tmp_path):
    days = pd.bdate_range("2023-03-01", periods=60)
    table = {"day": days.strftime("%d.%m.%Y"), "x": np.arange(60) % 7 * 1.5}
    found = notes_of(tmp_path, table, group="week")
    assert found.data.names.sequences[:2] == ("2023-02-27", "2023-03-06")
    assert found.data.lengths.max() == 5


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"x": [1.0, 2.0, 3.5]}, "steps that are weekdays need a column of dates; name it with --time"),
        ({"t": [1, 2, 4], "x": [1.0, 2.0, 3.5]}, "need a date in each row of 't'.* got '1' and '2'"),
        (
            {"t": ["2024-01-01 08:00", "2024-01-01 09:00", "2024-01-02 08:00"], "x": [1.0, 2.0, 3.5]},
            "one row a day and sequence, got '2024-01-01 08:00:00' and '2024-01-01 09:00:00'",
        ),
    ],
)
def test_weekdays_need_dates(tmp_path, table, message):
    with pytest.raises(ValueError, match=message):
        notes_of(tmp_path, table, weekdays=True)
