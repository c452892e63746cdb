"""Chains of hidden states: HMMs and autoregressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fitonce.core.wording import nearest_names, split_names
from fitonce.data.reading import Columns, read_file
from fitonce.models.base import ChainModel
from fitonce.models.emissions.by_name import EMISSIONS
from fitonce.models.emissions.categorical_regression import CategoricalRegression
from fitonce.models.emissions.categories import Categorical, n_categories
from fitonce.models.emissions.continuous import (
    Beta,
    Exponential,
    Gamma,
    GaussianRegression,
    LogNormal,
    StudentT,
    VonMises,
    ZeroInflatedGamma,
)
from fitonce.models.emissions.count_regressions import (
    BinomialRegression,
    NegativeBinomial,
    PoissonRegression,
    ZeroInflatedPoisson,
)
from fitonce.models.emissions.mixture import GaussianMixture
from fitonce.models.emissions.product import Product
from fitonce.models.hidden.durations import DURATIONS
from fitonce.models.hmm import HMM
from fitonce.models.named import ARHMM, CategoricalHMM, EventCounts, GaussianHMM, NeuralARHMM, PoissonHMM
from fitonce.objectives.chain.native import best_objective
from fitonce.objectives.family import STATES, Family, Loaded, NamedModel, Option

_CATEGORICAL = "categorical"  # whose number of categories is that of the data
_ORDER = Option("order", int, 1, "Order of the autoregression", several="Orders, such as 0..3")
_COMPONENTS = Option(
    "components", int, 2, "Gaussians in each state of a mixture", several="Such as 1..3", least=1
)
_DAY = Option("steps_per_day", int, 288, "Steps per day, for event-counts")
_DAYS = Option(
    "day_concentration", float, 1.0,
    "Dirichlet prior of the days' shares, for event-counts; above 1 if a day of the week has no data",
)  # fmt: skip

_MOVES = Option(
    "transition_covariates", str, "", "Columns that transitions depend on, joined by +",
    several="Sets of columns, such as heat,heat+wind", columns=True,
)  # fmt: skip
_DURATIONS = Option(
    "durations", str, "geometric", f"How long states last: geometric, {' or '.join(DURATIONS)}",
    several="Such as geometric,poisson",
)  # fmt: skip
_STAGES = Option(
    "stages", int, 10, "Stages of a state, for --durations", several="Such as 5,10", least=1
)
_EMISSION = Option(
    "emission", str, "gaussian",
    "Emissions of columns, such as step=gamma,turn=von-mises (a+b=multinomial: of two together), or one "
    "of all columns",
)  # fmt: skip
_OF_CHAIN = (_MOVES, _DURATIONS, _STAGES)


def _load(path: Path, columns: Columns, options: Mapping[str, Any]) -> Loaded:
    asked = str(options.get(_MOVES.name) or "")
    moves = [name for part in split_names(asked) for name in _joined(part)]  # of all candidates
    every = tuple(dict.fromkeys((*columns.covariates, *moves)))
    named = [name for channels, _ in _parts(options.get(_EMISSION.name)) for name in channels]
    if named and columns.modelled and sorted(named) != sorted(columns.modelled):
        raise ValueError(
            f"--columns must be those that --emission names, {', '.join(named)}, "
            f"got {', '.join(columns.modelled)}"
        )
    modelled = tuple(named) or columns.modelled
    found = read_file(path, replace(columns, modelled=modelled, covariates=every))
    return Loaded(found.data, found.notes, str(found.data), {"covariates": tuple(columns.covariates)})


def _joined(text: str) -> tuple[str, ...]:
    return tuple(name.strip().strip('"') for name in text.split("+") if name.strip())


def _parts(text: str | None) -> list[tuple[tuple[str, ...], str]]:
    """Of --emission, "step=gamma,turn=von-mises": columns and the name of their emission; none where one
    emission is for all columns."""
    if text is None:
        return []
    if "=" not in text:
        _known(text.strip(), "all columns")
        return []
    found = []
    for part in split_names(text):
        columns, equals, emission = part.rpartition("=")
        if not (equals and _joined(columns) and emission.strip()):
            raise ValueError(
                "--emission must be like step=gamma,turn=von-mises, a column and its emission each, got "
                f"'{part.strip()}' in '{text}'"
            )
        found.append((_joined(columns), _known(emission.strip(), f"column '{columns.strip()}'")))
    return found


def _known(emission: str, of: str) -> str:
    """The name of an emission, which is known."""
    known = (*EMISSIONS, _CATEGORICAL)
    if emission not in known:
        near = nearest_names(emission, known, 1)
        hint = f"; is it {near[0]}?" if near else ""
        raise ValueError(f"--emission of {of} must be one of {', '.join(known)}, got '{emission}'{hint}")
    return emission


def _by_name(emission: str, data: Any) -> Any:
    """Categories are as many as some channels of the data have."""
    return Categorical(n_categories(data)) if emission == _CATEGORICAL else emission


def _hmm(options: Mapping[str, Any], data: Any) -> HMM:
    """An HMM with an emission for each column, or one for all."""
    text = options[_EMISSION.name]
    parts = _parts(text)
    if text.strip() == _CATEGORICAL and len(data.channels) > 1:
        parts = [(data.channels, _CATEGORICAL)]
    parts = _each_apart(parts)
    if not parts:
        return HMM(options["states"], _by_name(text.strip(), data))
    places = {name: place for place, name in enumerate(data.channels)}
    made = {}
    for columns, emission in parts:
        if columns in made:
            raise ValueError(f"--emission names column '{'+'.join(columns)}' twice")
        which = [places[name] for name in columns]
        some = replace(
            data, values=data.values[..., which], observed=data.observed[..., which], channels=columns
        )
        made[columns] = _by_name(emission, some)
    return HMM(options["states"], Product(made))


def _each_apart(parts: list[tuple[tuple[str, ...], str]]) -> list[tuple[tuple[str, ...], str]]:
    """The same with categories of one column in a part: each column has its own number of them."""
    return [
        (some, emission)
        for columns, emission in parts
        for some in ([(name,) for name in columns] if emission == _CATEGORICAL else [columns])
    ]


def _with_chain(model: NamedModel) -> NamedModel:
    """The same with options of the hidden chain."""

    def make(options: Mapping[str, Any], data: Any) -> HMM:
        made: HMM = model.make(options, data)
        moves, lasting, stages = (options.get(one.name, one.default) for one in _OF_CHAIN)
        return replace(
            made,
            transition_covariates=_joined(moves),
            durations=None if lasting == _DURATIONS.default else lasting,
            stages=stages,
        )

    return replace(model, make=make, options=(*model.options, *_OF_CHAIN), idle=_idle)


def _idle(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """One state is never left; geometric durations have no stages."""
    defaults = {one.name: one.default for one in _OF_CHAIN}
    if options["states"] == 1:
        return defaults
    return {_STAGES.name: _STAGES.default} if options["durations"] == _DURATIONS.default else {}


def _regression(
    name: str, title: str, emission: Callable[..., Any], plain: Callable[[int], Any] | None = None
) -> NamedModel:
    """An HMM whose observations may depend on covariates; `plain`: the model without them."""

    def make(options: Mapping[str, Any], data: Any) -> HMM:
        states, known = options["states"], options.get("covariates", data.covariate_names)
        return plain(states) if plain and not known else HMM(states, emission(regressors=known))

    return NamedModel(f"{name}-hmm", title, make, (STATES,), covariates=True)


def _categorical(options: Mapping[str, Any], data: Any) -> HMM:
    states, categories = options["states"], n_categories(data)
    known = options.get("covariates", data.covariate_names)
    if not known:
        return CategoricalHMM(states, categories)
    return HMM(states, CategoricalRegression(categories, known))


_MODELS = (
    NamedModel("hmm", "columns of different kinds, an emission for each (--emission), such as the "
               "lengths and angles of the steps of animals",
               _hmm, (STATES, _EMISSION), aliases=("product",)),
    _regression("poisson", "counts, one rate for each hidden state", PoissonRegression, PoissonHMM),
    _regression("negative-binomial", "counts that vary more than Poisson counts", NegativeBinomial),
    _regression("zero-inflated-poisson", "counts with more zeros than Poisson counts",
                ZeroInflatedPoisson),
    _regression("bernoulli", "zeros and ones", BinomialRegression,
                lambda states: HMM(states, "bernoulli")),
    _regression("gaussian", "numbers, a mean and variances for each hidden state", GaussianRegression,
                GaussianHMM),
    _regression("student-t", "numbers with outliers", StudentT),
    _regression("log-normal", "positive numbers, normal on a logarithmic scale", LogNormal),
    _regression("gamma", "positive numbers, such as amounts and durations", Gamma),
    _regression("zero-inflated-gamma", "positive numbers and exact zeros, such as rain and steps",
                ZeroInflatedGamma),
    _regression("exponential", "waiting times", Exponential),
    _regression("beta", "numbers between 0 and 1", Beta),
    _regression("von-mises", "angles in radians", VonMises),
    NamedModel("gaussian-hmm-full", "numbers, with full covariances",
               lambda o, _: GaussianHMM(o["states"], covariance="full"), (STATES,)),
    NamedModel("gaussian-hmm-tied", "numbers, with one full covariance that all states share",
               lambda o, _: GaussianHMM(o["states"], covariance="tied"), (STATES,)),
    NamedModel("gaussian-mixture-hmm", "numbers, several Gaussians in each state (--components)",
               lambda o, _: HMM(o["states"], GaussianMixture(o["components"])), (STATES, _COMPONENTS)),
    NamedModel("categorical-hmm", "categories 0, 1, 2, ...", _categorical, (STATES,), covariates=True),
    NamedModel("multinomial-hmm", "counts of categories, a column for each",
               lambda o, _: HMM(o["states"], "multinomial"), (STATES,)),
    NamedModel("ar-hmm", "numbers, a linear autoregression for each hidden state (--order)",
               lambda o, _: ARHMM(o["states"], o["order"]), (STATES, _ORDER)),
    NamedModel("neural-ar-hmm", "numbers, a small network for each hidden state (--order)",
               lambda o, _: NeuralARHMM(o["states"], o["order"]), (STATES, _ORDER)),
    NamedModel("event-counts", "counts with days of the week and hidden events (--steps-per-day)",
               lambda o, _: EventCounts(o["steps_per_day"], day_concentration=o["day_concentration"]),
               (_DAY, _DAYS)),
)  # fmt: skip

CHAINS = Family(
    name="chain",
    accepts=lambda model: isinstance(model, ChainModel),
    objective=best_objective,
    modelled=lambda model, data: model.modelled(data),
    models=tuple(model if model.name == "event-counts" else _with_chain(model) for model in _MODELS),
    load=_load,
    n_states=lambda model: model.n_states,
    pictured=lambda model: isinstance(model, HMM),
)
