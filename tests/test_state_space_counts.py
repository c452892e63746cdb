"""Counts in state-space models: the Laplace approximation against sums over a grid of states."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

import fitonce as fo
from dense_gaussian import observations
from fitonce.models.space.counts import DENSITIES
from fitonce.objectives.space.quadrature import log_expected

GRID = np.linspace(-9.0, 9.0, 1501)


def poisson(y, eta):
    return stats.poisson.logpmf(y, np.exp(eta))


def binomial(trials):
    return lambda y, eta: stats.binom.logpmf(y, trials, 1.0 / (1.0 + np.exp(-eta)))


def on_grid(y, variance, log_p, noise=0.0):
    """log p of counts whose level is a random walk with a flat start, by sums over a grid."""
    width = GRID[1] - GRID[0]
    steps = np.exp(-0.5 * (GRID[:, None] - GRID) ** 2 / variance) / np.sqrt(2 * np.pi * variance) * width
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    found, total = np.full(len(GRID), width), 0.0
    for t, count in enumerate(y):
        if t:
            found = steps @ found
        if not np.isnan(count):
            each = np.exp(log_p(count, GRID[:, None] + np.sqrt(noise) * nodes)) @ weights
            found = found * each
        total, found = total + np.log(found.sum()), found / found.sum()
    return total - 0.5 * np.log(2 * np.pi)  # the unit of one diffuse state


def counts(steps=24, seed=0, level=1.0, walk=0.3):
    rng = np.random.default_rng(seed)
    y = rng.poisson(np.exp(level + walk * np.cumsum(rng.normal(size=steps)))).astype(float)
    y[5:7] = np.nan
    return y


CASES = {
    "poisson": (fo.models.Structural(observations="poisson"), poisson, {"level": 0.09}),
    "noisy": (
        fo.models.Structural(observations="poisson", noise=True),
        poisson,
        {"level": 0.05, "noise": 0.1},
    ),
    "binomial": (
        fo.models.Structural(observations="binomial", trials=30),
        binomial(30),
        {"level": 0.09},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_approximation_is_near_and_importance_sampling_is_right(name):
    model, log_p, values = CASES[name]
    y = counts()
    fit = fo.fit_at(model, y, values)
    exact = on_grid(y, values["level"], log_p, values.get("noise", 0.0))
    found = fit.laplace_error(4000, seed=1)
    assert found.laplace == pytest.approx(fit.log_likelihood, rel=1e-12)
    assert fit.log_likelihood == pytest.approx(exact, abs=0.05)
    assert abs(fit.log_likelihood - exact) > 1e-4  # an approximation, after all
    assert found.sampled == pytest.approx(exact, abs=4.0 * found.monte_carlo)
    assert found.monte_carlo < 0.01
    assert found.effective > 2000


def test_the_approximation_is_that_of_all_states_at_once():
    """With the covariance of all signals, an optimiser and a determinant."""
    model = fo.models.Structural(None, seasonal=None, ar=1, noise=True, observations="poisson")
    y = np.array([0.0, 2.0, np.nan, 1.0, 5.0, 0.0])
    fit = fo.fit_at(model, y, {"ar": [0.7], "ar_noise": 0.5, "noise": 0.2})
    system = fit.objective.layout.systems(fit.theta[None])
    mean, spread, _ = observations(system, len(y))
    kept = np.flatnonzero(~np.isnan(y))
    mean, precision = mean[kept], np.linalg.inv(spread[np.ix_(kept, kept)])

    def negative(eta):
        apart = eta - mean
        return 0.5 * apart @ precision @ apart - poisson(y[kept], eta).sum()

    slope = lambda eta: precision @ (eta - mean) - y[kept] + np.exp(eta)  # noqa: E731
    mode = optimize.root(slope, np.zeros(len(kept)), tol=1e-14).x
    inside = np.linalg.slogdet(np.eye(len(kept)) + np.linalg.inv(precision) * np.exp(mode))[1]
    assert fit.log_likelihood == pytest.approx(-negative(mode) - 0.5 * inside, abs=1e-9)


def test_fits_are_near_those_of_the_exact_likelihood():
    y = counts(60, seed=2, level=2.0)
    fit = fo.fit(CASES["poisson"][0], y, restarts=1)
    logs = np.log(fit.params["level"]) + np.array([-0.3, 0.0, 0.3])
    low, here, high = (on_grid(y, np.exp(log), poisson) for log in logs)
    best = np.exp(logs[1] + 0.15 * (high - low) / (2.0 * here - low - high))
    table = fit.to_dataframe()
    assert abs(fit.params["level"] - best) < 0.05 * table["se"][0]


def test_left_out_counts_are_nearly_those_of_the_grid():
    model, log_p, values = CASES["poisson"]
    y = counts()
    fit = fo.fit_at(model, y, values)
    seen = np.flatnonzero(~np.isnan(y))
    swept, _ = fit.objective.leave_one_out(fit.theta)
    full = on_grid(y, values["level"], log_p)
    for t in seen[::4]:
        rest = y.copy()
        rest[t] = np.nan
        exact = full - on_grid(rest, values["level"], log_p)
        weights = fit.objective.base.copy()
        weights[t] = 0.0
        loss = fit.objective.pointwise_losses(fit.theta[None], weights[None], np.array([[t]]))[0, 0]
        assert -loss == pytest.approx(exact, abs=0.012)
        assert swept[t] == pytest.approx(exact, abs=0.04)
        missing = fo.fit_at(model, rest, values)
        assert fit.objective(fit.theta, weights) == pytest.approx(missing.value, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["poisson", "binomial"]),
    st.floats(0.0, 1.0),
    st.floats(-6.0, 6.0),
    st.floats(-8.0, 5.0),
)
def test_expected_densities_are_integrals(name, share, mean, log_variance):
    density, variance = DENSITIES[name], np.exp(log_variance)
    size = 40.0 if name == "binomial" else 0.5
    y = np.floor(share * (40 if name == "binomial" else 200))
    found = log_expected(density, *map(np.array, (y, size, mean, variance)))

    def height(eta):
        value = density.slopes(np.array(y), np.array(size), np.asarray(eta)).value
        return value - 0.5 * (eta - mean) ** 2 / variance

    best = optimize.minimize_scalar(lambda eta: -float(height(eta)), bracket=(mean - 1.0, mean + 1.0)).x
    wide = min(15.0 * np.sqrt(variance), 300.0)
    grid = np.linspace(best - wide, best + wide, 200_001)  # sums of smooth peaks are exact
    total = np.exp(height(grid) - height(best)).sum() * (grid[1] - grid[0])
    expected = height(best) + np.log(total) - 0.5 * np.log(2 * np.pi * variance)
    assert float(found) == pytest.approx(expected, abs=1e-8)
