"""What fits of counts in time do: forecasts, random data, folds, boundaries, commands, refusals."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from reproduce.cases import EARTHQUAKES
from scipy import stats
from typer.testing import CliRunner

import fitonce as fo
from fitonce.cli import app

POISSON = fo.models.Structural(observations="poisson")


@pytest.fixture(scope="module")
def quakes():
    return fo.fit(POISSON, np.asarray(EARTHQUAKES, float), restarts=1)


def test_earthquakes_are_fitted_and_the_approximation_is_near(quakes):
    assert quakes.ok
    found = quakes.laplace_error(2000)
    assert abs(found.error) < 0.03
    assert found.monte_carlo < 0.005
    assert f"Laplace approximation: {quakes.log_likelihood:,.4f}" in str(found)
    assert "likelihood: Laplace approximation; fit.laplace_error()" in str(quakes)
    assert quakes.summary.approximation == "Laplace approximation"


def test_seasons_of_traffic_are_near_importance_sampling():
    """Cars that leave a stadium's parking, by the hour: 4 waves a day and a level."""
    series = fo.datasets.read_dodgers("../shared/data/dodgers/Dodgers.data")
    cars = np.where(series.observed, series.values, np.nan)[0, : 12 * 24 * 10, 0]
    hourly = cars.reshape(-1, 12).sum(1)  # nan where some five minutes are missing
    model = fo.models.Structural(
        seasonal=24, harmonics=2, moving_seasonal=False, observations="poisson", noise=True
    )
    fit = fo.fit_at(model, hourly, {"level": 0.01, "noise": 0.05})
    found = fit.laplace_error(2000)
    assert found.effective > 1000
    assert abs(found.error) < 0.2
    assert abs(found.error) > 4.0 * found.monte_carlo or abs(found.error) < 0.05


def test_folds_are_refitted_to_their_optima(quakes, tmp_path):
    folds = fo.folds.future(quakes.data, steps=3, horizon=2)
    exact = fo.cross_validate(quakes, folds, method="exact", optima=0)
    assert exact.folds["ok"].all()
    assert "likelihoods by Laplace approximation" in str(exact)
    none = fo.cross_validate(quakes, folds, method="none")
    onestep = fo.cross_validate(quakes, folds, method="onestep")
    off = [np.abs(cv.folds["loss"] - exact.folds["loss"]).max() for cv in (none, onestep)]
    assert off[1] < 0.3 * off[0]
    rest = np.array(EARTHQUAKES, float)
    rest[folds.dropped[0]] = np.nan
    again = fo.fit(POISSON, rest, restarts=1)
    assert exact.theta[0] == pytest.approx(again.theta, abs=1e-6)
    exact.save(tmp_path / "cv.json")
    assert "likelihoods by Laplace approximation" in str(fo.load(tmp_path / "cv.json"))


def test_a_forecast_has_the_moments_of_its_mixture(quakes):
    ahead = quakes.forecast(2, n=40_000, seed=1)
    level = quakes.smoothed()
    mean, variance = level.mean[-1, 0], level.sd[-1, 0] ** 2 + quakes.params["level"]
    expected = np.exp(mean + 0.5 * variance)
    assert ahead.mean[0, 0] == pytest.approx(expected, rel=0.01)
    spread = expected + expected**2 * np.expm1(variance)
    assert ahead.sd[0, 0] ** 2 == pytest.approx(spread, rel=0.03)
    assert (ahead.samples == np.floor(ahead.samples)).all()
    assert ahead.observed[-1, 0] == EARTHQUAKES[-1]


def test_random_counts_have_the_rates_of_their_states(quakes):
    states, values = quakes.sample(4000, seed=2)
    assert values.shape == (4000, 1)
    rates = np.exp(states[:, 0])
    scores = (values[:, 0] - rates) / np.sqrt(rates)
    some = rates > 1.0
    assert abs(scores[some].mean()) < 4.0 / np.sqrt(some.sum())
    made = np.asarray(quakes.simulate(3).values)
    assert made.shape == (1, len(EARTHQUAKES), 1)
    assert (made == np.floor(made)).all()


def test_exposures_and_trials_are_those_of_the_data():
    rng = np.random.default_rng(0)
    people = rng.uniform(50.0, 200.0, 60).round()
    y = rng.poisson(0.1 * people).astype(float)
    data = fo.sequences(y, covariates={"people": people})
    still = {"level": 0.0}
    fit = fo.fit_at(fo.models.Structural(observations="poisson", exposure="people"), data, still)
    level = fit.smoothed().mean[0, 0]
    rate = y.sum() / people.sum()
    # A flat prior of the logarithm: the posterior of the rate is Gamma(sum of counts, exposure).
    assert level == pytest.approx(np.log(rate) - 0.5 / y.sum(), abs=1e-4)
    ahead = fit.forecast(1, covariates={"people": [1000.0]}, n=20_000)
    assert ahead.mean[0, 0] == pytest.approx(1000.0 * rate, rel=0.01)
    won = fo.models.Structural(observations="binomial", trials="people")
    share = fo.fit_at(won, data, still).smoothed().mean[0, 0]
    assert 1.0 / (1.0 + np.exp(-share)) == pytest.approx(rate, rel=0.01)
    with pytest.raises(ValueError, match=r"the model depends on \['people'\]: give covariates="):
        fit.forecast(1)


def test_a_single_level_is_nearly_a_gamma_mixture():
    """The predictive distribution of a count given others of one rate is negative binomial."""
    y = np.array([3.0, 5.0, 2.0, 4.0, 6.0, 1.0, 3.0])
    fit = fo.fit_at(POISSON, y, {"level": 0.0})
    values, _ = fit.objective.leave_one_out(fit.theta)
    for t in range(len(y)):
        rest = y.sum() - y[t]
        exact = stats.nbinom.logpmf(y[t], rest, (len(y) - 1) / len(y))
        weights = np.ones(len(y))
        weights[t] = 0.0
        loss = fit.objective.pointwise_losses(fit.theta[None], weights[None], np.array([[t]]))[0, 0]
        assert -loss == pytest.approx(exact, abs=0.006)
        assert values[t] == pytest.approx(exact, abs=0.03)


def test_variances_of_zero_are_certified_optima():
    rng = np.random.default_rng(2)
    fit = fo.fit(
        fo.models.Structural("trend", observations="poisson"), rng.poisson(6.0, 80).astype(float),
        restarts=2,
    )  # fmt: skip
    assert fit.ok
    assert fit.params["slope"] == pytest.approx(0.0, abs=1e-12)
    assert "slope: 0. (at its boundary; half a nat worse at" in str(fit)


def test_a_fold_that_keeps_only_zeros_has_no_density():
    fit = fo.fit(POISSON, np.array([0.0, 0.0, 30.0, *[0.0] * 9]), restarts=1)
    folds = fo.folds.sites([[2], [4]], fit.data)
    cv = fo.cross_validate(fit, folds, method="none")
    assert list(cv.folds["ok"]) == [False, True]
    assert "do not determine the first state" in cv.folds["status"][0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"observations": "gamma"}, "observations must be one of"),
        ({"exposure": "n"}, "exposure must be None unless observations are 'poisson'"),
        ({"trials": 3}, "trials must be 1 unless observations are 'binomial'"),
        ({"observations": "binomial", "trials": 0}, "trials must be an integer of at least 1"),
    ],
)
def test_observations_that_do_not_exist_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        fo.models.Structural(**arguments)


@pytest.mark.parametrize(
    ("model", "y", "words"),
    [
        (POISSON, [1.0, 2.5], "a Poisson model needs non-negative integer counts, got 2.5"),
        (POISSON, [0.0, 0.0, 0.0], "must vary to be fitted by .*, got only zeros"),
        (
            fo.models.Structural(observations="binomial", trials=2),
            [1.0, 3.0],
            "cannot exceed its trials, got 3 of 2",
        ),
        (
            fo.models.Structural(observations="poisson", exposure="n"),
            [1.0, 2.0],
            "the exposure 'n' must be positive, got -1",
        ),
        (
            fo.models.Structural(observations="binomial", trials="n"),
            [1.0, 1.0],
            "the trials 'n' must be integers of at least 1, got -1",
        ),
    ],
)
def test_data_that_are_no_counts_are_refused(model, y, words):
    with pytest.raises(ValueError, match=words):
        fo.fit(model, fo.sequences(np.array(y), covariates={"n": [1.0, -1.0, 1.0][: len(y)]}))


def test_unknown_starts_of_other_scales_have_other_units():
    rng = np.random.default_rng(3)
    made = [rng.poisson(np.exp(1.0 + 0.2 * np.cumsum(rng.normal(size=20)))) for _ in range(9)]
    series = [one.astype(float) for one in made]
    fits = [
        fo.fit(fo.models.Structural(observations=kind), series, restarts=1)
        for kind in ("gaussian", "poisson")
    ]
    folds = fo.folds.structures(fits[0].data)
    whole = [fo.cross_validate(fit, folds, method="onestep") for fit in fits]
    exact = fo.cross_validate(fits[1], folds, method="exact", optima=0)
    columns = [whole[1].folds[name] - exact.folds["loss"] for name in ("loss", "control")]
    moved, still = (np.abs(column).max() for column in columns)
    assert moved < 0.5 * still
    with pytest.raises(ValueError, match="level of the log rate"):
        fo.compare(dict(zip(("gaussian", "poisson"), whole, strict=True)))
    parts = fo.folds.kfold(fits[0].data, 5, blocks=False)
    both = [fo.cross_validate(fit, parts, method="onestep") for fit in fits]
    assert "poisson" in str(fo.compare({"gaussian": both[0], "poisson": both[1]}))


def test_what_has_no_parameters_is_not_fitted():
    with pytest.raises(ValueError, match="no free parameters"):
        fo.fit(fo.models.Structural("fixed", observations="poisson"), np.arange(6.0))


def test_only_whole_sequences_are_resampled(quakes):
    with pytest.raises(ValueError, match="structures"):
        fo.bootstrap(quakes, "block")
    exact = fo.fit_at(fo.models.Structural(), np.arange(9.0) % 4, {"level": 1.0, "noise": 1.0})
    with pytest.raises(ValueError, match="laplace_error needs a state-space model of counts"):
        exact.laplace_error()
    with pytest.raises(ValueError, match=r"draws must be an integer between 4 and 1e\+06"):
        quakes.laplace_error(1)


def test_counts_are_fitted_and_selected_on_the_command_line(tmp_path):
    rng = np.random.default_rng(2)
    shops = rng.integers(5, 15, 48)
    sold = rng.poisson(shops * np.exp(0.5 + 0.4 * np.sin(2 * np.pi * np.arange(48) / 12)))
    pd.DataFrame({"sold": sold, "shops": shops}).to_csv(tmp_path / "sold.csv", index=False)

    def said(*words):
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == 0, done.output
        return done.stdout

    quick = ["--columns", "sold", "--restarts", "1", "--optima", "0", "--no-cache"]
    said("fit", tmp_path / "sold.csv", "--model", "structural-poisson", "--exposure", "shops", *quick,
         "--save", tmp_path / "fit.json")  # fmt: skip
    found = fo.load(tmp_path / "fit.json")
    assert found.model == fo.models.Structural(observations="poisson", exposure="shops")
    words = ["--model", "structural-poisson", "--seasonal", "none,12",
             "--harmonics", "1", "--exposure", "shops", "--method", "none", "--json"]  # fmt: skip
    rows = json.loads(said("select", tmp_path / "sold.csv", *words, *quick))["models"]
    assert [row["model"] for row in rows] == ["seasonal none", "seasonal 12"]
    assert rows[1]["estimate"] < rows[0]["estimate"] - 0.1
