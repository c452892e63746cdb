"""Other numbers for the states of a fit: the same model and the same minimum in another order.

Free coordinates of a relabelled fit are linear in those of the fit: entries change places, and
log-ratios of probabilities may have another reference. Its gradient and its H follow from the fit's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from fitonce.core.arguments import require, require_choice, require_flag, shown
from fitonce.core.constraints import Simplex
from fitonce.core.numerics import in_float64, is_count, lengths_of
from fitonce.core.status import Outcome, Status
from fitonce.fitting.boundary import with_zeros
from fitonce.fitting.certificate import judged, refusal
from fitonce.fitting.factor import factor_of
from fitonce.fitting.hessian import DenseHessian, HessianOperator, ImplicitHessian
from fitonce.objectives.abilities import NumbersStates
from fitonce.objectives.base import Objective
from fitonce.objectives.families import objective_of

if TYPE_CHECKING:
    from fitonce.fitting.fit import Fit

_SAME = 1e-8  # relative: values of one objective, summed in another order
Axes = dict[str, tuple[int, ...]]  # of each parameter, those that number states


def states_of(model: Any, verb: str) -> int:
    """How many states or classes a model has; raises where they have no numbers to exchange."""
    if isinstance(model, NumbersStates):
        return model.n_numbered
    raise ValueError(f"{verb} needs an HMM or a PottsMixture, got {type(model).__name__}")


def state_axes(model: Any, data: Any) -> Axes:
    """The axes of each parameter that are longer in a model with one state more."""
    prepared = model.prepare(data)
    others = model.with_one_more().parameters(prepared)
    return {
        name: tuple(np.flatnonzero(np.array(leaf.shape) != others[name].shape).tolist())
        for name, leaf in model.parameters(prepared).items()
    }


def state_columns(fit: Fit) -> dict[str, np.ndarray]:
    """(K,) each: parameters that every state has for itself, by name and place, but for probabilities of
    transitions."""
    axes, found = state_axes(fit.model, fit.data), {}
    for name, value in fit.objective.space.named_leaves(fit.params):
        if axes[name] != (0,) or name == "initial":
            continue
        for place in np.ndindex(value.shape[1:]):
            several = f"[{','.join(map(str, place))}]" if value[0].size > 1 else ""
            found[name + several] = value[(slice(None), *place)]
    return found


@in_float64
def relabelled(fit: Fit, given: Any) -> Fit:
    """The same fit, whose state j is the state `given[j]` of `fit`."""
    count = states_of(fit.model, "relabelling")
    order = np.asarray(given)
    if sorted(order.tolist()) != list(range(count)):
        raise ValueError(f"order must have each of the {count} states once, got {shown(order.tolist())}")
    axes = state_axes(fit.model, fit.data)
    model, old = fit.model.renumbered(order, axes), fit.objective
    same = model == fit.model
    objective = old if same else objective_of(model, fit.data, old.program.kernel)
    moved = _moves(old, objective, axes, order)
    theta = moved @ fit.theta
    value = objective(theta)
    if np.isfinite(fit.value) and not abs(value - fit.value) <= _SAME * (1.0 + abs(fit.value)):
        raise ValueError(
            f"states of {fit.model} cannot change places: each has a part of its own, and the objective "
            f"would be {value:.6g} in place of {fit.value:.6g}"
        )
    back = _moves(objective, old, axes, np.argsort(order))
    gradient, names = back.T @ fit.gradient, list(objective.space.names)
    hessian: HessianOperator
    if fit.hessian_operator.dense:
        hessian = DenseHessian(back.T @ (back.T @ fit.H).T, names)
    else:
        hessian = ImplicitHessian(objective, theta)
    lowest, status = _certificate(fit, gradient, hessian, names)
    found = replace(
        fit,
        model=model,
        params=objective.space.params_at(theta),
        theta=theta,
        names=names,
        status=status,
        gradient_norm=float(lengths_of(gradient)),
        smallest_eigenvalue=lowest,
        optima=replace(fit.optima, thetas=fit.optima.thetas @ moved.T),
        objective=objective,
        gradient=gradient,
        hessian_operator=hessian,
    )
    return with_zeros(found)


def _certificate(
    fit: Fit, gradient: np.ndarray, hessian: HessianOperator, names: list[str]
) -> tuple[float, Status]:
    """The smallest eigenvalue of H, and the status in the new coordinates; its outcome stays."""
    if not hessian.dense or fit.status.outcome is Outcome.NOT_FINITE:
        return fit.smallest_eigenvalue, fit.status
    matrix = hessian.matrix()
    factor = factor_of(matrix)
    lowest = float(np.linalg.eigvalsh(matrix)[0]) if factor is None else factor.lowest
    if fit.status.outcome is Outcome.NOT_A_MINIMUM:
        return lowest, refusal(gradient, matrix, factor, names) or fit.status
    done, evidence = fit.status.ok, f"smallest eigenvalue of H {lowest:.1e}"
    return lowest, judged(gradient, fit.distance, done, evidence, names)


def _moves(old: Objective, new: Objective, axes: Axes, order: np.ndarray) -> sparse.csr_array:
    """(D, D) by which free coordinates of `old` become those of `new`."""
    places = {name: (leaf, where) for name, leaf, where in old.space.leaves()}
    rows, columns, signs = [], [], []
    for name, leaf, where in new.space.leaves():
        before, positions = places[name]
        column = dict(zip(before.coordinates(), positions, strict=True))
        for row, index in zip(where, leaf.coordinates(), strict=True):
            terms = [(_origin(index, axes[name], order), 1.0)]
            if isinstance(leaf, Simplex):  # the ratio to the entry that is the reference now
                last = int(leaf.reference()[index[:-1]])
                terms.append((_origin((*index[:-1], last), axes[name], order), -1.0))
            for origin, sign in terms:
                if origin in column:  # else it was the reference, whose coordinate is zero
                    rows.append(row)
                    columns.append(column[origin])
                    signs.append(sign)
    shape = (new.space.size, old.space.size)
    return sparse.csr_array((signs, (rows, columns)), shape=shape)


def _origin(index: tuple[int, ...], where: tuple[int, ...], order: np.ndarray) -> tuple[int, ...]:
    """The place in the old order of an entry in the new one."""
    return tuple(int(order[i]) if axis in where else i for axis, i in enumerate(index))


def ordered(fit: Fit, by: Any, descending: bool, name: str = "by") -> Fit:
    """The states in the order of a column of `states()`, or in a given one; `name`: of that argument."""
    require_flag("descending", descending)
    states_of(fit.model, "ordered")
    if not isinstance(by, str):
        if not (isinstance(by, (list, tuple, np.ndarray)) and all(is_count(k, 0) for k in by)):
            require(False, name, "the name of a column of states() or a list of states", by)
        each = list(range(states_of(fit.model, "ordered")))
        once = f"a list of the {len(each)} states, each once"
        require(sorted(map(int, by)) == each, name, once, by)
        return relabelled(fit, by)
    table = fit.states()
    names = [str(name) for name in table]
    column = by if by in names else next((name for name in names if name.split("[")[0] == by), None)
    if column is None:
        raise ValueError(
            f"{name}={shown(by)}: states have no such column to order them by; they have "
            f"{', '.join(names)}"
        )
    values = table[column].to_numpy()
    return relabelled(fit, np.argsort(-values if descending else values, kind="stable"))


def align(fit: Fit, other: Fit, *, by: str | None = None) -> Fit:
    """`fit` with its states numbered as those of `other` that they match: the same minimum, with the
    same objective and cross-validation.

    Args:
        fit, other: fits of HMMs or of mixtures on graphs, with as many states.
        by: "posterior": states that the data are likely to be in at the same steps or sites, where both
            fits have the same ones; "parameters": the nearest ones, parameters in units of their spread
            over all states; None: the posterior where that is possible.
    """
    from scipy.optimize import linear_sum_assignment  # a slow import, which fits do without

    require_fitted("fit", fit)
    require_fitted("other", other)
    require_choice("by", by, ("posterior", "parameters"), optional=True)
    counts = [states_of(one.model, "align") for one in (fit, other)]
    if counts[0] != counts[1]:
        raise ValueError(f"fits must have as many states to be aligned, got {counts[0]} and {counts[1]}")
    mine, theirs = fit.objective.collection.lengths, other.objective.collection.lengths
    alike = np.array_equal(mine, theirs)
    if by == "posterior" and not alike:
        raise ValueError("by='posterior' needs fits to data of the same lengths; use by='parameters'")
    posterior = alike if by is None else by == "posterior"

    cost = -_together(fit, other) if posterior else _apart(fit, other)
    return relabelled(fit, linear_sum_assignment(cost)[1])


def require_fitted(name: str, value: Any) -> None:
    """Raise unless the argument is a fit."""
    fitted = hasattr(value, "objective") and hasattr(value, "theta")
    require(fitted, name, "a Fit from fo.fit", value)


def _together(fit: Fit, other: Fit) -> np.ndarray:
    """(K, K) over the sites, how often `other` is in the one state and `fit` in the other."""
    mine, theirs = (one.objective.state_probabilities(one.theta) for one in (fit, other))
    return theirs.T @ mine


def _apart(fit: Fit, other: Fit) -> np.ndarray:
    """(K, K) squared distances between states of `other` and of `fit`."""
    mine, theirs = state_columns(fit), state_columns(other)
    if mine.keys() != theirs.keys():
        raise ValueError(
            f"fits must have the same parameters to be aligned by them, got {', '.join(mine)} and "
            f"{', '.join(theirs)}"
        )
    total = np.zeros((states_of(fit.model, "align"),) * 2)
    for name, values in mine.items():
        spread = np.std([*values, *theirs[name]])
        if spread > 0:
            total += ((theirs[name][:, None] - values) / spread) ** 2
    return total
