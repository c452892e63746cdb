"""Gaussian mixtures, multinomial counts and regressions of categories: densities, M steps, recovery."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fitonce as fo
from fitonce.core.parameters import ParameterSpace
from fitonce.models import (
    Categorical,
    CategoricalRegression,
    Gaussian,
    GaussianMixture,
    LinearRegression,
    Multinomial,
)
from fitonce.objectives.chain.family import CHAINS
from fitonce.objectives.families import objective_of

STEPS = 2000
STATES = np.cumsum(np.random.default_rng(2).random(STEPS) < 0.04) % 2


def log_likelihood(emission, x, params):
    """Of one state: the sum of log densities."""
    model = fo.models.HMM(1, emission)
    at = {"initial": np.ones(1), "transition": np.ones((1, 1)), **params}
    return fo.fit_at(model, x, at).log_likelihood


def test_densities_are_those_of_scipy():
    rng = np.random.default_rng(0)
    counts = rng.multinomial(rng.integers(1, 9, 30), [0.5, 0.3, 0.2]).astype(float)
    p = np.array([0.2, 0.5, 0.3])
    expected = stats.multinomial(counts.sum(1).astype(int), p).logpmf(counts).sum()
    assert log_likelihood(Multinomial(), counts, {"probability": p[None, None]}) == pytest.approx(
        expected
    )
    x = rng.normal(size=(30, 2))
    means, spread = np.array([[0.0, 1.0], [2.0, -1.0]]), np.array([[1.0, 0.3], [0.3, 0.5]])
    parts = [
        w * stats.multivariate_normal(m, spread).pdf(x) for w, m in zip([0.3, 0.7], means, strict=True)
    ]
    given = {"weight": np.array([[0.3, 0.7]]), "mean": means[None], "covariance": spread[None]}
    found = log_likelihood(GaussianMixture(2, "tied"), x, given)
    assert found == pytest.approx(np.log(sum(parts)).sum())


def mixed(rng):
    centre = np.array([[0.0, 4.0], [1.0, -5.0]])
    return centre[STATES, (rng.random(STEPS) < 0.4).astype(int)] + rng.normal(size=STEPS)


def test_a_mixture_is_recovered_and_serves_a_graph():
    x = mixed(np.random.default_rng(3))
    fit = fo.fit(fo.models.HMM(2, "gaussian-mixture"), x)
    assert fit.ok
    table = fit.to_dataframe().set_index("name")
    found = np.sort(fit.params["mean"].ravel())
    errors = table["se"][[n for n in table.index if n.startswith("mean")]].max()
    np.testing.assert_allclose(found, [-5.0, 0.0, 1.0, 4.0], atol=4 * errors)
    assert fit.sample(500, seed=1).values.shape == (500, 1)
    drawn = fit.simulate(1).values.ravel()
    assert drawn.mean() == pytest.approx(x.mean(), abs=0.3)
    assert drawn.std() == pytest.approx(x.std(), abs=0.3)
    edges = [(k, k + 1) for k in range(59)]
    field = fo.models.PottsMixture(edges, 2, GaussianMixture(2, Gaussian(scale=0.3)), beta=0.5)
    objective = objective_of(field, x[:60])
    theta, values = objective.start(None), []
    for _ in range(5):
        value, theta = objective.m_step(theta)
        values.append(value)
    assert (np.diff(values) <= 1e-9).all()


def test_multinomial_probabilities_are_recovered():
    rng = np.random.default_rng(4)
    truth = np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5]])
    trials = rng.integers(2, 6, STEPS)
    data = fo.sequences(rng.multinomial(trials, truth[STATES]).astype(float), covariates={"n": trials})
    fit = fo.fit(fo.models.HMM(2, Multinomial(trials="n")), data)
    order = np.argsort(-fit.params["probability"][:, 0, 0])
    np.testing.assert_allclose(fit.params["probability"][order, 0], truth, atol=0.05)
    drawn = fit.simulate(0)
    np.testing.assert_array_equal(drawn.values.sum(-1), data.values.sum(-1))


def test_coefficients_of_categories_are_recovered():
    rng = np.random.default_rng(5)
    u = rng.normal(size=STEPS)
    slopes = np.array([[1.0, -1.0, 0.0], [-1.0, 0.5, 0.0]])
    logits = np.array([[1.5, 0.0, 0.0], [-1.0, 0.5, 0.0]])[STATES] + slopes[STATES] * u[:, None]
    x = np.argmax(logits + rng.gumbel(size=logits.shape), 1).astype(float)
    data = fo.sequences(x, covariates={"heat": u})
    fit = fo.fit(fo.models.HMM(2, CategoricalRegression(3, ["heat"])), data)
    table = fit.to_dataframe().set_index("name")
    order = np.argsort(-fit.params["coefficients"][:, 0, 0, 0])
    for state, ours in enumerate(order):
        for category in range(2):
            row = table.loc[f"coefficients[{ours},0,{category},0]"]
            assert abs(row["value"] - slopes[state, category]) < 4 * row["se"]
    shares = [
        np.bincount(v.ravel().astype(int), minlength=3) / STEPS for v in (fit.simulate(0).values, x)
    ]
    np.testing.assert_allclose(*shares, atol=0.06)


@pytest.mark.slow
def test_regressions_of_correlated_channels_draw_what_they_fit():
    rng = np.random.default_rng(6)
    u = rng.normal(size=(400, 1))
    noise = rng.multivariate_normal([0, 0], [[1.0, 0.6], [0.6, 1.0]], 400)
    data = fo.sequences(np.array([1.0, -1.0]) * u + noise, covariates=u)
    model = fo.models.HMM(1, LinearRegression(["u0"], "full"))
    at = {"initial": np.ones(1), "transition": np.ones((1, 1)), "mean": np.zeros((1, 2))}
    at |= {
        "coefficients": np.array([[[1.0], [-1.0]]]),
        "covariance": np.array([[[1.0, 0.6], [0.6, 1.0]]]),
    }
    fit = fo.fit_at(model, data, at)
    expected = stats.multivariate_normal([0, 0], at["covariance"][0]).logpdf(noise).sum()
    assert fit.log_likelihood == pytest.approx(expected)
    residual = fit.simulate(0).values[0] - np.array([1.0, -1.0]) * u
    np.testing.assert_allclose(np.cov(residual.T), at["covariance"][0], atol=0.2)


@pytest.mark.parametrize(
    "shape",
    ["diag", "spherical", "fixed", *(pytest.param(s, marks=pytest.mark.slow) for s in ("full", "tied"))],
)
def test_m_steps_of_mixtures_lead_to_a_stationary_point(shape):
    """With states given, steps of EM over components improve, to as good as can be."""
    rng = np.random.default_rng(7)
    x = np.array([[0.0, 0.0], [6.0, 1.0]])[rng.integers(2, size=60)] + rng.normal(size=(60, 2))
    prior = {"mean_weight": 0.5, "mean_centre": 1.0, "mean_scale": 4.0}
    emission = GaussianMixture(2, Gaussian(shape, **prior))
    with jax.enable_x64(True):
        rows = fo.models.HMM(2, emission).prepare(fo.sequences(x)).rows
        space = ParameterSpace(emission.parameters(2, rows))
        shares = rng.random((60, 2))

        @jax.jit
        def expected(theta):
            values = space.to_params(theta)
            density = jnp.sum(shares * emission.log_density(values, rows))
            return density + emission.log_prior(values, rows)

        params, values = emission.start(2, rows, None), []
        for _ in range(400):
            params = emission.maximise(params, shares, rows)
            if len(values) < 8:
                values.append(float(expected(jnp.asarray(space.to_free(params)))))
        slope = jax.grad(expected)(jnp.asarray(space.to_free(params)))
    assert (np.diff(values) > -1e-9).all()
    np.testing.assert_allclose(slope, 0.0, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: GaussianMixture(0), "n_components must be a positive integer, got 0"),
        (
            lambda: GaussianMixture(2, "round"),
            "component must be an fo.models.Gaussian or a covariance, one of",
        ),
        (lambda: GaussianMixture(2, 3), "component must be an fo.models.Gaussian or a covariance"),
        (lambda: GaussianMixture(2, "diag", (1.0, 2.0, 3.0)), "or one for each component, got"),
        (lambda: Multinomial(trials=0), "trials must be an integer of at least 1, the name"),
        (lambda: Multinomial(n_categories=1), "n_categories must be an integer of at least 2"),
        (lambda: Multinomial(concentration=-1), "concentration must be a positive number, got -1"),
        (lambda: Categorical(3, (1.0, 2.0)), "concentration must be a positive number or 3 of them"),
        (
            lambda: Categorical(2, support=[[True, False], [False, False]]),
            "support must be bools with a row",
        ),
        (lambda: CategoricalRegression(1, ["u0"]), "n_categories must be an integer of at least 2"),
        (lambda: LinearRegression(["u0"], 3), "noise must be an fo.models.Gaussian or a covariance"),
        (lambda: Gaussian(mean_weight=-1), "mean_weight must be a non-negative number"),
        (lambda: Gaussian("full", variance_rate=1.0), "variance_rate is for spherical and diag"),
        (lambda: Gaussian(mean_centre="low"), "mean_centre must be a number or one per channel"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


COUNTS = np.array([[1.0, 2.0], [0.0, 3.0], [2.0, 2.0]])


@pytest.mark.parametrize(
    ("emission", "x", "sentence"),
    [
        (Multinomial(), COUNTS[:, 0], "needs two or more channels, one for each category, got 1"),
        (Multinomial(n_categories=3), COUNTS, "needs a multiple of 3 channels, got 2"),
        (Multinomial((1.0, 2.0, 3.0)), COUNTS, "concentration must be a number or 2 of them, got 3"),
        (Multinomial(), np.where(COUNTS == 0, np.nan, COUNTS), "counts of all categories of a step"),
        (Multinomial(trials=3), COUNTS, "must add up to its trials, 3, got 4"),
        (Multinomial(support=[[True, False], [True, False]]), COUNTS, "category 1 is observed, but"),
        (Categorical(4, support=[[True, True, False, True]]), COUNTS, "support must have shape"),
        (CategoricalRegression(2, ["u0"]), COUNTS, "n_categories=2 allows 0 to 1, got 3"),
        (Gaussian(mean_centre=(1.0, 2.0, 3.0)), COUNTS, r"per channel, shape \(2,\), got shape \(3,\)"),
    ],
)  # fmt: skip
def test_data_that_do_not_fit_are_refused(emission, x, sentence):
    with pytest.raises(ValueError, match=sentence):
        fo.fit(fo.models.HMM(2, emission), x)


@pytest.mark.parametrize(
    ("name", "options", "data", "emission"),
    [
        ("gaussian-mixture-hmm", {"components": 3}, COUNTS, GaussianMixture(3)),
        ("multinomial-hmm", {}, COUNTS, Multinomial()),
        ("categorical-hmm", {}, COUNTS, Categorical(4)),
        (
            "categorical-hmm",
            {},
            fo.sequences(COUNTS, covariates={"heat": np.arange(3.0)}),
            CategoricalRegression(4, ["heat"]),
        ),
    ],
)
def test_names_on_the_command_line(name, options, data, emission):
    named = next(model for model in CHAINS.models if model.name == name)
    assert named.make({"states": 2, **options}, fo.sequences(data)).emission == emission


def test_multinomial_counts_without_trials_cannot_be_drawn():
    rng = np.random.default_rng(8)
    fit = fo.fit(fo.models.HMM(1, "multinomial"), rng.multinomial(4, [0.5, 0.5], 20).astype(float))
    with pytest.raises(ValueError, match="drawing from a multinomial emission needs trials="):
        fit.sample(3)
