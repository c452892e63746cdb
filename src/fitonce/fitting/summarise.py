"""What a fit shows: its table of parameters, its text, and the summary that results show and save."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from fitonce.core.chunks import chunks
from fitonce.core.wording import counted
from fitonce.fitting.carriers import places_in_states, points_in_states
from fitonce.models.prior_words import priors_of
from fitonce.results.occupancy import about_few, points_in_words
from fitonce.results.summary import FitSummary, Starts

if TYPE_CHECKING:
    from fitonce.fitting.fit import Fit

_MOST_PARAMETERS = 2000  # with more, standard errors take too long: each is a solve with H
_PER, _SMALL = (1_000, 100_000, 1_000_000, 10**9), 0.1  # units of rates that are smaller than this
_LEAST_RISE, _MOST_RISE = 0.1, 2.5  # nats at a standard error, where a parabola has half a nat
_DECADES, _HALVINGS = 12.0, 40  # of the search elsewhere
_ROWS = 512  # standard errors computed at a time


def summary_of(fit: Fit) -> FitSummary:
    """The parts of a fit that are shown and saved."""
    objective, sites = fit.objective, fit.objective.collection
    if len(fit.theta) <= _MOST_PARAMETERS:
        table = parameter_table(fit)[["name", "value", "se"]]
    else:
        values = objective.space.named_values(fit.theta[None])[0]
        table = pd.DataFrame({"name": fit.names, "value": values, "se": np.nan})
    table = _readable(table, objective.per_exposure)
    return FitSummary(
        model=str(fit.model),
        data=_data(fit),
        status=fit.status,
        parameters=table,
        log_likelihood=fit.log_likelihood,
        lengths=np.asarray(sites.lengths),
        values=sites.shown_values,
        channels=sites.channel_names,
        edges=objective.edges,
        seconds=fit.seconds,
        places=sites.names,
        unknown_starts=objective.unknown_starts,
        approximation=objective.approximation,
        optima=starts_of(fit),
        priors=_priors(fit),
        in_states=points_in_states(fit),
        few_in_states=places_in_states(fit),
        further=sites.further_values,
    )


def starts_of(fit: Fit) -> Starts | None:
    """What is known of other optima; None where there are none."""
    if fit.objective.traits.convex or fit.objective.least_curvature is not None:
        return None
    found = int(fit.optima.found[0]) if len(fit.optima) else 0
    return Starts(found, fit.optima.starts, fit.optima.sentence)


def _priors(fit: Fit) -> str:
    return "; ".join(priors_of(fit.model, free_names(fit)))


def _data(fit: Fit) -> str:
    """The data in words; sites of a map are not steps of a sequence."""
    sites, edges = fit.objective.collection, fit.objective.edges
    if sites is not fit.data:
        return type(fit.data).__name__
    if edges is None:
        return str(fit.data)
    missing = int((sites.weights == 0).sum())
    named = f"of {', '.join(sites.channel_names)}, " if len(sites.channel_names) else ""
    return (
        f"{counted(sites.n_sites, 'site')} {named}{counted(len(edges), 'pair')} of neighbours, "
        f"{missing:,} missing"
    )


def parameter_table(fit: Fit) -> pd.DataFrame:
    """One row per free coordinate, see `Fit.to_dataframe`."""
    space = fit.objective.space
    errors = _standard_errors(fit, sparse.eye_array(len(fit.theta)).tocsr())
    zero = space.at_zero(fit.theta, errors)
    values = space.named_values(fit.theta[None])[0]
    slopes = _standard_errors(fit, space.named_slopes(fit.theta))
    further = space.named_values(np.where(zero, _half_a_nat(fit, errors, zero), fit.theta)[None])[0]
    return pd.DataFrame(
        {
            "name": fit.names,
            "value": np.where(zero, 0.0, values),
            "se": np.where(zero, further, slopes),
            "theta": fit.theta,
            "theta_se": errors,
        }
    )


def _half_a_nat(fit: Fit, errors: np.ndarray, at_zero: np.ndarray) -> np.ndarray:
    """(D,) roots of variances at zero at which the objective is half a nat higher, others following to
    first order: standard errors, but measured where the objective is far from a parabola."""
    found = errors.copy()
    for place in np.flatnonzero(at_zero):
        unit = np.eye(len(fit.theta))[place]
        along = fit.hessian_operator.solve(unit) / errors[place]

        def rise(share: float, along: np.ndarray = along) -> float:
            with np.errstate(all="ignore"):
                return fit.objective(fit.theta + share * along) - fit.value

        if _LEAST_RISE <= rise(1.0) <= _MOST_RISE:
            continue
        low, high = -_DECADES, _DECADES  # of logarithms
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            lower = rise(10.0**middle) < 0.5  # False for what is not finite
            low, high = (middle, high) if lower else (low, middle)
        found[place] = errors[place] * 10.0 ** (0.5 * (low + high))
    return found


def _boundary(fit: Fit) -> dict[str, str]:
    """What is said of parameters that are at zero or have unit roots, by their names without indices."""
    even = fit.objective.space.even
    if not even.any() or len(fit.theta) > _MOST_PARAMETERS:
        return {}
    errors = _standard_errors(fit, sparse.eye_array(len(fit.theta)).tocsr())
    zero = fit.objective.space.at_zero(fit.theta, errors)
    table, found = parameter_table(fit), {}
    for name, leaf, places in fit.objective.space.leaves():
        own = places[zero[places]]
        if own.size:
            which = "" if not leaf.shape else f": {', '.join(fit.names[place] for place in own)}"
            worse = ", ".join(f"{table['se'][place]:.4g}" for place in own)
            found[name] = f" (at its boundary{which}; half a nat worse at {worse})"
    units = {name: " (with a root on the unit circle)" for name, _ in fit.objective.mirrors(fit.theta)}
    return found | units


def _standard_errors(fit: Fit, slopes: Any) -> np.ndarray:
    """(D,) of quantities with sparse slopes (D, D), some at a time; nan without a minimum, and where H
    is not a matrix, as one solve for each would take too long."""
    errors = np.full(len(fit.theta), np.nan)
    if fit.smallest_eigenvalue > 0 and fit.hessian_operator.dense:
        for some, _ in chunks(len(fit.theta), min(_ROWS, len(fit.theta))):
            rows = slopes[some].toarray()
            solved = fit.hessian_operator.solve(rows.T)
            errors[some] = np.sqrt(np.einsum("id,di->i", rows, solved))
    return errors


def delta_method(slopes: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """(Q,) standard errors of quantities with slopes (Q, D), from the parameters' covariance (D, D)."""
    return np.sqrt(np.einsum("id,de,ie->i", slopes, covariance, slopes))


def _readable(table: pd.DataFrame, per_exposure: tuple[str, ...]) -> pd.DataFrame:
    """A table of parameters with rates per unit of exposure in the units in which they are printed."""
    table = table.copy()
    for leaf in per_exposure:
        of = table["name"].str.split("[").str[0] == leaf
        per = _unit(table.loc[of, "value"].to_numpy(float))
        if of.any() and per > 1:
            table.loc[of, "name"] += f" per {per:,} of exposure"
            table.loc[of, ["value", "se"]] *= per
    return table


def _unit(rates: np.ndarray) -> int:
    """What rates per unit of exposure are better read per: 1,000 or more, if they are small."""
    largest = float(np.max(np.abs(rates), initial=0.0))
    return next((unit for unit in _PER if largest * unit >= 1.0), 1) if largest < _SMALL else 1


def states_in_units(states: pd.DataFrame, per_exposure: tuple[str, ...]) -> pd.DataFrame:
    """A table of states with rates per unit of exposure as they are read."""
    for leaf in per_exposure:
        of = [name for name in states.columns if str(name).split("[")[0] == leaf]
        per = _unit(states[of].to_numpy(float))
        if of and per > 1:
            states = states.assign(**{name: per * states[name] for name in of})
            states = states.rename(columns={name: f"{name} per {per:,} of exposure" for name in of})
    return states


def _in_units(name: str, rates: np.ndarray) -> tuple[str, np.ndarray]:
    """Rates per unit of exposure as they are read: per 1,000, and what they are per in their name."""
    per = _unit(rates)
    return (name, rates) if per == 1 else (f"{name} per {per:,} of exposure", per * rates)


def text_of(fit: Fit) -> str:
    """A fit as it is printed."""
    lines = [
        f"Fit of {fit.model}, {counted(len(fit.theta), 'free parameter')}, "
        f"objective {fit.value:,.4f}, {fit.seconds:.1f} s",
        f"  {fit.status}",
    ]
    if fit.optima.disagree:
        lines.append(f"  {fit.optima.sentence}")
    at_zero = _boundary(fit)
    for name, value in fit.objective.space.named_leaves(fit.params):
        beside = at_zero.get(name, "")
        if name in fit.objective.per_exposure:
            name, value = _in_units(name, value)
        shown = np.array2string(value, precision=4, suppress_small=True, threshold=20)
        lines.append(f"  {name}: " + shown.replace("\n", "\n" + " " * (len(name) + 4)) + beside)
    if fit.objective.approximation:
        how = fit.objective.approximation
        lines.append(f"  likelihood: {how}; fit.laplace_error() says how far it is off")
    points, priors = points_in_states(fit), _priors(fit)
    if points is not None:
        on_map = fit.edges is not None
        few = about_few(points, on_map, places_in_states(fit))
        lines.append(f"  {points_in_words(points, on_map)}{f'; caution: {few}' if few else ''}")
    return "\n".join([*lines, *([f"  priors: {priors}"] if priors else [])])


def free_names(fit: Fit) -> list[str]:
    """The parameters that are not frozen, without their indices."""
    return list(dict.fromkeys(name.split("[")[0] for name in fit.names))
