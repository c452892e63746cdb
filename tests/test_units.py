"""Nothing that is judged depends on the units of the data; what is reported is in the user's."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import jax
import numpy as np
import pytest

import fitonce as fo
from ar_cases import walk
from fitonce.core.constraints import Covariance, Free, Positive
from fitonce.core.parameters import ParameterSpace
from fitonce.core.units import Units, in_units, stretch_of
from fitonce.fitting.certificate import lowest_scaled
from fitonce.models.emissions.autoregression import LinearAutoregression
from fitonce.objectives.chain.complete_information import complete_information
from fitonce.objectives.families import objective_of

COVARIANCES = ("diag", "full", "tied")
UNIT = np.array([0.5, 1.0, 4.0])
FACTORS = (1e-6, 1e6)
SHIFT = 1e5


def series():
    rng = np.random.default_rng(3)
    z = np.cumsum(rng.random(160) < 0.08) % 2
    noise = rng.normal(size=(160, 2)) @ np.array([[1.0, 0.4], [0.0, 0.8]])
    return np.array([[0.0, 0.0], [2.5, 1.0]])[z] + noise


def model(covariance):
    return fo.models.GaussianHMM(2, covariance=covariance)


@lru_cache
def fitted(covariance, factor=1.0, shift=0.0):
    x = series() * [1.0, factor] + [0.0, shift]
    fit = fo.fit(model(covariance), x.reshape(8, 20, 2), restarts=2)
    return fit, fo.cross_validate(fit, fo.folds.kfold(fit.data, 8, seed=0))


def converted(params, factor, shift=0.0):
    """Parameters of the first units in those of the second channel times factor, plus shift."""
    scale = np.array([1.0, factor])
    found = dict(params) | {"mean": params["mean"] * scale + [0.0, shift]}
    if "variance" in params:
        return found | {"variance": params["variance"] * scale**2}
    return found | {"covariance": params["covariance"] * np.outer(scale, scale)}


def same_params(found, expected, digits=9):
    """Relative to the size of each channel's entries."""
    for name, value in expected.items():
        size = np.abs(value).max(0, keepdims=True)
        np.testing.assert_allclose(found[name] / size, value / size, atol=10.0**-digits)


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_a_channel_in_other_units_changes_no_verdict_and_no_loss(covariance, factor):
    (fit, cv), (other, folds) = fitted(covariance), fitted(covariance, factor)
    assert fit.ok
    assert other.ok
    assert other.status.outcome == fit.status.outcome
    assert other.distance < 1e-9
    lowest = [lowest_scaled(one.H) for one in (fit, other)]
    assert lowest[1] == pytest.approx(lowest[0], rel=1e-6)
    constant = len(series()) * np.log(factor)
    assert other.log_likelihood == pytest.approx(fit.log_likelihood - constant, rel=1e-11)
    same_params(other.params, converted(fit.params, factor))
    assert (folds.folds["verdict"] == cv.folds["verdict"]).all()
    assert (folds.folds["rung"] == cv.folds["rung"]).all()
    expected = cv.folds["loss"] + np.log(factor)  # of a point, on average
    np.testing.assert_allclose(folds.folds["loss"], expected, rtol=1e-9)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_a_shifted_channel_changes_no_verdict_and_no_loss(covariance):
    (fit, cv), (other, folds) = fitted(covariance), fitted(covariance, shift=SHIFT)
    assert other.ok
    same_params(other.params | {"mean": other.params["mean"] - [0.0, SHIFT]}, dict(fit.params), 8)
    assert (folds.folds["verdict"] == cv.folds["verdict"]).all()
    np.testing.assert_allclose(folds.folds["loss"], cv.folds["loss"], rtol=1e-7)


@pytest.mark.parametrize("factor", FACTORS)
def test_priors_and_fixed_variances_are_in_the_users_units(factor):
    x = series().reshape(8, 20, 2)
    for options in (
        {"mean_scale": 3.0, "scale": 0.3},
        {"covariance": "full", "mean_scale": 3.0, "scale": 0.3},
        {"covariance": "spherical", "scale": 0.3},
        {"covariance": "fixed", "variance": 0.8},
    ):
        there = {k: v * factor for k, v in options.items() if k in ("mean_scale", "scale")}
        if "variance" in options:
            there["variance"] = options["variance"] * factor**2
        fit = fo.fit(fo.models.GaussianHMM(2, **options), x, restarts=1)
        other = fo.fit(fo.models.GaussianHMM(2, **options | there), x * factor, restarts=1)
        assert fit.ok
        assert other.ok
        np.testing.assert_allclose(other.params["mean"], factor * fit.params["mean"], rtol=1e-9)


@pytest.mark.parametrize("kernel", ["native", pytest.param("scan", marks=pytest.mark.slow)])
def test_an_autoregression_in_other_units_is_the_same(kernel):
    """In both objectives: derivatives of one come from JAX, of the other partly from closed forms."""
    x, found = walk(80, seed=6), []
    for factor in (1.0, 1e-5):
        ours = fo.models.ARHMM(2, 1, bias_scale=factor)
        found.append(fo.fit(ours, factor * x, restarts=1, kernel=kernel))
    assert found[0].ok
    assert found[1].ok
    np.testing.assert_allclose(found[1].params["weight"], found[0].params["weight"], atol=1e-8)
    np.testing.assert_allclose(found[1].params["bias"], 1e-5 * found[0].params["bias"], atol=1e-13)
    assert found[1].params["variance"] == pytest.approx(1e-10 * found[0].params["variance"], rel=1e-8)


def test_closed_forms_of_an_autoregression_are_by_coordinates_in_units():
    """The information in closed form against the one from directions, by JAX."""
    objective = objective_of(fo.models.ARHMM(2, 1, noise="state"), 1e-5 * walk(40, seed=6), "scan")
    assert (stretch_of(objective.space) != 1.0).any()
    theta = objective.start(None)
    sample = objective.sample(objective.base)
    plain = replace(LinearAutoregression.traits, information=False)
    with jax.enable_x64(True), pytest.MonkeyPatch.context() as patch:
        closed = complete_information(sample, theta)
        patch.setattr(LinearAutoregression, "traits", plain)
        derived = complete_information(sample, theta)
    for name in ("own", "own_shared", "shared"):
        np.testing.assert_allclose(getattr(closed, name), getattr(derived, name), rtol=1e-9, atol=1e-9)


def test_start_and_standard_errors_are_in_the_users_units():
    (fit, _), (other, _) = fitted("full"), fitted("full", 1e6)
    for ours in (fo.fit_at(model("full"), other.data, other.params),
                 fo.fit(model("full"), other.data, init=other.params)):  # fmt: skip
        assert ours.ok
        same_params(ours.params, dict(other.params))
    one, two = (f.to_dataframe().set_index("name")["se"] for f in (fit, other))
    assert two["mean[0,1]"] == pytest.approx(1e6 * one["mean[0,1]"], rel=1e-8)
    assert two["covariance[0,1,0]"] == pytest.approx(1e6 * one["covariance[0,1,0]"], rel=1e-8)
    assert two["covariance[1,1,1]"] == pytest.approx(1e12 * one["covariance[1,1,1]"], rel=1e-8)
    assert two["transition[0,0]"] == pytest.approx(one["transition[0,0]"], rel=1e-8)


def test_other_data_are_read_in_the_units_of_the_fit():
    fit, _ = fitted("diag")
    few = 100.0 + 50.0 * series()[:30]  # whose own units are others
    alone = fo.fit_at(fit.model, few, fit.params)
    assert fit.log_likelihood_of(few).sum() == pytest.approx(alone.log_likelihood, rel=1e-12)
    np.testing.assert_allclose(fo.marginals(fit, few)[0], alone.posterior(), atol=1e-12)
    np.testing.assert_array_equal(fo.predict(fit, few)[0], fo.predict(alone)[0])


# --- coordinates ---------------------------------------------------------------------------------------


def test_units_are_coarse_powers_of_two_and_origins_their_multiples():
    mean, variance = np.array([0.1, 1e6, -7.3, 5.0]), np.array([100.0, 1e10, 1e-6, 0.0])
    unit, origin = Units.of(mean, variance)
    np.testing.assert_array_equal(unit, [1.0, 2.0**16, 2.0**-8, 1.0])
    np.testing.assert_array_equal(origin, [0.0, 0.0, -7.0, 0.0])


def test_no_units_where_they_are_one():
    plain = Free((2, 3))
    assert in_units(plain, np.ones(3)) is plain
    np.testing.assert_array_equal(stretch_of(ParameterSpace(plain)), np.ones(6))


@pytest.mark.parametrize(
    ("plain", "unit", "origin"),
    [
        (Free((2, 3)), UNIT, np.array([1.0, 0.0, -8.0])),
        (Positive((2, 3)), UNIT**2, 0.0),
        (Covariance((2, 3, 3)), np.outer(UNIT, UNIT), 0.0),
    ],
    ids=["free", "positive", "covariance"],
)
def test_coordinates_in_units_go_there_and_back_and_stretch_by_what_they_say(plain, unit, origin):
    constraint = in_units(plain, unit, origin)
    free = np.random.default_rng(0).normal(size=len(plain.coordinates()))
    value = constraint.values(free[:, None])[..., 0]
    assert constraint.violation(value) is None
    np.testing.assert_allclose(constraint.to_free(value), free, rtol=1e-12)
    moved = [
        plain.to_free(constraint.values((free + 0.5 * side)[:, None])[..., 0])
        for side in (np.ones(len(free)), -np.ones(len(free)))
    ]
    stretch = stretch_of(ParameterSpace(constraint))
    np.testing.assert_allclose(moved[0] - moved[1], stretch, rtol=1e-12)
