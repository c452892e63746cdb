"""Covariates: how they are read, and what regressions on them do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fitonce as fo
from fitonce.cli import app

RNG = np.random.default_rng(0)
HEAT = RNG.normal(size=60)
COUNTS = RNG.poisson(np.exp(np.repeat([0.5, 2.0], 30) + 0.4 * HEAT))
TABLE = pd.DataFrame({"calls": COUNTS, "heat": HEAT, "day": np.repeat(["a", "b", "c"], 20)})


def test_columns_and_arrays_are_read_alike():
    by_name = fo.sequences(TABLE[["calls", "heat"]], covariates="heat")
    by_array = fo.sequences(pd.DataFrame(TABLE["calls"]), covariates={"heat": HEAT})
    assert by_name.covariate_names == by_array.covariate_names == ("heat",)
    np.testing.assert_array_equal(by_name.covariates, by_array.covariates)
    assert by_name.channels == ("calls",)
    assert by_name.fingerprint == by_array.fingerprint
    assert by_name.fingerprint == fo.sequences(TABLE["calls"]).fingerprint  # they can be compared
    assert "1 covariate" in repr(by_name)


def test_groups_and_lists_have_their_own():
    by_group = fo.sequences(TABLE, group="day", covariates=["heat"])
    parts = [slice(0, 20), slice(20, 40), slice(40, 60)]
    by_list = fo.sequences([COUNTS[p] for p in parts], covariates=[HEAT[p] for p in parts])
    np.testing.assert_array_equal(by_group.covariates, by_list.covariates)
    assert by_list.covariate_names == ("u0",)
    by_name = fo.sequences([COUNTS[p] for p in parts], covariates={"heat": [HEAT[p] for p in parts]})
    np.testing.assert_array_equal(by_group.covariates, by_name.covariates)
    assert by_name.covariate_names == ("heat",)
    alone = fo.sequences([COUNTS], covariates={"heat": [HEAT]})
    np.testing.assert_array_equal(
        alone.covariates, fo.sequences(COUNTS, covariates={"heat": HEAT}).covariates
    )


def test_sequences_of_unequal_length_are_fitted_by_every_kernel():
    parts = [slice(0, 25), slice(25, 60)]
    data = fo.sequences([COUNTS[p].astype(float) for p in parts], covariates=[HEAT[p] for p in parts])
    model = fo.models.PoissonHMM(2, covariates=["u0"])
    fit = fo.fit(model, data)
    other = fo.fit_at(model, data, fit.params, kernel="scan")
    assert fit.value == pytest.approx(other.value, rel=1e-12)
    np.testing.assert_allclose(fit.H, other.H, rtol=1e-8, atol=1e-9)


def test_units_of_covariates_do_not_matter():
    fits = [
        fo.fit(
            fo.models.PoissonHMM(2, covariates=["u0"]),
            fo.sequences(COUNTS.astype(float), covariates=scale * HEAT),
        )
        for scale in (1.0, 1e6, 1e-6)
    ]
    for fit, scale in zip(fits, (1.0, 1e6, 1e-6), strict=True):
        assert fit.ok, fit.status
        assert fit.value == pytest.approx(fits[0].value, abs=1e-8)
        found = scale * fit.params["coefficients"]
        np.testing.assert_allclose(found, fits[0].params["coefficients"], rtol=1e-6)


def test_a_regression_without_covariates_is_the_plain_model():
    x = COUNTS.astype(float)
    plain, regression = fo.models.PoissonHMM(2), fo.models.HMM(2, fo.models.PoissonRegression())
    one, other = fo.fit(plain, x), fo.fit(regression, x)
    assert one.value == pytest.approx(other.value, rel=1e-10)
    folds = fo.folds.blocks(x, percent=10, n=10, seed=0)
    losses = [fo.cross_validate(fit, folds, method="exact").estimate for fit in (one, other)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-7)


@pytest.mark.parametrize(
    ("data", "lengths", "covariates"),
    [
        ([COUNTS], None, {"heat": [HEAT], "half": HEAT / 2}),
        ([COUNTS], None, {"heat": [HEAT[:, None]], "half": list(HEAT / 2)}),
        (COUNTS, [60], {"heat": [HEAT], "half": [HEAT / 2]}),
        (COUNTS, [20, 40], {"heat": [HEAT[:20], HEAT[20:]], "half": HEAT / 2}),
        (COUNTS, [20, 40], {"heat": HEAT, "half": [HEAT[:20] / 2, HEAT[20:] / 2]}),
        (COUNTS, [20, 40], {"heat": [HEAT[:20], HEAT[20:]], "half": [HEAT[:20] / 2, HEAT[20:] / 2]}),
    ],
)
def test_lists_and_arrays_by_name_are_read_as_they_are_meant(data, lengths, covariates):
    expected = fo.sequences(COUNTS, lengths=lengths, covariates={"heat": HEAT, "half": HEAT / 2})
    found = fo.sequences(data, lengths=lengths, covariates=covariates)
    assert found.covariate_names == expected.covariate_names
    np.testing.assert_array_equal(found.covariates, expected.covariates)


def test_lists_by_name_have_an_array_for_each_of_the_lengths():
    with pytest.raises(ValueError, match="for each of the 2 sequences, got 1 array"):
        fo.sequences(COUNTS, lengths=[20, 40], covariates={"heat": [HEAT]})


def test_one_further_step_takes_one_number():
    data = fo.sequences(0.5 * HEAT + RNG.normal(size=60), covariates={"heat": HEAT})
    fit = fo.fit(fo.models.Structural(exog="heat"), data, restarts=1)
    expected = fit.forecast(1, n=10, covariates={"heat": [2.0]}).mean
    for given in ({"heat": 2.0}, [2.0]):
        np.testing.assert_array_equal(fit.forecast(1, n=10, covariates=given).mean, expected)
    with pytest.raises(ValueError, match=r"covariates\['heat'\] must be 3 numbers, got 2"):
        fit.forecast(3, covariates={"heat": 2.0})


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: fo.models.PoissonHMM(2, covariates=["u0"]), "covariate 'u0' is constant"),
        (lambda: fo.models.GaussianHMM(2, covariates="u0"), "must be a list of names, got 'u0'"),
        (lambda: fo.models.HMM(2, fo.models.BinomialRegression(trials="u0")), "of at least 1, got 0.5"),
    ],
)
def test_models_refuse_covariates_that_make_no_sense(make, sentence):
    data = fo.sequences(np.minimum(COUNTS, 1).astype(float), covariates=np.full(60, 0.5))
    with pytest.raises(ValueError, match=sentence):
        fo.fit(make(), data)


@pytest.mark.parametrize(
    ("data", "covariates", "sentence"),
    [
        (TABLE[["calls", "heat"]], ["cold"], "covariate 'cold' is not a column; columns are"),
        (TABLE[["calls"]], ["calls"], "leave no column to model"),
        (COUNTS, ["heat"], "are names of columns and need a DataFrame, got ndarray"),
        (pd.Series(COUNTS), pd.Series(HEAT)[1:], r"must have rows for all of the data .* without 0"),
        (TABLE[["calls", "heat"]], ["heat", "heat"], "covariates must differ"),
        (COUNTS, HEAT[:50], "sequence 0 has 60 steps, its covariates 50"),
        ([COUNTS, COUNTS], [HEAT], "for each of the 2 sequences, got 1"),
        (
            [COUNTS, COUNTS],
            {"heat": HEAT},
            r"covariates\['heat'\] must be a list with an array for each",
        ),
        (COUNTS, {"heat": [HEAT, HEAT]}, "a list with an array for the one sequence, got 2 arrays"),
        (COUNTS, {"heat": np.stack([HEAT, HEAT], 1)}, r"\['heat'\] must be 60 numbers, got an array of"),
        (COUNTS, {"heat": 2.0}, r"covariates\['heat'\] must be 60 numbers, got 2"),
        (COUNTS, {"heat": HEAT, "half": HEAT[:30]}, r"covariates\['half'\] must be 60 numbers"),
        (COUNTS, {"heat": [[1.0, 2.0], 3.0]}, r"covariates\['heat'\] must be 60 numbers"),
        (COUNTS, np.where(np.arange(60) == 3, np.nan, HEAT), "'u0' is nan at step 3 of sequence 0"),
        (COUNTS, {"heat": ["warm"] * 60}, "covariates must be numeric, but 'heat' is"),
        (COUNTS, np.zeros((2, 3, 4)), r"shape \(T,\) or \(T, Q\), got \(2, 3, 4\)"),
        (fo.sequences(COUNTS), HEAT, "covariates when first reading it"),
    ],
)
def test_what_cannot_be_read_is_refused(data, covariates, sentence):
    with pytest.raises(ValueError, match=sentence):
        fo.sequences(data, covariates=covariates)


def test_the_command_line_takes_covariates(tmp_path):
    path = tmp_path / "calls.csv"
    TABLE.to_csv(path, index=False)
    words = ["cv", path, "--group", "day", "--covariates", "heat", "--n", "6", "--folds", "blocks"]
    done = CliRunner().invoke(app, [str(word) for word in [*words, "--model", "poisson-hmm"]])
    assert done.exit_code == 0, done.output
    assert "1 covariate" in done.output
    refused = CliRunner().invoke(app, [str(word) for word in [*words, "--model", "ar-hmm"]])
    assert refused.exit_code == 2
    assert "--covariates is for poisson-hmm" in refused.output.replace("\n", " ")


@pytest.mark.parametrize(
    "column",
    [
        HEAT > 0,
        pd.array(HEAT > 0, dtype="boolean"),
        (HEAT > 0).astype(object),
        pd.Categorical(HEAT > 0),
        np.where(HEAT > 0, " TRUE", "false "),
    ],
    ids=["bool", "boolean", "object", "category", "text"],
)
def test_true_and_false_are_one_and_zero(column):
    table = pd.DataFrame({"warm": column, "heat": HEAT})
    beside = fo.sequences(COUNTS, covariates=table)
    by_name = fo.sequences(table.assign(calls=COUNTS), covariates=["warm", "heat"])
    for data in (beside, by_name):
        np.testing.assert_array_equal(data.covariates[0], np.column_stack([HEAT > 0, HEAT]))


def test_truths_that_are_missing_are_refused():
    warm = np.where(np.arange(60) == 3, None, HEAT > 0)
    with pytest.raises(ValueError, match="'warm' is nan at step 3 of sequence 0"):
        fo.sequences(COUNTS, covariates={"warm": warm})


def test_the_command_line_takes_true_and_false(tmp_path):
    warm = np.where(HEAT > 0, "True ", "False ")
    pd.DataFrame({"calls": COUNTS, "warm": warm}).to_csv(tmp_path / "calls.csv", index=False)
    pd.DataFrame({"note": ["a", "b"], "warm": [True, False]}).to_csv(tmp_path / "next.csv", index=False)
    for option in ("--covariates", "--transition-covariates"):
        words = ["fit", tmp_path / "calls.csv", "--columns", "calls", option, "warm", "--model",
                 "poisson-hmm", "--restarts", "1", "--optima", "0", "--save", tmp_path / "f.json",
                 "--force"]  # fmt: skip
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == 0, done.output
        np.testing.assert_array_equal(fo.load(tmp_path / "f.json").data.covariates[0, :, 0], HEAT > 0)
        words = ["forecast", tmp_path / "f.json", "--steps", "2", "--covariates", tmp_path / "next.csv"]
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == 0, done.output


def test_waves_have_their_period():
    hours = np.arange(48.0)
    waves = fo.basis.fourier(hours, 24, 2, name="day")
    assert list(waves.columns) == ["day_sin1", "day_cos1", "day_sin2", "day_cos2"]
    np.testing.assert_allclose(waves.iloc[:24], waves.iloc[24:], atol=1e-12)
    np.testing.assert_allclose(waves["day_cos2"], np.cos(4 * np.pi * hours / 24), atol=1e-12)
    dates = pd.date_range("2024-03-01", periods=48, freq="h")
    for given in (dates, dates.tz_localize("Europe/Berlin"), pd.Series(dates)):
        np.testing.assert_allclose(fo.basis.fourier(given, "1D", 2, name="day"), waves, atol=1e-9)


def test_splines_span_smooth_curves():
    x = np.sort(RNG.uniform(0.0, 10.0, 200))
    columns = fo.basis.spline(x, df=5)
    assert columns.shape == (200, 5)
    np.testing.assert_allclose(columns.mean(), 0.0, atol=1e-12)
    cubic = 1.0 + x - 0.3 * x**2 + 0.02 * x**3
    design = np.column_stack([np.ones(200), columns])
    fitted = design @ np.linalg.lstsq(design, cubic, rcond=None)[0]
    np.testing.assert_allclose(fitted, cubic, atol=1e-9)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: fo.basis.fourier(HEAT, 0), "period must be a positive number, got 0"),
        (lambda: fo.basis.fourier(HEAT, 7, 0), "order must be an integer of at least 1, got 0"),
        (lambda: fo.basis.fourier(pd.date_range("2024", periods=3), "week"), "as text, such as '1D'"),
        (lambda: fo.basis.fourier(pd.date_range("2024", periods=3), 24), "such as '1D', got 24"),
        (lambda: fo.basis.fourier(pd.date_range("2024", periods=3), "0D"), "such as '1D', got '0D'"),
        (lambda: fo.basis.fourier(["2024-01-01"], "1D"), "must be numbers or dates"),
        (lambda: fo.basis.fourier(pd.DatetimeIndex(["2024", None]), "1D"), "but step 1 is not"),
        (lambda: fo.basis.spline(np.arange(24) % 3, df=4), "too few distinct values for df=4"),
        (lambda: fo.basis.spline(HEAT, df=2), "df must be an integer of at least the degree 3, got 2"),
        (lambda: fo.basis.spline([1.0, 2.0, np.nan]), "x must be a column of finite numbers"),
        (lambda: fo.basis.spline([1.0, 1.0, 2.0], df=6), "too few distinct values for df=6"),
    ],
)
def test_bases_that_make_no_sense_are_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_a_season_is_a_covariate():
    hours = np.arange(200) % 24
    x = (
        np.random.default_rng(2)
        .poisson(np.exp(1.0 + 0.8 * np.sin(2 * np.pi * hours / 24)))
        .astype(float)
    )
    waves = fo.basis.fourier(hours, 24)
    data = fo.sequences(x, covariates=waves)
    fit = fo.fit(fo.models.PoissonHMM(1, covariates=list(waves.columns)), data)
    assert fit.params["coefficients"].ravel() == pytest.approx([0.8, 0.0], abs=0.15)
