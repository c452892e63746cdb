"""Results of statsmodels: the same log-likelihood, derivatives and folds."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import fitonce as fo
from statsmodels_cases import NAMES, Results, data, fitted, stored


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_result_has_its_log_likelihood_and_can_be_polished(name):
    results = stored(name)
    fit = fo.from_statsmodels(results)
    assert fit.log_likelihood == pytest.approx(results.llf, abs=1e-8)
    assert fit.value == pytest.approx(-results.llf, abs=1e-8)  # no prior
    polished = fit.polish()
    assert polished.ok, polished.status
    assert -1e-9 <= fit.value - polished.value < 1e-3  # BFGS stops near the minimum


def test_an_imported_fit_is_cross_validated_and_forecast():
    """Neither of which statsmodels does."""
    fit = fo.from_statsmodels(stored("mixed")).polish()
    folds = fo.folds.blocks(fit.data, percent=10, n=6, seed=0)
    auto = fo.cross_validate(fit, folds, optima=0)
    exact = fo.cross_validate(fit, folds, method="exact", optima=0)
    np.testing.assert_allclose(auto.folds["loss"], exact.folds["loss"], atol=1e-3)
    ahead = fit.forecast(3, covariates=np.zeros((3, 2)), n=4000)
    shares = np.asarray(fit.posterior())[-1] @ np.linalg.matrix_power(fit.params["transition"], 3)
    expected = shares @ fit.params["mean"][:, 0]
    assert ahead.mean[-1, 0] == pytest.approx(expected, abs=0.1)


def test_forecasts_go_on_where_the_index_of_the_data_ends():
    results = stored("mean")
    months = pd.period_range("2000-01", periods=len(results.model.endog), freq="M")
    endog = pd.Series(results.model.endog, index=months)
    results.model.data = SimpleNamespace(orig_endog=endog)
    fit = fo.from_statsmodels(results)
    pd.testing.assert_index_equal(fit.posterior().index, months)
    assert str(fit.forecast(2, n=5).index[0]) == "2007-07"


def _filtered(results, moves):
    """The log-likelihood of states with means and one variance, by the forward recursion."""
    *means, variance = results.params[-4:]
    y, total = np.asarray(results.model.endog), 0.0
    now = np.linalg.matrix_power(moves, 2**20)[0]
    for step in y:
        now = now * np.exp(-0.5 * (step - np.array(means)) ** 2 / variance)
        total += np.log(now.sum() / np.sqrt(2 * np.pi * variance))
        now = now / now.sum() @ moves
    return total


def test_zeros_stay_exact_zeros():
    results = stored("three")
    moves = np.array([[0.9, 0.1, 1e-16], [0.1, 0.8, 0.1], [0.2, 1e-15, 0.8]])
    moves /= moves.sum(1, keepdims=True)
    results.regime_transition = moves.T[..., None]
    with pytest.raises(ValueError, match=r"log-likelihood of these .* is .* here and -168\.02"):
        fo.from_statsmodels(results)
    results.llf = _filtered(results, moves)
    fit = fo.from_statsmodels(results)
    assert fit.params["transition"][0, 2] == fit.params["transition"][2, 1] == 0
    assert fit.params["transition"][2, 0] == pytest.approx(0.2)


class DynamicFactor:
    """As if of statsmodels."""


def _of(model):
    results = Results()
    results.model = model
    return results


def _changed(name, **attributes):
    results = stored(name)
    for key, value in attributes.items():
        setattr(results if hasattr(results, key) else results.model, key, value)
    return results


@pytest.mark.parametrize(
    ("results", "sentence"),
    [
        (_of(DynamicFactor()), "reads results of MarkovRegression.*, got DynamicFactor"),
        (stored("mean").model, "reads results of MarkovRegression.*, got MarkovRegression"),
        (
            _changed("mean", params=np.full(5, np.nan)),
            "must have finite parameters and log-likelihood, got llf = -170",
        ),
        (_changed("mean", llf=np.nan), "must have finite parameters and log-likelihood, got llf = nan"),
        (_changed("mean", endog=np.array([1.0, np.nan])), "endog has missing values"),
        (_changed("trend", exog=np.ones((90, 3))), "exog has 3 constant columns, trend included"),
        (_changed("mean", exog=np.zeros((90, 1))), "exog has a column of zeros"),
        (
            _changed("ar", exog=np.c_[np.ones(90), np.arange(90.0)]),
            "with exog or a trend in time depends on their earlier values",
        ),
        (
            _changed("hamilton", switching_variance=True),
            "of order above 1 is read by the state of an earlier step",
        ),
    ],
)
def test_what_cannot_be_mapped_is_refused_by_name(results, sentence):
    with pytest.raises(ValueError, match=sentence):
        fo.from_statsmodels(results)


def _theirs(fit, made):
    """A function of theta: their parameters, from ours."""
    values = fit.params_at

    def of(theta):
        params, found = values(theta), np.zeros(made.k_params)
        for k in range(made.k_regimes):
            coefficients, emission = [], fit.model.emission
            own, common = getattr(emission, "regressors", ()), getattr(emission, "shared", ())
            for name in made.exog_names if made.exog is not None else []:
                if name in own:
                    coefficients.append(params["coefficients"][k, 0, own.index(name)])
                elif name in common:
                    coefficients.append(params["shared_coefficients"][0, common.index(name)])
                else:
                    coefficients.append(
                        np.ravel(params["mean"])[k if np.size(params["mean"]) > 1 else 0]
                    )
            found[made.parameters[k, "exog"]] = coefficients
            variance = np.ravel(params["variance"])
            found[made.parameters[k, "variance"]] = variance[k if len(variance) > 1 else 0]
            if "weight" in params:
                weight = np.atleast_2d(params["weight"])
                found[made.parameters[k, "autoregressive"]] = weight[k if len(weight) > 1 else 0]
            moves = params["transition"][k]
            if made.tvtp:
                slopes = params["transition_coefficients"][k, :, 0]
                logits = np.stack([np.log(moves / moves[-1]), slopes - slopes[-1]], 1)[:-1]
                found[made.parameters[k, "regime_transition"]] = logits.ravel()
            else:
                found[made.parameters[k, "regime_transition"]] = moves[:-1]
        return found

    return of


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_derivatives_are_differences_of_their_log_likelihood(name):
    results = fitted(name)
    fit = fo.from_statsmodels(results).polish()
    assert fo.from_statsmodels(results).log_likelihood == pytest.approx(results.llf, abs=1e-8)
    theirs, size, step = _theirs(fit, results.model), len(fit.theta), 1e-4

    def score(theta):
        return float(results.model.loglike(theirs(theta)))

    assert score(fit.theta) == pytest.approx(fit.log_likelihood, abs=1e-8)
    away = fit.theta + 0.05 * np.random.default_rng(1).normal(size=size)
    units = step * np.eye(size)
    slopes = [(score(away + u) - score(away - u)) / (2 * step) for u in units]
    ours = -fit.objective.gradients(away[None], fit.objective.base[None])[0]
    np.testing.assert_allclose(ours, slopes, atol=1e-5 * max(1.0, np.abs(ours).max()))
    corners = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
    around = [
        [sum(a * b * score(fit.theta + a * u + b * v) for a, b in corners) for u in units] for v in units
    ]
    np.testing.assert_allclose(-fit.H, np.array(around) / (4 * step**2), atol=1e-4 * np.abs(fit.H).max())


@pytest.mark.slow
def test_their_data_and_the_end_left_out_is_their_refit():
    """Leaving the end of the series out is their fit of what is before it."""
    from statsmodels.tsa.regime_switching.markov_regression import MarkovRegression

    y, known = data()
    fit = fo.from_statsmodels(fitted("mixed")).polish()
    how = {"k_regimes": 2, "switching_exog": [True, False], "switching_variance": True}
    end = fo.folds.sites([np.arange(80, len(y))], fit.data)
    cv = fo.cross_validate(fit, end, method="exact", loss="joint", optima=0)
    start = fitted("mixed").params
    shorter = MarkovRegression(y[:80], exog=known[:80], **how).fit(start, disp=False, search_reps=0)
    whole = MarkovRegression(y, exog=known, **how)
    expected = shorter.llf - whole.loglike(shorter.params)
    assert 10 * cv.folds["loss"][0] == pytest.approx(expected, abs=1e-3)  # losses are per point
