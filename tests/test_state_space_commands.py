"""Structural time series on the command line."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest

import fitonce as fo
from commanding import run, said

QUICK = ["--restarts", "1", "--optima", "0", "--no-cache"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Sales by month with heat, and a fit of them."""
    folder = tmp_path_factory.mktemp("series")
    rng = np.random.default_rng(0)
    heat, time = rng.normal(size=72).round(3), np.arange(72)
    waves = 4.0 * np.sin(2.0 * np.pi * time / 12)
    sales = 50.0 + np.cumsum(rng.normal(size=72)) + waves + 2.0 * heat + rng.normal(size=72)
    months = pd.date_range("2018-01-01", periods=72, freq="MS")
    table = pd.DataFrame({"month": months, "sales": sales.round(3), "heat": heat})
    table.to_csv(folder / "sales.csv", index=False)
    table[["heat"]].iloc[:3].to_csv(folder / "ahead.csv", index=False)
    words = ["--model", "structural", "--seasonal", "12", "--harmonics", "1", "--covariates", "heat"]
    said("fit", folder / "sales.csv", "--time", "month", *words, *QUICK, "--save", folder / "fit.json",
         "--plot", folder / "parts.png")  # fmt: skip
    return folder


def test_the_fit_is_that_of_the_library(folder):
    found = fo.load(folder / "fit.json")
    assert found.model == fo.models.Structural("local", seasonal=12, harmonics=1, exog=["heat"])
    table = pd.read_csv(folder / "sales.csv")
    fit = fo.fit(found.model, fo.sequences(table[["sales", "heat"]], covariates=["heat"]), restarts=1)
    assert found.value == pytest.approx(fit.value, rel=1e-9)
    assert (folder / "parts.png").stat().st_size > 10_000


def test_parts_forecasts_and_samples_come_from_the_file(folder):
    fit = fo.load(folder / "fit.json")
    parts = pd.read_csv(io.StringIO(said("decode", folder / "fit.json", "--csv")))
    expected = fit.components().to_dataframe()
    np.testing.assert_allclose(parts[expected.columns], expected)
    assert parts["month"].iloc[0] == "2018-01-01"
    known = ["--covariates", folder / "ahead.csv"]
    rows = json.loads(said("forecast", folder / "fit.json", "--steps", 3, *known, "--json"))["rows"]
    ahead = fit.forecast(3, covariates=pd.read_csv(folder / "ahead.csv"))
    np.testing.assert_allclose([row["lower"] for row in rows], ahead.interval(0.9)[0][:, 0])
    assert [row["month"] for row in rows] == ["2024-01-01", "2024-02-01", "2024-03-01"]
    drawn = pd.read_csv(io.StringIO(said("sample", folder / "fit.json", "-n", 3, *known, "--csv")))
    assert list(drawn) == ["step", "sales"]


def test_levels_and_seasons_are_selected(folder):
    words = ["--columns", "sales", "--model", "structural", "--level", "local,smooth-trend",
             "--seasonal", "none,12", "--harmonics", "1", "--method", "none"]  # fmt: skip
    found = json.loads(said("select", folder / "sales.csv", *words, *QUICK, "--json"))
    names = [row["model"] for row in found["models"]]
    assert names == [f"level {level}, seasonal {period}"
                     for level in ("local", "smooth-trend") for period in ("none", "12")]  # fmt: skip
    assert "which all models are given" in found["sentence"]
    assert "try more" not in found["sentence"]


def test_a_cross_validation_is_reported(folder, tmp_path):
    words = ["--folds", "future", "--horizon", "3", "--method", "onestep"]
    said(
        "cv",
        folder / "fit.json",
        *words,
        "--report",
        tmp_path / "cv.html",
        "--save",
        tmp_path / "cv.json",
    )
    said("report", tmp_path / "cv.json", tmp_path / "again.html")
    for name in ("cv.html", "again.html"):
        assert "Structural(level=&#x27;local&#x27;, seasonal=12" in (tmp_path / name).read_text()


SARIMAX = ["--columns", "sales", "--model", "sarimax"]


def test_sarimax_is_that_of_the_library(folder, tmp_path):
    file, saved = folder / "sales.csv", tmp_path / "sarimax.json"
    orders = ["--p", "0", "--d", "1", "--q", "1", "--seasonal", "12", "--seasonal-p", "1"]
    beside = ["--intercept", "yes", "--covariates", "heat", "--time", "month"]
    said("fit", file, *SARIMAX, *orders, *beside, *QUICK, "--save", saved)
    fit = fo.load(saved)
    assert fit.model == fo.models.SARIMAX((0, 1, 1), (1, 0, 0, 12), trend="c", exog="heat")
    table = pd.read_csv(file)
    again = fo.fit(fit.model, fo.sequences(table[["sales", "heat"]], covariates="heat"), restarts=1)
    assert fit.value == pytest.approx(again.value, rel=1e-9)
    words = ["--steps", 3, "--covariates", folder / "ahead.csv", "--json"]
    rows = json.loads(said("forecast", saved, *words))["rows"]
    ahead = fit.forecast(3, covariates=pd.read_csv(folder / "ahead.csv"))
    np.testing.assert_allclose([row["mean"] for row in rows], ahead.mean[:, 0])
    words = ["--folds", "blocks", "--n", 4, "--method", "onestep", "--json"]
    assert json.loads(said("cv", saved, *words))["estimate"] == pytest.approx(
        fo.cross_validate(
            fit, fo.folds.blocks(fit.data, percent=10, n=4, seed=0), method="onestep"
        ).estimate
    )
    assert json.loads(said("loo", file, *SARIMAX, *QUICK, "--json"))["folds"] == 72


def test_orders_of_sarimax_are_selected(folder):
    words = ["--q", "0..1", "--seasonal", "none,12", "--seasonal-p", "0..1", "--method", "none"]
    found = json.loads(said("select", folder / "sales.csv", *SARIMAX, *words, *QUICK, "--json"))
    names = [row["model"] for row in found["models"]]
    assert names == ["q 0, seasonal none", "q 0, seasonal p 1, seasonal 12",
                     "q 1, seasonal none", "q 1, seasonal p 1, seasonal 12"]  # fmt: skip
    assert all("--seasonal-p" in why for why in found["skipped"].values())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--seasonal", "12"], "and one of --seasonal-p, --seasonal-d and --seasonal-q above 0, got"),
        (["--seasonal-d", "1"], "--seasonal-d makes no difference to sarimax with"),
        (["--seasonal", "2.5", "--seasonal-d", "1"], "must be a whole number of steps, got 2.5"),
        (["--p", "-1"], "order must be 3 integers that are not negative, got (-1, 0, 0)"),
        (["--intercept", "maybe"], "intercept must be one of"),
        (["--order", "2"], "got --model sarimax, which takes --p, --d and --q"),
        (["--level", "trend"], "--level is for structural"),
    ],
)
def test_orders_that_make_no_sarimax_are_refused(folder, options, words):
    done = run("cv", folder / "sales.csv", *SARIMAX, *options, *QUICK)
    assert done.exit_code != 0
    assert words in done.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--level", "wiggly"], "level must be one of"),
        (["--seasonal", "often"], "seasonal must be a period in steps or none, got 'often'"),
        (["--cycle", "maybe"], "cycle must be one of"),
        (["--states", "3"], "--states is for"),
        (["--harmonics", "2"], "--harmonics makes no difference to structural with"),
    ],
)
def test_options_that_make_no_model_are_refused(folder, options, words):
    file = ["cv", folder / "sales.csv", "--columns", "sales", "--model", "structural"]
    done = run(*file, *options, *QUICK)
    assert done.exit_code != 0
    assert words in done.stderr.replace("\n", " ")


def test_options_of_series_are_for_series(folder):
    done = run("cv", folder / "sales.csv", "--model", "gaussian-hmm", "--seasonal", "12", *QUICK)
    assert (
        "--seasonal is for structural, structural-poisson, structural-binomial, sarimax, "
        "got --model gaussian-hmm" in done.stderr
    )
