"""Structural time series on the command line."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fitonce as fo
from fitonce.cli import app

QUICK = ["--restarts", "1", "--optima", "0", "--no-cache"]


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def said(*words):
    """What a command prints, which must succeed."""
    done = run(*words)
    assert done.exit_code == 0, done.output
    return done.stdout


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


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--level", "wiggly"], "level must be one of"),
        (["--seasonal", "often"], "seasonal must be a period in steps or none, got 'often'"),
        (["--cycle", "maybe"], "cycle must be one of"),
        (["--states", "3"], "--states is for"),
        (["--harmonics", "2"], "harmonics must be None without a period"),
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
        "--seasonal is for structural, structural-poisson, structural-binomial, got --model gaussian-hmm"
        in done.stderr
    )
