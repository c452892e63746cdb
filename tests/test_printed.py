"""Printed results: how long refits would take, and folds that are far away."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fitonce as fo
from fitonce.fitting import descent
from fitonce.results.printed import refits_in_words


@pytest.fixture(scope="module")
def cv():
    x = np.random.default_rng(0).poisson(np.tile(np.repeat([2.0, 9.0], 10), 3)).astype(float)
    fit = fo.fit(fo.models.PoissonHMM(2), x)
    return fo.cross_validate(fit, fo.folds.kfold(x, 5), optima=0)


@pytest.mark.parametrize(
    ("least", "most", "said"),
    [
        (1.234, 7.5, "1.2 to 7.5 s"),
        (14.2, 45.1, "14 to 45 s"),
        (100.0, 600.0, "100 s to 10 min"),
        (200.0, 600.0, "3 to 10 min"),
        (2.0, 2.01, "about 2 s"),
        (2.0, np.nan, "about 2 s"),
    ],
)
def test_a_range_has_its_unit_once_and_is_none_where_both_ends_are_alike(cv, least, most, said):
    assert refits_in_words(replace(cv, refits_seconds=least, refits_most=most)) == said


def test_the_result_says_the_range_of_all_its_folds(cv):
    assert cv.refits_seconds == pytest.approx(5 * cv.fit.refit_seconds)
    assert cv.refits_most == pytest.approx(5 * cv.fit.refit_most)
    assert f"; 5 refits, one start each, would take {refits_in_words(cv)}" in str(cv)


def test_a_range_is_kept_in_files(cv, tmp_path):
    cv.save(tmp_path / "cv.json")
    assert fo.load(tmp_path / "cv.json").refits_most == cv.refits_most
    cv.fit.save(tmp_path / "fit.json")
    assert fo.load(tmp_path / "fit.json").refit_most == cv.fit.refit_most


def test_starts_side_by_side_count_as_if_alone(cv, monkeypatch):
    """A clock that only passes over the data move: 3 s for one start, 4 s for four of them."""
    clock = [0.0]
    monkeypatch.setattr(descent, "now", lambda: clock[0])

    class Passes:
        base = cv.fit.objective.base

        def values_and_gradients(self, thetas, weights):
            assert weights.shape == (len(thetas), len(self.base))
            clock[0] += 3.0 if len(thetas) == 1 else 4.0

    assert descent._share_of_one(Passes(), np.zeros((4, 2))) == 0.75
    assert descent._share_of_one(Passes(), np.zeros((1, 2))) == 1.0


def test_folds_that_are_only_far_away_are_not_among_those_in_doubt(cv):
    folds = cv.folds.copy()
    folds.loc[1, "away"] = True
    text = str(replace(cv, folds=folds))
    assert "  far       1 of 5 folds, included: parameters are far from those of the full fit" in text
    assert "FOLDS" not in text
    folds.loc[2, "verdict"] = "bad"
    text = str(replace(cv, folds=folds))
    assert text.index("  FOLDS     1 of 5 folds with a bad verdict") < text.index("  far  ")
