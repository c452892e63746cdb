"""The priors that a printed fit names are those of its objective, by SciPy's densities."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import stats

import fitonce as fo
from fitonce.core.numerics import in_float64
from fitonce.models.prior_words import priors_of
from fitonce.objectives.families import objective_of
from registry import entries

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
        (fo.models.HMM(2, "gamma"), ["shape", "initial"], "shape Gamma(2, 0.01); initial Dirichlet"),
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


ENTRIES = {entry.name: (entry.model, entry.data) for entry in entries()}
_OTHERS = {
    "gaussian-regression": fo.models.GaussianRegression(["u0"], strength=2.0),
    "poisson-regression": fo.models.PoissonRegression(["u0"], 3.0, standardise=False),
    "categorical-regression": fo.models.CategoricalRegression(3, ["u0"], coefficient_scale=2.0),
    "linear-regression": fo.models.LinearRegression(["u0"], "full"),
    "switching-regression": fo.models.SwitchingRegression(["u0"], ["u1"]),
    "switching-autoregression": fo.models.SwitchingAutoregression(1, weight_scale=None, strength=0.0),
    "log-normal": fo.models.LogNormal(),
    "student-t": fo.models.StudentT(),
}
CASES = ENTRIES | {
    f"{name}, other priors": (fo.models.HMM(2, emission), ENTRIES[name][1])
    for name, emission in _OTHERS.items()
}
_UNIT = "(covariates|covariates and channels) of unit spread"


@pytest.mark.parametrize("name", CASES)
@in_float64
def test_the_words_of_every_registered_model_are_its_prior(name):
    """The densities that are named, by their textbook formulas, against the objective's log prior."""
    model, objective = CASES[name][0], objective_of(*CASES[name])
    names = list(dict.fromkeys(one.split("[")[0] for one in objective.space.names))
    if name == "custom-field":  # the user's own function
        assert priors_of(model, names) == ["every parameter as in log_prior"]
        return
    said = {}
    for text in priors_of(model, names):
        text = text.replace("every parameter", ", ".join(names))
        of_names, words = re.fullmatch(r"([\w.+]+(?:, [\w.+]+)*) (.+)", text).groups()
        said |= dict.fromkeys(of_names.split(", "), words)
    assert said.keys() == set(names)
    rng, first = np.random.default_rng(0), objective.start(None)
    found, expected = [], []
    for _ in range(2):
        theta = first + 0.3 * rng.normal(size=objective.space.size)
        params = objective.space.params_at(theta)
        found.append(float(objective.log_prior(theta)))
        logs = (_log(said[one], one, np.asarray(params[one]), model, objective) for one in said)
        expected.append(sum(np.sum(log) for log in logs))
    assert found[0] - found[1] == pytest.approx(expected[0] - expected[1], rel=1e-8, abs=1e-8)


def _log(words, name, value, model, objective):
    """Log densities, up to a constant, that words about a parameter say its value has."""
    if words == "flat":
        return 0.0
    if found := re.fullmatch(r"(Gamma|Beta)\((.+), (.+)\)", words):
        a, b = float(found[2]), float(found[3])
        other = -value if found[1] == "Gamma" else np.log1p(-value)
        return (a - 1) * np.log(value) + (b - (found[1] == "Beta")) * other
    if found := re.fullmatch(r"Dirichlet\((.+)\)(?:, with (.+) more for staying)?", words):
        if found[1] == "as given":
            concentration = np.asarray(model.transition_concentration)
        else:
            concentration = np.full(value.shape, float(found[1]))
        if found[2]:
            concentration = concentration + float(found[2]) * np.eye(len(value))
        return (concentration - 1) * np.log(np.where(value > 0, value, 1.0))
    if found := re.fullmatch(rf"Normal\((.+), (.+)\^2\)(?: for {_UNIT})?", words):
        centre = np.eye(*value.shape[1:]) if found[1] == "last step" else float(found[1])
        if found[3]:
            value = value * _covariate_spreads(name, model, objective.collection)
        if found[3] == "covariates and channels":
            value = value / _spreads(name, model, objective.collection)[:, None]
        free = np.isfinite(value)  # what a support rules out is no parameter
        return -0.5 * np.where(free, value - centre, 0.0) ** 2 / float(found[2]) ** 2
    found = re.fullmatch(r"(one|.+) pseudo-observations? of a spread of (a tenth of)?(.+)", words)
    count, spreads = 1.0 if found[1] == "one" else float(found[1]), 1.0
    if found[2]:
        spreads = 0.1 * _spreads(name, model, objective.collection, logs="logarithms" in words)
    else:
        spreads = np.full(len(objective.collection.channels), float(found[3]))
    if found[3] == " the data's":
        spreads = np.full(len(spreads), np.sqrt(np.mean(spreads**2)))
    if name.endswith("covariance"):
        inside = np.linalg.inv(value) * spreads[: value.shape[-1]] ** 2
        return -0.5 * count * (np.linalg.slogdet(value)[1] + np.trace(inside, axis1=-2, axis2=-1))
    value = value**2 if name == "scale" else value
    each = value.ndim > 1 and value.shape[-1] == len(spreads)
    value = value if each else value[..., None]  # channels have a variance together
    return -0.5 * count * (np.log(value) + spreads**2 / value)


def _spreads(name, model, data, logs=False):
    """Standard deviations of what was observed of the channels that a parameter is of."""
    own = name.partition(".")[0].split("+") if "." in name else data.channels
    found = [data.values[..., c][data.observed[..., c]] for c in map(data.channels.index, own)]
    return np.array([(np.log(x) if logs else x).std() for x in found])


def _covariate_spreads(name, model, data):
    """Standard deviations of the covariates that coefficients are of."""
    if name == "transition_coefficients":  # at the steps that are entered
        known = data.covariates_of(model.transition_covariates)
        return known[:, 1:][data.valid[:, 1:]].std(0)
    emission, _, plain = model.emission, *name.rpartition(".")[1:]
    if "." in name:
        emission = dict(emission.labelled)[name.rpartition(".")[0]]
    names = emission.shared if plain == "shared_coefficients" else emission.regressors
    return data.covariates_of(tuple(names))[data.observed.any(-1)].std(0)
