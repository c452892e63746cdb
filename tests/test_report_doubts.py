"""Reports say which of their numbers come from folds that are not to be trusted."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace

import numpy as np
import pytest

import fitonce as fo
from fitonce.results.report import html_report
from fitonce.results.report.ranges import beyond
from fitonce.results.saving import write_document


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
    assert "<dd>unknown in 1 fold</dd>" in text
    assert "no fold was checked" not in text


def said(page):
    """The text of a page without its scripts."""
    body = re.sub(r"<(script|style).*?</\1>", " ", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body)))


def test_what_is_missed_comes_before_the_number_everywhere(cv):
    assert cv.doubts == []
    assert 'class="note fine"' in html_report(cv)
    missed = replace(cv, better_theta=cv.fit.theta)
    many = replace(cv, folds=cv.folds.assign(missed=["", "", "", "seldom", "lower"]))
    few = replace(cv, folds=cv.folds.assign(missed=["", "", "", "", "seldom"]))
    assert few.doubts == []  # one of five
    for one, reason in (
        (missed, "the fit is not at its best optimum: a fold led to one that is better"),
        (many, "2 of 5 folds may have a better optimum"),
    ):
        assert one.doubts == [reason]
        page = html_report(one)
        assert said(page).split(" Contents")[0].count(f"Caution: {reason}. Held-out loss") == 1
        assert 'class="note caution"' in page.split("<nav")[0]
        assert f"{one.error:.2g}"[:3] not in said(page).split("error of the estimate")[1][:9]
        assert "error of the estimate unknown" in said(page)
        assert said(one._repr_html_()).strip().startswith(f"caution Cross-validation : {reason}; ")
        shown = str(one)
        assert (
            f"  trust     caution: {reason}\n            error of the estimate unknown (about " in shown
        )
        assert "95 %" in shown
        assert ", without what better optima would change; se from" in shown
    assert list(many.folds["verdict"]) == list(cv.folds["verdict"])  # which are about the optimum found


def test_exact_refits_are_beside_the_estimate(cv):
    exact = fo.cross_validate(cv.fit, fo.folds.kfold(cv.fit.data, 5), method="exact", optima=0)
    rows = cv.pointwise.assign(approximate=cv.pointwise["loss"] - 0.3, exact=exact.pointwise["loss"])
    low = replace(cv, estimate=cv.estimate - 0.3, error=2 * cv.se)
    page = said(html_report(low, scatter=rows))
    own, refitted = (rows.groupby("fold")[name].mean().mean() for name in ("approximate", "exact"))
    share = (refitted - own) / cv.se
    assert own - refitted == pytest.approx(-0.3, abs=5e-3)
    said_of_all = (
        f"estimate minus exact refits on all 5 folds {own - refitted:.2f} measured, {share:.1f}"
    )
    assert f"{said_of_all} standard errors" in page
    assert "Dashed bar: one standard error, without the error of the estimate, about" in page
    assert "2.0 x se" in page
    some = said(html_report(low, scatter=rows[rows["fold"] < 3]))
    three = rows[rows["fold"] < 3].groupby("fold")[["approximate", "exact"]].mean().mean()
    apart = f"{three['approximate'] - three['exact']:.2f}"
    words = f"estimate minus exact refits on 3 folds {apart} measured on the same folds, "
    assert words in some  # of the card
    assert f"Estimate minus exact refits on 3 folds: {apart}, measured on the same folds, " in some
    assert f"{three['exact']:.4f}" not in some  # a mean of other folds than that of the estimate
    assert "Dashed" not in said(html_report(cv))


def test_the_difference_from_refits_is_signed_and_may_be_nothing(cv):
    rows = cv.pointwise.assign(approximate=cv.pointwise["loss"] + 3e-4, exact=cv.pointwise["loss"])
    page = said(html_report(cv, scatter=rows))
    assert "estimate minus exact refits on all 5 folds +0.00030 measured" in page
    rows = rows.assign(approximate=rows["exact"])
    assert "exact refits on all 5 folds 0 measured" in said(html_report(cv, scatter=rows))


@pytest.mark.parametrize(
    ("error", "se", "usable"),
    [(0.9, 0.2, True), (1.1, 0.2, False), (1.1, 1.5, True), (1.6, 1.5, False), (1.1, np.nan, False)],
)
def test_an_error_larger_than_the_loss_is_not_usable(cv, error, se, usable):
    """Than the loss, and than its standard error where losses are about zero."""
    folds = cv.folds.assign(loss=cv.folds["loss"] * 0.0 - 1.0, error=error)
    folds.loc[0, "ok"], folds.loc[1, "verdict"] = True, "bad"
    one = replace(cv, estimate=-1.0, se=se, error=error, folds=folds)
    shown, page, card = str(one), said(html_report(one)), said(one._repr_html_())
    number = f"error of the estimate about {error:.2g}"
    assert (number in shown) == usable
    assert ("error of the estimate not usable (estimated larger than the loss); verdicts" in shown) == (
        not usable
    )
    assert ("error of the estimate not usable estimated larger than the loss" in page) == (not usable)
    assert ("error of the estimate not usable" in card) == (not usable)
    assert ("estimated loss error not usable" in shown) == (not usable)
    assert (f"estimated loss error {error:.2g}" in shown) == usable
    if se > 0 and not usable:
        assert ", without the error of the estimate, which is not usable; se from" in shown
    assert one.error == error  # files and tables keep the number


def test_refits_are_a_range_of_times(cv):
    page = said(html_report(replace(cv, refits_seconds=2.0, refits_most=7.0)))
    assert "5 refits, one start each (estimated) 2 to 7 s" in page


@pytest.fixture(scope="module")
def pair():
    """Two channels, and a state that five of 90 points are in."""
    rng = np.random.default_rng(3)
    x = rng.normal(0.0, 1.0, (90, 2))
    x[40:] += 8.0
    x[20:25] = rng.normal([-30.0, 40.0], 1.0, (5, 2))
    x[60] = np.nan
    return fo.fit(fo.models.GaussianHMM(3), x, restarts=4, seed=1)


def test_a_fit_says_how_many_points_its_states_rest_on(pair):
    points = np.asarray(pair.posterior())[np.arange(90) != 60].sum(0)
    np.testing.assert_allclose(pair.summary.in_states, points, rtol=1e-9)
    least = int(points.argmin())
    assert points[least] == pytest.approx(5, abs=1e-3)
    shown = ", ".join(f"{value:.1f}" for value in points)
    few = f"state {least} rests on 5.0 (time 20, time 21, time 22 and 2 more) of 89 points only"
    assert f"points in each state: {shown}, of 89; caution: {few}" in str(pair)
    assert few in said(pair._repr_html_())


def test_reports_and_files_keep_what_the_fit_knows(pair, tmp_path):
    cv = fo.cross_validate(pair, fo.folds.kfold(pair.data, 4), method="onestep", check="all")
    path = cv.save(tmp_path / "cv.json")
    for one in (cv, fo.load(path)):
        page = said(html_report(one, influence=fo.influence(pair)))
        assert (
            page.count(f"The optimum of the fit was {pair.optima.sentence}.") == 2
        )  # of the estimate, of the model
        assert "Priors: initial, transition Dirichlet(1.1)" in page
        reliability = page.split("Reliability")[-1]
        assert "of 89 points only" in reliability
        assert "rests on 5.0 (time 20, time 21, time 22" in page
        assert page.count(" x0 x1 ") == 2  # largest losses, influence
    document = json.loads(path.read_text())
    for name in ("optima", "priors", "in_states", "few_in_states", "further"):
        del document["fit"][name]
    del document["digest"]
    old = write_document(document, tmp_path / "old.json", False)
    summary = fo.load(old).summary
    assert (summary.optima, summary.priors, summary.in_states, summary.further) == (None, "", None, None)
    assert "The optimum of the fit was" not in html_report(fo.load(old))


def test_a_row_far_from_the_others_does_not_stretch_the_picture():
    assert beyond([(3.6, 3.8), (2.9, 3.0), (2.6, 2.7)]) == [False, False, False]
    assert beyond([(3.6, 3.8), (2.9, 3.0), (2.6, 2.7), (2.61, 2.72)]) == [True, True, False, False]
    assert beyond([(9.0, 9.2), (2.6, 2.7), (2.61, 2.72)]) == [True, False, False]
    assert beyond([(9.0, 9.2), (2.6, np.nan)]) == [False, False]
