"""Moving averages with roots on the unit circle: ordinary optima, which folds may leave."""

from __future__ import annotations

import numpy as np
import pytest

import fitonce as fo
from fitonce.crossval.from_zero import beyond, points_that_rise
from fitonce.fitting.curvature import curvature
from fitonce.models.space.moving_averages import invertible, unit_roots


@pytest.fixture(scope="module")
def differenced():
    """A fit of white noise that was differenced once too often, and blocks of it."""
    x = np.diff(np.random.default_rng(9).normal(size=81))
    fit = fo.fit(fo.models.SARIMAX((0, 0, 1)), x)
    return fit, fo.folds.blocks(fit.data, percent=10, n=8)


def _cold(fit, folds, fold):
    """The refit of a fold from several starts, and its mean loss."""
    y = fit.data.values[0, :, 0].copy()
    y[np.asarray(folds.dropped[fold])] = np.nan
    found = fo.fit(fit.model, y, restarts=4)
    scored = np.asarray(folds.scored[fold])[None]
    theta = fit.objective.space.to_free(found.params)[None]
    return found, fit.objective.pointwise_losses(theta, folds.weights_of([fold]), scored).mean()


def _spectrum(coefficients, variance):
    """Autocovariances of a moving average."""
    theta = np.append(1.0, coefficients)
    return variance * np.correlate(theta, theta, "full")


def test_a_fit_on_the_unit_circle_is_certified_and_says_where_it_is(differenced):
    fit, _ = differenced
    assert fit.ok
    assert fit.params["ma"] == pytest.approx([-1.0], abs=1e-7)
    assert "ma: [-1.] (with a root on the unit circle)" in str(fit)


def test_the_optimum_is_that_of_statsmodels(differenced):
    sm = pytest.importorskip("statsmodels.api")
    fit, _ = differenced
    peer = sm.tsa.SARIMAX(fit.data.values[0, :, 0], order=(0, 0, 1), enforce_invertibility=False)
    assert fit.log_likelihood == pytest.approx(peer.loglike([-1.0, fit.params["sigma2"]]), abs=1e-9)
    begun = [peer.fit([start, 1.0], disp=0).llf for start in (-0.9, -0.5, 0.5)]
    assert fit.log_likelihood >= max(begun) - 1e-6


def test_two_differences_too_many_have_two_unit_roots():
    x = np.diff(np.random.default_rng(4).normal(size=82), n=2)
    fit = fo.fit(fo.models.SARIMAX((0, 0, 2)), x)
    assert fit.ok
    assert np.abs(np.roots(np.append(1.0, fit.params["ma"]))) == pytest.approx([1.0, 1.0], abs=1e-6)


def test_an_airline_model_on_noise_with_a_season_is_certified():
    steps = np.arange(96)
    y = np.random.default_rng(2).normal(size=96) + np.sin(2 * np.pi * steps / 4)
    fit = fo.fit(fo.models.SARIMAX((0, 1, 1), (0, 1, 1, 4)), y, restarts=2)
    assert fit.ok
    folds = fo.folds.blocks(fit.data, percent=10, n=4)
    exact = fo.cross_validate(fit, folds, method="exact")
    assert exact.folds["ok"].all()
    losses = fo.cross_validate(fit, folds).folds["loss"].to_numpy()
    assert losses == pytest.approx(exact.folds["loss"].to_numpy(), abs=5e-3)


def test_folds_leave_the_circle_where_it_is_no_optimum_of_theirs(differenced):
    fit, folds = differenced
    cv = fo.cross_validate(fit, folds)
    left = [k for k, text in enumerate(cv.folds["status"]) if "left a unit root at 'ma'" in text]
    assert left
    for fold in {0, *left}:
        refit, loss = _cold(fit, folds, fold)
        inside = abs(refit.params["ma"][0]) < 1 - 1e-3
        assert inside == (fold in left)
        assert abs(cv.params(fold)["ma"][0]) < 1 + 1e-6  # as invertible as fits are
        assert cv.folds["loss"][fold] == pytest.approx(loss, abs=1e-6 if inside else 2e-3)


def test_a_step_that_stays_on_the_circle_says_so(differenced):
    fit, folds = differenced
    cv = fo.cross_validate(fit, folds, method="onestep")
    held = [k for k, text in enumerate(cv.folds["status"]) if "'ma' is held at a unit root" in text]
    assert [k for k in range(8) if abs(_cold(fit, folds, k)[0].params["ma"][0]) < 1 - 1e-3] == held
    error = abs(cv.folds["loss"][held[0]] - _cold(fit, folds, held[0])[1])
    assert error / 2 < cv.folds["error"][held[0]] < 3 * error


@pytest.mark.parametrize(("gain", "stays"), [(0.0, False), (-1.0, True)])
def test_only_an_optimum_that_is_as_good_takes_the_remark_away(differenced, monkeypatch, gain, stays):
    """One that is worse says nothing about where the fold is."""
    fit, folds = differenced
    worse = lambda *given: ((fold, end, status, gain) for fold, end, status, _ in beyond(*given))  # noqa: E731
    monkeypatch.setattr("fitonce.crossval.from_zero.beyond", worse)
    cv = fo.cross_validate(fit, folds, method="onestep")
    assert cv.folds["status"].str.contains("held at a unit root").any() == stays


def test_newton_steps_hold_unit_roots(differenced):
    fit, folds = differenced
    cv = fo.cross_validate(fit, folds, method="newton")
    assert cv.folds["ok"].all()
    assert cv.theta[:, 0] == pytest.approx(-1.0, abs=1e-4)


def test_one_sweep_tells_which_points_leave_the_circle(differenced):
    fit, _ = differenced
    points = np.arange(fit.n_sites)
    theta = np.tile(fit.theta, (len(points), 1))
    said = points_that_rise(curvature(fit), points, theta)
    y = fit.data.values[0, :, 0]
    for point in (*said[:2], *np.setdiff1d(points, said)[:2]):
        refit = fo.fit(fit.model, np.where(points == point, np.nan, y), restarts=2)
        assert (abs(refit.params["ma"][0]) < 1 - 1e-4) == (point in said)


def test_influence_refits_without_points_that_leave_the_circle(differenced):
    """To first order none of them moves the root."""
    fit, _ = differenced
    found, all_exact = fo.influence(fit), fo.influence(fit, refine=fit.n_sites)
    largest = all_exact.table["displacement"].nlargest(5).index
    assert set(largest) <= set(found.table.index[found.table["how"] == "exact"])
    np.testing.assert_allclose(
        found.table["ma[0]"][largest], all_exact.table["ma[0]"][largest], atol=1e-5
    )
    assert (all_exact.table["ma[0]"] > -1e-3).all()  # inwards, from -1


def test_a_bootstrap_to_first_order_says_that_it_holds_a_unit_root(differenced):
    fit, _ = differenced
    held, exact = (fo.bootstrap(fit, n=100, method=method) for method in ("ij", "exact"))
    assert held.held == ("'ma' at a unit root",)
    assert "trust: bad; draws stay where the fit is ('ma' at a unit root)" in str(held)
    assert exact.held == ()
    assert "trust: every draw is a certified refit" in str(exact)
    assert held.table["se"][0] < 1e-6 < 1e-3 < exact.table["se"][0]
    assert (np.abs(exact.draws[:, 0]) < 1 + 1e-9).all()


def test_fits_are_invertible_whatever_they_start_from():
    e = np.random.default_rng(3).normal(size=121)
    x = e[1:] + 0.6 * e[:-1]
    inside = fo.fit(fo.models.SARIMAX((0, 0, 1)), x)
    start = {"ma": [1 / 0.6], "sigma2": 0.36}
    outside = fo.fit(inside.model, x, init=start)
    assert outside.params["ma"] == pytest.approx(inside.params["ma"], rel=1e-6)
    mirrored = fo.fit_at(
        inside.model,
        x,
        {"ma": 1 / inside.params["ma"], "sigma2": inside.params["sigma2"] * inside.params["ma"][0] ** 2},
    )
    assert mirrored.log_likelihood == pytest.approx(inside.log_likelihood, abs=1e-9)
    assert mirrored.ok


@pytest.mark.parametrize("coefficients", [[2.0], [-3.0, 1.5], [0.2, 4.0, -1.0, 0.0], [-0.5]])
def test_the_invertible_moving_average_is_the_same_process(coefficients):
    found, factor = invertible(np.array(coefficients))
    assert np.abs(np.roots(np.append(1.0, found))).max() < 1
    assert _spectrum(found, factor) == pytest.approx(_spectrum(coefficients, 1.0), abs=1e-12)


@pytest.mark.parametrize("roots", [[1.0, 0.5], [np.exp(0.4j), np.exp(-0.4j), 0.3], [-1.0]])
def test_processes_on_both_sides_of_the_circle_are_the_same(roots):
    """The slopes are those of a path on which they are, to second order."""
    coefficients = np.poly(roots).real[1:]
    ((slopes, change),) = unit_roots(coefficients)
    h = 1e-4
    sides = [_spectrum(coefficients + s * h * slopes, np.exp(s * h * change)) for s in (-1.0, 1.0)]
    assert sides[0] == pytest.approx(sides[1], abs=10 * h**2)
    assert np.abs(slopes).max() > 0.1


def test_fits_without_noise_on_the_unit_circle_are_printed():
    x = np.diff(np.random.default_rng(9).normal(size=41))
    model = fo.models.SARIMAX((0, 0, 1), measurement_error=True)
    fit = fo.fit_at(model, x, {"ma": [-1.0], "sigma2": 0.0, "noise": 1.0})
    assert "ma: [-1.] (with a root on the unit circle)" in str(fit)


def test_known_coefficients_have_no_mirror():
    x = np.diff(np.random.default_rng(9).normal(size=41))
    fit = fo.fit(fo.models.SARIMAX((0, 0, 1), frozen={"ma": [-1.0]}), x)
    assert fit.ok
    assert fit.objective.mirrors(fit.theta) == []


def test_roots_are_not_turned_where_the_noise_is_frozen():
    """The invertible form of the same process has another variance."""
    params = {"ma": np.array([-1.25]), "sigma2": np.array(1.0)}
    turned = fo.models.SARIMAX((0, 0, 1)).canonical(params)
    np.testing.assert_allclose([turned["ma"][0], turned["sigma2"]], [-0.8, 1.5625])
    held = fo.models.SARIMAX((0, 0, 1), frozen={"sigma2": 1.0}).canonical(params)
    assert held is params
