"""Errors and verdicts: by hand, against exact refits, and where `ij` is known to fail."""

from __future__ import annotations

import numpy as np
import pytest

import fitonce as fo
from conftest import shared
from fitonce.results.verdicts import Verdict, default_tolerance, loss_errors, verdicts

ORACLE = fo.models.GaussianHMM(2, covariance="fixed", mean_scale=1.0)


def test_the_error_of_a_loss_by_hand():
    losses = np.array([[1.0, 2.0, 0.0], [1.0, 1.0, 1.0]])
    ahead = np.array([[1.3, 1.9, 0.0], [1.0, 1.0, 1.6]])
    found = loss_errors(losses, ahead, np.array([2, 3]), np.array([0.5, 0.0]))
    first = (0.2 + np.sqrt(0.3**2 + 0.1**2)) / 2 / 0.5
    np.testing.assert_allclose(found, [first, (0.6 + 0.6) / 3])


def test_a_rate_beyond_what_can_be_summed_is_cut():
    error = loss_errors(np.zeros((1, 1)), np.ones((1, 1)), np.ones(1), np.array([np.inf]))
    assert error[0] == pytest.approx(20.0)


def test_what_each_verdict_means():
    errors = np.array([0.03, 0.05, 0.2, np.nan, 0.03, 0.03, 0.03])
    distances = np.array([0.1, 0.1, 0.1, 0.1, 2.0, 0.1, 0.1])
    rates = np.array([0.1, 0.1, 0.1, 0.1, 0.1, 0.7, np.nan])
    checked = np.array([True, True, True, True, True, True, True])
    found = verdicts(errors, distances, rates, checked, 0.1)
    good, fair, bad = Verdict.GOOD, Verdict.FAIR, Verdict.BAD
    assert found == [good, fair, bad, bad, fair, fair, good]
    assert verdicts(errors, distances, rates, ~checked, 0.1) == [Verdict.UNCHECKED] * 7


def test_the_default_tolerance():
    assert default_tolerance(0.5, np.array([1.0])) == pytest.approx(0.05)
    assert default_tolerance(float("nan"), np.array([1.0, 3.0])) == pytest.approx(0.002)
    assert default_tolerance(float("nan"), np.zeros(0)) == 0.0


@pytest.fixture(scope="module")
def weak():
    x = np.load(shared("oracles", "hmm_T300_tight.npz"))["X"][0]
    fit = fo.fit(ORACLE, x)
    folds = fo.folds.iid(x, percent=10, n=12, seed=0)
    return fit, folds, fo.cross_validate(fit, folds, method="exact")


@pytest.mark.parametrize("method", ["none", "ij", "onestep"])
def test_estimated_errors_cover_actual_ones_on_weakly_separated_states(weak, method):
    fit, folds, exact = weak
    cv = fo.cross_validate(fit, folds, method=method, check="all")
    actual = (cv.folds["loss"] - exact.folds["loss"]).abs()
    assert (actual <= 3 * cv.folds["error"]).all()
    good = cv.folds["verdict"] == "good"
    assert (actual[good] <= cv.tolerance).all()


def test_ij_is_flagged_there_and_auto_is_exact(weak):
    fit, folds, exact = weak
    ij = fo.cross_validate(fit, folds, method="ij")
    assert (ij.folds["verdict"] == "bad").any()
    assert "use method='auto'" in repr(ij)
    auto = fo.cross_validate(fit, folds)
    assert (auto.folds["verdict"] == "good").all()
    assert (auto.folds["loss"] - exact.folds["loss"]).abs().max() < 1e-6
    assert (auto.folds["control"] - exact.folds["loss"]).abs().max() > 1e-2


def test_ij_checks_a_sample_and_says_so():
    x = np.random.default_rng(0).normal(np.repeat([-2.0, 2.0], 150), 1.0)
    fit = fo.fit(ORACLE, x)
    folds = fo.folds.iid(x, percent=10, n=50)
    cv = fo.cross_validate(fit, folds, method="ij")
    assert (cv.folds["verdict"] != "unchecked").sum() == 20
    assert "20 of 50 folds checked" in repr(cv)
    assert np.isnan(cv.folds["error"]).sum() == 30
    everything = fo.cross_validate(fit, folds, method="ij", check="all")
    some = cv.folds["error"].notna()
    np.testing.assert_allclose(cv.folds["error"][some], everything.folds["error"][some])
    five = fo.cross_validate(fit, folds, method="ij", check=5)
    assert (five.folds["verdict"] != "unchecked").sum() == 5
    nothing = fo.cross_validate(fit, folds, method="onestep", check=False)
    assert np.isnan(nothing.error)
    assert "not checked" in repr(nothing)
    assert (nothing.folds["gradients"] == 1).all()


def test_a_tighter_tolerance_sends_more_folds_up():
    x = np.random.default_rng(0).normal(np.repeat([-2.0, 2.0], 150), 1.0)
    fit = fo.fit(ORACLE, x)
    folds = fo.folds.iid(x, percent=5, n=10)
    loose = fo.cross_validate(fit, folds, tolerance=1.0)
    tight = fo.cross_validate(fit, folds, tolerance=1e-9)
    assert (loose.folds["rung"] == "none").all()
    np.testing.assert_array_equal(loose.folds["loss"], loose.folds["control"])
    assert set(tight.folds["rung"]) <= {"refine", "refine-own", "refit"}
    exact = fo.cross_validate(fit, folds, method="exact")
    np.testing.assert_allclose(tight.folds["loss"], exact.folds["loss"], atol=1e-9)
    assert loose.tolerance == 1.0


def test_folds_stop_on_different_rungs_unless_many_must_be_refined():
    x = np.random.default_rng(0).normal(np.tile(np.repeat([-2.0, 2.0], 30), 5), 1.0)
    fit = fo.fit(ORACLE, x)
    sets = [[k] for k in range(3, 60, 4)] + [range(90, 150)]
    mixed = fo.cross_validate(fit, fo.folds.sites(sets, x), tolerance=0.005)
    assert mixed.folds["rung"][15] not in ("none", "onestep")
    assert set(mixed.folds["rung"][:15]) <= {"none", "onestep"}
    assert (mixed.folds["verdict"] == "good").all()
    few = fo.folds.sites([sets[0], sets[15], range(30, 90)], x)
    many = fo.cross_validate(fit, few, tolerance=0.005)
    assert set(many.folds["rung"]) <= {"refine", "refine-own", "refit"}


def test_the_control_needs_no_positive_hessian():
    fit = fo.fit_at(
        ORACLE,
        np.random.default_rng(0).normal(np.repeat([-2.0, 2.0], 150), 1.0),
        {"initial": [0.5, 0.5], "transition": np.full((2, 2), 0.5), "mean": np.zeros((2, 1))},
    )
    cv = fo.cross_validate(fit, fo.folds.kfold(300, 4), method="none")
    assert np.isfinite(cv.estimate)
    with pytest.raises(fo.IndefiniteError):
        fo.cross_validate(fit, fo.folds.kfold(300, 4))
