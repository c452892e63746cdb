"""Hidden Markov models by their usual names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from fitonce.core.arguments import read_names, require, require_count, require_number, require_pair
from fitonce.core.numerics import is_count
from fitonce.core.renamed import deprecated
from fitonce.models.emissions.autoregression import LinearAutoregression, NeuralAutoregression
from fitonce.models.emissions.base import Emission, require_gamma
from fitonce.models.emissions.categories import Categorical
from fitonce.models.emissions.continuous import GaussianRegression
from fitonce.models.emissions.count_regressions import PoissonRegression
from fitonce.models.emissions.counts import Binomial, Poisson
from fitonce.models.emissions.events import EventEmission
from fitonce.models.emissions.gaussian import CovarianceShape, Gaussian, require_variance
from fitonce.models.emissions.regression import Noise, NoiseModel
from fitonce.models.hmm import HMM, read_frozen


def ARHMM(  # noqa: N802 - reads as the model it makes
    n_states: int,
    order: int = 1,
    *,
    noise: Noise = "shared",
    variance: float = 1.0,
    weight_scale: float | None = 1.0,
    bias_scale: float | None = 1.0,
    strength: float = 1.0,
    scale: float | None = None,
    **chain: Any,
) -> HMM:
    """An HMM whose states are linear autoregressions with the same noise variance in every channel.

    The priors depend on the scale of the data: standardise channels of very different spread.

    Args:
        n_states: K.
        order: p, the number of lags; 0 is a Gaussian HMM with spherical noise.
        noise: "shared" by all states, one for each "state", or "fixed" at `variance`.
        variance: the fixed variance.
        weight_scale, bias_scale: prior standard deviations, see `LinearAutoregression`; None: flat.
        strength, scale: prior of a learned variance, see `NoiseModel`. Without a scale it is that of
            all the data, in every fold.
        **chain: priors, support and frozen parameters, see `HMM`.
    """
    emission = LinearAutoregression(
        order, NoiseModel(noise, variance, strength, scale), weight_scale, bias_scale
    )
    return _hmm(n_states, emission, chain)


def NeuralARHMM(  # noqa: N802
    n_states: int,
    order: int = 1,
    *,
    hidden: int = 12,
    noise: Noise = "shared",
    variance: float = 1.0,
    weight_scale: float = 1.0,
    strength: float = 1.0,
    scale: float | None = None,
    **chain: Any,
) -> HMM:
    """An HMM whose states are autoregressions by a network with one hidden layer of tanh units.

    Args:
        n_states: K.
        order: p, at least 1.
        hidden: number of hidden units (12 make the paper's 12-12-12 network for 12 channels).
        noise, variance, strength, scale: as for `ARHMM`.
        weight_scale: prior standard deviation of all weights and biases.
        **chain: priors, support and frozen parameters, see `HMM`.
    """
    emission = NeuralAutoregression(
        order, NoiseModel(noise, variance, strength, scale), hidden, weight_scale
    )
    return _hmm(n_states, emission, chain)


def EventCounts(  # noqa: N802 - reads as the model it makes
    steps_per_day: int,
    *,
    first_day: int = 0,
    rate_prior: tuple[float, float] = (1.0, 0.05),
    a_prior: tuple[float, float] = (5.0, 1.0),
    b_prior: tuple[float, float] = (1.0, 3.0),
    day_concentration: float = 1.0,
    stay_quiet_prior: tuple[float, float] = (99.0, 1.0),
    stay_in_event_prior: tuple[float, float] = (9.0, 1.0),
    frozen: Any = (),
) -> HMM:
    """The paper's time-varying Poisson process for counts with a weekly rhythm and events.

    State 0 is quiet, state 1 an event; the initial distribution is uniform and fixed, which leaves 11
    free parameters.

    Args:
        steps_per_day: number of time steps per day (288 for five minutes).
        first_day: day of the week (0 to 6) of the first step; it only assigns shares to days.
        rate_prior, a_prior, b_prior: shape and rate of Gamma priors. The paper gives no numbers; these
            are weak: means 20, 5 and 1/3 (a / b is the mean excess of an event).
        day_concentration: Dirichlet prior of the seven day shares; the paper's 1 is flat, and more is
            needed if a day of the week never occurs in the data.
        stay_quiet_prior, stay_in_event_prior: Beta priors on transition[0,0] and transition[1,1].
        frozen: a dict of parameter names and the values at which they are fixed.
    """
    require_count("steps_per_day", steps_per_day)
    require(is_count(first_day, 0, 6), "first_day", "an integer from 0 to 6", first_day)
    for name, prior in (("rate_prior", rate_prior), ("a_prior", a_prior), ("b_prior", b_prior)):
        require_gamma(name, prior)
    require_number("day_concentration", day_concentration, above=0)
    stays = {"stay_quiet_prior": stay_quiet_prior, "stay_in_event_prior": stay_in_event_prior}
    for name, prior in stays.items():
        require_pair(name, prior)
    priors = (tuple(rate_prior), tuple(a_prior), tuple(b_prior))  # hashable, whatever was given
    stay_quiet, leave_quiet = stay_quiet_prior
    stay_event, leave_event = stay_in_event_prior
    return HMM(
        2,
        EventEmission(steps_per_day, first_day, *priors, day_concentration),
        transition_concentration=((stay_quiet, leave_quiet), (leave_event, stay_event)),
        frozen={"initial": (0.5, 0.5), **dict(read_frozen(frozen))},
    )


def GaussianHMM(  # noqa: N802 - reads as the model it makes
    n_states: int,
    *,
    covariance: CovarianceShape = "diag",
    variance: Any = 1.0,
    mean_scale: float | None = None,
    strength: float = 1.0,
    scale: float | None = None,
    covariates: Sequence[str] = (),
    **chain: Any,
) -> HMM:
    """An HMM with Gaussian emissions.

    Args:
        n_states: K.
        covariance: "fixed" (at `variance`, a number or one per channel), "spherical", "diag", "full", or
            "tied": one full covariance that all states share.
        variance: the fixed variance, if covariance="fixed".
        mean_scale, strength, scale: priors, see `fo.models.Gaussian`.
        covariates: names of covariates of the data on which means depend, see
            `fo.models.GaussianRegression`.
        **chain: priors, support and frozen parameters, see `HMM`.
    """
    covariates = read_names("covariates", covariates)
    require_variance("variance", variance)
    if covariates:
        if covariance != "diag" or mean_scale is not None:
            raise ValueError("covariates= needs covariance='diag' and no mean_scale")
        regression = GaussianRegression(covariates, strength=strength, scale=scale)
        return _hmm(n_states, regression, chain)
    return _hmm(n_states, Gaussian(covariance, variance, mean_scale, strength, scale), chain)


def PoissonHMM(  # noqa: N802
    n_states: int,
    *,
    shape: float = 1.0,
    rate: float = 0.0,
    covariates: Sequence[str] = (),
    exposure: str | None = None,
    **chain: Any,
) -> HMM:
    """An HMM with Poisson counts in each channel.

    Args:
        n_states: K.
        shape, rate: Gamma prior on the rates; 1 and 0 make it flat.
        covariates, exposure: names of covariates of the data, see `fo.models.PoissonRegression`.
        **chain: priors, support and frozen parameters, see `HMM`.
    """
    covariates = read_names("covariates", covariates)
    require_number("rate", rate, least=0)
    if covariates or exposure is not None:
        regression = PoissonRegression(covariates, exposure=exposure, shape=shape, inverse_scale=rate)
        return _hmm(n_states, regression, chain)
    return _hmm(n_states, Poisson(shape, rate), chain)


def CategoricalHMM(  # noqa: N802
    n_states: int, n_categories: int, *, concentration: float = 1.1, **chain: Any
) -> HMM:
    """An HMM with categories 0 .. n_categories - 1 in each channel; Dirichlet(concentration) prior."""
    return _hmm(n_states, Categorical(n_categories, concentration), chain)


# What hmmlearn calls arguments that are here under another name, or elsewhere.
_HMMLEARN_NAMES = {
    "covariance_type": "covariance=",
    "startprob_prior": "initial_concentration=",
    "transmat_prior": "transition_concentration=",
    "n_features": "CategoricalHMM(n_states, n_categories)",
    "n_iter": "fo.fit(..., max_iterations=)",
    "random_state": "fo.fit(..., seed=)",
    "lengths": "fo.fit(..., lengths=)",
}


def _hmm(n_states: int, emission: Emission, chain: dict[str, Any]) -> HMM:
    """An HMM with the arguments `chain`, of which unknown ones are refused with a hint."""
    known = [part.name for part in fields(HMM) if part.name not in ("n_states", "emission")]
    for name in chain:
        if name not in known:
            hint = (
                f": use {_HMMLEARN_NAMES[name]}" if name in _HMMLEARN_NAMES else f"; an HMM has {known}"
            )
            raise TypeError(f"unknown argument '{name}'{hint}")
    return HMM(n_states, emission, **chain)


def PoissonSites(shape: float = 1.0, inverse_scale: float = 0.0) -> Poisson:  # noqa: N802
    """Deprecated: use `Poisson(shape, rate)`."""
    deprecated("fo.models.PoissonSites(shape, inverse_scale)", "fo.models.Poisson(shape, rate)")
    require_number("inverse_scale", inverse_scale, least=0)
    return Poisson(shape, inverse_scale)


def BinomialSites(a: float = 1.0, b: float = 1.0) -> Binomial:  # noqa: N802
    """Deprecated: use `Binomial(a, b)`."""
    deprecated("fo.models.BinomialSites", "fo.models.Binomial")
    return Binomial(a, b)


def GaussianSites(strength: float = 1.0, scale: float | None = None) -> Gaussian:  # noqa: N802
    """Deprecated: use `Gaussian(strength=, scale=)`."""
    deprecated("fo.models.GaussianSites", "fo.models.Gaussian(strength=, scale=)")
    return Gaussian(strength=strength, scale=scale)
