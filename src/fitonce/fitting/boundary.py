"""Probabilities that are exactly zero: whether the objective is lowest there.

A zero outside a support has no coordinate, so that a certificate says nothing about it. It is an optimum
on the boundary if the objective rises as the probability grows at the expense of the others of its row.
With p = epsilon in its place, the slope is that of its log-ratio over epsilon:

    dF / dp = N - n / epsilon        N, n: expected numbers of the row, and of the entry in it
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from fitonce.core.constraints import Simplex
from fitonce.core.numerics import in_float64
from fitonce.core.parameters import Params
from fitonce.core.status import Outcome, Status
from fitonce.core.wording import counted
from fitonce.models.hmm import HMM
from fitonce.objectives.base import Objective
from fitonce.objectives.families import objective_of

if TYPE_CHECKING:
    from fitonce.fitting.fit import Fit

_NEARLY = 1e-7  # in place of zero: large against rounding, small against what it changes
ROUNDING = 1e-5  # relative to N
_VANISHED = 1e-6  # a probability that a descent has left on its way to zero
TIMES = 4  # that more of them vanish, once the first are gone
_BOUNDARY = "at zero, an optimum on the boundary"
CHAIN, EMISSION = ("initial", "transition"), "probability"


def learned(model: HMM, params: Params) -> list[str]:
    """Names of the probabilities that an HMM learns and that may be zero."""
    frozen = dict(model.frozen)
    found = [name for name in CHAIN if name in params and name not in frozen]
    has_support = hasattr(model.emission, "support") and EMISSION in params
    return [*found, EMISSION] if has_support and EMISSION not in frozen else found


def concentration(model: HMM, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """That of the Dirichlet prior of every entry."""
    given: Any = getattr(model.chain, f"{name}_concentration", None)
    given = model.emission.concentration if name == EMISSION else given
    return np.broadcast_to(np.asarray(given, float), shape)


def relaxed(model: HMM, name: str) -> HMM:
    """The model in which everything of a name is possible, with a flat prior."""
    if name == EMISSION:
        return replace(model, emission=replace(model.emission, support=None, concentration=1.0))
    if name == "initial":
        return replace(model, initial_support=None, initial_concentration=1.0)
    return replace(model, support=None, transition_concentration=1.0, stickiness=0.0)


def slopes_at(objective: Objective, name: str, params: list[Params], weights: np.ndarray) -> np.ndarray:
    """(F, ...) slopes by each entry of some probabilities, of a relaxed model at the parameters of F
    folds and their weights (F, P)."""
    leaf, places = _leaf(objective, name)
    near = [np.where(np.asarray(one[name]) == 0, _NEARLY, one[name]) * leaf.mask() for one in params]
    near = [value / value.sum(-1, keepdims=True) for value in near]
    thetas = [
        objective.space.to_free({**one, name: value}) for one, value in zip(params, near, strict=True)
    ]
    slopes = objective.gradients(np.stack(thetas), weights)[:, places]
    found = np.zeros((len(near), *leaf.shape))
    found[:, *np.array(leaf.coordinates(), int).T] = slopes
    last = np.broadcast_to(leaf.reference()[..., None], (len(near), *leaf.shape[:-1], 1))
    np.put_along_axis(found, last, -found.sum(-1, keepdims=True), -1)
    return found / np.where(leaf.mask(), near, 1.0)


def _leaf(objective: Objective, name: str) -> tuple[Simplex, np.ndarray]:
    """The constraint of a parameter, and its places in theta."""
    found = {known: (leaf, places) for known, leaf, places in objective.space.leaves()}[name]
    return cast(tuple[Simplex, np.ndarray], found)


@in_float64
def zero_probabilities(fit: Fit) -> pd.DataFrame:
    """One row per probability of an HMM that is exactly zero: a first state, a transition, or a category
    that is impossible in a state (`support` of `Categorical` or `Multinomial`), unless it is frozen. Its
    `name`, the `slope` of -log p(data) as it grows, in nats per unit of probability, and whether zero is
    an `optimum`: the slope is not negative, and the prior is not above one."""
    rows: dict[str, Any] = {"name": [], "slope": [], "optimum": np.zeros(0, bool)}
    if not isinstance(fit.model, HMM):
        if getattr(getattr(fit.model, "emission", None), "support", None) is None:
            return pd.DataFrame(rows)
        raise ValueError(f"zero_probabilities needs an HMM, got {type(fit.model).__name__}")
    params = {name: np.asarray(value, float) for name, value in fit.params.items()}
    parts = [pd.DataFrame(rows)]
    for name in learned(fit.model, params):
        if (params[name] > 0).all():
            continue
        objective = objective_of(relaxed(fit.model, name), fit.data)
        slopes = slopes_at(objective, name, [params], objective.base[None])[0]
        zero = (params[name] == 0) & _leaf(objective, name)[0].mask()
        flat = concentration(fit.model, name, zero.shape) <= 1.0
        optimum = flat & (slopes >= -ROUNDING * expected(fit, name, zero.ndim))
        names = [f"{name}[{','.join(map(str, at))}]" for at in np.argwhere(zero)]
        parts.append(pd.DataFrame({"name": names, "slope": slopes[zero], "optimum": optimum[zero]}))
    return pd.concat([part for part in parts if len(part)] or parts, ignore_index=True)


def expected(fit: Fit, name: str, axes: int) -> Any:
    """How often rows of probabilities were drawn from, to broadcast against them."""
    if name == "initial":
        return float(fit.data.n_sequences)
    states = fit.objective.state_probabilities(fit.theta)[fit.objective.base > 0].sum(0)
    return states.reshape(-1, *(1,) * (axes - 1))


def with_zeros(fit: Fit) -> Fit:
    """The fit with a status that also says whether zeros among its probabilities are optima. Categories
    must be; first states and transitions may also be impossible because the model says so."""
    found = zero_probabilities(fit)
    if not len(found):
        return fit
    wrong = found[~found["optimum"]]
    of_emission = wrong[wrong["name"].str.startswith(EMISSION)]
    if len(of_emission):
        return replace(fit, status=_no_optimum(of_emission))
    said = [_said(found)]
    if len(wrong):
        first = wrong.sort_values("slope")["name"].iloc[0]
        there = found[found["optimum"]]
        held = f"{counted(len(wrong), 'other', 'others')}, such as '{first}', held there by the model"
        said = [
            _said(there) + " and " + held if len(there) else f"zeros such as '{first}' are the model's"
        ]
    message = "; ".join([part for part in (fit.status.message, *said) if part])
    return replace(fit, status=Status(fit.status.outcome, message))


def as_before(fit: Fit, before: Fit) -> Fit:
    """The fit with a status that speaks of zeros, if that of the same fit before did."""
    return with_zeros(fit) if _BOUNDARY in before.status.message else fit


def _said(found: pd.DataFrame) -> str:
    return f"{counted(len(found), 'probability', 'probabilities')} {_BOUNDARY}"


def _no_optimum(wrong: pd.DataFrame) -> Status:
    worst = wrong.sort_values("slope").iloc[0]
    return Status(
        Outcome.NOT_A_MINIMUM,
        f"'{worst['name']}' is held at zero, but -log p(data) changes by {worst['slope']:.3g} per unit "
        "of it, or its prior is above one: zero is no optimum; fit with this category possible",
    )


def settled(found: Fit, refit: Callable[[HMM, Params], Fit]) -> Fit:
    """A fit that found no minimum because probabilities with a flat prior go to zero, at zero: the
    minimum of the model in which these are impossible, if it is one on the boundary of the other.

    Args:
        found: the fit.
        refit: fits a model from parameters, whose zeros stay what they are.
    """
    tried = found
    for _ in range(TIMES):
        params = None if tried.ok else _vanished(tried)
        if params is None:
            break
        tried = refit(tried.model, params)
    if tried is found or not tried.ok:
        return found
    zeros = zero_probabilities(tried)
    before = set(zero_probabilities(found)["name"])
    new = zeros[~zeros["name"].isin(before)]
    if not new["optimum"].all():
        return found
    message = "; ".join(part for part in (tried.status.message, _said(new)) if part)
    return replace(tried, status=Status(tried.status.outcome, message))


def _vanished(fit: Fit) -> Params | None:
    return without_vanished(fit.model, fit.params) if isinstance(fit.model, HMM) else None


def without_vanished(model: HMM, given: Params) -> Params | None:
    """Parameters with zeros where probabilities vanish under a flat prior; None where none does."""
    params, any_gone = {name: np.asarray(value) for name, value in given.items()}, False
    for name in learned(model, params):
        value = params[name]
        flat = concentration(model, name, value.shape) == 1.0
        gone = flat & (value > 0) & (value < _VANISHED)
        if name == "transition" and model.stationary:
            continue  # a state that is never left or entered has no stationary distribution
        if gone.any():
            kept = np.where(gone, 0.0, value)
            params[name], any_gone = kept / kept.sum(-1, keepdims=True), True
    return params if any_gone else None
