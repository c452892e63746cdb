"""Fits of statsmodels' state-space models, brought here."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

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
    peer = _made(name)
    results = peer.smooth(peer.start_params, cov_type="none")
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


_INVESTED = {"exog": "realinv"}
_OF_TIME = {  # a model, what it is of, and its arguments
    "constant": (sm.tsa.SARIMAX, "realgdp", {"order": (1, 0, 1), "trend": "c"}),
    "trend": (sm.tsa.SARIMAX, "realgdp", {"order": (1, 0, 0), "trend": "ct"}),
    "differences": (
        sm.tsa.SARIMAX, "realgdp",
        {"order": (1, 1, 0), "trend": "c", "simple_differencing": True} | _INVESTED,
    ),
    "regression": (
        sm.tsa.SARIMAX, "realgdp", {"order": (1, 0, 0), "seasonal_order": (1, 0, 0, 4)} | _INVESTED
    ),
    "regression in the state": (
        sm.tsa.UnobservedComponents, "realgdp",
        {"level": "local level", "mle_regression": False, "use_exact_diffuse": True} | _INVESTED,
    ),
    "level and regression": (
        sm.tsa.UnobservedComponents, "realgdp",
        {"level": "local level", "autoregressive": 1, "use_exact_diffuse": True} | _INVESTED,
    ),
    "vector": (sm.tsa.VARMAX, ["realgdp", "realcons"], {"order": (1, 0)} | _INVESTED),
    "vector trend": (sm.tsa.VARMAX, ["realgdp", "realcons"], {"order": (1, 0), "trend": "ct"}),
    "factor": (
        sm.tsa.DynamicFactor, ["realgdp", "realcons"],
        {"k_factors": 1, "factor_order": 1, "enforce_stationarity": False} | _INVESTED,
    ),
}  # fmt: skip


def _of_rows(name, rows):
    """A model of statsmodels of some rows of the growth of series."""
    kind, channels, how = _OF_TIME[name]
    part = _growth().iloc[rows].reset_index(drop=True)
    beside = {"exog": part[how["exog"]]} if "exog" in how else {}
    return kind(part[channels], **how | beside)


def _regressors_of(fit, peer):
    """As `covariates=`: those of a model of statsmodels."""
    if peer.exog is None:
        return None
    return dict(zip(fit.data.covariate_names, np.asarray(peer.exog, float).T, strict=True))


@pytest.fixture(scope="module", params=list(_OF_TIME))
def of_time(request):
    """A name, statsmodels' results of the first 150 quarters, and a fit of ours."""
    peer = _of_rows(request.param, slice(150))
    results = peer.smooth(peer.start_params, cov_type="none")
    return request.param, results, fo.from_statsmodels(results)


def test_other_data_have_their_own_regressors(of_time):
    name, results, fit = of_time
    for rows in (slice(20, 170), slice(60, 81)):  # as many steps as the model has, and fewer
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an index that is no date
            peer = _of_rows(name, rows)
        known = _regressors_of(fit, peer)
        other = fo.sequences(np.asarray(peer.endog), covariates=known)
        expected = peer.loglike(results.params)
        np.testing.assert_allclose(fit.log_likelihood_of(other), expected, rtol=1e-8)
        np.testing.assert_allclose(fo.fit_at(fit.model, other, fit.params).log_likelihood, expected)
        if known:
            (column,) = known
            with pytest.raises(ValueError, match=f"needs a covariate '{column}' in the data"):
                fit.log_likelihood_of(np.asarray(peer.endog))


def test_forecasts_with_known_regressors_are_theirs(of_time):
    name, results, fit = of_time
    future = _growth()["realinv"].to_numpy()[150:158]
    given = {} if results.model.exog is None else {"exog": future[:, None]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = results.get_forecast(8, **given)
    if name == "differences":  # their regressors are differences already
        future = np.diff(_growth()["realinv"].to_numpy()[149:158])
    known = {fit.data.covariate_names[0]: future} if given else None
    ahead = fit.forecast(8, n=10, covariates=known)
    means, sds = (
        np.asarray(part).reshape(8, -1) for part in (expected.predicted_mean, expected.se_mean)
    )
    np.testing.assert_allclose(ahead.mean, means, rtol=1e-8)
    np.testing.assert_allclose(ahead.sd, sds, rtol=1e-8)
    if given:
        with pytest.raises(ValueError, match=r"the model depends on .*: give covariates= for each step"):
            fit.forecast(8)


def test_sequences_are_each_of_their_own_steps(of_time):
    """Each has its own regressors, and its trend from the start."""
    name, results, fit = of_time
    peers = [_of_rows(name, rows) for rows in (slice(90), slice(20, 110))]
    known = [_regressors_of(fit, peer) for peer in peers]
    beside = None if known[0] is None else {key: [one[key] for one in known] for key in known[0]}
    both = fo.sequences([np.asarray(peer.endog) for peer in peers], covariates=beside)
    if name == "vector":
        with pytest.raises(ValueError, match="the stationary start of VARMAX of statsmodels depends on"):
            fit.log_likelihood_of(both)
        return
    expected = [peer.loglike(results.params) for peer in peers]
    np.testing.assert_allclose(fit.log_likelihood_of(both), expected, rtol=1e-8)


def test_regressors_keep_their_names_and_may_be_constant():
    growth = _growth()
    peer = sm.tsa.SARIMAX(growth["realgdp"], growth[["realinv", "realcons"]], (1, 0, 0), trend="c")
    fit = fo.from_statsmodels(_fitted(peer, maxiter=5))
    assert fit.data.covariate_names == ("realinv", "realcons")
    short = fo.sequences(np.ones(3), covariates={"realinv": np.ones(3), "realcons": np.zeros(3)})
    p = fit.params
    mean = p["intercept"] / (1.0 - p["ar.L1"]) + p["realinv"]
    spread = (
        p["sigma2"]
        / (1.0 - p["ar.L1"] ** 2)
        * p["ar.L1"] ** np.abs(np.subtract.outer(range(3), range(3)))
    )
    expected = stats.multivariate_normal(np.full(3, mean), spread).logpdf(np.ones(3))
    np.testing.assert_allclose(fit.log_likelihood_of(short), expected)


class _Weighted(sm.tsa.statespace.MLEModel):
    """A coefficient that moves, by regressors that the model keeps for itself."""

    param_names = ("sigma2.noise", "sigma2.coefficient")

    def __init__(self, y, known):
        super().__init__(y, k_states=1, initialization="diffuse")
        self["design"], self["transition"], self["selection"] = known[None, None], np.eye(1), np.eye(1)

    def update(self, params, **how):
        params = super().update(params, **how)
        self["obs_cov", 0, 0], self["state_cov", 0, 0] = params


def test_models_that_cannot_be_made_for_other_data_are_refused():
    growth = _growth()
    y = growth["realgdp"].to_numpy()
    results = _Weighted(y, growth["realinv"].to_numpy()).smooth([1.0, 0.1])
    fit = fo.from_statsmodels(results)
    assert fit.log_likelihood == pytest.approx(results.llf, rel=1e-8)
    for asked in (lambda: fit.score(y[::-1]), lambda: fit.forecast(2), lambda: fit.score(y[:20])):
        with pytest.raises(ValueError, match=r"_Weighted .* needs a method clone\(endog, exog=\)"):
            asked()
    with pytest.raises(ValueError, match="must have the 1 channel of the fit's data, got 2 channels"):
        fit.score(growth[["realgdp", "realcons"]].to_numpy())


@pytest.mark.slow
def test_random_starts_vary_coefficients_of_lags_too():
    """Their own fit ends in the worse of two optima, which all starts with its lags end in."""
    table = sm.datasets.co2.load_pandas().data.resample("MS").mean().iloc[:150]
    wave = 2 * np.pi * np.arange(150) / 12
    around = np.column_stack([np.cos(wave), np.sin(wave)])
    peer = sm.tsa.SARIMAX(table["co2"].to_numpy(), exog=around, order=(1, 1, 1), use_exact_diffuse=True)
    fit = fo.from_statsmodels(_fitted(peer, maxiter=500))
    again = fo.fit(fit.model, fit.data, restarts=6)
    assert again.value < fit.value - 1.0
    theirs = peer.loglike(np.array([float(again.params[name]) for name in fit.model.names]))
    assert again.log_likelihood == pytest.approx(theirs, rel=1e-8)


def test_folds_leave_unit_roots_of_imported_moving_averages():
    x = np.diff(np.random.default_rng(9).normal(size=81))
    theirs = sm.tsa.SARIMAX(x, order=(0, 0, 1), enforce_invertibility=False).smooth([-1.0, 0.9443])
    fit = fo.from_statsmodels(theirs).polish()
    ours = fo.fit(fo.models.SARIMAX((0, 0, 1)), x)
    assert fit.value == pytest.approx(ours.value, rel=1e-9)
    assert "ma.L1: -1. (with a root on the unit circle)" in str(fit)
    folds = fo.folds.blocks(fit.data, percent=10, n=8)
    found, expected = (fo.cross_validate(one, folds, optima=0) for one in (fit, ours))
    left = ["left a unit root at 'ma.L1'" in text for text in found.folds["status"]]
    assert sum(left) == sum("left a unit root" in text for text in expected.folds["status"]) > 0
    np.testing.assert_allclose(found.folds["loss"][left], expected.folds["loss"][left], atol=1e-6)


def test_fits_of_imported_moving_averages_are_invertible():
    y = np.diff(sm.datasets.nile.load_pandas().data["volume"].to_numpy())
    peer = sm.tsa.SARIMAX(y, order=(1, 0, 1))
    fit = fo.from_statsmodels(peer.smooth([0.3, -0.9, 2e4])).polish()
    beyond = 1.0 / float(fit.params["ma.L1"])
    start = fit.params | {"ma.L1": beyond, "sigma2": fit.params["sigma2"] / beyond**2}
    again = fo.fit(fit.model, fit.data, init=start)
    assert float(again.params["ma.L1"]) == pytest.approx(float(fit.params["ma.L1"]), rel=1e-5)
    assert again.value == pytest.approx(fit.value, abs=1e-6)


@pytest.mark.filterwarnings("error")
def test_further_starts_where_a_covariance_is_at_its_bound():
    """Such a covariance has no free coordinates in statsmodels."""
    y = np.random.default_rng(3).normal(size=(60, 2))
    peer = sm.tsa.VARMAX(y, order=(1, 0), trend="n")
    fit = fo.from_statsmodels(peer.smooth(peer.start_params, cov_type="none"))
    bound = dict(zip(fit.model.names, fit.model.values, strict=True))
    bound |= {"sqrt.var.y1": 0.0, "sqrt.cov.y1.y2": 0.0}
    model = replace(fit.model, values=tuple(bound.values()))
    found = model.start(fit.objective.steps, np.random.default_rng(0))
    assert found.keys() == bound.keys()
    assert np.isfinite(list(found.values())).all()


class _Walk(sm.tsa.statespace.MLEModel):
    """A model of one's own that has no parameters."""

    param_names, start_params = (), np.zeros(0)

    def __init__(self, endog):
        super().__init__(endog, k_states=1, initialization="diffuse")
        for name in ("design", "transition", "selection", "obs_cov", "state_cov"):
            self[name, 0, 0] = 1.0


def test_models_without_free_parameters_are_refused_in_a_sentence():
    walk = np.cumsum(np.random.default_rng(0).normal(size=60))
    peer = sm.tsa.SARIMAX(walk, order=(1, 0, 0))
    with peer.fix_params({"ar.L1": 0.9, "sigma2": 1.0}):
        held = peer.smooth([])
    for results, words in (
        (held, "got SARIMAX of statsmodels with all of them held"),
        (_Walk(walk).smooth([]), "got _Walk of statsmodels with none"),
    ):
        with pytest.raises(ValueError, match=rf"needs a model with a free parameter, {words}\. "):
            fo.from_statsmodels(results)
    known = fo.models.SARIMAX((0, 1, 0), frozen={"sigma2": 1.0})
    for made in (lambda: fo.fit(known, walk), lambda: fo.fit_at(known, walk, {"sigma2": 1.0})):
        with pytest.raises(ValueError, match="the model has no free parameters: got SARIMAX"):
            made()
