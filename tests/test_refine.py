"""Refinement: certified ends, few gradients, folds that resist, budgets."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import fitonce as fo
from canonical import COUNTS, POISSON, poisson_fit
from fitonce.core.status import Rung
from fitonce.crossval.batches import Batches
from fitonce.crossval.fold_states import lengths, start
from fitonce.crossval.refine import _refit, advance, refine
from fitonce.fitting.differences import hessians_by_differences
from fitonce.fitting.newton import minimise

pytestmark = pytest.mark.xdist_group("canonical")  # one worker makes the fits that they share


@pytest.fixture(scope="module")
def fit():
    return poisson_fit()


@pytest.fixture(scope="module")
def folds():
    return fo.folds.sites([[5], range(14, 22), range(30, 33), [0, 25, 50]], COUNTS)


@pytest.fixture(scope="module")
def cv(fit, folds):
    return fo.cross_validate(fit, folds, method="exact", optima=0)


def test_ends_are_certified_minima(fit, folds, cv):
    assert cv.folds["ok"].all()
    assert (cv.folds["status"] == "stationary").all()
    for fold in range(len(folds)):
        weights = folds.weights_of([fold])
        gradient = fit.objective.gradients(cv.theta[[fold]], weights)[0]
        hessian = fit.objective.hessians(cv.theta[[fold]], weights)[0]
        lowest = np.linalg.eigvalsh(hessian)[0]
        assert lowest > 0
        assert np.sqrt(gradient @ np.linalg.solve(hessian, gradient)) < 1e-8


def test_a_small_fold_leaves_the_batch_before_a_large_one(cv):
    used = cv.folds["gradients"]
    assert used[0] < used[1]
    assert (used <= 8).all()
    assert (cv.folds["hessians"] >= 1).all()


def test_the_certifying_hessian_was_taken_near_the_end(fit, folds):
    """Also where an earlier one was taken far out, to repair a slow start."""
    curve = fo.curvature(fit)
    batches = Batches.of(curve.objective, folds.weights)
    state = start(batches, curve)
    state.inverses *= 30.0
    refine(batches, state, np.arange(4), curve)
    assert state.certain.all()
    for fold in range(4):
        hessian = fit.objective.hessians(state.thetas[[fold]], folds.weights[[fold]])[0]
        np.testing.assert_allclose(
            np.linalg.inv(state.inverses[fold]), hessian, atol=2e-3 * np.diag(hessian).max()
        )


def test_the_error_of_a_certified_fold_is_at_rounding_level(cv):
    assert (cv.folds["error"] < 1e-8).all()
    assert (cv.folds["verdict"] == "good").all()


def test_hessians_by_differences_have_four_digits(fit, folds):
    curve = fo.curvature(fit)
    batches = Batches.of(curve.objective, folds.weights)
    which = np.arange(len(folds))
    thetas = np.tile(fit.theta, (len(folds), 1))
    _, gradients = batches.values_and_gradients(thetas, which)
    scale = np.sqrt(np.diag(curve.inverse))
    assert not fit.objective.traits.exact_hessians
    found = batches.hessians(thetas, gradients, scale, which)
    expected = fit.objective.hessians(thetas, folds.weights)
    unit = np.sqrt(np.einsum("fii->fi", expected))
    error = np.abs(found - expected) / unit[:, :, None] / unit[:, None]
    assert error.max() < 5e-5
    assert batches.gradients_used.tolist() == [1] * 4
    assert batches.hessians_used.tolist() == [1] * 4


def test_a_secant_makes_the_inverse_exact_along_the_step(fit, folds):
    curve = fo.curvature(fit)
    batches = Batches.of(curve.objective, folds.weights)
    state = start(batches, curve)
    before, gradients = state.thetas.copy(), state.gradients.copy()
    assert advance(batches, state, np.arange(4)).all()
    image = np.einsum("fij,fj->fi", state.inverses, state.gradients - gradients)
    np.testing.assert_allclose(image, state.thetas - before, rtol=1e-8, atol=1e-12)


def test_a_step_that_raises_the_objective_is_not_taken(fit, folds):
    curve = fo.curvature(fit)
    batches = Batches.of(curve.objective, folds.weights)
    state = start(batches, curve)
    state.inverses *= 50.0
    before = state.thetas.copy()
    taken = advance(batches, state, np.arange(4))
    assert not taken[1]
    np.testing.assert_array_equal(state.thetas[~taken], before[~taken])
    assert (state.shares[~taken] < 1).all()


def test_a_wrong_inverse_is_repaired_by_the_folds_own_hessian(fit, folds, cv):
    curve = fo.curvature(fit)
    batches = Batches.of(curve.objective, folds.weights)
    state = start(batches, curve)
    state.inverses *= 30.0
    refine(batches, state, np.arange(4), curve)
    np.testing.assert_allclose(state.thetas, cv.theta, atol=1e-7)
    assert Rung.REFINE_OWN in set(state.rungs)


def test_lengths_by_an_indefinite_matrix_are_nan():
    assert np.isnan(lengths(np.ones((1, 2)), -np.ones((1, 2))))[0]


def double_well():
    """F = 10 (x^4 - 2 w x^2), w the share of data kept: minima at sqrt(w) and at minus that."""

    def log_density(params, data, weights):
        x = params["x"]
        return -jnp.sum(data * 0) - (x**4 - 2.0 * jnp.mean(weights) * x**2) * 10.0

    model = fo.models.Custom(log_density, {"x": 0.9}, heldout=lambda p, d, w: p["x"] + 0.0 * w)
    return fo.fit(model, np.arange(4.0))


def test_a_fold_far_from_the_fit_is_reached():
    fit = double_well()
    assert fit.theta[0] == pytest.approx(1.0)
    folds = fo.folds.sites([[0, 1, 2]], 4)
    exact = fo.cross_validate(fit, folds, method="exact")
    assert exact.folds["ok"].all()
    assert exact.theta[0, 0] == pytest.approx(0.5, abs=1e-8)
    one = fo.cross_validate(fit, folds, method="onestep")
    assert one.folds["verdict"][0] != "good"
    auto = fo.cross_validate(fit, folds)
    assert auto.theta[0, 0] == pytest.approx(0.5, abs=1e-8)
    assert auto.folds["rung"][0] not in ("none", "onestep")


def test_a_fold_that_carries_a_parameter_is_named():
    counts = np.random.default_rng(1).poisson(np.repeat([3.0, 40.0, 3.0], [26, 8, 26])).astype(float)
    fit = fo.fit(POISSON, counts)
    cv = fo.cross_validate(fit, fo.folds.sites([range(25, 35), range(5, 11)], counts))
    assert cv.folds["ok"][0]
    assert cv.folds["verdict"].tolist() == ["fair", "good"]
    assert cv.folds["move"][0] > 10
    assert "mainly on the data left out, and there may be another optimum" in cv.folds["status"][0]
    assert "fold 0: stationary" in repr(cv)


def test_a_fold_without_a_minimum_keeps_its_sentence():
    def log_density(params, data, weights):
        return -0.5 * jnp.sum(weights * (data - params["m"]) ** 2) - 0.5 * weights[0] * params["b"] ** 2

    fit = fo.fit(fo.models.Custom(log_density, {"m": 0.0, "b": 1.0}), np.arange(6.0))
    cv = fo.cross_validate(fit, fo.folds.sites([[0], [1]], 6))
    assert not cv.folds["ok"][0]
    assert "flat or downhill along 'b'" in cv.folds["status"][0]
    assert cv.folds["verdict"][0] == "bad"
    assert cv.folds["ok"][1]
    assert cv.n_failed == 1
    assert cv.estimate == cv.folds["loss"][1]
    assert "1 of 2 folds without a usable number, left out" in cv.treatment
    assert "fold 0: not a minimum" in repr(cv)


@pytest.mark.parametrize("method", ["auto", "exact"])
def test_a_budget_leaves_folds_where_they_are_and_says_so(fit, folds, method):
    cv = fo.cross_validate(fit, folds, method=method, max_gradients=8, tolerance=1e-9)
    assert cv.folds["gradients"].sum() <= 8 + 3 * len(folds)  # a round and its checks are ended
    assert cv.folds["ok"].all()
    assert (cv.folds["verdict"] != "good").all()
    assert cv.folds["status"].str.contains("the budget ended").all()


@pytest.mark.parametrize("most", [1, 5, 12, 30])
def test_losses_belong_to_the_parameters_whatever_the_budget(fit, folds, most):
    cv = fo.cross_validate(fit, folds, max_gradients=most, tolerance=1e-9)
    for fold in range(len(folds)):
        there = fo.fit_at(fit.model, COUNTS, cv.params(fold))
        alone = fo.folds.sites([folds.dropped[fold]], COUNTS)
        loss = fo.cross_validate(there, alone, method="none", check=False).estimate
        assert cv.folds["loss"][fold] == pytest.approx(loss, rel=1e-10)


def test_a_budget_of_no_time_is_the_control(fit, folds):
    cv = fo.cross_validate(fit, folds, max_seconds=1e-9)
    np.testing.assert_array_equal(cv.folds["loss"], cv.folds["control"])
    assert (cv.folds["verdict"] == "unchecked").all()


def test_folds_that_are_refitted_together_end_where_each_does_alone(fit):
    curve, folds = fo.curvature(fit), fo.folds.blocks(COUNTS, 20, n=20)
    ends = fo.cross_validate(fit, folds, method="exact")
    batches = Batches.of(curve.objective, folds.weights)
    state = start(batches, curve)
    state.thetas[:] = np.nan  # refits start at the full fit
    _refit(batches, state, np.arange(20), curve)
    assert all(status.ok for status in state.status)
    assert all(rung is Rung.REFIT for rung in state.rungs)
    np.testing.assert_allclose(state.thetas, ends.theta, atol=1e-7)
    assert (batches.gradients_used >= 2).all()
    assert (batches.hessians_used >= 1).all()
    assert len(set(batches.gradients_used)) > 1  # each fold's own


def test_hessians_by_differences_lead_to_the_same_minimum(fit):
    objective, rng = fit.objective, np.random.default_rng(0)
    far = fit.theta + 0.5 * rng.normal(size=(6, len(fit.theta)))
    weights = np.tile(objective.base, (6, 1))
    exact = minimise(objective, far, weights, tolerance=1e-9)
    rough = minimise(objective, far, weights, tolerance=1e-9, scale=fo.curvature(fit).scale)
    for end in (exact, rough):
        assert all(end.status(row, fit.names, 1e-9).ok for row in range(6))
    np.testing.assert_allclose(rough.thetas, exact.thetas, atol=1e-8)
    truth = objective.hessians(rough.thetas, weights)
    np.testing.assert_allclose(rough.hessians, truth, rtol=1e-10)  # exact at the end
    scale = fo.curvature(fit).scale
    evaluate = lambda thetas, rows: objective.values_and_gradients(thetas, weights[rows])  # noqa: E731
    points = (far, evaluate(far, np.arange(6))[1], scale, np.arange(6))
    found, truth = hessians_by_differences(evaluate, *points), objective.hessians(far, weights)
    error = np.abs(found - truth) * scale[:, None] * scale
    assert error.max() < 1e-5 * np.abs(truth * scale[:, None] * scale).max()


def test_a_saddle_is_left_downhill(fit):
    """Of a double well, from the ridge between the wells."""
    model = fo.models.Custom(
        lambda p, d, w: -jnp.sum(w * ((p["x"] ** 2 - 1.0) ** 2 + (p["y"] - d) ** 2)),
        {"x": 0.9, "y": 2.0},
    )
    fit = fo.fit(model, np.arange(6.0))
    curve = fo.curvature(fit)
    batches = Batches.of(curve.objective, np.array([[0.0, 1.0, 1.0, 1.0, 1.0, 1.0]]))
    state = start(batches, curve)
    _refit(batches, state, np.arange(1), replace(curve, theta=np.array([0.0, 2.0])))
    assert state.status[0].ok
    assert abs(state.thetas[0, 0]) == pytest.approx(1.0, abs=1e-6)
    assert batches.hessians_used[0] >= 5  # at the saddle, beside it on both sides, and in both wells
