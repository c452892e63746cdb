"""Models of statsmodels whose likelihoods are given their first steps."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

import fitonce as fo
from fitonce.objectives.schemes import Increments, Structures
from fitonce.objectives.space.objective import space_objective


def _growth(name):
    """Quarterly growth of a series, in percent."""
    return 100.0 * np.diff(np.log(sm.datasets.macrodata.load_pandas().data[name].to_numpy()))


def _sunspots():
    return sm.datasets.sunspots.load_pandas().data["SUNACTIVITY"].to_numpy()[:120]


def _carbon():
    weeks = sm.datasets.co2.load_pandas().data["co2"]
    return weeks.resample("MS").mean().to_numpy()[:150]  # with months that are missing


_NILE = sm.datasets.nile.load_pandas().data["volume"].to_numpy()
_BURNT = {
    "autoregression": (_sunspots, {"order": (3, 0, 0), "trend": "c"}),
    "differences": (lambda: _NILE, {"order": (1, 1, 1)}),
    "no coefficient": (lambda: _NILE, {"order": (0, 1, 0)}),
    "seasons": (_carbon, {"order": (1, 1, 1), "seasonal_order": (1, 1, 1, 12)}),
    "quarters": (
        lambda: _growth("realinv"), {"order": (1, 0, 0), "seasonal_order": (1, 1, 1, 4)}
    ),
}  # fmt: skip
_ANY_ROOTS = {"enforce_stationarity": False, "enforce_invertibility": False}


@pytest.mark.parametrize("name", list(_BURNT))
def test_autoregressions_with_any_roots_start_and_burn_as_theirs(name):
    read, how = _BURNT[name]
    y, how = read(), how | _ANY_ROOTS
    peer = sm.tsa.SARIMAX(y, **how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of missing values
        results = peer.smooth(peer.start_params, cov_type="none")
    fit = fo.from_statsmodels(results)
    assert fit.log_likelihood == pytest.approx(results.llf, rel=1e-8)
    expected = results.get_forecast(6)
    ahead = fit.forecast(6, n=10)
    np.testing.assert_allclose(ahead.mean[:, 0], expected.predicted_mean, rtol=1e-8)
    np.testing.assert_allclose(ahead.sd[:, 0], expected.se_mean, rtol=1e-8)
    other = sm.tsa.SARIMAX(y[30:], **how).loglike(results.params)
    np.testing.assert_allclose(fit.log_likelihood_of(y[30:]), other, rtol=1e-8)


@pytest.fixture(scope="module")
def burnt():
    """Statsmodels' model and parameters, and a fit of ours."""
    read, how = _BURNT["quarters"]
    peer = sm.tsa.SARIMAX(read(), **how | _ANY_ROOTS)
    fit = fo.from_statsmodels(peer.smooth(peer.start_params, cov_type="none"))
    return peer, np.array([float(fit.params[name]) for name in peer.param_names]), fit


def _slopes(peer, params, objective, theta):
    """Differences of their log-likelihood along our coordinates."""
    names, found = peer.param_names, []
    for part in np.eye(len(theta)):
        two = [objective.space.params_at(theta + move * part) for move in (1e-5, -1e-5)]
        up, down = (peer.loglike(np.array([float(one[name]) for name in names])) for one in two)
        found.append((up - down) / 2e-5)
    return np.array(found)


@pytest.mark.parametrize("kernel", ["native", "scan"])
def test_gradients_of_burnt_likelihoods_are_those_of_theirs(burnt, kernel):
    peer, params, fit = burnt
    one = space_objective(fit.model, fit.data, kernel)
    values, slopes = one.values_and_gradients(fit.theta[None], one.base[None])
    np.testing.assert_allclose(-values, peer.loglike(params), rtol=1e-8)
    expected = _slopes(peer, params, one, fit.theta)
    np.testing.assert_allclose(-slopes[0], expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_terms_of_burnt_steps_have_no_share(burnt):
    """The terms of the others add up, and so do their derivatives."""
    peer, params, fit = burnt
    for scheme in (Increments(), Structures()):
        one = fit.objective.with_scheme(scheme)
        found = one.cross(fit.theta)
        np.testing.assert_allclose(
            found.sum(1), one.gradients(fit.theta[None], one.base[None])[0], rtol=1e-3
        )
        if found.shape[1] > 1:
            assert not found[:, : peer.loglikelihood_burn].any()
            assert found[:, peer.loglikelihood_burn :].all()
    terms = peer.loglikeobs(params)[peer.loglikelihood_burn :]
    np.testing.assert_allclose(terms.sum(), fit.log_likelihood, rtol=1e-8)


def test_left_out_points_of_burnt_likelihoods_are_those_of_their_smoother(burnt):
    peer, params, fit = burnt
    values, _ = fit.objective.leave_one_out(fit.theta)
    y, loading = np.asarray(peer.endog).ravel(), peer["design"][0]
    for t in (2, 50, len(y) - 1):  # the first of them is burnt, and says what is known of states
        kept = y.copy()
        kept[t] = np.nan
        one = peer.clone(kept).smooth(params, cov_type="none")
        mean, spread = loading @ one.smoothed_state[:, t], one.smoothed_state_cov[..., t]
        expected = stats.norm(mean, np.sqrt(loading @ spread @ loading)).logpdf(y[t])
        assert values[t] == pytest.approx(expected, rel=1e-8)
    cv = fo.cross_validate(fit.polish(), fo.folds.future(fit.data, start=[190], horizon=4), optima=0)
    at = np.array([float(cv.params(0)[name]) for name in peer.param_names])
    ahead = peer.clone(y[:190]).smooth(at, cov_type="none").get_forecast(4)
    expected = stats.norm(ahead.predicted_mean, ahead.se_mean).logpdf(y[190:194])
    np.testing.assert_allclose(cv.folds["loss"][0], -expected.mean(), rtol=1e-8)
    np.testing.assert_allclose(fit.sample(1)[1][0, 0], y[0])  # not as far off as the variance says


@pytest.fixture(scope="module")
def given():
    """A burn of one's own: statsmodels' results, and a fit of ours."""
    y = _growth("realgdp")[:60]
    peer = sm.tsa.SARIMAX(y, order=(1, 0, 1), trend="c", loglikelihood_burn=7)
    results = peer.smooth(peer.start_params, cov_type="none")
    return results, fo.from_statsmodels(results).polish()


def test_a_burn_of_ones_own_is_kept(given):
    results, fit = given
    again = fo.fit_at(fit.model, fit.data, dict(zip(fit.model.names, results.params, strict=True)))
    assert again.log_likelihood == pytest.approx(results.llf, rel=1e-8)
    firsts = np.array([fit.sample(1, seed=seed)[1][0, 0] for seed in range(20)])
    assert firsts.std() > 0.1  # of a stationary start, which is not that of the data


def test_burnt_points_leave_out_what_likelihoods_lose(given):
    """A burnt point has no term of its own, but is in what others are given."""
    _, fit = given
    one, theta, observed = fit.objective, fit.theta, np.arange(12)
    values, slopes = one.leave_one_out(theta)
    found, steep = one.gains_without(theta, observed, values[observed], slopes[:, observed].T)
    weights = np.tile(one.base, (13, 1))
    weights[observed, observed] = 0.0
    expected, gradients = one.values_and_gradients(np.tile(theta, (13, 1)), weights)
    np.testing.assert_allclose(found, expected[:-1] - expected[-1], atol=1e-9)
    np.testing.assert_allclose(steep, gradients[:-1] - gradients[-1], atol=1e-4)
    cv = fo.loo(fit, refine=False)
    folds = fo.folds.sites([[t] for t in observed], fit.data)
    exact = fo.cross_validate(fit, folds, method="exact", optima=0)
    np.testing.assert_allclose(cv.folds["loss"][:12], exact.folds["loss"], atol=6e-3)
    moved, refitted = (fo.influence(fit, refine=refine).table[:12] for refine in (False, fit.n_sites))
    assert (refitted["how"] == "exact").all()
    np.testing.assert_allclose(moved["displacement"], refitted["displacement"], rtol=0.4, atol=1e-5)


def test_sequences_without_steps_beyond_the_burn_are_refused(given):
    _, fit = given
    with pytest.raises(ValueError, match=r"first 7 steps .* got 7 steps in sequence 1"):
        fit.log_likelihood_of([np.arange(9.0), np.arange(7.0)])


def test_starts_that_data_cannot_determine_say_what_to_do():
    peer = sm.tsa.SARIMAX(_NILE, order=(1, 1, 1), use_exact_diffuse=True, enforce_stationarity=False)
    results = peer.smooth(peer.start_params, cov_type="none")
    only = (
        "3 unknown states, but where the fit starts 100 observed steps depend on only 2 combinations of"
    )
    with pytest.raises(ValueError, match=f"{only} these; fit the model without use_exact_diffuse"):
        fo.from_statsmodels(results)


def test_an_unknown_start_that_no_observation_depends_on_is_counted_out():
    """y_t-3 shows in y_t by its coefficient, which is zero, so that no number of steps determines it."""
    hamilton = {"hamilton_representation": True, "enforce_stationarity": False}
    peer = sm.tsa.SARIMAX(_NILE, order=(3, 0, 0), use_exact_diffuse=True, **hamilton)
    with pytest.raises(
        ValueError, match="100 observed steps depend on only 2 combinations of these; fit"
    ):
        fo.from_statsmodels(peer.smooth([0.5, 0.2, 0.0, 1.0]))
    there = peer.smooth([0.5, 0.2, 0.1, 1.0])
    assert fo.from_statsmodels(there).log_likelihood == pytest.approx(there.llf, rel=1e-9)
