"""Variances of zero: folds that leave them, and how fits say so."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import fitonce as fo
from fitonce.crossval.from_zero import points_that_rise
from fitonce.fitting.small_variances import SmallVariances
from fitonce.fitting.summarise import _nats, in_digits


@pytest.fixture(scope="module")
def noise():
    """A fit whose level does not move, and folds of which some have a level that does."""
    fit = fo.fit(fo.models.Structural(), np.random.default_rng(10).normal(size=60), restarts=2)
    assert fit.ok
    assert fit.params["level"] == pytest.approx(0.0, abs=1e-12)
    return fit, fo.folds.kfold(fit.data, 12)


def _cold(fit, folds, fold):
    """The refit of a fold, and its mean loss."""
    y = np.where(np.isin(np.arange(60), folds.dropped[fold]), np.nan, fit.data.values[0, :, 0])
    theta = fit.objective.space.to_free(fo.fit(fit.model, y, restarts=3).params)
    scored = np.asarray(folds.scored[fold])[None]
    losses = fit.objective.pointwise_losses(theta[None], folds.weights_of([fold]), scored)
    return theta, losses.mean()


@pytest.mark.parametrize("method", ["auto", "exact"])
def test_folds_leave_zero_where_it_is_no_optimum_of_theirs(noise, method):
    fit, folds = noise
    cv = fo.cross_validate(fit, folds, method=method, optima=0)
    left = [fold for fold, text in enumerate(cv.folds["status"]) if "left zero at 'level'" in text]
    assert bool(left) == (method == "auto")  # refits have Hessians of their own, which show saddles
    for fold in {1, 11, *left}:
        theta, loss = _cold(fit, folds, fold)
        assert fit.params_at(theta)["level"] > 1e-4
        assert cv.folds["loss"][fold] == pytest.approx(loss, abs=1e-6)


def test_a_fold_that_moved_far_also_says_that_it_left_zero(noise, monkeypatch):
    monkeypatch.setattr("fitonce.crossval.assemble._AWAY", 0.0)
    fit, folds = noise
    said = fo.cross_validate(fit, folds, method="auto", optima=0).folds["status"][1]
    assert "standard errors from the full fit" in said
    assert said.endswith("there may be another optimum; left zero at 'level'")


def test_a_step_that_stays_at_zero_is_off_by_what_it_says(noise):
    fit, folds = noise
    cv = fo.cross_validate(fit, folds, method="onestep")
    assert cv.folds["status"][1] == (
        "approximate, but 'level' is held at zero, which is no optimum of this fold"
    )
    assert cv.folds["verdict"][1] == "bad"
    error = abs(cv.folds["loss"][1] - _cold(fit, folds, 1)[1])
    assert cv.folds["error"][1] == pytest.approx(error, rel=2.0)
    assert cv.folds["error"][1] > error / 2


def test_folds_that_stay_at_zero_are_told_nothing(noise):
    fit, folds = noise
    cv = fo.cross_validate(fit, folds, method="auto", optima=0)
    stayed = [fold for fold, text in enumerate(cv.folds["status"]) if "zero" not in text]
    fold = next(fold for fold in stayed if abs(cv.theta[fold]).min() < 1e-6)
    theta, loss = _cold(fit, folds, fold)
    assert fit.params_at(theta)["level"] == pytest.approx(0.0, abs=1e-8)
    assert cv.folds["loss"][fold] == pytest.approx(loss, abs=1e-2)


def test_a_fit_says_which_variances_are_at_zero(noise):
    fit, _ = noise
    table = fit.to_dataframe().set_index("name")
    worse = table.loc["level", "se"]
    assert table.loc["level", "value"] == 0.0
    assert f"  level: 0. (at its boundary; half a nat worse at {worse:.4g})" in str(fit)
    assert "boundary" not in str(fit).split("noise:")[1]
    # To second order in the root of the variance, other parameters following.
    objective = fit.objective
    far = fo.fit(fo.models.Structural(frozen={"level": 0.01 * worse}), fit.data, restarts=1)
    assert far.value - objective(fit.theta) == pytest.approx(0.5 * 0.01, rel=0.1)


def test_half_a_nat_is_measured_where_the_objective_is_no_parabola():
    """A level that jumps once: at zero the noise has no curvature, in the variance or in its root."""
    y = np.repeat([0.0, 1.0], 20)
    fit = fo.fit_at(fo.models.Structural(), y, {"level": 1.0 / 39.0, "noise": 1e-16})
    worse = fit.to_dataframe().set_index("name").loc["noise", "se"]
    there = fo.fit_at(fit.model, y, fit.params | {"noise": worse})
    assert there.value - fit.value == pytest.approx(0.5, abs=0.05)
    assert worse == pytest.approx(0.0029, rel=0.05)


@pytest.mark.parametrize(
    ("seed", "shown", "nats"), [(263, "8.504e-06", "0.01"), (24, "0.0004267", "0.01")]
)
def test_a_variance_beside_zero_has_no_standard_error_of_its_curvature(seed, shown, nats):
    y = np.random.default_rng(seed).normal(size=60)
    fit = fo.fit(fo.models.Structural(), y, restarts=2, optima=0)
    row = fit.to_dataframe().set_index("name").loc["level"]
    worse = row["value"] + row["se"]
    assert row["note"] == f"0 is within {nats} nats"
    assert (
        f"  level: {shown} (no standard error applies, {row['note']}; half a nat worse at {worse:.4g})"
        in str(fit)
    )

    def profile(level):
        fixed = fo.models.Structural(frozen={"level": level})
        return fo.fit(fixed, y, restarts=1, optima=0).value - fit.value

    assert 0.0 < profile(0.0) < float(nats)
    assert profile(worse) == pytest.approx(0.5, abs=0.1)
    by_curvature = 2.0 * fit.theta[0] * row["theta_se"] * fit.data.values.std() ** 2
    assert row["se"] > 1.5 * by_curvature


def test_nats_are_rounded_up():
    rise = np.array([-0.1, 0.004, 0.014, 0.441, 0.4999, np.nan, np.inf])
    found = _nats(SmallVariances(np.zeros(7, bool), rise < 0.5, rise, rise))
    assert found[:5] == ["0.01", "0.01", "0.02", "0.45", "0.5"]  # of the others nothing is said


def test_a_variance_far_from_zero_has_its_standard_error():
    y = np.cumsum(np.random.default_rng(1).normal(size=80)) + np.random.default_rng(2).normal(size=80)
    fit = fo.fit(fo.models.Structural(), y, restarts=1, optima=0)
    table = fit.to_dataframe().set_index("name")
    assert table["note"].tolist() == ["", ""]
    assert table.loc["level", "se"] == pytest.approx(
        2.0 * table["value"]["level"] * table["theta_se"]["level"] / abs(table["theta"]["level"])
    )
    assert "nat" not in str(fit).split("level:")[1]


def test_numbers_that_are_not_zero_are_not_printed_as_zero():
    assert in_digits(np.array(1.3e-6)) == "1.3e-06"
    assert in_digits(np.array(0.0)) == "0."
    assert in_digits(np.array([[1.0 - 1e-5, 1e-5], [0.0, -1.0]])) == "[[   1. 1e-05]\n [   0.   -1.]]"
    assert in_digits(np.array([0.25, 0.75])) == "[0.25 0.75]"


def test_a_variance_that_is_known_to_be_zero_is_no_estimate(noise):
    fit, _ = noise
    fixed = fo.fit(fo.models.Structural(frozen={"level": 0.0}), fit.data, restarts=1)
    assert fixed.value == pytest.approx(fit.value, rel=1e-9)
    assert "boundary" not in str(fixed)


def test_newton_steps_hold_a_channel_without_noise():
    """Folds in which a variance of zero has a negative curvature step in all other directions."""
    rng = np.random.default_rng(2)
    factor = np.zeros(80)
    for t in range(1, 80):
        factor[t] = 0.7 * factor[t - 1] + rng.normal()
    noisy = rng.normal(size=(2, 80))
    y = np.column_stack([factor, 0.8 * factor + noisy[0], -0.5 * factor + noisy[1]])
    fit = fo.fit(fo.models.DynamicFactor(1, mean=False), y, restarts=1)
    assert fit.ok
    assert fit.params["noise"][0] == pytest.approx(0.0, abs=1e-12)
    folds = fo.folds.blocks(fit.data, percent=5, n=8, seed=0)
    weights = folds.weights_of(range(len(folds)))
    thetas = np.tile(fit.theta, (len(folds), 1))
    curved = fit.objective.hessians(thetas, weights)[:, 4, 4]
    assert fit.names[4] == "noise[0]"
    assert (curved < 0).any()
    cv = fo.cross_validate(fit, folds, method="newton")
    exact = fo.cross_validate(fit, folds, method="exact", optima=0)
    assert cv.folds["ok"].all()
    said = np.array(["held at zero" in text for text in cv.folds["status"]])
    np.testing.assert_array_equal(said, np.abs(exact.theta[:, 4]) > 1e-6)
    apart = np.abs(cv.folds["loss"] - exact.folds["loss"])
    assert (apart <= 3.0 * cv.folds["error"] + 1e-3).all()
    assert cv.theta[:, 4] == pytest.approx(fit.theta[4], abs=1e-12)


@cache
def _wandering(seed):
    """A fit whose level is at zero, although the level of these 25 numbers moves."""
    rng = np.random.default_rng(seed)
    fit = fo.fit(fo.models.Structural(), np.cumsum(0.3 * rng.normal(size=25)) + rng.normal(size=25))
    assert fit.params["level"] == pytest.approx(0.0, abs=1e-12)
    return fit


def _without(fit, point):
    """The level of a refit without one point, and the loss of the point."""
    y = fit.data.values[0, :, 0].copy()
    y[point] = np.nan
    refit = fo.fit(fit.model, y, restarts=3)
    theta = fit.objective.space.to_free(refit.params)
    weights = fo.folds.points(fit.data).weights_of([point])
    scored = np.array([[point]])
    return refit.params["level"], fit.objective.pointwise_losses(theta[None], weights, scored).mean()


@pytest.mark.parametrize("gradients", [1000, 0])  # by gradients of each point, or by one sweep of all
@pytest.mark.parametrize(("seed", "point"), [(107, 18), (113, 4), (112, 2)])
def test_points_leave_zero_where_it_is_no_optimum_without_them(monkeypatch, seed, point, gradients):
    monkeypatch.setattr("fitonce.crossval.loo._FEW", gradients)
    fit = _wandering(seed)
    cv = fo.loo(fit)
    level, loss = _without(fit, point)
    assert level > 1e-3
    assert cv.folds["status"][point] == "stationary, left zero at 'level'"
    assert cv.folds["loss"][point] == pytest.approx(loss, abs=1e-5)
    assert cv.folds["rung"][point] == "refit"
    assert cv.folds["gradients"][point] > 2
    assert cv.folds["move"][point] > 0.1
    stayed = next(t for t in range(25) if "zero" not in cv.folds["status"][t])
    level, loss = _without(fit, stayed)
    assert level == pytest.approx(0.0, abs=1e-8)
    assert cv.folds["loss"][stayed] == pytest.approx(loss, abs=0.02)


def test_points_that_are_not_refitted_are_off_by_what_they_say():
    fit = _wandering(113)
    cv = fo.loo(fit, refine=False)
    assert cv.folds["status"][4] == (
        "approximate, but 'level' is held at zero, which is no optimum of this fold"
    )
    error = abs(cv.folds["loss"][4] - _without(fit, 4)[1])
    assert error <= cv.folds["error"][4] <= 3.0 * error


@pytest.mark.parametrize("seed", [107, 112])
def test_one_sweep_finds_the_points_whose_gradients_rise(seed):
    fit = _wandering(seed)
    curve, level = fo.curvature(fit), fit.names.index("level")
    above = np.tile(fit.theta, (25, 1))
    found = points_that_rise(curve, np.arange(25), above)
    above[:, level] = 1e-2 * curve.scale[level]
    slopes = fit.objective.gradients(above, 1.0 - np.eye(25))[:, level]
    assert 0 < len(found) < 25
    np.testing.assert_array_equal(found, np.flatnonzero(slopes < 0))
