"""From the options of a hidden chain to its terms and priors in NumPy."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from fitonce.core.parameters import ParameterSpace
from fitonce.core.units import stretch_of
from fitonce.models.hidden.closed_chain import (
    ClosedChain,
    CoefficientPrior,
    DirichletPrior,
    ProportionPrior,
)
from fitonce.models.hidden.closed_memory import ClosedMemory
from fitonce.models.hidden.closed_stages import ClosedStages
from fitonce.models.hidden.closed_terms import ChainTerm, EndTerm, SoftmaxTerm, StationaryTerm
from fitonce.models.hidden.links import Links
from fitonce.models.hidden.names import CHAIN, COEFFICIENTS, SIZE_PRIOR


def closed_chain(
    chain: Any, links: Links | None, space: ParameterSpace
) -> ClosedChain | ClosedStages | ClosedMemory:
    """Derivatives by the coordinates of a space, which has these parameters and may have others."""
    places = {name: place for name, _, place in space.leaves()}
    entries = {
        name: np.array(leaf.coordinates(), int).reshape(len(places[name]), len(leaf.shape)).T
        for name, leaf, _ in space.leaves()
        if name in CHAIN
    }
    one = np.ones((1, 1))
    terms: list[ChainTerm] = []
    if not chain.stationary:
        column = entries["initial"]
        of_first = np.concatenate([np.zeros_like(column), column, np.zeros_like(column)])
        terms.append(SoftmaxTerm(places["initial"], of_first, "initial", None, one, initial=True))
    moves = entries["transition"]
    moves = np.concatenate([moves, np.zeros_like(moves[:1])])
    begins, design, where = one, one, places["transition"]
    if chain.regressors and links is not None:
        row, column, number = entries[COEFFICIENTS]
        moves = np.concatenate([moves, np.stack([row, column, number + 1])], 1)
        where = np.concatenate([where, places[COEFFICIENTS]])
        begins, design = (
            np.concatenate([np.ones((len(known), 1)), np.asarray(known)], 1)
            for known in (links.firsts, links.known)
        )
    of_moves = partial(
        SoftmaxTerm, where, moves, "transition", COEFFICIENTS if chain.regressors else None
    )
    if chain.stationary:
        terms.append(StationaryTerm(where, of_moves(begins)))
    terms.append(of_moves(design))
    if chain.end_prior is not None and links is not None:
        terms.append(EndTerm(places["end"], links))
    found = ClosedChain(tuple(terms), _priors(chain, links, places, entries), stretch_of(space))
    if chain.durations is None:
        return ClosedMemory(found, chain.n_states, chain.memory) if chain.memory else found
    names = ("dwell",) if chain.durations == "poisson" else ("dwell", "dwell_size")
    frozen = np.full(chain.n_states, -1)
    own = np.stack([places[name] if len(places[name]) else frozen for name in names])
    return ClosedStages(found, chain.durations, chain.stages, own, SIZE_PRIOR)


def _priors(chain: Any, links: Links | None, places: Any, entries: Any) -> tuple[Any, ...]:
    found: list[Any] = []
    for name in ("initial", "transition"):
        if name in places and len(places[name]):
            concentration = np.asarray(getattr(chain, f"{name}_concentration"), float)
            possible = chain.possible(name)
            excess = np.where(possible, np.broadcast_to(concentration - 1.0, possible.shape), 0.0)
            found.append(DirichletPrior(name, places[name], tuple(entries[name]), excess))
    if chain.regressors and links is not None and len(places[COEFFICIENTS]):
        here = tuple(entries[COEFFICIENTS])
        precision = np.asarray(chain.precision(links))[here[2]]
        found.append(CoefficientPrior(COEFFICIENTS, places[COEFFICIENTS], here, precision))
    if chain.end_prior is not None and "end" in places and len(places["end"]):
        found.append(ProportionPrior("end", places["end"], *chain.end_prior))
    return tuple(found)
