"""Forecasts, samples, smoothed states and parts of state-space models, against statsmodels."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import fitonce as fo
from fitonce.objectives.families import objective_of
from statsmodels_cases import with_stationary_cycle


def _series(name):
    data = getattr(sm.datasets, name).load_pandas().data
    if name == "macrodata":
        quarters = pd.period_range("1959Q1", periods=len(data), freq="Q")
        return pd.Series(100.0 * np.log(data["realgdp"].to_numpy()), quarters, name="gdp")
    values = data.iloc[:, 1].to_numpy(float).copy()
    values[[7, 8, 40]] = np.nan
    return pd.Series(values, name=name)


# Data, our model, theirs, and the order of their parameters.
PEERS = {
    "level": ("nile", {}, {"level": "local level"}, ("noise", "level")),
    "trend": ("nile", {"level": "trend"}, {"level": "local linear trend"}, ("noise", "level", "slope")),
    "cycle": (
        "sunspots",
        {"level": "fixed", "cycle": True},
        {"level": "fixed intercept", "cycle": True, "damped_cycle": True, "stochastic_cycle": True},
        ("cycle", "frequency", "damping"),
    ),
    "seasons": (
        "macrodata",
        {"level": "trend", "seasonal": 4},
        {"level": "local linear trend", "seasonal": 4},
        ("noise", "level", "slope", "seasonal"),
    ),
    "waves": (
        "macrodata",
        {"level": "smooth trend", "seasonal": 8, "harmonics": 2, "ar": 1},
        {
            "level": "smooth trend",
            "freq_seasonal": [{"period": 8, "harmonics": 2}],
            "autoregressive": 1,
        },
        ("noise", "slope", "seasonal", "ar_noise", "ar"),
    ),
}


@pytest.fixture(scope="module", params=list(PEERS))
def pair(request):
    """A fit of ours, not at an optimum, and theirs at the same parameters."""
    name, ours, theirs, order = PEERS[request.param]
    y = _series(name)
    model = fo.models.Structural(**ours, noise="noise" in order)
    values = model.start(objective_of(model, y).steps, np.random.default_rng(4))
    fit = fo.fit_at(model, y, values)
    peer = sm.tsa.UnobservedComponents(y.to_numpy(), use_exact_diffuse=True, **theirs)
    peer = with_stationary_cycle(peer) if "cycle" in theirs else peer
    return fit, peer.smooth([float(np.squeeze(values[key])) for key in order])


def test_the_same_parameters_have_the_same_likelihood(pair):
    fit, peer = pair
    assert fit.log_likelihood == pytest.approx(peer.llf, rel=1e-8)


def test_forecasts_are_those_of_statsmodels(pair):
    fit, peer = pair
    ahead, expected = fit.forecast(12, n=200), peer.get_forecast(12)
    np.testing.assert_allclose(ahead.mean[:, 0], expected.predicted_mean, rtol=1e-8)
    np.testing.assert_allclose(ahead.sd[:, 0], expected.se_mean, rtol=1e-8)
    low, high = ahead.interval(0.95)
    expected_ends = expected.conf_int(alpha=0.05)
    np.testing.assert_allclose(np.hstack([low, high]), expected_ends, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ahead.quantile(0.5), ahead.mean)


def test_states_and_parts_are_those_of_statsmodels(pair):
    fit, peer = pair
    states = fit.smoothed()
    spreads = np.sqrt(np.einsum("iit->ti", peer.smoothed_state_cov))
    size = np.abs(peer.smoothed_state.T).max(0)
    np.testing.assert_allclose(states.mean / size, peer.smoothed_state.T / size, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(states.sd, spreads, rtol=1e-6)
    parts = fit.components()
    loading = peer.model["design"][0]
    expected = loading @ peer.smoothed_state
    np.testing.assert_allclose(parts.mean.sum(1), expected, rtol=1e-8, atol=1e-8 * size.max())
    table = parts.to_dataframe()
    assert list(table.columns[::2]) == list(parts.names)
    if peer.level is not None and "level" in parts.names:
        np.testing.assert_allclose(table["level"], peer.level.smoothed, rtol=1e-8)
        sd = np.sqrt(peer.level.smoothed_cov)
        np.testing.assert_allclose(table["level_sd"], sd, rtol=1e-6)


def test_paths_have_the_moments_that_are_known(pair):
    fit, _ = pair
    ahead = fit.forecast(6, n=20_000, seed=1)
    apart = (ahead.samples.mean(0) - ahead.mean) / ahead.sd
    assert np.abs(apart).max() < 4.5 / np.sqrt(20_000)
    np.testing.assert_allclose(ahead.samples.std(0) / ahead.sd, 1.0, atol=0.025)


@pytest.fixture(scope="module")
def sold():
    """A series with prices and dates."""
    rng = np.random.default_rng(0)
    price = rng.normal(size=60)
    y = 20.0 + np.cumsum(rng.normal(size=60)) - 2.0 * price + rng.normal(size=60)
    table = pd.DataFrame(
        {"sales": y, "price": price}, pd.date_range("2024-01-01", periods=60, name="day")
    )
    data = fo.sequences(table, covariates=["price"])
    return fo.fit(fo.models.Structural(exog=["price"]), data, restarts=1)


def test_regressors_of_the_future_move_forecasts(sold):
    dear = sold.forecast(3, covariates={"price": [1.0, 1.0, 1.0]})
    cheap = sold.forecast(3, covariates={"price": [0.0, 0.0, 0.0]})
    np.testing.assert_allclose(dear.mean - cheap.mean, sold.params["coefficient"][0])
    assert [str(day.date()) for day in dear.index] == ["2024-03-01", "2024-03-02", "2024-03-03"]
    with pytest.raises(ValueError, match=r"the model depends on \['price'\]: give covariates="):
        sold.forecast(3)
    parts = sold.components()
    assert parts.names == ("level", "regression")
    table = parts.to_dataframe()
    assert table.index.name == "day"
    known = sold.data.covariates[0, :, 0] * sold.params["coefficient"][0]
    np.testing.assert_allclose(table["regression"], known)


def test_forecasts_go_on_from_each_sequence():
    rng = np.random.default_rng(1)
    series = [10.0 + np.cumsum(rng.normal(size=40)), -30.0 + np.cumsum(rng.normal(size=25))]
    fit = fo.fit(fo.models.Structural(), series, restarts=1)
    for number, y in enumerate(series):
        alone = fo.fit_at(fit.model, y, fit.params)
        np.testing.assert_allclose(fit.forecast(3, sequence=number).mean, alone.forecast(3).mean)
    assert fit.components().to_dataframe().index.names == ["sequence", "time"]
    with pytest.raises(
        ValueError, match=r"sequence must be a number from 0 to 1 \(-1: the last\), got 2"
    ):
        fit.forecast(3, sequence=2)


def test_simulated_data_have_slopes_that_average_out(sold):
    """At the parameters that made them, gradients of the log-likelihood have mean zero."""
    made = [sold.simulate(seed) for seed in range(40)]
    assert all(np.array_equal(one.observed, sold.data.observed) for one in made)
    slopes = []
    for one in made:
        other = sold.objective.for_prediction(one)
        slopes.append(other.gradients(sold.theta[None], other.base[None])[0])
    slopes = np.array(slopes)
    assert np.abs(slopes.mean(0) / (slopes.std(0) / np.sqrt(len(slopes)))).max() < 4.0


def test_samples_begin_where_the_data_do(sold):
    states, values = sold.sample(500, seed=3, covariates=np.zeros((500, 1)))
    assert states.shape == values.shape == (500, 1)
    np.testing.assert_allclose(states[0], sold.smoothed().mean[0])
    assert np.diff(states[:, 0]).std() == pytest.approx(np.sqrt(sold.params["level"]), rel=0.15)
    assert (values - states).std() == pytest.approx(np.sqrt(sold.params["noise"]), rel=0.15)
    np.testing.assert_array_equal(values, sold.sample(500, seed=3, covariates=np.zeros((500, 1)))[1])


def test_a_stationary_start_is_drawn():
    model = fo.models.Structural(None, ar=1, noise=False)
    y = np.random.default_rng(2).normal(size=50)
    fit = fo.fit_at(model, y, {"ar": [0.8], "ar_noise": 1.0})
    firsts = [fit.sample(1, seed=seed)[1][0, 0] for seed in range(400)]
    assert np.std(firsts) == pytest.approx(1.0 / np.sqrt(1.0 - 0.64), rel=0.12)


def test_parts_are_drawn_and_printed(sold):
    parts = sold.components()
    figure = parts.plot(level=0.8)
    assert figure.axes[1].get_legend().texts[0].get_text() == "80 % interval"
    assert [ax.get_ylabel() for ax in figure.axes] == ["sales", "level", "regression"]
    plt.close(figure)
    assert str(parts).startswith("2 parts at 60 steps given all data")
    ahead = sold.forecast(2, covariates=np.array([[0.0], [1.0]]))
    assert str(ahead).startswith("Forecast of 2 steps, normal, 90 %")
    assert "2 steps, normal, parameters taken as known" in ahead._repr_html_()
    with pytest.raises(ValueError, match=r"level must be a probability .*\(0.8, not 80\), got 80"):
        parts.plot(level=80)
    with pytest.raises(ValueError, match="sequence must be 0, the number of the only one"):
        parts.plot(sequence=1)


def test_states_and_parts_of_other_data_are_those_of_a_model_of_them():
    model = fo.models.Structural(seasonal=4)
    y = np.cumsum(np.random.default_rng(5).normal(size=50))
    fit = fo.fit_at(model, y[:30], {"level": 1.0, "noise": 0.5, "seasonal": 0.1})
    other = fo.fit_at(model, [y[30:38], y[38:]], fit.params)
    for verb in ("smoothed", "components"):
        found, expected = getattr(fit, verb)(y[30:], lengths=[8, 12]), getattr(other, verb)()
        np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.sd, expected.sd, rtol=1e-7)
        with pytest.raises(ValueError, match="lengths= needs the data that they are of"):
            getattr(fit, verb)(lengths=[8, 12])


def test_other_models_have_no_continuous_states():
    fit = fo.fit(fo.models.PoissonHMM(1), np.arange(5.0))
    for verb in ("smoothed", "components"):
        with pytest.raises(ValueError, match=f"{verb} needs a state-space model, got HMM"):
            getattr(fit, verb)()
