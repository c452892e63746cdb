"""Second derivatives of a native chain: H, J and products with them.

Both follow from derivatives of expected counts along the parameters, see `native_parts`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fitonce.engines import native_chain_logs as engine
from fitonce.objectives.chain.native_parts import SCRATCH, Parts, Point
from fitonce.objectives.schemes import B


class Tangents(NamedTuple):
    """Derivatives along m directions: of log p(z_t = k, x), or of log p(z_t = k | x) times factors
    (T, K, m), of expected first states (1, K, m) and transitions (1, K, K, m), of log Z (N, m) and, if
    asked for, of expected log transitions into steps (T, m), see `native_chain_logs.tangents`."""

    reach: np.ndarray
    firsts: np.ndarray
    pairs: np.ndarray
    values: np.ndarray
    links: np.ndarray


def tangents(
    point: Point, moved: Any, factors: np.ndarray | None = None, *, with_links: bool = False
) -> Tangents:
    """From derivatives of the log-potentials, see `Parts.directions`, whose arrays are valid as long as
    these; factors (T, K)."""
    emission, first, move = moved
    known, given, starts = point.known, point.given, point.starts
    count = emission.shape[-1]
    found = Tangents(
        SCRATCH.take("reach", emission.shape),
        np.zeros_like(first),
        np.zeros_like(move),
        np.empty((len(starts) - 1, count)),
        np.zeros((len(emission) if with_links else 0, count)),
    )
    moves, coefficients = (np.ascontiguousarray(a[..., 0]) for a in (given.moves, given.coefficients))
    arrays = (known.nodes, known.back, known.onward, emission, first, move)
    factors = np.empty((0, known.nodes.shape[1])) if factors is None else factors
    chain = (moves, given.links_of(0), starts, coefficients, factors)
    outs = (found.reach, found.firsts, found.pairs, found.links, found.values)
    engine.tangents(*arrays, *chain, *outs)
    return found


def products(parts: Parts, point: Point, directions: np.ndarray | None = None) -> np.ndarray:
    """(m, D) H times directions (m, D); H itself without them."""
    size = parts.program.space.size
    found, counted = np.empty((size if directions is None else len(directions), size)), point.counted()
    for some, moved in parts.directions(point, directions):
        along = tangents(point, moved, counted)
        found[some] = parts.moved_back(point, along.reach, along.firsts, along.pairs)
    complete = parts.complete(point, counted)
    return -(found + (complete if directions is None else directions @ complete))


def slopes_of_sites(parts: Parts, point: Point, coordinates: int) -> np.ndarray:
    """J (D, coordinates): minus derivatives of the expected log emission of each step; where states are
    left out, too, those of the transitions beside it."""
    every, seen = np.eye(parts.program.space.size), parts.steps.seen
    found = np.zeros((len(every), coordinates))
    known, drops_states = point.known, isinstance(parts.program.scheme, B)
    density = np.where(known.nodes > 0, point.given.rows[parts.steps.index, :, 0], 0.0)
    for some, moved in parts.directions(point):
        along = tangents(point, moved, known.nodes, with_links=drops_states)
        here = np.einsum("tkm,tk->mt", along.reach, density)
        own = every[some][:, parts.own]
        here += np.einsum("tk,tkp,mkp->mt", known.nodes, point.scores, own, optimize=True)
        found[some, : len(seen)] = -here * seen
        if drops_states:
            _add_links(parts, point, moved, along, found[some])
    return found


def _add_links(parts: Parts, point: Point, moved: Any, along: Tangents, slopes: np.ndarray) -> None:
    """Add what weights of transitions change to slopes (m, coordinates)."""
    _, first, move = moved
    known, links = point.known, along.links
    begins, seen = parts.steps.starts[:-1], parts.steps.seen
    passed = parts.transitions(known)
    if len(move) > 1:
        links += np.einsum("tij,tijm->tm", passed, move)
    else:
        links += np.tensordot(passed, move[0], ((1, 2), (0, 1)))
    logs = np.broadcast_to(point.given.initial[..., 0], known.nodes[begins].shape)
    start = np.einsum("nkm,nk->nm", along.reach[begins], np.where(np.isfinite(logs), logs, 0.0))
    start += np.einsum(
        "nk,nkm->nm", known.nodes[begins], np.broadcast_to(first, along.reach[begins].shape)
    )
    sites = slopes[:, : len(seen)]
    sites[:, begins] -= (start * seen[begins, None]).T
    links[begins] = 0.0
    if parts.own_links:
        into = ~parts.steps.is_first
        slopes[:, len(seen) + parts.steps.links[into]] = -links[into].T
        return
    sites -= links.T * seen  # the transition into a step, and that out of it
    sites[:, :-1] -= links[1:].T * seen[:-1]


def slopes_of_increments(parts: Parts, point: Point) -> np.ndarray:
    """J (D, T): minus derivatives of log p(x_t | x_<t)."""
    filtered, _ = point.known.filtered()
    steps = parts.steps
    found = np.empty((parts.program.space.size, len(filtered)))
    for some, moved in parts.directions(point):
        reach, values = np.empty_like(moved[0]), np.empty(moved[0].shape[::2])
        arrays = (filtered, point.known.back, *moved, point.given.links_of(0), steps.starts)
        engine.prefix_tangents(*arrays, reach, values)
        values[1:] -= np.where(steps.is_first[1:, None], 0.0, values[:-1])
        found[some] = -values.T * steps.seen
    return found


def slopes_of_sequences(parts: Parts, point: Point) -> np.ndarray:
    """J (D, N): minus the gradient of each sequence's log-likelihood."""
    steps, nodes = parts.steps, point.known.nodes
    found = np.zeros((parts.program.space.size, len(steps.starts) - 1))
    shares = point.given.weights[:, :1, None] * nodes[..., None] * point.scores
    np.add.at(found, parts.own, np.moveaxis(steps.totals(shares), 0, -1))
    passed, begins = parts.transitions(point.known), steps.starts[:-1]
    if steps.moves is None:
        found += parts.chain.slopes(
            point.values, nodes[begins].T[None], np.moveaxis(steps.totals(passed), 0, -1)[None]
        )
    else:
        kind = np.zeros(len(begins), int) if steps.kind is None else steps.kind
        first, moves = parts.chain.each(point.values, nodes[begins], passed, (steps.moves, kind))
        found += (first + steps.totals(moves)).T
    return -found
