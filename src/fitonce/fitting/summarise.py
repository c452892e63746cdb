"""What a fit shows: its table of parameters, its text, and the summary that results show and save."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from fitonce.core.chunks import chunks
from fitonce.core.wording import counted
from fitonce.fitting.carriers import places_in_states, points_in_states
from fitonce.fitting.small_variances import SmallVariances, small_variances
from fitonce.objectives.abilities import HasContinuousStates, even_directions
from fitonce.objectives.base import Objective
from fitonce.objectives.families import priors_in_words
from fitonce.results.occupancy import about_few, points_in_words
from fitonce.results.summary import FitSummary, Starts, parameters_in_words

if TYPE_CHECKING:
    from fitonce.fitting.fit import Fit

_MOST_PARAMETERS = 2000  # with more, standard errors take too long: each is a solve with H
_PER, _SMALL = (1_000, 100_000, 1_000_000, 10**9), 0.1  # units of rates that are smaller than this
_FEWEST = 0.01  # nats: so much worse is said of what is less
_DECIMALS, _SHOWN = 4, 20  # of printed numbers, and how many of an array are printed
_ROWS = 512  # standard errors computed at a time


def unknown_starts(objective: Objective) -> str:
    """First states that nothing is known about, in words; empty: there are none."""
    return objective.unknown_starts if isinstance(objective, HasContinuousStates) else ""


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
        unknown_starts=unknown_starts(objective),
        approximation=fit.approximation,
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
    return Starts(found, fit.optima.starts, fit.optima.sentence, fit.optima.single)


def _priors(fit: Fit) -> str:
    return "; ".join(priors_in_words(fit.model, free_names(fit)))


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
    small = small_variances(fit, errors)
    values = np.where(small.at_zero, 0.0, space.named_values(fit.theta[None])[0])
    slopes = _standard_errors(fit, space.named_slopes(fit.theta))
    worse = space.named_values(small.worse[None])[0]
    table = pd.DataFrame(
        {
            "name": fit.names,
            "value": values,
            "se": np.where(small.at_zero | small.beside, worse - values, slopes),
            "theta": fit.theta,
            "theta_se": errors,
        }
    )
    if space.even.any():
        near = [f"0 is within {nats} nats" for nats in _nats(small)]
        table["note"] = np.where(small.at_zero, "at zero", np.where(small.beside, near, ""))
    return table


def _nats(small: SmallVariances) -> list[str]:
    """How much worse zero is than each parameter beside it, at most, in hundredths that are rounded up;
    of others it may be worse without bound."""
    hundredths = np.ceil(100.0 * np.maximum(np.where(small.beside, small.rise, 0.0), _FEWEST))
    return [f"{nats:g}" for nats in hundredths / 100.0]


def _beside(fit: Fit) -> dict[str, str]:
    """What is said of parameters, by their names without indices: that they are at zero or beside it,
    have unit roots, or what their model remarks."""
    if len(fit.theta) > _MOST_PARAMETERS:
        return {}
    of_model = getattr(fit.model, "remarks", None)
    remarks = of_model(fit.params, fit.objective.collection.lengths) if of_model else {}
    found = {name: f" ({text})" for name, text in remarks.items()}
    found |= {
        name: " (with a root on the unit circle)"
        for name, _ in even_directions(fit.objective, fit.theta)
    }
    return found | (_small(fit) if fit.objective.space.even.any() else {})


def _small(fit: Fit) -> dict[str, str]:
    """What is said of variances at zero or beside it."""
    table, found = parameter_table(fit), {}
    for name, leaf, places in fit.objective.space.leaves():
        own = table.iloc[places]
        said = [
            _near_zero(own[own["note"] == note], note, bool(leaf.shape))
            for note in dict.fromkeys(own["note"])
            if note
        ]
        if said:
            found[name] = f" ({'; '.join(said)})"
    return found


def _near_zero(rows: pd.DataFrame, note: str, named: bool) -> str:
    """Variances with the same note."""
    which = f": {', '.join(rows['name'])}" if named else ""
    said = "at its boundary" if note == "at zero" else f"no standard error applies, {note}"
    worse = ", ".join(f"{value:.4g}" for value in rows["value"] + rows["se"])
    return f"{said}{which}; half a nat worse at {worse}"


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
        f"Fit of {fit.model}, {parameters_in_words(fit)}, "
        f"objective {fit.value:,.4f}, {fit.seconds:.1f} s",
        f"  {fit.status}",
    ]
    if fit.optima.disagree:
        lines.append(f"  {fit.optima.sentence}")
    beside = _beside(fit)
    for name, value in fit.objective.space.named_leaves(_without_rounding(fit)):
        said = beside.get(name, "")
        if name in fit.objective.per_exposure:
            name, value = _in_units(name, value)
        lines.append(f"  {name}: " + in_digits(value).replace("\n", "\n" + " " * (len(name) + 4)) + said)
    if how := fit.approximation:
        lines.append(f"  likelihood: {how}; fit.laplace_error() says how far it is off")
    points, priors = points_in_states(fit), _priors(fit)
    if points is not None:
        on_map = fit.edges is not None
        few = about_few(points, on_map, places_in_states(fit))
        lines.append(f"  {points_in_words(points, on_map)}{f'; caution: {few}' if few else ''}")
    return "\n".join([*lines, *([f"  priors: {priors}"] if priors else [])])


def _without_rounding(fit: Fit) -> Any:
    """The parameters, with variances that are zero to rounding level at zero."""
    even = fit.objective.space.even
    if not even.any() or len(fit.theta) > _MOST_PARAMETERS:
        return fit.params
    errors = _standard_errors(fit, sparse.eye_array(len(fit.theta)).tocsr())
    zero = fit.objective.space.at_zero(fit.theta, errors)
    return fit.params_at(np.where(zero, 0.0, fit.theta)) if zero.any() else fit.params


def in_digits(values: np.ndarray) -> str:
    """Numbers with four decimals; small ones with four digits: in arrays those that would be printed as
    0. but are not, and a number alone below 0.001."""
    values = np.asarray(values)
    least = 10.0**-_DECIMALS * (0.5 if values.ndim else 10.0)
    hidden = (np.abs(values) < least) & (values != 0.0)
    if not hidden.any() or values.dtype.kind != "f" or values.size > _SHOWN:
        return np.array2string(values, precision=_DECIMALS, suppress_small=True, threshold=_SHOWN)

    def digits(value: float) -> str:
        if 0.0 < abs(value) < least:
            return f"{value:.{_DECIMALS}g}"
        return np.format_float_positional(value, _DECIMALS)

    width = max(len(digits(value)) for value in values.ravel()) if values.ndim else 0
    how: Any = {"float_kind": lambda value: digits(value).rjust(width)}
    return np.array2string(values, formatter=how)


def free_names(fit: Fit) -> list[str]:
    """The parameters that are not frozen, without their indices."""
    return list(dict.fromkeys(name.split("[")[0] for name in fit.names))
