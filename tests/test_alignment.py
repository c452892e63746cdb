"""What comes beside data is put into their order by its own index, or refused by name."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fitonce as fo
from fitonce.cli.app import app
from fitonce.data.alignment import aligned

RNG = np.random.default_rng(0)
N, H = 60, 6
DAYS = pd.date_range("2024-01-01", periods=N + H, name="day")
TABLE = pd.DataFrame({"u": RNG.normal(size=N + H), "v": RNG.normal(size=N + H)}, DAYS)
Y = pd.Series(2.0 * TABLE["u"] - TABLE["v"] + 0.1 * RNG.normal(size=N + H), DAYS, name="y")[:N]
PAST, AHEAD = TABLE[:N], TABLE[N:]


def shuffled(table):
    return table.iloc[np.random.default_rng(1).permutation(len(table))]


def reversed_by_index(column):
    """In the other order, unless the index only counts rows."""
    return column if isinstance(column.index, pd.RangeIndex) else column.iloc[::-1]


ORDERS = {
    "same": lambda table: table,
    "reversed": lambda table: table[::-1],
    "shuffled": shuffled,
    "longer": lambda table: shuffled(TABLE),
    "periods": lambda table: table[::-1].set_axis(table.index[::-1].to_period("D")),
    "text": lambda table: table[::-1].set_axis(table.index[::-1].strftime("%Y-%m-%d")),
    "seconds": lambda table: table[::-1].set_axis(table.index[::-1].as_unit("s")),
    "no index": lambda table: table.reset_index(drop=True),
}
REFUSED = {
    "twice": (lambda table: pd.concat([table[:1], table[:-1]]), "occurs twice in covariates"),
    "other year": (
        lambda table: table.shift(-366, freq="D"),
        r"must have rows for all of the .*, got 202",
    ),
    "one lacks": (lambda table: table.drop(table.index[3]), "without 2024-0[13]-04"),
    "zone": (lambda table: table.tz_localize("Asia/Tokyo"), "with a time zone, and the .* without"),
    "names": (lambda table: table.set_axis([f"s{k}" for k in range(len(table))]), "got s0, ..., s"),
}
WAYS = {
    "table": lambda table: table,
    "dict": lambda table: {"u": table["u"], "v": table["v"]},
    "one of a dict": lambda table: {"u": table["u"], "v": reversed_by_index(table["v"])},
    "list": lambda table: [table],
    "column": lambda table: table.reset_index(names=table.index.name or "when"),
}


def read(given):
    return fo.sequences(Y, covariates=given).covariates[0]


def split(given):
    given = given[0] if isinstance(given, list) else given
    return np.concatenate(
        [
            part[:n]
            for part, n in zip(
                fo.sequences(Y, lengths=[20, 40], covariates=given).covariates, (20, 40), strict=True
            )
        ]
    )


MODELS = {
    "state space": fo.models.Structural("fixed", exog=["u", "v"]),
    "chain": fo.models.HMM(1, fo.models.LinearRegression(["u", "v"])),
}


@lru_cache
def fitted(name):
    return fo.fit(MODELS[name], fo.sequences(Y, covariates=PAST))


def ahead(name):
    def found(given):
        return fitted(name).forecast(H, n=20, covariates=given).samples

    return found


DOORS = {
    "sequences": (read, PAST),
    "lengths": (split, PAST),
    "state space": (ahead("state space"), AHEAD),
    "chain": (ahead("chain"), AHEAD),
}


@pytest.mark.parametrize("door", list(DOORS))
@pytest.mark.parametrize("order", list(ORDERS))
@pytest.mark.parametrize("way", list(WAYS))
def test_covariates_are_put_into_the_order_of_the_data(door, order, way):
    take, table = DOORS[door]
    given = ORDERS[order](table)
    if way == "column" and order == "no index":
        given = given.assign(day=table.index).set_index("day")[::-1]
    expected = take(
        table.to_numpy() if door in ("sequences", "lengths") else {c: table[c].to_numpy() for c in table}
    )
    np.testing.assert_array_equal(take(WAYS[way](given)), expected)


@pytest.mark.parametrize("door", list(DOORS))
def test_dates_in_a_column_come_before_numbers_of_rows(door):
    take, table = DOORS[door]
    dated = table.rename_axis("when").reset_index()
    np.testing.assert_array_equal(take(dated[::-1]), take(dated))


@pytest.mark.parametrize("door", list(DOORS))
@pytest.mark.parametrize("fault", list(REFUSED))
@pytest.mark.parametrize("way", list(WAYS))
def test_covariates_of_other_steps_are_refused_by_name(door, fault, way):
    change, sentence = REFUSED[fault]
    take, table = DOORS[door]
    if way == "column" and fault == "names":  # which is no column of dates
        sentence = "covariates must be numeric, but 'when' is"
    if way in ("dict", "one of a dict"):
        sentence = sentence.replace("in covariates", r"in covariates\['u'\]")
    with pytest.raises(ValueError, match=sentence):
        take(WAYS[way](change(table)))


def test_forecasts_are_right_whatever_the_order_of_the_file(tmp_path):
    model = fo.models.Structural("fixed", exog=["u", "v"])
    path = tmp_path / "fit.json"
    fo.fit(model, fo.sequences(Y, covariates=PAST)).save(path)
    printed = {}
    for order in ("same", "reversed", "shuffled", "longer"):
        file = tmp_path / f"{order}.csv"
        ORDERS[order](AHEAD).to_csv(file)
        found = CliRunner().invoke(
            app, ["forecast", str(path), "--steps", "6", "--covariates", str(file), "--csv"]
        )
        assert found.exit_code == 0, found.output
        printed[order] = found.output
    assert len(set(printed.values())) == 1
    assert "2024-03-01" in printed["same"]
    AHEAD.shift(-366, freq="D").to_csv(tmp_path / "other.csv")
    found = CliRunner().invoke(
        app, ["forecast", str(path), "--steps", "6", "--covariates", str(tmp_path / "other.csv")]
    )
    assert found.exit_code != 0
    words = " ".join(found.output.split())
    assert (
        "all of the 6 steps of the forecast (2024-03-01 to 2024-03-06), got 2023-03-01 to 2023" in words
    )


@pytest.mark.parametrize("index", [DAYS[:N], None])
def test_covariates_that_are_called_alike_are_refused(index):
    """The first of both was taken, or the call ended in "'DataFrame' object has no attribute"."""
    y = Y.to_numpy() if index is None else Y
    alike = PAST.set_axis(["u", "u"], axis=1)
    alike = alike.reset_index(drop=True) if index is None else alike
    for given in (alike, [alike]):
        with pytest.raises(ValueError, match="called differently, but 'u' occurs twice in covariates"):
            fo.sequences(y, covariates=given)
    whole = alike.assign(y=Y.to_numpy())
    with pytest.raises(ValueError, match="called differently, but 'u' occurs twice in data"):
        fo.sequences(whole, covariates=["u"])
    with pytest.raises(ValueError, match="called differently, but 'u' occurs twice in covariates"):
        fitted("state space").forecast(H, covariates=AHEAD.set_axis(["u", "u"], axis=1))
    with pytest.raises(ValueError, match="called differently, but 'v' occurs twice in data"):
        fitted("chain").score(pd.concat([PAST.assign(y=Y), PAST["v"]], axis=1))


def test_irregular_dates_are_followed_by_later_ones():
    keep = np.array([0, 1, 5, 9, 10, 17, 19, 22, 26, 30, 38, 41, 47, 53, 56, 59])
    fit = fo.fit(MODELS["chain"], fo.sequences(Y.iloc[keep], covariates=PAST.iloc[keep]))
    right = fit.forecast(H, n=5, covariates={name: AHEAD[name].to_numpy() for name in AHEAD})
    np.testing.assert_array_equal(fit.forecast(H, n=5, covariates=AHEAD).samples, right.samples)
    with pytest.raises(ValueError, match="dates of covariates must increase"):
        fit.forecast(H, covariates=AHEAD[::-1])
    with pytest.raises(
        ValueError, match=r"of steps after 2024-0.*, the last of the data, got 2024-01-01 to"
    ):
        fit.forecast(H, covariates=PAST[:H])


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ", "objects"])
def test_forecasts_after_dates_that_are_text_find_their_covariates(form):
    """Covariates of another year were taken, by position, and shuffled ones refused."""

    def written(index):
        return pd.Index(index.date, dtype=object) if form == "objects" else index.strftime(form)

    past = PAST.set_axis(written(PAST.index))
    data = fo.sequences(Y.set_axis(past.index), covariates=past)
    fit = fo.fit_at(fitted("state space").model, data, fitted("state space").params)
    expected = fit.forecast(H, n=5, covariates={name: AHEAD[name].to_numpy() for name in AHEAD}).samples
    for one in (AHEAD, shuffled(AHEAD), shuffled(TABLE)):
        given = one.set_axis(written(one.index))
        np.testing.assert_array_equal(fit.forecast(H, n=5, covariates=given).samples, expected)
    later = AHEAD.shift(400, freq="D")
    with pytest.raises(ValueError, match="must have rows for all of the 6 steps of the forecast"):
        fit.forecast(H, covariates=later.set_axis(written(later.index)))


def test_rows_are_found_by_their_numbers_where_the_data_have_such():
    rows = TABLE.reset_index(drop=True)
    data = fo.sequences(Y.reset_index(drop=True), covariates=rows[:N][::-1])
    np.testing.assert_array_equal(data.covariates[0], PAST)
    fit = fo.fit(MODELS["state space"], data)
    expected = fit.forecast(H, n=5, covariates=rows[N:]).samples
    np.testing.assert_array_equal(fit.forecast(H, n=5, covariates=rows[N:][::-1]).samples, expected)
    np.testing.assert_array_equal(fit.forecast(H, n=5, covariates=rows).samples, expected)
    with pytest.raises(
        ValueError, match=r"all of the 6 steps of the forecast \(60 to 65\), got 10 to 15"
    ):
        fit.forecast(H, covariates=rows[10:16])


def test_arrays_have_no_index_so_that_rows_beside_them_must_be_in_order():
    y = Y.to_numpy()
    np.testing.assert_array_equal(fo.sequences(y, covariates=PAST).covariates[0], PAST)
    with pytest.raises(ValueError, match="dates of covariates must increase"):
        fo.sequences(y, covariates=PAST[::-1])
    with pytest.raises(ValueError, match="rows in order, as the data have no index to find"):
        fo.sequences(y, covariates=shuffled(PAST.reset_index(drop=True)))


def test_each_sequence_is_aligned_by_its_own_index():
    parts = [Y[:25], Y[25:]]
    data = fo.sequences(parts, covariates={"u": [PAST["u"][:25][::-1], shuffled(PAST["u"][25:])]})
    np.testing.assert_array_equal(data.covariates[0, :25, 0], PAST["u"][:25])
    np.testing.assert_array_equal(data.covariates[1, :35, 0], PAST["u"][25:])
    with pytest.raises(ValueError, match="all of the data, sequence 1,"):
        fo.sequences(parts, covariates=[PAST[:25], PAST[:35]])


def test_polars_frames_are_found_by_their_dates():
    polars = pytest.importorskip("polars")
    frame = polars.from_pandas(PAST[::-1].reset_index())
    np.testing.assert_array_equal(read(frame), PAST)


def test_numbers_of_files_are_found_though_they_are_rounded():
    seconds = pd.Index(np.arange(30) * 0.1, name="second")
    given = pd.Series(np.arange(30.0), pd.Index([round(k / 10, 1) for k in range(30)], name="second"))
    np.testing.assert_array_equal(aligned(given[::-1], seconds, "covariates"), np.arange(30.0))


def forecast_by_command(folder, fitted, ahead):
    """The command's answer where a fit of the first table is forecast with the second beside it."""
    fitted.to_csv(folder / "past.csv", index=False)
    ahead.to_csv(folder / "ahead.csv", index=False)
    words = [
        "past.csv",
        "--model",
        "structural",
        "--columns",
        "y",
        "--covariates",
        "u",
        "--save",
        "fit.json",
    ]
    words = [str(folder / word) if "." in word else word for word in words]
    made = CliRunner().invoke(app, ["fit", *words, "--restarts", "1", "--optima", "0", "--force"])
    assert made.exit_code == 0, made.output
    beside = ["--covariates", str(folder / "ahead.csv")]
    done = CliRunner().invoke(
        app, ["forecast", str(folder / "fit.json"), "--steps", "6", "--csv", *beside]
    )
    return done.exit_code, " ".join(done.stdout.split()), " ".join(done.stderr.split())


def in_files(zone, days, table):
    return table.reset_index(drop=True).assign(when=days.strftime(f"%Y-%m-%dT%H:%M:%S{zone}"))


@pytest.mark.parametrize("past", ["", "+00:00", "+02:00"])
@pytest.mark.parametrize("ahead", ["", "+00:00", "-03:00"])
def test_the_command_compares_times_with_zones_as_python_does(tmp_path, past, ahead):
    """A file with zones beside one without was taken, in both directions."""
    fitted = in_files(past, DAYS[:N], PAST[["u"]].assign(y=Y.to_numpy()))
    hours = {"": 0, "+00:00": 0, "+02:00": 2, "-03:00": -3}  # of the clock, when it is noon in UTC
    days = (
        AHEAD.index + pd.Timedelta(hours=hours[ahead] - hours[past]) if past and ahead else AHEAD.index
    )
    status, rows, said = forecast_by_command(tmp_path, fitted, in_files(ahead, days, AHEAD[["u"]]))
    if bool(past) == bool(ahead):
        assert status == 0, said
        assert said == ""
        shuffled_too = forecast_by_command(tmp_path, fitted, in_files(ahead, days, AHEAD[["u"]])[::-1])
        assert shuffled_too[1] == rows
        return
    steps = "the 6 steps of the forecast"
    have, lack = (steps, "covariates") if past else ("covariates", steps)
    assert status == 2
    assert f"{have} has times with a time zone, and {lack} without" in said


def test_covariates_of_a_forecast_without_dates_are_said_to_go_by_position(tmp_path):
    fitted = PAST[["u"]].assign(y=Y.to_numpy()).reset_index()
    dated = forecast_by_command(tmp_path, fitted, AHEAD[["u"]].reset_index())
    assert dated[0] == 0, dated
    assert dated[2] == ""
    status, rows, said = forecast_by_command(tmp_path, fitted, AHEAD[["u"]])
    assert (status, rows) == dated[:2]
    assert said == (
        "fitonce: ahead.csv has no column of dates: its rows are taken for the steps in order"
    )
    assert forecast_by_command(tmp_path, fitted.drop(columns="day"), AHEAD[["u"]])[2] == ""


def test_covariates_of_a_forecast_that_are_text_are_said_to_be_no_numbers(tmp_path):
    """The column was said to be lacking."""
    fitted = PAST[["u"]].assign(y=Y.to_numpy()).reset_index()
    words = AHEAD[["u"]].astype(str).replace(r"$", " degrees", regex=True)
    status, _, said = forecast_by_command(tmp_path, fitted, words.reset_index())
    assert status == 2
    assert said.startswith("fitonce: covariates must be numeric, but 'u' is ")
    status, _, said = forecast_by_command(
        tmp_path, fitted, AHEAD[["u"]].assign(note="fine").reset_index()
    )
    assert (status, said) == (0, "")
