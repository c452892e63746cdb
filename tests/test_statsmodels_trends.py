"""Imported models of statsmodels with trends, or with parameters that were held."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import fitonce as fo
from fitonce.core.constraints import Frozen

RNG = np.random.default_rng(0)
X = RNG.normal(size=108)
Y = 10.0 + 0.3 * np.arange(108) + 2.0 * X + np.cumsum(RNG.normal(size=108)) * 0.3


def _quiet(work):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of statsmodels, on starts, convergence and indices
        return work()


def test_parameters_that_were_fixed_stay():
    peer = sm.tsa.SARIMAX(Y[:60], order=(1, 0, 1), trend="c")
    with peer.fix_params({"ar.L1": 0.5}):
        results = _quiet(lambda: peer.fit(disp=0))
        within = fo.from_statsmodels(results)
    fit = fo.from_statsmodels(results)
    assert within.log_likelihood == fit.log_likelihood
    assert within.names == fit.names
    assert fit.log_likelihood == pytest.approx(results.llf, rel=1e-8)
    again = fit.polish()
    assert again.ok
    assert again.names == ["intercept", "ma.L1", "sigma2"]
    assert float(again.params["ar.L1"]) == 0.5
    assert again.log_likelihood >= results.llf - 1e-6
    starts = [fit.model.start(fit.objective.steps, np.random.default_rng(seed)) for seed in range(3)]
    assert {float(start["ar.L1"]) for start in starts} == {0.5}


def test_moving_averages_are_not_turned_where_their_variance_is_fixed():
    """The same likelihood with the root inside needs another variance."""
    x = np.diff(RNG.normal(size=61))
    peer = sm.tsa.SARIMAX(x, order=(0, 0, 1), enforce_invertibility=False)
    with peer.fix_params({"sigma2": 0.3}):
        results = peer.smooth([-1.8])
    fit = fo.from_statsmodels(results)
    assert isinstance(fit.model.leaves(fit.objective.steps)["sigma2"], Frozen)
    again = fit.polish()
    assert float(again.params["sigma2"]) == 0.3
    assert again.log_likelihood >= fit.log_likelihood


@pytest.mark.parametrize("trend", ["ct", "t"])
def test_trends_of_a_varmax_begin_where_theirs_do(trend):
    two = np.column_stack([Y, Y[::-1]])
    make = lambda rows: sm.tsa.VARMAX(two[rows], order=(1, 0), trend=trend, trend_offset=7)  # noqa: E731
    peer = make(slice(60))
    results = peer.smooth(peer.start_params, cov_type="none")
    fit = fo.from_statsmodels(results)
    other = make(slice(20, 70))
    expected = other.loglike(results.params)
    np.testing.assert_allclose(fit.log_likelihood_of(two[20:70]), expected, rtol=1e-8)
    ahead = fit.forecast(4, n=10)
    np.testing.assert_allclose(ahead.mean, results.get_forecast(4).predicted_mean, rtol=1e-8)


def _arima(rows, *, named, regressor=True, **how):
    y, x = (pd.Series(Y, name="y"), pd.DataFrame({"heat": X})) if named else (Y, X[:, None])
    y, x = y[rows], x[rows]
    given = {"exog": x} if regressor else {}
    return sm.tsa.arima.ARIMA(y, order=(1, 0, 0), **given, **how)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("regressor", [True, False])
@pytest.mark.parametrize("how", [{}, {"trend": "ct"}, {"trend": "ct", "trend_offset": 5}])
def test_trends_of_an_arima_go_on(named, regressor, how):
    """Only the user's own regressors are asked for, under their names."""
    peer = _arima(slice(100), named=named, regressor=regressor, **how)
    results = peer.smooth(peer.start_params, cov_type="none")
    fit = fo.from_statsmodels(results)
    name = "heat" if named else "x1"
    assert fit.log_likelihood == pytest.approx(results.llf, rel=1e-8)
    assert fit.data.covariate_names == ((name,) if regressor else ())
    trends = ["const", "drift"] if how else ["const"]
    assert fit.model.names == (*trends, *([name] if regressor else []), "ar.L1", "sigma2")

    future, known = X[100:], {name: X[100:]} if regressor else None
    begin = how.get("trend_offset", 1)  # their own forecasts go on as if it were 1
    same = np.array(results.params)
    same[0] += (begin - 1) * same[1] if how else 0.0
    plain = _arima(slice(100), named=named, regressor=regressor, **how | {"trend_offset": 1})
    plain = plain.smooth(same, cov_type="none")
    assert plain.llf == pytest.approx(results.llf, rel=1e-8)
    expected = _quiet(lambda: plain.get_forecast(8, exog=future[:, None] if regressor else None))
    ahead = fit.forecast(8, n=10, covariates=known)
    np.testing.assert_allclose(ahead.mean[:, 0], np.asarray(expected.predicted_mean), rtol=1e-8)

    other = _quiet(lambda: _arima(slice(30, 70), named=named, regressor=regressor, **how))
    data = fo.sequences(Y[30:70], covariates={name: X[30:70]} if regressor else None)
    np.testing.assert_allclose(fit.log_likelihood_of(data), other.loglike(results.params), rtol=1e-8)


def test_a_drift_of_differences_goes_on():
    peer = sm.tsa.arima.ARIMA(Y[:100], order=(1, 1, 0), trend="t")
    results = peer.smooth(peer.start_params, cov_type="none")
    fit = fo.from_statsmodels(results)
    assert fit.model.names == ("drift", "ar.L1", "sigma2")
    np.testing.assert_allclose(
        fit.forecast(4, n=10).mean[:, 0], results.get_forecast(4).predicted_mean, rtol=1e-4
    )  # their first level is not exactly unknown
