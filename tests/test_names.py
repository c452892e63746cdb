"""What users call their sequences and steps comes back in tables, files and reports."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import fitonce as fo
from fitonce.data.places import Names
from fitonce.data.reading import Columns, read_file
from fitonce.results.packing import pack_words
from fitonce.results.report.along import spans


def daily(n, start="2024-02-27"):
    counts = np.random.default_rng(n).poisson(np.resize(np.repeat([2.0, 9.0], 5), n))
    return pd.DataFrame({"count": counts}, index=pd.date_range(start, periods=n))


@pytest.mark.parametrize(
    ("index", "first_two"),
    [
        (pd.date_range("2024-02-28", periods=4), ("2024-02-28", "2024-02-29")),
        (
            pd.date_range("2024-02-28 12:30", periods=4, freq="h"),
            ("2024-02-28 12:30", "2024-02-28 13:30"),
        ),
        (
            pd.date_range("2024-02-28", periods=4, freq="s"),
            ("2024-02-28 00:00:00", "2024-02-28 00:00:01"),
        ),
        (pd.period_range("2024-01", periods=4, freq="M"), ("2024-01", "2024-02")),
        (pd.Index([1990, 1991, 1992, 1993], name="year"), ("year 1990", "year 1991")),
        (pd.Index([0.1, 0.2, 0.3, 0.4], name="t"), ("t 0.1", "t 0.2")),
        (pd.Index(list("abcd")), ("a", "b")),
    ],
)  # fmt: skip
def test_an_index_names_the_steps(index, first_two):
    data = fo.sequences(pd.Series([1.0, 2.0, 3.0, 4.0], index=index))
    assert data.names.sites[:2] == first_two
    assert tuple(data.sites["place"][:2]) == first_two


def test_an_hour_that_autumn_has_twice_has_two_names():
    hours = pd.date_range("2024-10-27", periods=5, freq="h", tz="Europe/Berlin")
    names = fo.sequences(pd.Series(np.arange(5.0), index=hours)).names.sites
    assert names[2:4] == ("2024-10-27 02:00+0200", "2024-10-27 02:00+0100")


def test_long_numbers_keep_their_digits():
    index = pd.Index([1704067200001, 1704067200002], name="ms")
    names = fo.sequences(pd.Series([1.0, 2.0], index=index)).names.sites
    assert names == ("ms 1704067200001", "ms 1704067200002")


@pytest.mark.parametrize(
    "data",
    [
        np.arange(4.0),
        pd.Series([1.0, 2.0, 3.0]),
        pd.DataFrame({"x": np.arange(9.0)}).iloc[[2, 5, 7]],  # numbers left over from a larger table
        [pd.Series([1.0, 2.0], index=list("ab")), np.arange(2.0)],
    ],
)
def test_what_has_no_names_has_numbers(data):
    found = fo.sequences(data)
    assert found.names is None
    assert "place" not in found.sites


def test_groups_and_keys_name_the_sequences():
    table = pd.DataFrame({"who": ["b", "b", "a"], "x": [1.0, 2.0, 3.0]})
    grouped = fo.sequences(table, group="who")
    parts = {name: part[["x"]] for name, part in table.groupby("who", sort=False)}
    by_key = fo.sequences(parts)
    for data in (grouped, by_key):
        assert data.names.sequences == ("b", "a")
        assert data.sites["place"].tolist() == ["b, time 0", "b, time 1", "a, time 0"]
    np.testing.assert_array_equal(grouped.values, by_key.values)
    listed = fo.sequences([daily(2), daily(1)])
    assert listed.sites["place"].tolist() == [
        "sequence 0, 2024-02-27", "sequence 0, 2024-02-28", "sequence 1, 2024-02-27",
    ]  # fmt: skip


def test_a_file_names_steps_that_it_lacks_too(tmp_path):
    times = pd.date_range("2024-01-01", periods=9, freq="6h").delete([3, 4])
    pd.DataFrame({"when": times, "x": range(7)}).to_csv(tmp_path / "x.csv", index=False)
    found = read_file(tmp_path / "x.csv").data
    assert found.names.sites[2:6] == (
        "2024-01-01 12:00", "2024-01-01 18:00", "2024-01-02 00:00", "2024-01-02 06:00",
    )  # fmt: skip
    assert found.sites["observed"].tolist() == [True] * 3 + [False] * 2 + [True] * 4


def test_a_column_called_by_a_time_that_rises_in_each_group_is_the_time(tmp_path):
    table = pd.DataFrame({"who": list("aaabb"), "Week": [1, 2, 4, 1, 2], "x": [5.0, 6, 7, 8, 9]})
    table.to_csv(tmp_path / "x.csv", index=False)
    found = read_file(tmp_path / "x.csv", Columns(group="who"))
    assert "'Week' is read as the time of each row" in found.notes
    assert found.data.channels == ("x",)
    assert found.data.sites["place"].tolist() == [
        "a, Week 1", "a, Week 2", "a, Week 3", "a, Week 4", "b, Week 1", "b, Week 2",
    ]  # fmt: skip
    table.assign(Week=[1, 2, 2, 1, 2]).to_csv(tmp_path / "x.csv", index=False)
    assert read_file(tmp_path / "x.csv", Columns(group="who")).data.channels == ("Week", "x")
    named = read_file(tmp_path / "x.csv", Columns(group="who", modelled=("Week",)))
    assert named.data.channels == ("Week",)


@pytest.fixture(scope="module")
def cv():
    fit = fo.fit(fo.models.PoissonHMM(2), {"Ann": daily(30), "Bob </script>": daily(20)}, restarts=1)
    return fo.cross_validate(fit, fo.folds.blocks(fit.data, percent=10, n=3), method="ij")


def test_results_say_the_places(cv, tmp_path):
    rows = cv.to_dataframe("pointwise")
    expected = cv.fit.data.sites["place"].to_numpy()[rows["site"]]
    assert rows["place"].tolist() == expected.tolist()
    loaded = fo.load(cv.save(tmp_path / "cv.json"))
    pd.testing.assert_frame_equal(loaded.to_dataframe("pointwise"), rows)
    assert loaded.save(tmp_path / "again.json").read_bytes() == (tmp_path / "cv.json").read_bytes()


def test_influence_says_the_places(cv):
    found = fo.influence(cv.fit)
    assert found.table["place"].tolist() == cv.fit.data.sites["place"].tolist()
    assert found.top(1)["place"].iloc[0] in repr(found)
    assert "place" not in found.names


def test_a_report_says_what_folds_scored(cv, tmp_path):
    said = spans(cv, cv.summary)
    for fold, rows in cv.to_dataframe("pointwise").groupby("fold"):
        assert said[fold] == f"{rows['place'].iloc[0]} to {rows['place'].iloc[-1]}"
    page = cv.to_html(tmp_path / "cv.html", influence=fo.influence(cv.fit).table).read_text()
    assert said[0].replace("<", "&lt;").replace(">", "&gt;") in page
    assert page.count("</script>") == 2  # a name ends no script


def test_scattered_points_are_counted(cv):
    found = fo.cross_validate(cv.fit, fo.folds.iid(cv.fit.data, 10, 3), method="none")
    said = spans(found, found.summary)
    assert all(text.startswith("5 points from ") for text in said)


def test_names_that_are_not_as_many_as_sites_are_damage(cv, tmp_path):
    path = cv.save(tmp_path / "cv.json")
    document = json.loads(path.read_text())
    document["fit"]["places"]["sites"] = pack_words(["one"])
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match="damaged result: its names do not match"):
        fo.load(path)


def test_names_cannot_command_a_terminal_or_turn_text_around():
    names = Names(("a\x1b[31mred", "plain"), ("x\u202ey", "\x07", "é 日本"))
    assert names.sequences == ("a\ufffd[31mred", "plain")
    assert names.sites == ("x\ufffdy", "\ufffd", "é 日本")
