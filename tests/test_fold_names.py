"""Folds of one site are called by its name, in print-outs, tables, cards and reports."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fitonce as fo
from fitonce.results.report import html_report
from map_cases import wall
from test_report_doubts import said


@pytest.fixture(scope="module")
def counties():
    places = fo.read_map(wall(), "n", exposure="births", names="name")
    return fo.fit(fo.models.PottsMixture(places, 1, beta=0.0), places.data, restarts=1)


@pytest.fixture(scope="module")
def years():
    x = np.random.default_rng(0).poisson(np.tile(np.repeat([2.0, 9.0], 10), 2)).astype(float)
    data = pd.Series(x, pd.date_range("1980", periods=40, freq="YS"))
    return fo.fit(fo.models.PoissonHMM(2), data, restarts=2)


def spoiled(cv, fold):
    """The same with a bad verdict of a fold."""
    folds = cv.folds.copy()
    folds.loc[fold, "verdict"] = "bad"
    return replace(cv, folds=folds)


def test_a_county(counties):
    cv = spoiled(fo.loo(counties), 5)
    name = counties.places.sites[5]
    assert name == "b1"
    assert f"\n            {name}: " in str(cv)
    assert "fold 5" not in str(cv)
    assert cv.to_dataframe()["place"].tolist() == list(counties.places.sites)
    assert list(cv.to_dataframe().index) == list(range(12))  # the numbers stay
    page = said(html_report(cv))
    reliability = page.split("Folds not to be trusted")[1]
    assert "fold verdict loss control error points" in reliability
    assert f" {name} bad " in reliability
    assert '"named":true' in html_report(cv)


def test_several_sites_have_a_number(counties):
    folds = fo.folds.sites([[0], [1, 2]], counties.data)
    cv = fo.cross_validate(counties, folds, method="onestep", check="all", optima=0)
    assert cv.to_dataframe()["place"].tolist() == ["a0", ""]
    shown = str(spoiled(spoiled(cv, 0), 1))
    assert "\n            a0: " in shown
    assert "\n            fold 1: " in shown
    page = html_report(spoiled(cv, 1))
    assert '"named":false' in page
    assert "fold scored verdict loss" in said(page)
    joint = fo.cross_validate(counties, folds, method="onestep", loss="joint", optima=0)
    assert joint.to_dataframe()["place"].tolist() == ["a0", ""]
    assert "a0 (" in said(joint._repr_html_())
    assert "fold 1 (" in said(joint._repr_html_())
    assert "fold 1: a1, a2" in said(html_report(joint))
    assert "fold 0" not in said(html_report(joint))


def test_a_date(years):
    cv = spoiled(fo.loo(years, refine=False), 3)
    assert "\n            1983-01-01: " in str(cv)
    assert cv.to_dataframe()["place"].iloc[3] == "1983-01-01"


def test_places_without_names_have_numbers():
    x = np.random.default_rng(0).poisson(5.0, 30).astype(float)
    cv = fo.loo(fo.fit(fo.models.PoissonHMM(1), x, restarts=1))
    assert "place" not in cv.to_dataframe()
    assert "fold 3: " in str(spoiled(cv, 3))


def test_a_saved_result_has_the_names(counties, tmp_path):
    cv = spoiled(fo.loo(counties), 5)
    assert str(fo.load(cv.save(tmp_path / "cv.json"))) == str(cv)
