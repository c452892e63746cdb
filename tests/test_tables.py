"""Data as people have them: X with lengths, tables of pandas, polars and Arrow; tables come back."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

import fitonce as fo

RNG = np.random.default_rng(5)
LENGTHS = [30, 12, 18]
HEAT = RNG.normal(size=60)
CALLS = RNG.poisson(np.exp(np.resize(np.repeat([0.5, 2.0], 6), 60) + 0.2 * HEAT)).astype(float)
DAYS = pd.date_range("2024-02-20", periods=60, freq="D", name="day")
PARTS = np.split(CALLS, np.cumsum(LENGTHS)[:-1])
MONTHS = pd.period_range("2020-01", periods=62, freq="M")
ZONE = "Europe/Berlin"
NEXT = pd.DatetimeIndex(["2024-04-20", "2024-04-21"], name="day")
QUICK = {"restarts": 1, "optima": 0}


@pytest.fixture(scope="module")
def several():
    return fo.fit(fo.models.PoissonHMM(2), CALLS, lengths=LENGTHS, **QUICK)


@pytest.fixture(scope="module")
def daily():
    return fo.fit(fo.models.PoissonHMM(2), pd.DataFrame({"calls": CALLS}, index=DAYS), **QUICK)


def test_rows_and_lengths_are_a_list_of_sequences(several):
    listed = fo.fit(fo.models.PoissonHMM(2), PARTS, **QUICK)
    assert several.value == listed.value
    assert several.data.lengths.tolist() == LENGTHS
    x, lengths = CALLS[:42, None], LENGTHS[:2]
    few = PARTS[:2]
    assert several.score(x, lengths=lengths) == several.score(few)
    np.testing.assert_array_equal(
        several.log_likelihood_of(x, lengths=lengths), several.log_likelihood_of(few)
    )
    for name in ("predict", "marginals"):
        call = getattr(fo, name)
        for one, two in zip(call(several, x, lengths=lengths), call(several, few), strict=True):
            np.testing.assert_array_equal(one, two)
    for one, two in zip(several.decode(x, lengths=lengths), several.decode(few), strict=True):
        np.testing.assert_array_equal(one, two)
    at = fo.fit_at(fo.models.PoissonHMM(2), CALLS, several.params, lengths=LENGTHS)
    assert at.value == pytest.approx(several.value, rel=1e-12)
    plan = fo.plan(fo.models.PoissonHMM(2), CALLS, lengths=LENGTHS)
    assert plan.sequences == 3


def test_select_takes_lengths():
    models = {"1": fo.models.PoissonHMM(1), "2": fo.models.PoissonHMM(2)}
    found = fo.select(models, CALLS, fo.folds.structures(3), lengths=LENGTHS, **QUICK)
    assert found.results["1"].fit.data.lengths.tolist() == LENGTHS


def test_covariates_are_split_as_the_rows_are():
    beside = fo.sequences(CALLS, lengths=LENGTHS, covariates={"heat": HEAT})
    table = pd.DataFrame({"calls": CALLS, "heat": HEAT}, index=DAYS)
    named = fo.sequences(table, lengths=LENGTHS, covariates="heat")
    listed = fo.sequences(PARTS, covariates=np.split(HEAT, np.cumsum(LENGTHS)[:-1]))
    for data in (beside, named):
        np.testing.assert_array_equal(data.covariates, listed.covariates)
        assert data.covariate_names == ("heat",)
    assert named.names.sites[30] == "2024-03-21"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: fo.sequences(CALLS, lengths=[30, 31]), "sum to the number of rows, 60, got 61"),
        (lambda: fo.sequences(CALLS, lengths=[]), "sum to the number of rows, 60, got 0"),
        (lambda: fo.sequences(CALLS, lengths=[60.5]), "lengths must be integers of at least 1"),
        (lambda: fo.sequences(CALLS, lengths="x"), "lengths must be integers of at least 1, got 'x'"),
        (lambda: fo.sequences(PARTS, lengths=LENGTHS), "one array or table with the rows of all"),
        (
            lambda: fo.sequences(fo.sequences(CALLS), lengths=[60]),
            "data has been read already; pass lengths",
        ),
        (
            lambda: fo.sequences(CALLS, lengths=LENGTHS, covariates=HEAT[:7]),
            "one row for each step: data have 60, they 7",
        ),
        (
            lambda: fo.sequences(pd.DataFrame({"x": CALLS, "g": 1}), lengths=[60], group="g"),
            "lengths and group both say where sequences end",
        ),
        (lambda: fo.sequences(CALLS, index="day"), "index='day' needs a table, got ndarray"),
        (
            lambda: fo.sequences(pd.DataFrame({"x": CALLS}), index="day"),
            r"index='day' is not a column; columns are \['x'\]",
        ),
        (
            lambda: fo.sequences(pd.DataFrame({"x": CALLS, "day": DAYS})),
            "column 'day' is datetime.*; index='day' would name the steps by it",
        ),
    ],
)
def test_bad_arguments_are_refused(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_lengths_of_nothing_are_refused(several):
    with pytest.raises(ValueError, match="lengths= needs the data that they are of"):
        several.decode(lengths=[3])
    with pytest.raises(TypeError, match=r"unknown argument 'lengths': use fo.fit\(..., lengths=\)"):
        fo.models.PoissonHMM(2, lengths=[3])


def test_tables_come_back_with_their_index(daily):
    posterior = daily.posterior()
    pd.testing.assert_index_equal(posterior.index, DAYS)
    assert posterior.columns.tolist() == [0, 1]
    np.testing.assert_array_equal(posterior, daily.objective.state_probabilities(daily.theta))
    (path,) = daily.decode()
    pd.testing.assert_index_equal(path.index, DAYS)
    assert path.name == "state"
    (other,) = daily.decode(pd.Series(CALLS[:5], index=list("abcde")))
    assert other.index.tolist() == list("abcde")
    (shares,) = fo.marginals(daily, pd.Series(CALLS[:5], index=list("abcde")))
    assert shares.index.tolist() == list("abcde")
    assert isinstance(daily.decode(CALLS)[0], np.ndarray)


def test_several_tables_come_back_as_one_with_their_names():
    table = pd.DataFrame({"who": np.repeat(["b", "a"], 30), "calls": CALLS}, index=DAYS)
    fit = fo.fit(fo.models.PoissonHMM(2), fo.sequences(table, group="who"), **QUICK)
    posterior = fit.posterior()
    assert posterior.index.names == ["sequence", "day"]
    assert posterior.loc["a"].index.equals(DAYS[30:])
    assert [len(path) for path in fit.decode()] == [30, 30]
    listed = fo.fit(fo.models.PoissonHMM(2), [table[["calls"]].iloc[:30].reset_index(drop=True)] * 2)
    assert listed.posterior().index[30] == (1, 0)


@pytest.mark.parametrize(
    ("index", "ahead"),
    [
        (DAYS, NEXT),
        (DAYS.delete(7), None),
        (pd.DatetimeIndex(DAYS.tolist(), name="day"), NEXT),
        (pd.DatetimeIndex(DAYS.tz_localize(ZONE).tolist()), NEXT.tz_localize(ZONE)),
        (MONTHS[:60].to_timestamp(), MONTHS[60:].to_timestamp()),
        (MONTHS[:60], MONTHS[60:]),
        (pd.RangeIndex(60), pd.Index([60, 61])),
        (pd.Index(np.arange(60) * 0.5, name="t"), pd.Index([30.0, 30.5], name="t")),
        (pd.Index([f"step {n}" for n in range(60)]), None),
    ],
    ids=["days", "gap", "plain", "zone", "firsts", "months", "range", "floats", "words"],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:dates of data lack")
def test_a_forecast_goes_on_where_the_index_ends(daily, index, ahead):
    data = pd.Series(CALLS[: len(index)], index=index, name="calls")
    fit = fo.fit_at(fo.models.PoissonHMM(2), data, daily.params)
    found = fit.forecast(2, n=10)
    if ahead is None:
        assert found.index is None
        assert found.to_dataframe().index.tolist() == [0, 1]
    else:
        shown = found.to_dataframe().index
        pd.testing.assert_index_equal(shown, ahead, exact="equiv", check_names=False)
        assert str(ahead[1])[:7] in repr(found)
    seen, mean = found.plot().lines[:2]
    assert len(seen.get_xdata()) == len(index)
    step = mean.get_xdata()[0] - seen.get_xdata()[-1]
    usual = seen.get_xdata()[-1] - seen.get_xdata()[-2]
    assert step in (usual, np.timedelta64(30, "D"), np.timedelta64(31, "D"))  # of months


def test_an_index_is_saved_with_the_fit(daily, tmp_path):
    found = fo.load(daily.save(tmp_path / "fit.json"))
    pd.testing.assert_frame_equal(found.posterior(), daily.posterior())
    pd.testing.assert_index_equal(found.forecast(3, n=5).index, daily.forecast(3, n=5).index)


def _tables():
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    columns = {"day": DAYS.to_pydatetime().tolist(), "calls": [None, *CALLS[1:].astype(int)]}
    columns = {**columns, "heat": HEAT.tolist()}
    plain = pd.DataFrame({"calls": [np.nan, *CALLS[1:]], "heat": HEAT}, index=DAYS)
    return polars.DataFrame(columns), pyarrow.table(columns), pyarrow.Table.from_pandas(plain)


def test_polars_and_arrow_are_read_like_pandas():
    plain = pd.DataFrame({"calls": [np.nan, *CALLS[1:]], "heat": HEAT}, index=DAYS)
    expected = fo.sequences(plain, covariates=["heat"])
    frame, table, with_index = _tables()
    for data in (
        fo.sequences(frame, index="day", covariates=["heat"]),
        fo.sequences(table, index="day", covariates=["heat"]),
        fo.sequences(with_index, covariates=["heat"]),
        fo.sequences(frame.select("day", "calls"), index="day", covariates=frame.select("heat")),
    ):
        np.testing.assert_array_equal(data.values, expected.values)
        np.testing.assert_array_equal(data.observed, expected.observed)
        np.testing.assert_array_equal(data.covariates, expected.covariates)
        assert data.covariate_names == ("heat",)
        assert data.channels == ("calls",)
        assert data.names.sites == expected.names.sites
        assert data.indices[0].equals(DAYS)


def test_columns_groups_and_lists_of_polars():
    polars = pytest.importorskip("polars")
    series = polars.Series("calls", CALLS)
    np.testing.assert_array_equal(fo.sequences(series).shown_values, CALLS)
    assert fo.sequences(series).channels == ("calls",)
    frame = polars.DataFrame({"calls": CALLS, "who": ["b"] * 30 + ["a"] * 30})
    assert fo.sequences(frame, group="who").names.sequences == ("b", "a")
    one = frame.select("calls")
    assert fo.sequences([one, one]).n_sequences == 2
    assert fo.sequences({"x": one, "y": one}).names.sequences == ("x", "y")
    assert fo.sequences(one, lengths=LENGTHS).lengths.tolist() == LENGTHS
    odd = polars.DataFrame({"yes": [True, None, False]}).with_columns(
        polars.Series("money", ["1.50", "2.25", "3"]).cast(polars.Decimal(10, 2))
    )
    read = fo.sequences(odd)
    values = read.values  # noqa: PD011 - not of pandas
    assert values[0].tolist() == [[1.0, 1.5], [0.0, 2.25], [0.0, 3.0]]
    assert read.observed[0, 1].tolist() == [False, True]


def test_without_pyarrow_there_is_a_sentence(monkeypatch):
    polars = pytest.importorskip("polars")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match="to read a polars DataFrame, install pyarrow"):
        fo.sequences(polars.DataFrame({"x": CALLS}))
