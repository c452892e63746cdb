"""Emissions of dynamax, with their priors: what `log_prior` of each component says, in our terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from fitonce.data.sequences import Sequences
from fitonce.models.emissions.base import Emission
from fitonce.models.emissions.categorical_regression import CategoricalRegression
from fitonce.models.emissions.categories import Categorical, Multinomial
from fitonce.models.emissions.continuous import Gamma
from fitonce.models.emissions.count_regressions import BinomialRegression
from fitonce.models.emissions.counts import Binomial, Poisson
from fitonce.models.emissions.gaussian import Gaussian
from fitonce.models.emissions.linear_regression import LinearRegression
from fitonce.models.emissions.mixture import GaussianMixture


class Given(Protocol):
    """Parameters of an emission and their properties, by the names of dynamax."""

    def value(self, name: str) -> np.ndarray: ...
    def frozen(self, **names: str) -> set[str]: ...


class Read(NamedTuple):
    """An emission of ours, its parameters, and the names of those that are frozen."""

    emission: Emission
    params: dict[str, np.ndarray]
    frozen: set[str]


def _number(name: str, value: Any) -> float:
    """A prior's number, which may be given as an array of equal ones."""
    array = np.asarray(value, float)
    if array.size > 1 and np.ptp(array) > 0:
        raise ValueError(f"{name} must be one number for all channels, got {array.tolist()}")
    return float(array.ravel()[0])


def _matrix(value: np.ndarray) -> np.ndarray:
    """Symmetric to the last digit, which float32 is not."""
    return 0.5 * (value + np.swapaxes(value, -1, -2))


def _probabilities(value: np.ndarray) -> np.ndarray:
    return value / value.sum(-1, keepdims=True)


# --- Gaussians -----------------------------------------------------------------------------------------


def _wishart(part: Any, weight: Any, means: int) -> dict[str, Any]:
    """Normal-inverse-Wishart: the covariance has the density |S|^-(df + C + 1)/2 and one root of its
    determinant for each of the means that share it."""
    channels = len(np.asarray(part.emission_prior_mean))
    return {
        "strength": float(part.emission_prior_df) + channels + 1.0 + means,
        "squares": np.asarray(part.emission_prior_scale, float),
        "mean_weight": float(weight),
        "mean_centre": np.asarray(part.emission_prior_mean, float),
    }


def _inverse_gamma(part: Any, weight: Any, shape: Any) -> dict[str, Any]:
    """Normal-inverse-gamma: v^-(shape + 1) exp(-scale / v), and a root of v for the mean."""
    return {
        "strength": 2.0 * _number("the shape of the inverse gamma prior", shape) + 3.0,
        "squares": 2.0 * np.asarray(part.emission_prior_scale, float),
        "mean_weight": float(weight),
        "mean_centre": np.asarray(part.emission_prior_mean, float),
    }


def _full(part: Any, given: Given, data: Sequences) -> Read:
    emission = Gaussian("full", **_wishart(part, part.emission_prior_conc, 1))
    params = {"mean": given.value("means"), "covariance": _matrix(given.value("covs"))}
    return Read(emission, params, given.frozen(means="mean", covs="covariance"))


def _tied(part: Any, given: Given, data: Sequences) -> Read:
    emission = Gaussian("tied", **_wishart(part, part.emission_prior_conc, int(part.num_states)))
    params = {"mean": given.value("means"), "covariance": _matrix(given.value("cov"))}
    return Read(emission, params, given.frozen(means="mean", cov="covariance"))


def _diagonal(part: Any, given: Given, data: Sequences) -> Read:
    prior = _inverse_gamma(part, part.emission_prior_mean_conc, part.emission_prior_conc)
    params = {"mean": given.value("means"), "variance": given.value("scale_diags") ** 2}
    frozen = given.frozen(means="mean", scale_diags="variance")
    return Read(Gaussian("diag", **prior), params, frozen)


def _spherical(part: Any, given: Given, data: Sequences) -> Read:
    """A gamma prior of the variance, once for a state: ours is a sum over its channels."""
    spread = np.asarray(part.emission_prior_mean_cov, float)
    channels = len(spread)
    if not np.array_equal(spread, spread[0, 0] * np.eye(channels)):
        raise ValueError("emission_prior_mean_covariance must be a number times the identity")
    emission = Gaussian(
        "spherical",
        mean_scale=float(np.sqrt(spread[0, 0])),
        mean_centre=np.asarray(part.emission_prior_mean, float),
        strength=-2.0 * (float(part.emission_var_concentration) - 1.0) / channels,
        squares=0.0,
        variance_rate=float(part.emission_var_rate) / channels,
    )
    params = {"mean": given.value("means"), "variance": given.value("scales") ** 2}
    return Read(emission, params, given.frozen(means="mean", scales="variance"))


def _mixture(part: Any, given: Given, data: Sequences) -> Read:
    component = Gaussian("full", **_wishart(part, part.emission_prior_mean_concentration, 1))
    frozen = given.frozen(weights="weight", means="mean", covs="covariance")
    spread = {"covariance": _matrix(given.value("covs"))}
    return _of_components(part, component, given, spread, frozen)


def _diagonal_mixture(part: Any, given: Given, data: Sequences) -> Read:
    weight, shape = part.emission_prior_mean_concentration, part.emission_prior_shape
    component = Gaussian("diag", **_inverse_gamma(part, weight, shape))
    frozen = given.frozen(weights="weight", means="mean", scale_diags="variance")
    spread = {"variance": given.value("scale_diags") ** 2}
    return _of_components(part, component, given, spread, frozen)


def _of_components(
    part: Any, component: Gaussian, given: Given, spread: dict[str, np.ndarray], frozen: set[str]
) -> Read:
    concentration = np.asarray(part.emission_weights_concentration, float)
    emission = GaussianMixture(int(part.num_components), component, concentration)
    weight = _probabilities(given.value("weights"))
    return Read(emission, {"weight": weight, "mean": given.value("means"), **spread}, frozen)


# --- counts and categories -----------------------------------------------------------------------------


def _poisson(part: Any, given: Given, data: Sequences) -> Read:
    emission = Poisson(float(part.emission_prior_concentration), float(part.emission_prior_rate))
    return Read(emission, {"rate": given.value("rates")}, given.frozen(rates="rate"))


def _bernoulli(part: Any, given: Given, data: Sequences) -> Read:
    ones, zeros = part.emission_prior_concentration1, part.emission_prior_concentration0
    emission = Binomial(float(ones), float(zeros), trials=1)
    return Read(emission, {"rate": given.value("probs")}, given.frozen(probs="rate"))


def _categorical(part: Any, given: Given, data: Sequences) -> Read:
    probability = _probabilities(given.value("probs"))
    prior = np.asarray(part.emission_prior_concentration, float)
    emission = Categorical(int(part.num_classes), prior, probability > 0)
    return Read(emission, {"probability": probability}, given.frozen(probs="probability"))


def _multinomial(part: Any, given: Given, data: Sequences) -> Read:
    probability = _probabilities(given.value("probs"))
    prior = np.asarray(part.emission_prior_concentration, float)
    trials, classes = int(part.num_trials), int(part.num_classes)
    emission = Multinomial(prior, trials, classes, probability > 0)
    return Read(emission, {"probability": probability}, given.frozen(probs="probability"))


def _gamma(part: Any, given: Given, data: Sequences) -> Read:
    """Ours is by its mean, which cannot be known where only the rate is."""
    frozen = given.frozen(concentration="shape", rate="mean")
    if frozen == {"mean"}:
        raise ValueError("a GammaHMM whose rate alone is frozen has no counterpart: freeze both or none")
    shape, rate = given.value("concentration")[:, None], given.value("rate")[:, None]
    return Read(Gamma(shape_prior=(1.0, 0.0)), {"shape": shape, "mean": shape / rate}, frozen)


# --- regressions ---------------------------------------------------------------------------------------


def _linear(part: Any, given: Given, data: Sequences) -> Read:
    noise = Gaussian("full", strength=0.0)
    emission = LinearRegression(data.covariate_names, noise, coefficient_scale=None)
    params = {
        "coefficients": given.value("weights"),
        "mean": given.value("biases"),
        "covariance": _matrix(given.value("covs")),
    }
    frozen = given.frozen(weights="coefficients", biases="mean", covs="covariance")
    return Read(emission, params, frozen)


def _logistic(part: Any, given: Given, data: Sequences) -> Read:
    emission = BinomialRegression(
        data.covariate_names,
        float(part.emission_weights_scale),
        trials=1,
        rate_prior=(1.0, 1.0),
        standardise=False,
    )
    rate = 1.0 / (1.0 + np.exp(-given.value("biases")[:, None]))
    params = {"coefficients": given.value("weights")[:, None], "rate": rate}
    return Read(emission, params, given.frozen(weights="coefficients", biases="rate"))


def _softmax(part: Any, given: Given, data: Sequences) -> Read:
    """Theirs has a score for every class, ours for every class but the last: the same likelihood."""
    weights, biases = given.value("weights"), given.value("biases")
    emission = CategoricalRegression(int(part.num_classes), data.covariate_names, 1.0, None)
    shares = np.exp(biases - biases.max(-1, keepdims=True))
    params = {
        "coefficients": (weights[:, :-1] - weights[:, -1:])[:, None],
        "probability": _probabilities(shares)[:, None],
    }
    return Read(emission, params, given.frozen(weights="coefficients", biases="probability"))


READERS: dict[str, Callable[[Any, Any, Sequences], Read]] = {
    "GaussianHMM": _full,
    "DiagonalGaussianHMM": _diagonal,
    "SphericalGaussianHMM": _spherical,
    "SharedCovarianceGaussianHMM": _tied,
    "PoissonHMM": _poisson,
    "CategoricalHMM": _categorical,
    "BernoulliHMM": _bernoulli,
    "MultinomialHMM": _multinomial,
    "GammaHMM": _gamma,
    "GaussianMixtureHMM": _mixture,
    "DiagonalGaussianMixtureHMM": _diagonal_mixture,
    "LinearRegressionHMM": _linear,
    "LinearAutoregressiveHMM": _linear,
    "LogisticRegressionHMM": _logistic,
    "CategoricalRegressionHMM": _softmax,
}
REFUSED = {"LowRankGaussianHMM": "no emission here has a covariance of low rank"}
