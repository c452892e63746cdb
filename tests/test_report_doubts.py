"""Reports say which of their numbers come from folds that are not to be trusted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fitonce as fo
from fitonce.results.report import html_report


@pytest.fixture(scope="module")
def cv():
    x = np.random.default_rng(0).poisson(np.tile(np.repeat([2.0, 9.0], 10), 3)).astype(float)
    return fo.cross_validate(fo.fit(fo.models.PoissonHMM(2), x), fo.folds.kfold(x, 5), optima=0)


def test_largest_losses_of_bad_folds_are_marked(cv):
    folds = cv.folds.copy()
    assert "bad folds" not in html_report(cv)
    top = cv.pointwise.sort_values("loss", ascending=False)["fold"].iloc[:10]
    folds.loc[top.iloc[0], "verdict"] = "bad"
    text = html_report(replace(cv, folds=folds))
    assert "bad folds" in text
    assert text.count(">1 of 1<") == (top == top.iloc[0]).sum()


def test_an_error_that_is_unknown_in_one_fold_is_not_called_unchecked(cv):
    folds = cv.folds.copy()
    folds.loc[1, ["verdict", "error"]] = ["bad", np.nan]
    text = html_report(replace(cv, folds=folds, error=float("nan")))
    assert "(unknown in 1 fold)" in text
    assert "no fold was checked" not in text
