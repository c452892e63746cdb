"""Fits of statsmodels' state-space models, brought here."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import statsmodels.api as sm

import fitonce as fo
from fitonce.bridges.statsmodels_space import StatsmodelsSpace


def _growth():
    """Quarterly growth of three series, in percent."""
    table = sm.datasets.macrodata.load_pandas().data[["realgdp", "realcons", "realinv"]]
    return 100.0 * table.apply(np.log).diff().iloc[1:]


def _fitted(model, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of statsmodels, on starting values and convergence
        return model.fit(disp=0, **how)


def _made(name):
    growth = _growth()
    nile = sm.datasets.nile.load_pandas().data["volume"]
    makers = {
        "local level": lambda: sm.tsa.UnobservedComponents(nile, "local level", use_exact_diffuse=True),
        "regression": lambda: sm.tsa.UnobservedComponents(
            growth["realgdp"].to_numpy(), "local level", exog=growth["realinv"].to_numpy(),
            autoregressive=1, use_exact_diffuse=True,
        ),
        "arma": lambda: sm.tsa.SARIMAX(growth["realgdp"], order=(2, 0, 1), trend="c"),
        "airline": lambda: sm.tsa.SARIMAX(growth["realinv"], None, (0, 1, 1), (0, 1, 1, 4)),
        "factor": lambda: sm.tsa.DynamicFactor(
            (growth - growth.mean()) / growth.std(), k_factors=1, factor_order=2
        ),
        "vector": lambda: sm.tsa.VARMAX(growth[["realgdp", "realcons"]], order=(1, 0)),
    }  # fmt: skip
    return makers[name]()


@pytest.mark.parametrize("name", ["local level", "regression", "arma", "factor", "vector"])
def test_log_likelihoods_are_theirs(name):
    results = _fitted(_made(name), maxiter=100)
    fit = fo.from_statsmodels(results)
    assert fit.log_likelihood == pytest.approx(results.llf, rel=1e-8)
    assert str(fit.model) == f"{type(results.model).__name__} of statsmodels"


@pytest.mark.parametrize("exact", [True, False])
def test_seasons_with_a_wave_of_two_steps_are_read(exact):
    """Its second state is never observed, so that no data determine it; the first one is."""
    y = _growth()["realinv"].to_numpy()
    peer = sm.tsa.UnobservedComponents(
        y, "local level", freq_seasonal=[{"period": 4}], use_exact_diffuse=exact
    )
    fit = fo.from_statsmodels(_fitted(peer, maxiter=20))
    judge = sm.tsa.UnobservedComponents(
        y, "local level", freq_seasonal=[{"period": 4}], use_exact_diffuse=True
    )
    params = [float(fit.params[name]) for name in judge.param_names]
    assert fit.log_likelihood == pytest.approx(judge.loglike(params), rel=1e-8)
    assert fit.objective.n_unknown_starts == 4


@pytest.mark.parametrize("name", ["local level", "arma", pytest.param("vector", marks=pytest.mark.slow)])
def test_polished_fits_are_optima_of_theirs(name):
    results = _fitted(_made(name))
    fit = fo.from_statsmodels(results).polish()
    assert fit.status.ok
    again = results.model
    at = [float(fit.params[key]) for key in again.param_names]
    assert again.loglike(np.array(at)) == pytest.approx(fit.log_likelihood, rel=1e-8)
    assert fit.log_likelihood >= results.llf - 1e-8


def test_left_out_points_are_those_of_their_smoother():
    """By filtering again with the point missing, at the same parameters."""
    results = _fitted(_made("local level"))
    fit = fo.from_statsmodels(results)
    values, _ = fit.objective.leave_one_out(fit.theta)
    y = np.asarray(results.model.endog, float).ravel()
    for t in (0, 17, 99):
        kept = y.copy()
        kept[t] = np.nan
        peer = sm.tsa.UnobservedComponents(kept, "local level", use_exact_diffuse=True)
        peer = peer.smooth(results.params)
        mean = peer.smoothed_state[0, t]
        variance = peer.smoothed_state_cov[0, 0, t] + np.asarray(results.params)[0]
        expected = -0.5 * (np.log(2 * np.pi * variance) + (y[t] - mean) ** 2 / variance)
        assert values[t] == pytest.approx(expected, rel=1e-9)


def test_an_approximately_diffuse_start_becomes_exact():
    results = _fitted(_made("airline"))
    fit = fo.from_statsmodels(results)
    assert fit.objective.layout.diffuse.shape[1] == 5
    loss = fo.cross_validate(fit, fo.folds.future(fit.data, start=[150, 170], horizon=4), optima=0)
    assert np.isfinite(loss.estimate)


def test_a_concentrated_scale_is_refused():
    model = sm.tsa.SARIMAX(_growth()["realgdp"], order=(1, 0, 0), concentrate_scale=True)
    with pytest.raises(ValueError, match="concentrate_scale"):
        fo.from_statsmodels(_fitted(model))


def test_errors_of_measurement_are_variances():
    """Whatever their coordinates: Newton steps led to negative ones."""
    y = np.random.default_rng(3).normal(size=(40, 2))
    peer = sm.tsa.VARMAX(y, order=(1, 0), measurement_error=True, trend="n")
    model = StatsmodelsSpace(peer, tuple(peer.param_names), tuple(peer.start_params))
    leaves = model.leaves(model.prepare(fo.sequences(y)))
    for name in ("measurement_variance.y1", "measurement_variance.y2"):
        assert (leaves[name].values(np.array([[-1.0, 0.0, 1.0]])) >= 0).all()


def test_cycles_stay_within_the_bounds_of_theirs():
    y = sm.datasets.sunspots.load_pandas().data["SUNACTIVITY"].to_numpy()[:80]
    how = {"cycle": True, "stochastic_cycle": True, "damped_cycle": True}
    peer = sm.tsa.UnobservedComponents(y, cycle_period_bounds=(5, 20), use_exact_diffuse=True, **how)
    start = np.array([100.0, 0.6, 0.9])
    fit = fo.from_statsmodels(peer.smooth(start))
    far = fit.objective.space.params_at(np.full(3, 30.0))
    assert 2 * np.pi / 20 <= far["frequency.cycle"] <= 2 * np.pi / 5
    assert 0.0 <= far["damping.cycle"] <= 1.0
    held = fo.from_statsmodels(peer.smooth(np.array([100.0, 0.6, 1.0])))  # where theirs may end
    assert len(held.theta) == 2
    assert held.params["damping.cycle"] == 1.0
