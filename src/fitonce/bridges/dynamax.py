"""Fits of dynamax: the same model, parameters and objective, priors included.

What is read are the attributes of a model and of its parameters, as they are in dynamax 1.0.3; dynamax
itself is not imported. Arrays are taken to float64, whatever dynamax ran in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fitonce.bridges.classes import kind_of, require_inherited
from fitonce.bridges.dynamax_emissions import READERS, REFUSED
from fitonce.bridges.dynamax_space import KIND, from_linear_gaussian
from fitonce.bridges.hmmlearn import without_dust
from fitonce.core.arguments import require
from fitonce.core.numerics import as_numbers
from fitonce.data.sequences import Sequences, sequences
from fitonce.fitting.fit import Fit, fit_at
from fitonce.models.hmm import HMM


def from_dynamax(model: Any, params: Any, props: Any, emissions: Any, inputs: Any = None) -> Fit:
    """A `Fit` at the parameters of an HMM or a linear-Gaussian state-space model of dynamax, whose
    objective is that model's own: -log p(emissions) - log_prior, in float64.

    The status says how far the parameters are from a minimum of it, in standard errors; `fit.polish()`
    goes on to it. Parameters that `props` does not train are frozen.

    Args:
        model: an HMM of dynamax, all but `LowRankGaussianHMM`, a `LinearGaussianSSM`, or of a subclass
            that changes neither distributions nor the prior nor EM.
        params, props: its parameters and their properties, as `initialize` and `fit_em` return them.
        emissions: one sequence (T, ...), a batch (N, T, ...), or a list of sequences.
        inputs: of regressions and of state-space models, shaped as the emissions; None for a
            `LinearAutoregressiveHMM`: its lagged emissions, zeros before the first.
    """
    names = [one.__name__ for one in type(model).__mro__]
    if KIND in names and hasattr(model, "state_dim"):
        known = None if inputs is None else _split(inputs, 1, "inputs")
        _require_groups(params, props, "dynamics")
        data = _sequences(_split(emissions, 1, "emissions"), known)
        return from_linear_gaussian(model, params, props, data)
    kind = _kind_of(model)
    width = len(tuple(model.emission_shape))
    parts = _split(emissions, width, "emissions")
    known = None if inputs is None else _split(inputs, 1, "inputs")
    if kind == "LinearAutoregressiveHMM" and known is None:
        known = [_lagged(part, int(model.num_lags)) for part in parts]
    if (known is not None) != (kind in _WITH_INPUTS):
        needs = "needs" if kind in _WITH_INPUTS else "has no"
        raise ValueError(f"a {kind} {needs} inputs, got {'none' if known is None else 'some'}")
    data = _sequences(parts, known)
    _require_groups(params, props, "transitions")
    read = READERS[kind](model.emission_component, _Given(params.emissions, props.emissions), data)
    chain = {
        "initial": (params.initial, props.initial, "probs"),
        "transition": (params.transitions, props.transitions, "transition_matrix"),
    }
    values, frozen = dict(read.params), set(read.frozen)
    for name, (of_values, of_props, field) in chain.items():
        values[name] = without_dust(getattr(of_values, field), 0.0)
        frozen |= set() if getattr(of_props, field).trainable else {name}
    made = HMM(
        int(model.num_states),
        read.emission,
        initial_concentration=_floats(model.initial_component.initial_probs_concentration),
        transition_concentration=_floats(model.transition_component.concentration),
        frozen={name: values[name] for name in frozen},
    )
    return fit_at(made, data, values)


def _require_groups(params: Any, props: Any, moves: str) -> None:
    for name, value in (("params", params), ("props", props)):
        fine = all(hasattr(value, part) for part in ("initial", moves, "emissions"))
        require(fine, name, "those of a model of dynamax", value)


_WITH_INPUTS = (
    "LinearRegressionHMM", "LinearAutoregressiveHMM", "LogisticRegressionHMM",
    "CategoricalRegressionHMM",
)  # fmt: skip
# A subclass of a model or of one of its components that has one of these is another model, or is fitted
# to another objective.
_OWN = (
    "log_prior", "distribution", "initial_distribution", "transition_distribution",
    "emission_distribution", "_compute_initial_probs", "_compute_transition_matrices",
    "_compute_conditional_logliks", "_inference_args", "log_prob", "marginal_log_prob", "filter",
    "smoother", "e_step", "m_step", "collect_suff_stats", "fit_em", "fit_sgd",
)  # fmt: skip
_COMPONENTS = {
    "initial_component": "StandardHMMInitialState",
    "transition_component": "StandardHMMTransitions",
}


def _kind_of(model: Any) -> str:
    """The class of dynamax that it is, or that it only inherits from."""
    for name in (one.__name__ for one in type(model).__mro__):
        if name in REFUSED:
            raise ValueError(f"from_dynamax does not read a {name}: {REFUSED[name]}")
    kind = kind_of(model, "dynamax", READERS, _OWN)
    wanted = _COMPONENTS | {"emission_component": f"{kind}Emissions"}
    for attribute, component in wanted.items():
        found = type(getattr(model, attribute, None)).__name__
        if found != component:
            raise ValueError(f"the {attribute} of a {kind} must be a {component}, got {found}")
        require_inherited(getattr(model, attribute), component, _OWN, "from_dynamax")
    return kind


@dataclass(frozen=True)
class _Given:
    """Parameters of an emission and their properties."""

    params: Any
    props: Any

    def value(self, name: str) -> np.ndarray:
        return _floats(getattr(self.params, name))

    def frozen(self, **names: str) -> set[str]:
        """Our names of those that are not trained, by theirs."""
        return {ours for theirs, ours in names.items() if not getattr(self.props, theirs).trainable}


def _floats(value: Any) -> np.ndarray:
    return np.asarray(value, float)


def _split(given: Any, width: int, what: str) -> list[np.ndarray]:
    """Arrays (T, ...) of sequences; `width` is the number of axes of a step."""
    arrays = [
        as_numbers(part, False) for part in (given if isinstance(given, (list, tuple)) else [given])
    ]
    fine = arrays and all(one is not None and one.ndim and one.size for one in arrays)
    require(fine, what, "an array of numbers, or a list of them", given)
    found = [one for one in arrays if one is not None]
    if isinstance(given, (list, tuple)):
        return found
    array = found[0]
    if array.ndim == width + 1:
        return [array]
    if array.ndim == width + 2:
        return list(array)
    raise ValueError(
        f"{what} must have {width + 1} axes, or {width + 2} for a batch of sequences, got {array.ndim}"
    )


def _sequences(parts: list[np.ndarray], known: list[np.ndarray] | None) -> Sequences:
    """Each step's emissions as channels, and inputs as covariates u0, u1, ..."""
    flat = [part.reshape(len(part), -1) for part in parts]
    if known is None:
        return sequences(flat)
    lengths = [len(part) for part in flat]
    if [len(part) for part in known] != lengths:
        raise ValueError(
            f"inputs must be as long as emissions, {lengths}, got {[len(part) for part in known]}"
        )
    return sequences(flat, covariates=known)


def _lagged(part: np.ndarray, lags: int) -> np.ndarray:
    """As `compute_inputs` of dynamax: the latest step first, zeros before the first."""
    padded = np.concatenate([np.zeros((lags, part.shape[1])), part])
    return np.concatenate([padded[lag : lag + len(part)] for lag in reversed(range(lags))], 1)
