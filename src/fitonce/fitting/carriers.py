"""States that rest on few observations: who leaves these out loses the state.

Where parameters of a state fit its only observation well, gradients there are small, and nothing that is
to first order shows how far they would move without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fitonce.core.wording import chance, listed
from fitonce.objectives.abilities import HasLabels
from fitonce.results.occupancy import FEW

if TYPE_CHECKING:
    from fitonce.fitting.fit import Fit
    from fitonce.objectives.base import Objective

CARRIED = 0.9  # of a state's observations: without them there is hardly a state
_EMPTY = 1e-6  # observations: a state with fewer makes no difference to any of them
_NONE = 0.01  # observations: a state that no point is likely to be in
_NAMED = 3
_PROBABLY = 0.5


class Carrier(NamedTuple):
    """A state that rests on one point: its number, the site, and the site's share of the state."""

    state: int
    site: int
    share: float


def points_in_states(fit: Fit) -> np.ndarray | None:
    """(K,) expected number of observed sites in each hidden state; None unless there are several, and
    where classes are observed."""
    return _points_at(fit.objective, fit.theta)


def _has_hidden_states(objective: Objective) -> bool:
    """Labels are states that are known."""
    return objective.traits.hidden_states and not isinstance(objective, HasLabels)


def _points_at(objective: Objective, theta: np.ndarray) -> np.ndarray | None:
    if not _has_hidden_states(objective) or not np.isfinite(theta).all():
        return None
    shares = objective.state_probabilities(theta) * (objective.base > 0)[:, None]
    found = shares.sum(0)
    return found if len(found) > 1 and not _observed(objective, shares) else None


def has_empty_state(objective: Objective, theta: np.ndarray) -> bool:
    """Whether a hidden state has no observation at free parameters theta (D,)."""
    points = _points_at(objective, theta)
    return points is not None and bool((points < _NONE).any())


def _observed(objective: Objective, shares: np.ndarray) -> bool:
    """Whether states are data and not hidden: certain, and the same at any parameters."""
    if not np.isin(shares, (0.0, 1.0)).all():
        return False
    elsewhere = objective.state_probabilities(np.zeros(objective.space.size))
    return np.array_equal(shares, elsewhere * (objective.base > 0)[:, None])


def places_in_states(fit: Fit) -> tuple[str, ...]:
    """(K,) the sites that are probably in each state, by name, where these are few; empty elsewhere."""
    points = points_in_states(fit)
    if points is None or not (points < FEW).any():
        return ()
    objective = fit.objective
    inside = (objective.state_probabilities(fit.theta) > _PROBABLY) & (objective.base > 0)[:, None]
    named = [np.flatnonzero(inside[:, k]) if few else () for k, few in enumerate(points < FEW)]
    return tuple(listed([_place(fit, int(site)) for site in sites], _NAMED) for sites in named)


def state_shares(objective: Objective, theta: np.ndarray) -> np.ndarray:
    """(sites, K) what part of a state's observations each site is, at the fit; zero for empty states,
    which rest on nothing."""
    shares = objective.state_probabilities(theta) * (objective.base > 0)[:, None]
    points = shares.sum(0)
    return np.where(points > _EMPTY, shares / np.maximum(points, _EMPTY), 0.0)


def carrying(objective: Objective, theta: np.ndarray, dropped: Sequence[np.ndarray]) -> np.ndarray:
    """(F,) whether sets of sites are nearly all observations of some state."""
    shares = state_shares(objective, theta)
    most = max((len(indices) for indices in dropped), default=0)
    heaviest = np.sort(shares, 0)[len(shares) - most :].sum(0)  # more than any set of so many sites has
    light = shares[:, heaviest > CARRIED]
    if not light.shape[1]:
        return np.zeros(len(dropped), bool)
    return np.array([(light[indices].sum(0) > CARRIED).any() for indices in dropped])


def single_carriers(fit: Fit) -> list[Carrier]:
    """The states of a fit that rest on one point; none where there are no hidden states."""
    objective = fit.objective
    if not _has_hidden_states(objective):
        return []
    shares = state_shares(objective, fit.theta)
    if shares.shape[1] < 2:
        return []
    sites = shares.argmax(0)
    most = shares[sites, np.arange(shares.shape[1])]
    return [Carrier(int(k), int(sites[k]), float(most[k])) for k in np.flatnonzero(most > CARRIED)]


def about_carriers(fit: Fit) -> str:
    """A sentence on such states; empty where there are none."""
    found = single_carriers(fit)
    if not found:
        return ""
    named = [f"state {one.state} on {_place(fit, one.site)} ({chance(one.share)})" for one in found]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    what = "a state rests" if len(found) == 1 else "states rest"
    return f"{what} on one point: {', '.join(named[:_NAMED])}{more}"


def _place(fit: Fit, site: int) -> str:
    """A site in the user's words."""
    row = fit.objective.collection.sites.iloc[site]
    if "place" in row:
        return str(row["place"])
    several = fit.objective.collection.sites["sequence"].iloc[-1] > 0
    kind = fit.objective.traits.site
    where = f"{kind} {row['time'] if kind == 'time' else site}"
    return f"sequence {row['sequence']}, {where}" if several else where
