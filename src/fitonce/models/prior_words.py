"""The priors of a model in words, by parameter, as a printed fit has them.

Emissions of independent channels have their words from their `priors`. A class of your own is registered
by `prior_words.register(Class)`; parameters that no function speaks of are said to have the prior that
their class describes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch
from typing import Any

import numpy as np

from fitonce.models.crf import LinearChainCRF
from fitonce.models.custom import Custom
from fitonce.models.custom_field import CustomField
from fitonce.models.emissions.autoregression import LinearAutoregression, NeuralAutoregression
from fitonce.models.emissions.categorical_regression import CategoricalRegression
from fitonce.models.emissions.categories import Categorical, Multinomial
from fitonce.models.emissions.channelwise import Channelwise
from fitonce.models.emissions.closed_channels import (
    COEFFICIENTS,
    COMMON,
    BetaPrior,
    CentredPrior,
    GammaPrior,
    Prior,
    SpreadPrior,
)
from fitonce.models.emissions.closed_mixture import WEIGHT
from fitonce.models.emissions.counts import Binomial, Poisson
from fitonce.models.emissions.events import EventEmission
from fitonce.models.emissions.gaussian import Gaussian
from fitonce.models.emissions.linear_regression import LinearRegression
from fitonce.models.emissions.mixture import GaussianMixture
from fitonce.models.emissions.product import Product
from fitonce.models.emissions.switching import SwitchingRegression
from fitonce.models.emissions.switching_autoregression import SwitchingAutoregression
from fitonce.models.hidden.names import COEFFICIENTS as OF_TRANSITIONS
from fitonce.models.hidden.names import SIZE_PRIOR
from fitonce.models.hmm import HMM
from fitonce.models.potts import PottsMixture
from fitonce.models.space.system import SpaceModel

Words = dict[str, str]
EVERY = "every parameter"
FLAT = "flat"


@singledispatch
def prior_words(model: Any) -> Words:
    """The prior of each parameter of a model or an emission, as far as it is known."""
    return {}


def priors_of(model: Any, parameters: Iterable[str]) -> list[str]:
    """ "initial, transition Dirichlet(1.1)": of these parameters, those with one prior together."""
    known = prior_words(model)
    if not known:
        return []
    if EVERY in known:
        return [f"{EVERY} {known[EVERY]}"]
    together: dict[str, list[str]] = {}
    for name in parameters:
        together.setdefault(known.get(name) or _elsewhere(model, name), []).append(name)
    return [f"{', '.join(names)} {words}" for words, names in together.items()]


def _elsewhere(model: Any, name: str) -> str:
    """Where the prior of a parameter is described, if it is not known in words."""
    owner = getattr(model, "emission", model)
    if isinstance(owner, Product):
        owner = next((part for label, part in owner.labelled if name.startswith(f"{label}.")), owner)
    return f"as in the docs of {type(owner).__name__}"


@prior_words.register(Custom)
@prior_words.register(CustomField)
def _(model: Any) -> Words:
    return {EVERY: FLAT if model.log_prior is None else "as in log_prior"}


@prior_words.register
def _(model: SpaceModel) -> Words:
    return {EVERY: FLAT}


@prior_words.register
def _(model: HMM) -> Words:
    moves = _dirichlet(model.transition_concentration)
    if model.stickiness and moves != FLAT:
        moves += f", with {model.stickiness:g} more for staying"
    elif model.stickiness:
        moves = f"Dirichlet(1), with {model.stickiness:g} more for staying"
    chain = {
        "initial": _dirichlet(model.initial_concentration),
        "transition": moves,
        OF_TRANSITIONS: _coefficients(model.transition_scale, "covariates"),
        "end": _beta(model.end_prior or (1.0, 1.0)),
        "dwell": FLAT,
        "dwell_size": _pair("Gamma", *SIZE_PRIOR),
    }
    return {**chain, **prior_words(model.emission)}


@prior_words.register
def _(model: PottsMixture) -> Words:
    return {"beta": _normal(model.beta_scale), **prior_words(model.emission)}


@prior_words.register
def _(model: LinearChainCRF) -> Words:
    return {EVERY: _normal(model.scale)}


@prior_words.register
def _(emission: Poisson) -> Words:
    return {"rate": _gamma((emission.shape, emission.rate))}


@prior_words.register
def _(emission: Binomial) -> Words:
    return {"rate": _beta((emission.a, emission.b))}


@prior_words.register(Categorical)
@prior_words.register(Multinomial)
def _(emission: Any) -> Words:
    return {"probability": _dirichlet(emission.concentration)}


@prior_words.register
def _(emission: Gaussian) -> Words:
    spread = wide = _spread(emission.strength, emission.scale, "each channel's")
    if emission.squares is not None or emission.variance_rate:
        spread, wide = (_density(emission, of) for of in ("v", "S"))
    centre = emission.mean_centre
    about = "the given centre" if np.ndim(centre) else f"{centre:g}"
    found = [] if emission.mean_scale is None else [f"Normal({about}, {emission.mean_scale:g}^2)"]
    if emission.mean_weight:
        found.append(f"Normal({about}, the state's variance / {emission.mean_weight:g})")
    return {"mean": " times ".join(found) or FLAT, "variance": spread, "covariance": wide}


@prior_words.register
def _(emission: LinearAutoregression) -> Words:
    near = emission.weight_scale
    noise = emission.noise
    return {
        "weight": FLAT if near is None else f"Normal(last step, {near:g}^2)",
        "bias": _normal(emission.bias_scale),
        "variance": _spread(noise.strength, noise.scale, "the data's"),
    }


@prior_words.register
def _(emission: NeuralAutoregression) -> Words:
    names = ("weight_in", "bias_in", "weight_out", "bias_out")
    noise = emission.noise
    variance = _spread(noise.strength, noise.scale, "the data's")
    return {**dict.fromkeys(names, _normal(emission.weight_scale)), "variance": variance}


@prior_words.register
def _(emission: EventEmission) -> Words:
    given = {"rate": emission.rate_prior, "a": emission.a_prior, "b": emission.b_prior}
    shares = {"day_share": _dirichlet(emission.day_concentration)}
    return {**{name: _gamma((prior[0], prior[1])) for name, prior in given.items()}, **shares}


@prior_words.register
def _(emission: Channelwise) -> Words:
    place = np.ones((1, 1))  # the words do not depend on the data
    pairs = zip(emission.coordinates, emission.priors(place, place), strict=True)
    found = {one.name: _of_coordinate(prior) for one, prior in pairs}
    unit = "covariates and channels" if emission.identity_link else "covariates"
    slopes = _coefficients(emission.coefficient_scale, unit if emission.standardise else None)
    return {**found, COEFFICIENTS: slopes, COMMON: slopes}


@prior_words.register
def _(emission: CategoricalRegression) -> Words:
    slopes = _coefficients(emission.coefficient_scale, "covariates")
    return {"probability": _dirichlet(emission.concentration), COEFFICIENTS: slopes}


@prior_words.register
def _(emission: LinearRegression) -> Words:
    slopes = _coefficients(emission.coefficient_scale, "covariates and channels")
    return {**prior_words(emission.noise), COEFFICIENTS: slopes}


@prior_words.register
def _(emission: SwitchingRegression) -> Words:
    slopes = _coefficients(emission.coefficient_scale, "covariates and channels")
    variance = _spread(emission.strength, emission.scale, "each channel's")
    return {"mean": FLAT, COEFFICIENTS: slopes, COMMON: slopes, "variance": variance}


@prior_words.register
def _(emission: SwitchingAutoregression) -> Words:
    variance = _spread(emission.strength, emission.scale, "the data's")
    return {"mean": FLAT, "weight": _normal(emission.weight_scale), "variance": variance}


@prior_words.register
def _(emission: GaussianMixture) -> Words:
    return {WEIGHT: _dirichlet(emission.concentration), **prior_words(emission.component)}


@prior_words.register
def _(emission: Product) -> Words:
    parts = [(label, prior_words(part)) for label, part in emission.labelled]
    return {f"{label}.{name}": words for label, own in parts for name, words in own.items()}


def _of_coordinate(prior: Prior) -> str:
    """Of an emission of independent channels; empty: not known."""
    if isinstance(prior, GammaPrior):
        return _gamma((prior.shape, prior.rate))
    if isinstance(prior, BetaPrior):
        return _beta((prior.a, prior.b))
    if isinstance(prior, SpreadPrior):
        return _spread(prior.strength, prior.given, prior.whose)
    return FLAT if isinstance(prior, CentredPrior) and not prior.precision.any() else ""


def _density(emission: Gaussian, of: str) -> str:
    """Of a variance v or a covariance S by its own formula, up to a factor."""
    squares, whole = emission.squares, of == "S"
    if squares is None:
        return "as in the docs of Gaussian"
    half = "the given half-squares" if np.ndim(squares) else f"{0.5 * float(squares):g}"
    size, inverse, trace = ("(det S)", "trace(S^-1)", "trace S") if whole else ("v", "/ v", "v")
    terms = [f"{size}^{-0.5 * emission.strength:g}"] if emission.strength else []
    terms += [f"exp(-{half} {inverse})"] if np.any(squares) else []
    terms += [f"exp(-{emission.variance_rate:g} {trace})"] if emission.variance_rate else []
    return f"with density {' '.join(terms)}" if terms else FLAT


def _dirichlet(concentration: Any) -> str:
    values = np.unique(np.asarray(concentration, float))
    if len(values) > 1:
        return "Dirichlet(as given)"
    return FLAT if values[0] == 1 else f"Dirichlet({values[0]:g})"


def _normal(scale: float | None) -> str:
    return FLAT if scale is None else f"Normal(0, {scale:g}^2)"


def _coefficients(scale: float | None, unit: str | None) -> str:
    """Of regressions; `unit`: what the scale takes to have a standard deviation of one."""
    return _normal(scale) + (f" for {unit} of unit spread" if unit and scale is not None else "")


def _gamma(prior: tuple[float, float]) -> str:
    return FLAT if tuple(prior) == (1, 0) else _pair("Gamma", *prior)


def _beta(prior: tuple[float, float]) -> str:
    return FLAT if tuple(prior) == (1, 1) else _pair("Beta", *prior)


def _pair(name: str, first: float, second: float) -> str:
    return f"{name}({first:g}, {second:g})"


def _spread(strength: float, scale: float | None, whose: str) -> str:
    """Of a variance."""
    if not strength:
        return FLAT
    count = "one pseudo-observation" if strength == 1 else f"{strength:g} pseudo-observations"
    return f"{count} of a spread of {f'a tenth of {whose}' if scale is None else f'{scale:g}'}"
