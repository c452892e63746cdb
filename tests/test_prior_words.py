"""The priors that a printed fit names are those of its objective, by SciPy's densities."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fitonce as fo
from fitonce.models.prior_words import priors_of
from fitonce.objectives.families import objective_of

X = np.random.default_rng(0).poisson(np.tile(np.repeat([2.0, 9.0], 10), 3)).astype(float)
LINE = [(k, k + 1) for k in range(59)]


def _prior(fit, theta):
    """Up to a constant: what the objective has beside the likelihood."""
    likelihood = fit.objective.log_likelihoods(theta[None], fit.objective.base[None])[0]
    return float(-fit.objective(theta) - likelihood)


def change(fit, name, value):
    """Of the log prior from the fit to the same with another value of a parameter."""
    other = {**fit.params, name: np.asarray(value, float)}
    return _prior(fit, fit.objective.space.to_free(other)) - _prior(fit, fit.theta)


def test_rates_and_transitions():
    fit = fo.fit(fo.models.PoissonHMM(2, shape=2.0, rate=0.1), X, restarts=1, optima=0)
    assert "  priors: initial, transition Dirichlet(1.1); rate Gamma(2, 0.1)" in str(fit)
    rate = np.array([[1.0], [4.0]])
    gamma = stats.gamma(2.0, scale=10.0)
    expected = gamma.logpdf(rate).sum() - gamma.logpdf(fit.params["rate"]).sum()
    assert change(fit, "rate", rate) == pytest.approx(expected, rel=1e-8)
    moves = np.array([[0.6, 0.4], [0.3, 0.7]])
    dirichlet = stats.dirichlet([1.1, 1.1])
    expected = sum(
        dirichlet.logpdf(a) - dirichlet.logpdf(b)
        for a, b in zip(moves, np.asarray(fit.params["transition"]), strict=True)
    )
    assert change(fit, "transition", moves) == pytest.approx(expected, rel=1e-6)


def test_a_learned_coupling():
    fit = fo.fit(fo.models.PottsMixture(LINE, 2), X, restarts=1, optima=0)
    assert "  priors: beta Normal(0, 10^2); rate flat" in str(fit)
    flat = objective_of(fo.models.PottsMixture(LINE, 2, beta_scale=None), X)
    other = flat.space.to_free({**fit.params, "beta": np.asarray(0.5)})
    priors = [float(flat(theta) - fit.objective(theta)) for theta in (other, fit.theta)]
    normal = stats.norm(0, 10)
    expected = normal.logpdf(0.5) - normal.logpdf(float(fit.params["beta"]))
    assert priors[0] - priors[1] == pytest.approx(expected, abs=1e-8)


def test_spreads_are_pseudo_observations():
    x = np.random.default_rng(0).normal(np.repeat([0.0, 4.0], 30))
    fit = fo.fit(fo.models.GaussianHMM(2), x, restarts=1, optima=0)
    said = "mean flat; variance one pseudo-observation of a spread of a tenth of each channel's"
    assert said in str(fit)
    wide = np.array([[2.0], [3.0]])

    def log(variance):
        return np.sum(-0.5 * (np.log(variance) + 0.01 * x.var() / variance))

    expected = log(wide) - log(np.asarray(fit.params["variance"]))
    assert change(fit, "variance", wide) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(
    ("model", "names", "said"),
    [
        (
            fo.models.PoissonHMM(2, stickiness=5),
            ["transition"],
            "Dirichlet(1.1), with 5 more for staying",
        ),
        (fo.models.PoissonHMM(2, transition_concentration=1), ["transition"], "transition flat"),
        (fo.models.EventCounts(4), ["a", "transition"], "a Gamma(5, 1); transition Dirichlet(as given)"),
        (fo.models.HMM(2, "gamma"), ["shape", "initial"], "shape as in the docs of Gamma; initial Dir"),
        (fo.models.PottsMixture(LINE, 2, beta_scale=None), ["beta", "rate"], "beta, rate flat"),
        (
            fo.models.ARHMM(2, weight_scale=0.5),
            ["weight", "bias"],
            "Normal(last step, 0.5^2); bias Normal",
        ),
        (fo.models.LinearChainCRF(), ["x"], "every parameter Normal(0, 3^2)"),
        (
            fo.models.GaussianHMM(2, strength=0, mean_scale=2),
            ["mean", "variance"],
            "mean Normal(0, 2^2); v",
        ),
    ],
)
def test_words_of_other_priors(model, names, said):
    assert said in "; ".join(priors_of(model, names))


def test_priors_of_other_libraries_are_formulas():
    """The density that is printed for one variance, against the objective."""
    x = np.random.default_rng(0).normal(np.repeat([0.0, 4.0], 30))
    emission = fo.models.Gaussian(strength=3, squares=0.02, mean_weight=2, mean_centre=1)
    fit = fo.fit(fo.models.HMM(2, emission), x, restarts=1, optima=0)
    said = "mean Normal(1, the state's variance / 2); variance with density v^-1.5 exp(-0.01 / v)"
    assert said in str(fit)
    mean, wide = np.asarray(fit.params["mean"]), np.array([[2.0], [3.0]])

    def log(v):
        return np.sum(-1.5 * np.log(v) - 0.01 / v - 0.5 * 2 * (mean - 1) ** 2 / v)

    expected = log(wide) - log(np.asarray(fit.params["variance"]))
    assert change(fit, "variance", wide) == pytest.approx(expected, rel=1e-8)


def test_nothing_is_said_of_models_that_are_not_known():
    assert priors_of(object(), ["x"]) == []
