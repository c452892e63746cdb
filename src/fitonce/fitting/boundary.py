"""Probabilities that are exactly zero: whether the objective is lowest there.

A zero outside a support has no coordinate, so that a certificate says nothing about it. It is an optimum
on the boundary if the objective rises as the probability grows at the expense of the others of its row.
With p = epsilon in its place, the slope is that of its log-ratio over epsilon:

    dF / dp = N - n / epsilon        N, n: expected numbers of the row, and of the entry in it
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pandas as pd

from fitonce.core.arguments import require
from fitonce.core.constraints import Simplex
from fitonce.core.numerics import in_float64
from fitonce.core.parameters import Params
from fitonce.core.status import Outcome, Status
from fitonce.core.wording import counted
from fitonce.objectives.abilities import HasZeros
from fitonce.objectives.base import Objective
from fitonce.objectives.families import objective_of

if TYPE_CHECKING:
    from fitonce.fitting.fit import Fit

_NEARLY = 1e-7  # in place of zero: large against rounding, small against what it changes
ROUNDING = 1e-5  # relative to N
_AGAIN = 0.02  # where probabilities that went too far begin anew
TIMES = 4  # that more of them vanish, once the first are gone


def slopes_at(objective: Objective, name: str, params: list[Params], weights: np.ndarray) -> np.ndarray:
    """(F, ...) slopes by each entry of some probabilities, of a relaxed model at the parameters of F
    folds and their weights (F, P)."""
    near, thetas = _near(objective, name, params)
    return _by_entries(objective, name, near, objective.gradients(thetas, weights))


def slopes_without(fit: Fit, name: str, observed: np.ndarray) -> np.ndarray:
    """(n, ...) the same without each of the points `observed` (n,), at the parameters of the fit, from
    one sweep: the objective without a point is that of all, and the point's log density given them."""
    objective = objective_of(fit.model.zeros.relaxed(name), fit.data)
    near, thetas = _near(objective, name, [fit.params])
    whole = objective.gradients(thetas, objective.base[None])
    _, slopes = objective.leave_one_out(thetas[0])
    chosen = slopes if slopes.shape[1] == len(observed) else slopes[:, observed]
    return _by_entries(objective, name, near, whole + chosen.T) + prior_of_others(fit, name)


def prior_of_others(fit: Fit, name: str) -> np.ndarray:
    """What the prior of the others in a row adds to slopes of a relaxed model, whose prior is flat."""
    value = np.asarray(fit.params[name], float)
    prior = fit.model.zeros.concentration(name, value.shape)
    return np.where(value > 0, prior - 1.0, 0.0).sum(-1, keepdims=True)


def _near(objective: Objective, name: str, params: list[Params]) -> tuple[np.ndarray, np.ndarray]:
    """Some probabilities (F, ...) without zeros, and the thetas (F, D) with these."""
    leaf, _ = _leaf(objective, name)
    near = [np.where(np.asarray(one[name]) == 0, _NEARLY, one[name]) * leaf.mask() for one in params]
    near = [value / value.sum(-1, keepdims=True) for value in near]
    thetas = [
        objective.space.to_free(_representable(objective, {**one, name: value}))
        for one, value in zip(params, near, strict=True)
    ]
    return np.stack(near), np.stack(thetas)


def _by_entries(objective: Objective, name: str, near: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """(F, ...) slopes by entries of gradients (F, D) by log-ratios."""
    leaf, places = _leaf(objective, name)
    found = np.zeros((len(gradients), *leaf.shape))
    found[:, *np.array(leaf.coordinates(), int).T] = gradients[:, places]
    last = np.broadcast_to(leaf.reference()[..., None], (len(gradients), *leaf.shape[:-1], 1))
    np.put_along_axis(found, last, -found.sum(-1, keepdims=True), -1)
    return found / np.where(leaf.mask(), near, 1.0)


def _representable(objective: Objective, params: Params) -> Params:
    """Parameters in which probabilities that underflowed are the smallest numbers there are."""
    found = dict(params)
    for name, leaf, _ in objective.space.leaves():
        if isinstance(leaf, Simplex) and (gone := leaf.mask() & (np.asarray(found[name]) == 0)).any():
            found[name] = np.where(gone, np.finfo(float).tiny, found[name])
    return found


def _leaf(objective: Objective, name: str) -> tuple[Simplex, np.ndarray]:
    """The constraint of a parameter, and its places in theta."""
    found = {known: (leaf, places) for known, leaf, places in objective.space.leaves()}[name]
    return cast(tuple[Simplex, np.ndarray], found)


class Judged(NamedTuple):
    """Entries of one parameter that are zero, the slopes of the objective there, and whether that is an
    optimum, each of the shape of the parameter."""

    zero: np.ndarray
    slopes: np.ndarray
    optimum: np.ndarray


@in_float64
def judged_zeros(fit: Fit) -> dict[str, Judged]:
    """By the name of the parameter; of an HMM."""
    params = {name: np.asarray(value, float) for name, value in fit.params.items()}
    found = {}
    for name in fit.model.zeros.learned(params):
        value = params[name]
        if (value > 0).all():
            continue
        objective = objective_of(fit.model.zeros.relaxed(name), fit.data)
        zero = (value == 0) & _leaf(objective, name)[0].mask()
        prior = fit.model.zeros.concentration(name, value.shape)
        slopes = slopes_at(objective, name, [params], objective.base[None])[0]
        slopes += prior_of_others(fit, name)
        optimum = zero & (prior <= 1.0) & (slopes >= -ROUNDING * expected(fit, name, zero.ndim))
        found[name] = Judged(zero, slopes, optimum)
    return found


def zero_probabilities(fit: Fit) -> pd.DataFrame:
    """One row per probability of an HMM that is exactly zero: a first state, a transition, or a category
    that is impossible in a state (`support` of `Categorical` or `Multinomial`), unless it is frozen. Its
    `name`, the `slope` of the objective as it grows at the expense of the others of its row, in nats per
    unit of probability, and whether zero is an `optimum`: the slope is not negative, and the prior is
    not above one."""
    require(hasattr(fit, "objective") and hasattr(fit, "theta"), "fit", "a Fit from fo.fit", fit)
    if not isinstance(fit.model, HasZeros):
        if getattr(getattr(fit.model, "emission", None), "support", None) is not None:
            raise ValueError(f"zero_probabilities needs an HMM, got {type(fit.model).__name__}")
        return _table({})
    return _table(judged_zeros(fit))


def _table(found: dict[str, Judged]) -> pd.DataFrame:
    rows = [
        (entry_name(name, at), one.slopes[tuple(at)], bool(one.optimum[tuple(at)]))
        for name, one in found.items()
        for at in np.argwhere(one.zero)
    ]
    names, slopes, optimum = zip(*rows, strict=True) if rows else ((), (), ())
    kinds = (str, float, bool)
    columns = zip(("name", "slope", "optimum"), (names, slopes, optimum), kinds, strict=True)
    return pd.DataFrame({key: pd.Series(list(part), dtype=kind) for key, part, kind in columns})


def entry_name(name: str, at: Any) -> str:
    """Such as transition[0,2]."""
    return f"{name}[{','.join(map(str, at))}]"


def remembered_zeros(model: Any) -> dict[str, np.ndarray]:
    """Masks of the zeros that a fit found or was given, by name."""
    return model.zeros.remembered if isinstance(model, HasZeros) else {}


def estimated_zeros(fit: Fit) -> dict[str, np.ndarray]:
    """Masks of zeros that a fit found or was given, and that are optima under a flat prior: others are
    assumptions. By name."""
    known = remembered_zeros(fit.model)
    found = judged_zeros(fit) if known else {}
    masks = {}
    for name, mask in known.items():
        flat = fit.model.zeros.is_flat(name, mask.shape)
        if name in found and (entries := mask & flat & found[name].optimum).any():
            masks[name] = entries
    return masks


def expected(fit: Fit, name: str, axes: int) -> Any:
    """How often rows of probabilities were drawn from, to broadcast against them."""
    if name == "initial":
        return float(fit.data.n_sequences)
    states = fit.objective.state_probabilities(fit.theta)[fit.objective.base > 0].sum(0)
    return states.reshape(-1, *(1,) * (axes - 1))


def with_zeros(fit: Fit) -> Fit:
    """The fit with a status that also says whether zeros that it found or was given are optima.
    Categories must be; first states and transitions may also be meant to be impossible."""
    known = remembered_zeros(fit.model)
    if not known:
        return fit
    found = {
        name: one._replace(zero=one.zero & known[name])
        for name, one in judged_zeros(fit).items()
        if name in known
    }
    table = _table(found)
    fit = replace(fit, at_zero=_parameters_at_zero(fit, found))
    wrong = table[~table["optimum"]]
    of_emission = wrong[wrong["name"].str.startswith(fit.model.zeros.categories)]
    if len(of_emission):
        return replace(fit, status=_no_optimum(of_emission))
    said = []
    if len(there := table[table["optimum"]]):
        number = counted(len(there), "probability", "probabilities")
        said.append(f"{number} at zero, an optimum on the boundary")
    if len(wrong):
        first = wrong.sort_values("slope")["name"].iloc[0]
        said.append(f"held at zero: {counted(len(wrong), 'probability', 'probabilities')}, as '{first}'")
    message = fit.status.message
    added = [one for one in said if one not in message]
    return replace(fit, status=Status(fit.status.outcome, "; ".join(filter(None, [message, *added]))))


def _parameters_at_zero(fit: Fit, found: dict[str, Judged]) -> int:
    """How many zeros are parameters that ended there, not what a user gave: slopes have no say in it."""
    meant, count = fit.model.zeros.given, 0
    for name, one in found.items():
        flat = fit.model.zeros.concentration(name, one.zero.shape) <= 1.0
        count += int((one.zero & flat & ~meant.get(name, np.zeros_like(one.zero))).sum())
    return count


def _no_optimum(wrong: pd.DataFrame) -> Status:
    worst = wrong.sort_values("slope").iloc[0]
    return Status(
        Outcome.NOT_A_MINIMUM,
        f"'{worst['name']}' is held at zero, but the objective changes by {worst['slope']:.3g} per unit "
        "of it, or its prior is above one: zero is no optimum; fit with this category possible",
    )


def settled(found: Fit, refit: Callable[[Any, Params], Fit], attempts: int = 2) -> Fit:
    """A fit of which some probabilities with a flat prior go to zero, at zero: the minimum of the model
    in which these are impossible, if it is one on the boundary of the other. Where it is none, some of
    them went too far: they begin anew. Zeros that the fit was given stay.

    Args:
        found: the fit.
        refit: fits a model from parameters, whose zeros stay what they are.
        attempts: how often they do.
    """
    tried = found
    for _ in range(TIMES if isinstance(found.model, HasZeros) else 0):
        params = tried.model.zeros.without_vanished(tried.params)
        if params is None:
            break
        tried = refit(tried.model.zeros.held(params), params)
    if tried is found or not tried.ok:
        return found
    judged, gone = judged_zeros(tried), _gone_since(found.model, tried.model)
    wrong = {name: mask & judged[name].zero & ~judged[name].optimum for name, mask in gone.items()}
    if not any(mask.any() for mask in wrong.values()):
        at_best: dict[str, Any] = {"thetas": tried.theta[None], "values": np.array([tried.value])}
        best = replace(found.optima, found=found.optima.found[:1], **at_best)
        return replace(tried, values_of_starts=found.values_of_starts, optima=best)
    if not attempts:
        return found
    params = {name: np.asarray(value) for name, value in tried.params.items()}
    for name, mask in gone.items():
        value = np.where(mask, _AGAIN, params[name])
        params[name] = value / value.sum(-1, keepdims=True)
    again = settled(refit(found.model, params), refit, attempts - 1)
    lower = again.value < found.value or (again.ok and not found.ok)
    return replace(again, values_of_starts=found.values_of_starts) if lower else found


def _gone_since(before: Any, after: Any) -> dict[str, np.ndarray]:
    """Masks of the probabilities that one model remembers at zero and the one before it does not."""
    known = before.zeros.remembered
    masks = {
        name: mask & ~known.get(name, np.zeros_like(mask))
        for name, mask in after.zeros.remembered.items()
    }
    return {name: mask for name, mask in masks.items() if mask.any()}
