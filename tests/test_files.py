"""Files to data: what is read, what is said of it, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import fitonce as fo
from fitonce.data.reading import Columns, read_file
from fitonce.data.table_files import read_table


def written(tmp_path, table, name="x.csv", **how):
    path = tmp_path / name
    table.to_csv(path, **({"index": False} | how))
    return path


def hourly(n=48):
    times = pd.date_range("2024-01-01", periods=n, freq="h")
    return pd.DataFrame({"when": times, "count": np.arange(n) % 7})


def test_gaps_of_a_regular_index_are_missing_steps(tmp_path):
    table = hourly().drop(index=[3, 4, 20])
    found = read_file(written(tmp_path, table))
    assert found.data.n_sites == 48
    assert np.flatnonzero(found.data.weights == 0).tolist() == [3, 4, 20]
    assert any("3 missing steps to make 'when' regular" in note for note in found.notes)


def test_gaps_can_be_ignored(tmp_path):
    found = read_file(written(tmp_path, hourly().drop(index=[3])), Columns(gaps=False))
    assert found.data.n_sites == 47
    assert found.data.weights.all()


def test_rows_are_put_in_the_order_of_their_time(tmp_path):
    table = hourly()
    found = read_file(written(tmp_path, table.sample(frac=1.0, random_state=0)))
    assert found.data.values[0, :, 0].tolist() == table["count"].tolist()  # noqa: PD011


def test_groups_are_sequences_each_with_its_own_times(tmp_path):
    table = pd.concat([hourly(10).assign(who="b"), hourly(7).assign(who="a").drop(index=2)])
    found = read_file(written(tmp_path, table), Columns(group="who"))
    assert found.data.lengths.tolist() == [10, 7]
    assert found.data.weights.sum() == 16


def test_rows_are_chosen_by_time(tmp_path):
    found = read_file(
        written(tmp_path, hourly()), Columns(first="2024-01-01 06:00", last="2024-01-01 11:00")
    )
    assert found.data.n_sites == 6
    with pytest.raises(ValueError, match="no row has a 'when' from 2030; the file has 2024-01-01"):
        read_file(written(tmp_path, hourly()), Columns(first="2030"))
    with pytest.raises(ValueError, match="no row has a 'when' from 2019 up to 2020; the file"):
        read_file(written(tmp_path, hourly()), Columns(first="2019", last="2020"))


def test_an_index_and_a_constant_are_left_out_and_said(tmp_path):
    table = pd.DataFrame({"count": [1, 2, 3, 4], "always": 5, "what": list("abcd")})
    found = read_file(written(tmp_path, table.drop(index=1), index=True))
    assert found.data.channels == ("count",)
    told = " ".join(found.notes)
    for word in ("only row numbers", "always the same: always", "not numbers: what"):
        assert word in told


def test_a_constant_column_stays_when_named(tmp_path):
    table = pd.DataFrame({"count": [1, 2, 3], "always": 5})
    found = read_file(written(tmp_path, table), Columns(("count", "always")))
    assert found.data.channels == ("count", "always")


@pytest.mark.parametrize(("mark", "name"), [(";", "x.csv"), ("\t", "x.tsv"), ("\t", "x.txt")])
def test_separators_are_found(tmp_path, mark, name):
    path = written(tmp_path, pd.DataFrame({"a": [1.5, 2], "b": [3, 4]}), name, sep=mark)
    assert read_table(path).shape == (2, 2)


def test_a_file_without_a_header_has_numbered_columns(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("1,2\n3,4\n")
    assert list(read_table(path).columns) == ["x0", "x1"]
    assert len(read_table(path)) == 2


def test_parquet_and_npz_hold_the_same_as_csv(tmp_path):
    table = pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": [4.0, 5.0, 6.0]})
    table.to_parquet(tmp_path / "x.parquet")
    np.savez(tmp_path / "x.npz", **{name: table[name].to_numpy() for name in table})
    expected = read_file(written(tmp_path, table)).data
    for name in ("x.parquet", "x.npz"):
        found = read_file(tmp_path / name).data
        np.testing.assert_array_equal(found.values, expected.values)
        np.testing.assert_array_equal(found.observed, expected.observed)


@pytest.mark.parametrize(
    ("table", "columns", "words"),
    [
        (hourly(), Columns(("nope",)), "'nope' is not a column; columns are when, count"),
        (hourly(), Columns(time="count"), "occurs twice"),
        (hourly().assign(count="a"), None, "must have a column of numbers"),
        (hourly().assign(count=["1"] * 47 + ["x"]), Columns(("count",)), "hold numbers, got 'x' in"),
        (hourly().assign(who=None), Columns(group="who"), "must label every row, but row 0 has none"),
        (pd.DataFrame({"t": [0, 1, 1000], "x": [1, 2, 3]}), Columns(time="t"), "too many to be gaps"),
        (pd.DataFrame({"x": [1, 2]}), Columns(first="3"), "need a column of times"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_words(tmp_path, table, columns, words):
    with pytest.raises(ValueError, match=words):
        read_file(written(tmp_path, table), columns)


def test_a_file_without_an_observation_is_read_and_no_fit_takes_it(tmp_path):
    data = read_file(written(tmp_path, hourly().assign(count=np.nan))).data
    assert not data.observed.any()
    with pytest.raises(ValueError, match="at least one observation"):
        fo.fit(fo.models.PoissonHMM(2), data)


def test_irregular_times_are_taken_as_steps_and_said(tmp_path):
    table = pd.DataFrame({"t": [0.0, 1.0, 2.0, 3.7, 4.1], "x": [1, 2, 1, 4, 5]})
    found = read_file(written(tmp_path, table), Columns(time="t"))
    assert found.data.n_sites == 5
    assert any("not regular" in note for note in found.notes)


def test_a_long_irregular_index_is_not_taken_for_a_regular_one(tmp_path):
    """Past 50,000 steps a fraction of a step is small beside the place, and still no whole step."""
    times = np.arange(60_000.0)
    times[55_000] += 0.3
    found = read_file(written(tmp_path, pd.DataFrame({"t": times, "x": times % 5})), Columns(time="t"))
    assert any("not regular" in note for note in found.notes)


def test_times_with_zones_are_compared_as_moments(tmp_path):
    times = pd.date_range("2024-03-30 20:00", periods=12, freq="h", tz="Europe/Berlin")
    table = pd.DataFrame({"when": times.map(str), "x": range(12)})
    found = read_file(written(tmp_path, table), Columns(first="2024-03-30T22:00:00+00:00"))
    assert found.data.n_sites == 9
    assert found.data.weights.all()


def test_what_was_inserted_is_said_once_for_all_groups(tmp_path):
    table = pd.concat([hourly(10).drop(index=4).assign(who=name) for name in "abcde"])
    notes = read_file(written(tmp_path, table), Columns(group="who")).notes
    assert [note for note in notes if "inserted" in note] == [
        "inserted 5 missing steps to make 'when' regular (in 5 sequences)"
    ]


@pytest.mark.parametrize("form", ["%d/%m/%Y", "%d.%m.%Y", "%m/%d/%Y"])
def test_days_and_months_are_read_one_way_for_all_rows(tmp_path, form):
    times = pd.date_range("2024-01-01", periods=90)
    table = pd.DataFrame({"when": times.strftime(form), "x": range(90)})
    found = read_file(written(tmp_path, table))
    assert found.data.n_sites == 90
    assert found.data.values[0, :, 0].tolist() == list(range(90))  # noqa: PD011 - not a DataFrame


def test_dates_that_could_be_either_are_refused(tmp_path):
    table = pd.DataFrame({"when": ["03/02/2024", "01/02/2024", "02/01/2024"], "x": [1, 2, 3]})
    with pytest.raises(ValueError, match="with the day or the month first, such as '03/02/2024'"):
        read_file(written(tmp_path, table), Columns(time="when"))


@pytest.mark.parametrize("form", ["%d/%m/%Y", "%d-%m-%Y", "%d.%m.%Y", "%m/%d/%Y", "%Y-%m-%d"])
def test_bounds_are_read_like_the_dates_of_the_file(tmp_path, form):
    """2024 has 331 days from 5 February on, and 244 from 2 May on."""
    times = pd.date_range("2024-01-01", "2024-12-31")
    path = written(tmp_path, pd.DataFrame({"when": times.strftime(form), "x": range(366)}))
    bound = pd.Timestamp("2024-02-05").strftime(form)
    found = read_file(path, Columns(first=bound))
    assert found.data.n_sites == 331
    assert found.table["x"].iloc[0] == 35  # 31 of January and 4
    assert read_file(path, Columns(last=bound)).data.n_sites == 36
    assert not any("UTC" in note for note in found.notes)  # -2024 is no zone


def test_a_bound_that_could_be_either_is_refused_where_the_file_does_not_tell(tmp_path):
    with pytest.raises(ValueError, match="day or the month first; write it as 2024-01-02 or 2024-02-01"):
        read_file(written(tmp_path, hourly()), Columns(last="02/01/2024"))


@pytest.mark.parametrize(
    ("bound", "steps"),
    [
        ("2024-01-02", 48), ("2 Jan 2024", 48), ("2024-01-02 00:00", 25), ("2024-01-02 06:00", 31),
        ("2024-01-02T06", 31), ("2024-01", 744), ("Jan 2024", 744), ("2024", 1000),
    ],
)  # fmt: skip
def test_a_day_month_or_year_is_kept_to_its_end(tmp_path, bound, steps):
    table = pd.DataFrame({"when": pd.date_range("2024-01-01", periods=1000, freq="h"), "x": 1.0})
    assert read_file(written(tmp_path, table), Columns(last=bound)).data.n_sites == steps


@pytest.mark.parametrize(
    ("bound", "steps"),
    [
        *((month, 60) for month in (
            "2024-02", "2024/02", "02/2024", "2/2024", "2024.02", "02.2024", "2024 02", "Feb2024",
            "Feb. 2024", "2024Feb", "2024 Feb.", "feb 2024", "February, 2024", " 02/2024 ",
        )),
        *((quarter, 91) for quarter in ("2024Q1", "2024-Q1", "2024 q1", "Q1 2024", "Q1/2024", "1Q2024")),
        ("2024", 366), ("Feb 2, 2024", 33), ("20240202", 33), ("2024.02.02", 33), ("2024-02-02 12", 33),
    ],
)  # fmt: skip
def test_months_and_quarters_are_kept_to_their_end_however_they_are_written(tmp_path, bound, steps):
    days = pd.DataFrame({"when": pd.date_range("2024-01-01", periods=500), "x": range(500)})
    path = written(tmp_path, days)
    assert read_file(path, Columns(last=bound)).data.n_sites == steps
    if steps in (60, 91):
        assert read_file(path, Columns(first=bound)).data.n_sites == 500 - (31 if steps == 60 else 0)


@pytest.mark.parametrize(
    "bound", ["12:00", "10am", "3/4", "Mar 4", "now", "", " ", "nan", "NaT", "x", "1.5"]
)
def test_a_bound_that_names_no_day_or_period_is_refused(tmp_path, bound):
    words = f"must be like those of the file, such as 2024-01-01, got '{bound}'"
    for given in (Columns(first=bound), Columns(last=bound)):
        with pytest.raises(ValueError, match=words):
            read_file(written(tmp_path, hourly()), given)


@pytest.mark.parametrize("bound", ["", "nan", "inf", "2024-01-01"])
def test_a_bound_of_numbers_is_a_number(tmp_path, bound):
    table = pd.DataFrame({"time": range(7, 20), "x": np.arange(13.0) ** 2})
    with pytest.raises(ValueError, match=f"like those of the file, such as 7, got '{bound}'"):
        read_file(written(tmp_path, table), Columns(time="time", first=bound))


def test_a_bound_with_a_zone_needs_a_file_with_one(tmp_path):
    bound = Columns(first="2024-01-02T00:00+01:00")
    with pytest.raises(
        ValueError, match=r"no time zone, as those of the file, got '2024-01-02T00:00\+01:00'"
    ):
        read_file(written(tmp_path, hourly()), bound)
    zoned = hourly().assign(when=pd.date_range("2024-01-01", periods=48, freq="h", tz="UTC"))
    assert read_file(written(tmp_path, zoned), bound).data.n_sites == 25


def test_a_bound_against_the_order_of_day_and_month_in_the_file_is_refused(tmp_path):
    times = pd.date_range("2005-04-20", periods=60)
    ways = {"%d/%m/%Y": ("05/13/2005", "day"), "%m/%d/%Y": ("13/05/2005", "month")}
    for form, (bound, order) in ways.items():
        path = written(tmp_path, pd.DataFrame({"when": times.strftime(form), "x": range(60)}))
        words = (
            f"'{bound}' has no month 13, and the dates of the file have the {order} first; write it as "
        )
        with pytest.raises(ValueError, match=f"{words}2005-05-13 if"):
            read_file(path, Columns(first=bound))
    plain = written(tmp_path, pd.DataFrame({"when": times, "x": range(60)}))
    for bound in ("05/13/2005", "13/05/2005"):  # it can be read in one way only
        assert read_file(plain, Columns(first=bound)).data.n_sites == 37


@pytest.mark.parametrize(
    ("end", "zoned"),
    [("Z", True), ("+01:00", True), ("-0500", True), ("+02", True), (" UTC", True), ("", False)],
)
def test_zones_are_told_from_years(tmp_path, end, zoned):
    times = [f"2024-01-{day:02d} 10:00:00{end}" for day in range(1, 10)]
    notes = read_file(written(tmp_path, pd.DataFrame({"when": times, "x": range(9)}))).notes
    assert ("times of 'when' are shown in UTC" in notes) == zoned


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('"a;b",c\n1,2\n', ["a;b", "c"]), ('"a\tb",c\n1,2\n', ["a\tb", "c"]),
        ('x, "a;b"\n1,2\n', ["x", "a;b"]), ('"a,b";"c;d"\n1;2\n', ["a,b", "c;d"]),
        ('"say ""a;b""",c\n1,2\n', ['say "a;b"', "c"]), ('"a\n;b",c\n1,2\n', ["a\n;b", "c"]),
        ('5" pipe;c\n1;2\n', ['5" pipe', "c"]),
    ],
)  # fmt: skip
def test_separators_within_quotes_separate_nothing(tmp_path, text, names):
    (tmp_path / "x.csv").write_text(text)
    found = read_table(tmp_path / "x.csv")
    assert list(found.columns) == names
    assert found.to_numpy().tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("2019,2020,2021\n5,6,7\n", ["2019", "2020", "2021"], [[5, 6, 7]]),
        ("2021;2019\n5;6\n", ["2021", "2019"], [[5, 6]]),
        (",2019,2020\n0,5,6\n", ["Unnamed: 0", "2019", "2020"], [[0, 5, 6]]),
        ("1990,2020\n1987,2019\n", ["x0", "x1"], [[1990, 2020], [1987, 2019]]),  # rows of years
        ("2019,5,2021\n5,6,7\n", ["x0", "x1", "x2"], [[2019, 5, 2021], [5, 6, 7]]),
        ("2019,2020\n", ["x0", "x1"], [[2019, 2020]]),
    ],
)
def test_a_line_of_years_above_other_numbers_has_names(tmp_path, text, names, rows):
    (tmp_path / "x.csv").write_text(text)
    found = read_table(tmp_path / "x.csv")
    assert list(found.columns) == names
    assert found.to_numpy().tolist() == rows


def test_groups_are_told_apart_as_they_are_written(tmp_path):
    (tmp_path / "x.csv").write_text("id,x\n01,5\n01 ,6\n1,7\n1,8\n1,9\n")
    found = read_file(tmp_path / "x.csv", Columns(group="id")).data
    assert found.names.sequences == ("01", "1")
    assert found.lengths.tolist() == [2, 3]
    (tmp_path / "x.csv").write_text("id,x\n01,5\n,6\n")
    with pytest.raises(ValueError, match="group='id' must label every row, but row 1 has none"):
        read_file(tmp_path / "x.csv", Columns(group="id"))


def test_labels_that_look_a_little_like_dates_are_none(tmp_path):
    table = pd.DataFrame({"ages": ["1-5", "6-10", "11-12"], "version": ["1.2.3", "1.2.4", "1.3.0"]})
    found = read_file(written(tmp_path, table.assign(x=[3, 1, 2])))
    assert found.data.values[0, :, 0].tolist() == [3, 1, 2]  # noqa: PD011 - not a DataFrame


def test_a_separator_at_the_end_of_rows_moves_no_column(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2,\n3,4,\n")
    assert read_table(tmp_path / "x.csv")["a"].tolist() == [1, 3]


@pytest.mark.parametrize("text", ["a\n1,5\n2,5\n", "a,b\n10,1,5\n20,2,6\n"])
def test_rows_longer_than_the_header_are_refused(tmp_path, text):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(ValueError, match="rows with more cells than its first line"):
        read_file(tmp_path / "x.csv")


def test_empty_lines_are_missing_steps_but_not_at_the_end(tmp_path):
    (tmp_path / "x.csv").write_text("a\n1\n\n3\n5\n\n\n")
    found = read_file(tmp_path / "x.csv").data
    assert found.weights.tolist() == [1, 0, 1, 1]


@pytest.mark.parametrize("head", ["a;b\n", ""])
@pytest.mark.parametrize("decimal", [",", None])
def test_decimal_commas_are_read(tmp_path, head, decimal):
    (tmp_path / "x.csv").write_text(f"{head}1,5;2,0\n2,5;3,0\n3,0;4,5\n")
    found = read_file(tmp_path / "x.csv", Columns(decimal=decimal))
    assert found.data.values[0].tolist() == [[1.5, 2.0], [2.5, 3.0], [3.0, 4.5]]  # noqa: PD011
    assert ("numbers are read with decimal commas" in found.notes) == (decimal is None)


def test_commas_that_may_be_thousands_are_not_guessed_at_but_hinted_at(tmp_path):
    (tmp_path / "x.csv").write_text("a;b\n1,500;ok\n2,500;ok\n3,000;ok\n")
    with pytest.raises(ValueError, match="if that is a decimal comma, pass --decimal ,"):
        read_file(tmp_path / "x.csv")


@pytest.mark.parametrize("text", ["a,a\n1,2\n3,4\n", "a;b;a \n1;2;3\n"])
def test_two_columns_of_one_name_are_refused(tmp_path, text):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(ValueError, match="has two columns named 'a'"):
        read_file(tmp_path / "x.csv")


def test_a_column_has_one_meaning(tmp_path):
    path = written(tmp_path, hourly())
    for columns in (Columns(modelled=("count", "count")), Columns(modelled=("count",), group="count")):
        with pytest.raises(ValueError, match="'count' is named twice"):
            read_file(path, columns)


def test_arrays_that_would_have_one_name_are_refused(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.ones((5, 2)), x0=np.arange(5.0))
    with pytest.raises(ValueError, match="two columns named 'x0'"):
        read_file(tmp_path / "x.npz")


def test_dates_in_the_index_of_parquet_are_times(tmp_path):
    days = pd.to_datetime(["2024-01-05", "2024-01-01", "2024-01-02", "2024-01-03"])
    pd.DataFrame({"c": [5, 1, 2, 3]}, index=days).to_parquet(tmp_path / "x.parquet")
    found = read_file(tmp_path / "x.parquet").data
    assert np.where(found.observed, found.values, np.nan)[0, :, 0].tolist()[:3] == [1, 2, 3]
    assert found.sites["observed"].tolist() == [True, True, True, False, True]
    pd.DataFrame({"c": [5]}, index=pd.Index([1], name="c")).to_parquet(tmp_path / "y.parquet")
    with pytest.raises(ValueError, match="two columns named 'c', one of them its index"):
        read_file(tmp_path / "y.parquet")


@pytest.mark.parametrize(
    ("freq", "form"),
    [("MS", "%Y-%m-%d"), ("MS", "%Y-%m"), ("MS", "%b %Y"), ("ME", "%Y-%m-%d"), ("QS", "%Y-%m-%d"),
     ("YS", "%Y-%m-%d"), ("MS", "%Y-%m-15")],
)  # fmt: skip
def test_months_quarters_and_years_are_regular(tmp_path, freq, form):
    times = pd.date_range("2010-01-01", periods=30, freq=freq)
    lacking = [4, 11, 12]
    table = pd.DataFrame({"month": times.strftime(form), "x": np.arange(30.0)}).drop(lacking)
    found = read_file(written(tmp_path, table))
    assert "inserted 3 missing steps to make 'month' regular" in found.notes
    assert np.flatnonzero(~found.data.sites["observed"]).tolist() == lacking
    day = "15" if form.endswith("15") else "%d"
    assert found.data.names.sites == tuple(times.strftime(f"%Y-%m-{day}"))


@pytest.mark.parametrize(
    "codes",
    [
        [100 * year + month for year in (2015, 2016) for month in range(1, 13)],
        [100 * year + week for year in (2019, 2020) for week in range(1, 53)],
        [int(day) for day in pd.date_range("2020-01-20", periods=40).strftime("%Y%m%d")],
    ],
)
def test_dates_without_marks_have_no_gaps_between_months(tmp_path, codes):
    table = pd.DataFrame({"month": codes, "x": np.arange(len(codes)) % 5})
    found = read_file(written(tmp_path, table))
    assert found.data.n_sites == len(codes)
    assert any("looks like dates without separators" in note for note in found.notes)


def test_periods_are_times(tmp_path):
    months = pd.period_range("2024-01", periods=5, freq="M").delete(2)
    pd.DataFrame({"when": months, "x": [1, 2, 4, 5]}).to_parquet(tmp_path / "x.parquet")
    found = read_file(tmp_path / "x.parquet").data
    assert found.sites["observed"].tolist() == [True, True, False, True, True]


def test_one_column_with_commas_does_not_change_the_marks_of_others(tmp_path):
    (tmp_path / "x.tsv").write_text("tags\ty\n1,2\t1.5\n3\t2.5\n1,3\t0.5\n")
    assert read_file(tmp_path / "x.tsv").data.channels == ("y",)


def test_a_comma_after_a_zero_is_no_thousand(tmp_path):
    (tmp_path / "x.csv").write_text("a;b\n0,125;1\n0,250;2\n0,375;5\n")
    assert read_file(tmp_path / "x.csv").data.values[0, :, 0].tolist() == [0.125, 0.25, 0.375]  # noqa: PD011


@pytest.mark.parametrize(("cell", "said"), [("", "an empty cell in row 2"), ("inf", "'inf'")])
def test_a_time_that_is_none_is_refused(tmp_path, cell, said):
    (tmp_path / "x.csv").write_text(f"t,x\n1,5\n2,6\n{cell},7\n")
    with pytest.raises(ValueError, match=f"'t' must be a number or a date in every row, got {said}"):
        read_file(tmp_path / "x.csv", Columns(time="t"))


def test_a_column_that_numbers_rows_stays_when_it_is_all_there_is(tmp_path):
    assert read_file(written(tmp_path, pd.DataFrame({"id": [1, 2, 5]}))).data.n_sites == 3


def test_years_in_a_column_named_date_are_times_and_not_counts(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text("date,count\n" + "".join(f"{1900 + t},{t % 4}\n" for t in range(12)))
    found = read_file(path, Columns())
    assert found.data.channels == ("count",)
