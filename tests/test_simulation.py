"""Samples, simulated data sets, forecasts, and the table of states."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fitonce as fo
from golden_record import saved_fit
from registry import entries

HMMS = {
    entry.name: entry
    for entry in entries()
    if isinstance(entry.model, fo.models.HMM) and entry.name != "multinomial"  # without trials
}
COUNTS = np.random.default_rng(0).poisson(np.repeat([2.0, 9.0, 2.0, 9.0], 50)).astype(float)


@pytest.fixture(scope="module")
def fit():
    return fo.fit(fo.models.PoissonHMM(2), COUNTS)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if entry.slow else []) for n, entry in HMMS.items()],
)
def test_a_simulated_data_set_can_be_read_and_has_the_likelihood_that_it_should(name):
    """The log-likelihood of simulated data at the parameters that made them is as that of other such
    data: the mean over the data sets does not depend on their seeds."""
    entry = HMMS[name]
    fit = fo.fit_at(entry.model, entry.data, saved_fit(entry.name).params)
    made = [fit.simulate(seed) for seed in range(24)]
    data = fit.objective.collection
    assert all(np.array_equal(one.lengths, data.lengths) for one in made)
    assert all(one.weights.sum() >= data.weights.sum() for one in made)
    scores = np.array([fit.score(one) for one in made])
    assert np.isfinite(scores).all()
    # The score at the truth has mean zero: gradients of log p(x) average out.
    base = fit.objective
    slopes = np.array([_slope(base, fit.theta, one) for one in made])
    # Some slopes come from what hardly ever happens, and would vary more than 24 data sets tell.
    information = np.diagonal(base.hessians(fit.theta[None], base.base[None])[0])
    varied = np.maximum(slopes.std(0, ddof=1), np.sqrt(np.maximum(information, 0.0)))
    moved = np.abs(slopes.mean(0)) / np.where(varied > 0, varied, 1.0) * np.sqrt(len(made))
    # Simulated sequences are as long as the data's, whatever the chance of an end says.
    moved = moved[["end" not in coordinate for coordinate in fit.names]]
    assert np.median(moved) < 1.5
    assert moved.max() < 6.0


def _slope(objective, theta, data):
    """(D,) gradient of log p(x) by the parameters, without the prior's."""
    other = objective.for_prediction(data)
    none = np.zeros((1, len(other.base)))
    with_data = other.gradients(theta[None], other.base[None])[0]
    return with_data - other.gradients(theta[None], none)[0]


def test_samples_follow_the_chain_and_its_emission(fit):
    drawn = fit.sample(20_000, seed=1)
    assert drawn.states.shape == (20_000,)
    assert drawn.values.shape == (20_000, 1)
    rate = fit.params["rate"].ravel()
    for state in (0, 1):
        values = drawn.values[drawn.states == state, 0]
        assert values.mean() == pytest.approx(rate[state], abs=5 * np.sqrt(rate[state] / len(values)))
    pairs = np.zeros((2, 2))
    np.add.at(pairs, (drawn.states[:-1], drawn.states[1:]), 1)
    np.testing.assert_allclose(pairs / pairs.sum(1, keepdims=True), fit.params["transition"], atol=0.01)
    np.testing.assert_array_equal(drawn.values, fit.sample(20_000, seed=1).values)


def test_forecasts_are_the_mixture_of_the_states(fit):
    ahead = fit.forecast(5, n=40_000)
    last = fit.posterior()[-1]
    chain, rate = fit.params["transition"], fit.params["rate"].ravel()
    for step in range(5):
        shares = last @ np.linalg.matrix_power(chain, step + 1)
        np.testing.assert_allclose(ahead.state_probabilities[step], shares, atol=1e-12)
        assert ahead.mean[step, 0] == pytest.approx(shares @ rate, rel=1e-12)
        spread = shares @ (rate + rate**2) - (shares @ rate) ** 2
        assert ahead.sd[step, 0] == pytest.approx(np.sqrt(spread), rel=1e-12)
        below = shares @ stats.poisson(rate).cdf(5)
        assert (ahead.samples[:, step, 0] <= 5).mean() == pytest.approx(below, abs=0.015)
    table = ahead.to_dataframe(level=0.8)
    assert list(table.columns) == ["step", "channel", "mean", "median", "lower", "upper"]
    assert (table["lower"] <= table["median"]).all()
    assert (table["median"] <= table["upper"]).all()
    assert "5 steps" in repr(ahead)


@pytest.mark.parametrize(
    ("emission", "channels"),
    [
        (fo.models.NegativeBinomial(), 2), (fo.models.ZeroInflatedPoisson(), 1), ("exponential", 1),
        ("gamma", 2), ("log-normal", 1), ("beta", 1), (fo.models.Gaussian("full", scale=0.5), 2),
        (fo.models.Gaussian("spherical", scale=0.5), 2), (fo.models.Binomial(trials=9), 1),
        ("zero-inflated-gamma", 1),
    ],
    ids=str,
)  # fmt: skip
def test_moments_of_emissions_are_those_of_their_draws(emission, channels):
    rng = np.random.default_rng(0)
    high = np.repeat([0.2, 0.7], 40)[:, None]
    x = high + 0.05 + rng.random((80, channels)) / 5.0
    if any(word in str(emission) for word in ("Binomial", "Poisson")):
        x = rng.binomial(9, high, (80, channels)).astype(float)
    if emission == "zero-inflated-gamma":
        x[rng.random((80, channels)) < 0.3] = 0.0
    fit = fo.fit(fo.models.HMM(2, emission), x, restarts=1, optima=0)
    states, known = np.tile([0, 1], 40_000), np.zeros((80_000, 0))
    drawn = fit.model.emission.draw(fit.params, states, known, rng)
    mean, variance = fit.model.emission.moments(fit.params, states[:2], known[:2])
    for state in (0, 1):
        own = drawn[states == state]
        np.testing.assert_allclose(own.mean(0), mean[state], atol=5 * (own.std(0) / 200).max())
        np.testing.assert_allclose(own.var(0), variance[state], rtol=0.1)


def test_the_first_steps_do_not_depend_on_how_many_there_are(fit):
    short, long = fit.forecast(2, n=500), fit.forecast(6, n=500)
    np.testing.assert_array_equal(short.samples, long.samples[:, :2])
    np.testing.assert_array_equal(short.states, long.states[:, :2])
    np.testing.assert_array_equal(short.mean, long.mean[:2])
    assert "means exact, quantiles of 500 paths" in repr(short)


@pytest.mark.parametrize("sequence", [np.int64(0), np.uint8(0), np.int8(-1)])
def test_forecasts_take_numbers_of_sequences_from_arrays(fit, sequence):
    ahead = fit.forecast(3, sequence=sequence, n=10)
    np.testing.assert_array_equal(ahead.samples, fit.forecast(3, n=10).samples)


@pytest.mark.slow
def test_quantiles_of_forecasts_are_calibrated():
    """PIT of the next step over simulated series is uniform, randomised for counts."""
    truth = {
        "initial": np.array([0.5, 0.5]),
        "transition": np.array([[0.95, 0.05], [0.1, 0.9]]),
        "rate": np.array([[3.0], [12.0]]),
    }
    model, rng = fo.models.PoissonHMM(2), np.random.default_rng(0)
    maker = fo.fit_at(model, np.arange(500.0) % 7, truth)  # shorter ones have parameters too far off
    places = []
    for seed in range(500):
        x = maker.simulate(seed).values[0]
        fitted = fo.fit(model, x[:-1], optima=0)
        drawn = fitted.forecast(1, seed=seed).samples[:, 0, 0]
        below, equal = (drawn < x[-1]).mean(), (drawn == x[-1]).mean()
        places.append(below + rng.random() * equal)
    counts = np.histogram(places, np.linspace(0, 1, 11))[0]
    assert stats.chisquare(counts).pvalue > 0.01


def test_an_autoregression_goes_on_from_its_last_steps():
    rng, x = np.random.default_rng(1), np.zeros(300)
    for t in range(1, 300):
        x[t] = 0.9 * x[t - 1] + 0.3 * rng.normal()
    fit = fo.fit(fo.models.ARHMM(1, 1), x[:, None])
    ahead = fit.forecast(3, n=20_000)
    weight, bias = float(fit.params["weight"].item()), float(fit.params["bias"].item())
    mean = x[-1]
    for step in range(3):
        mean = weight * mean + bias
        assert ahead.mean[step, 0] == pytest.approx(mean, abs=0.02)
    with_gap = fo.fit(fo.models.ARHMM(1, 1), np.append(x, np.nan)[:, None])
    with pytest.raises(
        ValueError, match="needs the last 1 steps of the sequence, some of which are missing"
    ):
        with_gap.forecast(3)


def test_angles_have_mean_directions():
    angles = np.random.default_rng(3).vonmises(np.pi, 20.0, 100)
    ahead = fo.fit(fo.models.HMM(1, "von-mises"), angles).forecast(1)
    assert abs(np.angle(np.exp(1j * (ahead.mean[0, 0] - np.pi)))) < 0.1
    lower, upper = ahead.interval(0.9)
    assert np.mod(upper - lower, 2 * np.pi).item() == pytest.approx(2 * 1.645 / np.sqrt(20.0), rel=0.2)


def test_covariates_of_the_future_are_asked_for():
    u = np.sin(np.arange(200.0))
    data = fo.sequences(COUNTS, covariates={"heat": u})
    fit = fo.fit(fo.models.PoissonHMM(2, covariates=["heat"]), data)
    with pytest.raises(ValueError, match=r"depends on \['heat'\]: give covariates= for each step"):
        fit.forecast(3)
    with pytest.raises(ValueError, match="sequence 0 has 3 steps, its covariates 2"):
        fit.forecast(3, covariates=u[:2])
    named, plain = (fit.forecast(3, covariates=c) for c in ({"heat": u[:3]}, u[:3]))
    np.testing.assert_array_equal(named.samples, plain.samples)
    assert fit.sample(4, covariates=u[:4]).values.shape == (4, 1)


def test_states_are_a_table(fit):
    table = fit.states()
    assert list(table.columns) == ["share", "stationary", "dwell", "rate"]
    np.testing.assert_allclose(table["share"], fit.posterior().mean(0))
    shares = table["stationary"].to_numpy()
    assert shares.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(shares @ fit.params["transition"], shares, atol=1e-9)
    np.testing.assert_allclose(table["dwell"], 1 / (1 - np.diag(fit.params["transition"])))


def test_shared_parameters_are_not_those_of_states():
    x = np.random.default_rng(2).normal(np.repeat([[0.0, 0.0], [3.0, 2.0]], 40, 0), 1.0)
    table = fo.fit(fo.models.GaussianHMM(2, covariance="tied"), x).states()
    assert list(table.columns) == ["share", "stationary", "dwell", "mean[0]", "mean[1]"]


def test_decode_and_score_are_those_of_the_data(fit):
    np.testing.assert_array_equal(fit.decode()[0], fo.predict(fit)[0])
    assert fit.score() == pytest.approx(fit.score(COUNTS))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda fit: fit.forecast(0), "steps must be an integer of at least 1, got 0"),
        (
            lambda fit: fit.forecast(2, sequence=3),
            "sequence must be 0, the number of the only one, got 3",
        ),
        (lambda fit: fit.forecast(2, covariates=[1, 2]), "the model depends on none"),
        (lambda fit: fit.forecast(2).interval(0), "level must be a probability between 0 and 1, got"),
        (lambda fit: fit.forecast(2).interval(90), r"between 0 and 1 \(0.9, not 90\), got 90"),
        (lambda fit: fit.forecast(2).to_dataframe(1), "a probability between 0 and 1, got 1"),
        (lambda fit: fit.forecast(2).plot(level=95), r"0 and 1 \(0.95, not 95\), got 95"),
        (lambda fit: fit.sample(-1), "n must be an integer of at least 1, got -1"),
        (lambda fit: fit.sample(1, seed=-1), "seed must be a non-negative integer, got -1"),
        (lambda fit: fit.simulate(-1), "seed must be a non-negative integer, got -1"),
        (lambda fit: fit.forecast(1, seed=0.5), "seed must be a non-negative integer, got 0.5"),
    ],
)
def test_bad_arguments_are_refused(fit, call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call(fit)


def test_other_models_are_refused():
    model = fo.models.PottsMixture([(k, k + 1) for k in range(19)], beta=0.5)
    fitted = fo.fit(model, COUNTS[40:60])
    with pytest.raises(ValueError, match="needs an HMM or a state-space model, got PottsMixture"):
        fitted.forecast(2)
