"""The hidden states of a fit: a table of them, and how they follow each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fitonce.fitting.relabelling import state_columns, states_of
from fitonce.fitting.summarise import states_in_units
from fitonce.objectives.abilities import HasTransitions, MovesBetweenStates, NumbersStates
from fitonce.objectives.base import Objective
from fitonce.results import plots
from fitonce.results.standard_errors import Terms, memory_of

if TYPE_CHECKING:
    from fitonce.fitting.fit import Fit

_SQUARED = 40  # times: a million million steps


def state_table(fit: Fit, sequence: Any = None) -> pd.DataFrame:
    """One row per state, see `Fit.states`."""
    states_of(fit.model, "states")
    sites = fit.objective.collection
    number = 0 if sequence is None else sites.sequence_number(sequence)
    of = slice(None) if sequence is None else sites.sites_of(number)
    columns = {"share": fit.objective.state_probabilities(fit.theta)[of].mean(0)}
    moves = transition_of(fit.objective, fit.theta)
    if moves is not None:
        first = fit.model.first_states(fit.params, fit.data, number)
        with np.errstate(divide="ignore"):
            columns["stationary"] = stationary(first, moves)
            columns["dwell"] = 1.0 / (1.0 - np.diag(moves))
    own = {name: column for name, column in state_columns(fit).items() if name not in columns}
    return pd.DataFrame(columns | own).rename_axis("state")


def transition_of(objective: Objective, theta: np.ndarray) -> np.ndarray | None:
    """(K, K) by which hidden states follow each other in time; None: there are none."""
    return objective.transition(theta) if isinstance(objective, HasTransitions) else None


def memory_by_states(terms: Terms, objective: Objective, theta: np.ndarray) -> float:
    """The memory of losses at sites along time, in steps, as the states of a model have it; 0 where they
    follow no chain."""
    moves = transition_of(objective, theta)
    if moves is None or not terms.are_finite:
        return 0.0
    return memory_of(terms, objective.state_probabilities(theta), moves)


def stationary(initial: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """(K,) the distribution of states in the long run, from the initial one; the mean over a cycle,
    where they follow each other in one."""
    lazy = 0.5 * (np.eye(len(moves)) + moves)
    for _ in range(_SQUARED):
        lazy = lazy @ lazy
        lazy /= lazy.sum(1, keepdims=True)  # rounding would add up in so many products
    return initial @ lazy


def plot_transitions(fit: Fit, ax: Any) -> Any:
    """A map of the transition probabilities, see `Fit.plot_transitions`."""
    moves = None
    if isinstance(fit.model, MovesBetweenStates):
        moves = transition_of(fit.objective, fit.theta)
    if moves is None:
        raise ValueError(f"plot_transitions needs an HMM, got {type(fit.model).__name__}")
    table = state_table(fit)
    return plots.transitions(moves, table["share"].to_numpy(), table["dwell"].to_numpy(), ax)


def html_of(fit: Fit) -> str:
    """A fit as notebooks show it: its hidden states, or its parameters where there are none."""
    from fitonce.results.notebook.fits import of_fit  # only notebooks need it

    if not isinstance(fit.model, NumbersStates):
        return of_fit(fit)
    states = states_in_units(state_table(fit), fit.objective.per_exposure)
    if isinstance(fit.model, MovesBetweenStates):
        return of_fit(fit, states, transition_of(fit.objective, fit.theta))
    return of_fit(fit, states, classes=np.asarray(fit.posterior()).argmax(1))
