"""State-space models against one Gaussian of all observations, and against statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.tsa.statespace.initialization import Initialization

import fitonce as fo
from dense_gaussian import log_likelihood
from fitonce.objectives.families import objective_of
from statsmodels_cases import with_stationary_cycle

MODELS = (
    fo.models.Structural(),
    fo.models.Structural("trend", seasonal=3),
    fo.models.Structural("smooth trend", seasonal=5.5, harmonics=2),
    fo.models.Structural("drift", cycle=True, ar=2),
    fo.models.Structural(None, cycle=True, damped=False, noise=False, ar=1),
    fo.models.Structural("fixed", exog=["u0"], noise=True, ar=1),
    fo.models.SARIMAX((1, 1, 1), (0, 1, 1, 3), measurement_error=True),
    fo.models.SARIMAX((2, 0, 1), trend="c", exog="u0"),
)


@st.composite
def cases(draw):
    """A model, a short series with gaps, and parameters."""
    model = draw(st.sampled_from(MODELS))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    steps = draw(st.integers(14, 20))
    values = 3.0 + np.cumsum(rng.normal(size=steps)) + rng.normal(size=steps)
    values[rng.random(steps) < 0.15] = np.nan
    data = fo.sequences(values, covariates={"u0": rng.normal(size=steps)})
    return model, data, rng


@settings(max_examples=25, deadline=None)
@given(cases())
def test_likelihoods_and_left_out_points_are_those_of_one_gaussian(case):
    model, data, rng = case
    objective = objective_of(model, data)
    theta = objective.start(rng)
    system, steps = objective.layout.systems(theta[None]), objective.steps
    full = log_likelihood(system, steps.y, steps.seen)
    assert -objective(theta) == pytest.approx(full, rel=1e-9, abs=1e-7)
    values, _ = objective.leave_one_out(theta)
    for t in np.flatnonzero(steps.seen[:, 0])[::3]:
        seen = steps.seen.copy()
        seen[t] = False
        expected = full - log_likelihood(system, steps.y, seen)
        assert values[t] == pytest.approx(expected, rel=1e-6, abs=1e-6)
        weights = objective.base.copy()
        weights[t] = 0.0
        (found,) = objective.pointwise_losses(theta[None], weights[None], np.array([[t]]))[0]
        assert -found == pytest.approx(expected, rel=1e-6, abs=1e-6)


PEERS = {
    "nile": ("local level", fo.models.Structural(), {}, ("noise", "level")),
    "trend": ("local linear trend", fo.models.Structural("trend"), {}, ("noise", "level", "slope")),
    "seasons": (
        "local level",
        fo.models.Structural(seasonal=4),
        {"seasonal": 4},
        ("noise", "level", "seasonal"),
    ),
    "cycle": (
        "deterministic constant",
        fo.models.Structural("fixed", cycle=True),
        {"cycle": True, "damped_cycle": True, "stochastic_cycle": True},
        ("noise", "cycle", "frequency", "damping"),
    ),
}


ORDERS = {
    "arma": ((1, 0, 2), (1, 0, 0, 4), "c", True),
    "integrated": ((2, 1, 1), (0, 0, 0, 0), "n", False),
    "airline": ((0, 1, 1), (0, 1, 1, 4), "n", False),
    "seasonal": ((1, 1, 1), (1, 1, 1, 4), "n", False),
    "twice": ((3, 2, 0), (0, 0, 0, 0), "n", False),
}


@pytest.mark.parametrize("name", ORDERS)
def test_likelihoods_of_sarimax_are_those_of_statsmodels(name):
    order, seasonal, trend, noisy = ORDERS[name]
    y = 100.0 * np.log(sm.datasets.macrodata.load_pandas().data["realgdp"].to_numpy())
    y[[20, 21, 100]] = np.nan
    model = fo.models.SARIMAX(order, seasonal, trend, measurement_error=noisy)
    objective = objective_of(model, y)
    values = model.start(objective.steps, np.random.default_rng(1))
    peer = sm.tsa.SARIMAX(y, None, order, seasonal, trend, measurement_error=noisy)
    diffuse = objective.layout.diffuse.shape[1]
    start = Initialization(peer.k_states)
    if diffuse:
        start.set((0, diffuse), "diffuse")
    start.set((diffuse, peer.k_states), "stationary")
    peer.ssm.initialization, peer.loglikelihood_burn = start, 0
    peer.ssm.tolerance = 0.0  # its filter otherwise stops updating, at a variance that is absolute
    names = ("intercept", "ar", "ma", "seasonal_ar", "seasonal_ma", "noise", "sigma2")
    given = np.concatenate([np.ravel(values[key]) for key in names if key in values])
    assert -objective(objective.space.to_free(values)) == pytest.approx(peer.loglike(given), rel=1e-8)


@pytest.mark.parametrize("name", PEERS)
def test_likelihoods_are_those_of_statsmodels(name):
    level, model, options, order = PEERS[name]
    data = sm.datasets.sunspots if name == "cycle" else sm.datasets.nile
    y = data.load_pandas().data.iloc[:, 1].to_numpy(float).copy()
    y[[7, 8, 40]] = np.nan
    peer = sm.tsa.UnobservedComponents(y, level, use_exact_diffuse=True, **options)
    peer = with_stationary_cycle(peer) if name == "cycle" else peer
    objective = objective_of(model, y)
    for rng in (None, np.random.default_rng(3)):
        values = model.start(objective.steps, rng)
        given = [float(values[key]) for key in order]
        expected = peer.loglike(given)
        assert -objective(objective.space.to_free(values)) == pytest.approx(expected, rel=1e-8)


def test_the_nile_is_fitted_as_in_the_literature():
    """Durbin and Koopman (2012): variances 15,099 and 1,469.1."""
    fit = fo.fit(fo.models.Structural(), sm.datasets.nile.load_pandas().data["volume"].to_numpy())
    assert fit.params["noise"] == pytest.approx(15099, rel=1e-3)
    assert fit.params["level"] == pytest.approx(1469.1, rel=1e-3)


def test_a_variance_of_zero_is_an_ordinary_optimum():
    rng = np.random.default_rng(0)
    fit = fo.fit(fo.models.Structural("trend"), 5.0 + np.cumsum(rng.normal(size=120)))
    assert fit.status.ok
    assert fit.params["slope"] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("model", [fo.models.Structural(), fo.models.SARIMAX((1, 1, 0))])
def test_constant_data_have_no_fit(model):
    with pytest.raises(ValueError, match=r"data must vary to be fitted by .*, got only 3 in channel"):
        fo.fit(model, np.array([3.0] * 12 + [np.nan]))


TIME = np.arange(20.0)


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (fo.models.Structural("trend"), TIME),
        (fo.models.Structural("fixed trend", seasonal=4), 0.1 * TIME + np.tile([3.0, 1.0, 7.0, 2.0], 5)),
        (fo.models.SARIMAX((0, 2, 1)), np.pi * TIME),
    ],
)
def test_data_that_the_unknown_start_fits_have_no_fit(model, y):
    with pytest.raises(ValueError, match=r"data must vary to be fitted by .* start \(.*\) fits exactly"):
        fo.fit(model, y)
    fo.fit_at(model, np.append(y, 0.0), fo.fit(model, np.append(y, 0.0), restarts=1, optima=0).params)


def test_a_known_variance_fits_a_straight_line():
    fit = fo.fit(fo.models.Structural("trend", frozen={"noise": 1.0}), TIME, restarts=1, optima=0)
    assert fit.params["level"] == pytest.approx(0.0, abs=1e-8)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (fo.models.Structural(seasonal=10**7), "number of states of .* must be at most"),
        (fo.models.Structural(ar=10**6), "number of states of .* must be at most"),
        (fo.models.SARIMAX((50, 0, 0)), "50 lags in 'ar', which must be fewer than .*, 20"),
        (fo.models.DynamicFactor(1, 50), "50 lags in 'ar', which must be fewer than .*, 20"),
        (fo.models.SARIMAX((12, 0, 12)), "24 lags in 'ar', 'ma', which must be fewer than .*, 20"),
    ],
)
def test_models_that_are_too_large_for_the_data_are_refused(model, words):
    with pytest.raises((ValueError, MemoryError), match=words):
        fo.fit(model, np.sin(TIME))


def test_two_diffuse_states_need_two_observations():
    known = {"level": 1.0, "slope": 1.0, "noise": 1.0}
    with pytest.raises(ValueError, match=r"2 unknown states, .*: got 1 observed step"):
        fo.fit_at(fo.models.Structural("trend"), np.array([1.0, np.nan, np.nan]), known)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"level": "wiggly"}, "level must be one of"),
        ({"seasonal": 3.5}, "seasonal must be a whole number"),
        ({"seasonal": 12, "harmonics": 7}, "harmonics must be at most 6"),
        ({"harmonics": 2}, "harmonics must be None without a period"),
        ({"level": None, "noise": False}, "needs a part"),
        ({"ar": -1}, "ar must be an integer"),
        ({"seasonal": 0.5, "harmonics": 1}, "seasonal must be a number above 1, got 0.5"),
        ({"cycle": True, "periods": (1.0, 5.0)}, r"periods must be two numbers from 2, .*got \(1.0, 5"),
        ({"cycle": True, "periods": (5.0, 4.0)}, "the shortest and then the longest period, got"),
        ({"periods": (2.0, 50.0)}, r"periods must be \(2.5, 100.0\) without cycle=True, got"),
        ({"damped": False}, "damped must be True without cycle=True, got False"),
        ({"moving_cycle": False}, "moving_cycle must be True without cycle=True, got False"),
        ({"moving_seasonal": False}, "moving_seasonal must be True without a period in seasonal"),
    ],
)
def test_parts_that_do_not_exist_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        fo.models.Structural(**arguments)


def test_periods_are_one_pair_however_they_are_given():
    models = [fo.models.Structural(cycle=True, periods=given) for given in ([2, 50], (2.0, 50.0))]
    assert models[0] == models[1]
    assert hash(models[0]) == hash(models[1])


DESCRIBED = [
    fo.models.Structural(),
    fo.models.Structural(None),
    fo.models.Structural(noise=False),
    fo.models.Structural(cycle=True, damped=False, periods=(3, 7.5)),
    fo.models.Structural(cycle=True, moving_cycle=False),
    fo.models.Structural(seasonal=12.0, harmonics=np.int64(2), moving_seasonal=False, exog="x"),
    fo.models.Structural("trend", frozen={"slope": 0.0}),
    fo.models.Structural(observations="poisson", noise=True, exposure="days"),
    fo.models.Structural(observations="binomial", trials=10),
    fo.models.SARIMAX(),
    fo.models.SARIMAX((0, 1, 1), (0, 1, 1, 12), "c", measurement_error=True),
    fo.models.SARIMAX((0, 0, 1), frozen={"ma": [0.25]}),
    fo.models.DynamicFactor(2),
    fo.models.DynamicFactor(2, mean=False, anchors=[1, 0]),
    fo.models.DynamicFactor(1, 2, 1, "full", frozen={"mean": [0.0, 1.0]}),
]


@pytest.mark.parametrize("model", DESCRIBED, ids=str)
def test_descriptions_make_the_same_model(model):
    names = ("Structural", "SARIMAX", "DynamicFactor")
    assert eval(str(model), {name: getattr(fo.models, name) for name in names}) == model


def test_descriptions_leave_out_defaults():
    assert str(fo.models.Structural(seasonal=12)) == "Structural(level='local', seasonal=12)"
    assert str(fo.models.SARIMAX((0, 1, 1))) == "SARIMAX((0, 1, 1))"
    counts = fo.models.Structural(observations="poisson")
    assert str(counts) == "Structural(level='local', observations='poisson')"


def test_random_starts_reach_an_optimum_in_which_the_slope_makes_the_changes():
    """Most starts end 16 nats higher, with a slope that does not move."""
    from statsmodels.datasets import sunspots

    y = sunspots.load_pandas().data["SUNACTIVITY"].to_numpy(float)
    fit = fo.fit(fo.models.Structural("trend"), y)
    known = fo.fit(fit.model, y, init={"level": 30.0, "noise": 1.0, "slope": 400.0}, restarts=1)
    np.testing.assert_allclose(fit.value, known.value, rtol=1e-9)
    assert float(fit.params["slope"]) > float(fit.params["level"])
