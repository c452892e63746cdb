"""The parts of a native chain: from parameters to potentials, and from expected counts back.

    log p(x; theta, w) is a function of log-potentials; its slope by each is the expected count.

So a gradient is expected counts pulled back through the potentials, and H follows from the derivatives
of counts along the parameters and the second derivatives of potentials.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fitonce.core import memory
from fitonce.core.native import Scratch
from fitonce.core.units import stretch_of
from fitonce.engines.native_chain import weights_of_steps
from fitonce.models.emissions.base import Emission
from fitonce.models.emissions.closed_forms import ClosedForms, Values
from fitonce.models.emissions.stretched_forms import StretchedForms
from fitonce.models.hidden.closing import closed_chain
from fitonce.models.hidden.names import CHAIN
from fitonce.models.hmm import HMM
from fitonce.objectives.base import Program
from fitonce.objectives.chain.derived_forms import DerivedForms
from fitonce.objectives.chain.passes import Conditionals, Posterior, conditionals
from fitonce.objectives.chain.steps import Potentials, Steps
from fitonce.objectives.schemes import B, Increments, Structures

SCRATCH = Scratch()
# Far from a minimum numbers may overflow; what is not finite is not stepped to.
_quiet = np.errstate(over="ignore", invalid="ignore", divide="ignore")
_DIRECTION_BYTES = 2**26  # of derivatives of potentials at a time: larger arrays leave the cache


def closed_forms(model: HMM, steps: Steps) -> ClosedForms | None:
    """Of the emission, unless some of its parameters are frozen."""
    frozen = set(dict(model.frozen)) - set(CHAIN)
    if frozen or not has_closed_forms(model.emission):
        return None
    return model.emission.closed_forms(steps.rows)


def has_closed_forms(emission: Emission) -> bool:
    """Whether its closed forms are those of its density and prior: a subclass of a built-in emission may
    have changed these."""
    order = type(emission).__mro__

    def owner(name: str) -> int:
        return next(place for place, kind in enumerate(order) if name in vars(kind))

    forms = owner("closed_forms")
    return order[forms] is not Emission and forms <= min(map(owner, ("log_density", "log_prior")))


@dataclass(frozen=True, eq=False)
class Point:
    """One parameter vector at one vector of weights.

    Attributes:
        values: constrained values.
        given: potentials, with one fold.
        known: conditional probabilities.
        scores: (T, K, P) of emissions, by each state's own coordinates.
        starts: (N + 1,) first steps of the sequences.
    """

    values: Values
    given: Potentials
    known: Conditionals
    scores: np.ndarray
    starts: np.ndarray

    def counted(self) -> np.ndarray:
        """(T, K) expected states, times the weights of steps and sequences."""
        of_steps = np.repeat(self.given.coefficients[:, 0], np.diff(self.starts))
        return (of_steps * self.given.weights[:, 0])[:, None] * self.known.nodes


@dataclass(frozen=True, eq=False)
class Parts:
    """Of one model on one data set.

    Args:
        program, prepared: the model and its data.
        steps: the data as the native engine reads them.
    """

    program: Program
    prepared: Any
    steps: Steps

    @cached_property
    def forms(self) -> ClosedForms:
        if self.closed is None:
            return DerivedForms.of(
                self.program,
                self.prepared.rows,
                self.steps.places,
                self.steps.rows.counts,
                self.of_states[0],
            )
        stretch = stretch_of(self.program.space)
        if (stretch == 1.0).all():
            return self.closed
        return StretchedForms(self.closed, stretch[self.of_states])

    @cached_property
    def closed(self) -> ClosedForms | None:
        return closed_forms(self.program.model, self.steps)

    @cached_property
    def own(self) -> np.ndarray:
        """(E, P) the same of the hidden states of the engine, which may be stages of states."""
        return np.repeat(self.of_states, self.program.model.stages_alike, 0)

    @cached_property
    def of_states(self) -> np.ndarray:
        """(K, P) the coordinates of each state's emission; all of them, where states share some. Where
        emissions depend on earlier states, too, (E, P)."""
        states, found = self.program.model.n_emitting, []
        for name, _, places in self.program.space.leaves():
            if name in CHAIN:
                continue
            common = self.closed is None or name in self.closed.shared
            found.append(np.tile(places, (states, 1)) if common else places.reshape(states, -1))
        return np.concatenate([np.zeros((states, 0), int), *found], 1)

    @cached_property
    def chain(self) -> Any:
        return closed_chain(self.program.model.chain, self.prepared.links, self.program.space)

    @cached_property
    def tables(self) -> tuple[int, int]:
        """How many kinds of first states, and how many distinct transitions, there are."""
        links = self.prepared.links
        return (1, 1) if links is None else (len(links.firsts), len(links.known))

    @_quiet
    def values(self, thetas: np.ndarray) -> Values:
        """At thetas (F, D)."""
        return Values.at(thetas, self.program.space.values(thetas))

    @_quiet
    def potentials(self, values: Values, weights: np.ndarray) -> Potentials:
        """At values with folds last, and weights (F, P) of sites or of sequences."""
        initial, moves = self.steps.spread(*self.chain.logs(values))
        rows, seen = self.forms.log_density(values, self.steps.rows), self.steps.seen[:, None]
        rows = self._to_stages(rows)
        folds, scheme = len(weights), self.program.scheme
        if isinstance(scheme, Structures):
            every = np.repeat(seen, folds, 1)
            return Potentials(rows, every, initial, moves, np.ascontiguousarray(weights.T))
        ones = np.ones((len(self.steps.starts) - 1, folds))
        of_steps = np.empty((len(seen), folds))
        weights_of_steps(np.ascontiguousarray(weights, float), self.steps.seen, of_steps)
        if isinstance(scheme, Increments):
            every = np.repeat(seen, folds, 1)
            return Potentials(rows, every, initial, moves, ones, increments=of_steps)
        links = self.links(of_steps) if isinstance(scheme, B) else None
        return Potentials(rows, of_steps, initial, moves, ones, links)

    @_quiet
    def point(self, theta: np.ndarray, weights: np.ndarray) -> Point:
        """At theta (D,) and weights (P,)."""
        values = self.values(theta[None])
        given, alone = self.potentials(values, weights[None]), values.alone()
        scores = self._to_stages(self.forms.scores(alone, self.steps.rows))[self.steps.index]
        return Point(alone, given, conditionals(self.steps, given, 0), scores, self.steps.starts)

    def _to_stages(self, of_states: np.ndarray) -> np.ndarray:
        """(R, E, ...) from what is of states (R, K, ...)."""
        stages = self.program.model.stages_alike
        return of_states if stages == 1 else np.repeat(of_states, stages, 1)

    @property
    def own_links(self) -> bool:
        """Whether transitions have weights of their own."""
        return isinstance(self.program.scheme, B) and self.program.scheme.per_transition

    def transitions(self, known: Conditionals) -> np.ndarray:
        """(T, K, K) probabilities of the transitions into steps, zero at first ones."""
        found = np.zeros(known.onward.shape)
        found[1:] = known.nodes[:-1, :, None] * known.onward[1:]
        return found

    def links(self, weights: np.ndarray) -> np.ndarray:
        """(T, F) for weights (T, F) of sites: the product at both ends of the transition into a step.
        States of steps that were never observed have weight one."""
        latent = np.where(self.steps.seen[:, None] > 0, weights, 1.0)
        found = latent.copy()
        found[1:] *= latent[:-1]
        begins = self.steps.starts[:-1]
        found[begins] = latent[begins]
        return found

    def log_prior(self, values: Values) -> np.ndarray:
        """(F,)."""
        return self.forms.log_prior(values, self.steps.rows) + self.chain.log_prior(values)

    def pulled_back(self, values: Values, found: Posterior) -> np.ndarray:
        """(F, D) slopes of the log posterior, from expected counts."""
        rows = self.steps.rows
        slopes = np.zeros((self.program.space.size, found.shares.shape[-1]))
        shares = self.program.model.by_emission(found.shares, 1)
        own = self.forms.slopes(values, shares, rows) + self.forms.prior_slopes(values, rows)
        np.add.at(slopes, self.of_states, own)
        counts = self.steps.gathered(found.firsts, found.pairs, self.tables)
        slopes += self.chain.slopes(values, *counts, prior=True)
        return slopes.T

    @property
    def bytes_per_direction(self) -> int:
        """Of derivatives of nodes and, where transitions differ from step to step, of these."""
        states, varies = self.program.model.n_hidden, self.steps.moves is not None
        return 32 * len(self.steps.index) * states * (states + 1 if varies else 1)

    @property
    def bytes_of_directions(self) -> int:
        """Of as many directions of H as are followed together."""
        return int(
            np.clip(
                _DIRECTION_BYTES,
                self.bytes_per_direction,
                self.bytes_per_direction * max(self.program.space.size, 1),
            )
        )

    def directions(
        self, point: Point, directions: np.ndarray | None = None
    ) -> Iterator[tuple[slice, Any]]:
        """Some directions (m, D) at a time, or some coordinates: their place, and derivatives of the
        log-potentials, in arrays of this thread that are valid until the next ones."""
        count = self.program.space.size if directions is None else len(directions)
        width = self.bytes_per_direction
        room = memory.room(_DIRECTION_BYTES, width, "one direction of H")
        most = max(int(room // width), 1)
        for start in range(0, count, most):
            some = slice(start, min(start + most, count))
            if directions is None:
                emission = self._emission_slopes(point, some)
                along = np.eye(some.stop - start, count, start)
            else:
                along = directions[some]
                emission = SCRATCH.take("emission", (*point.known.nodes.shape, len(along)))
                by_state, own = point.scores.transpose(1, 0, 2), along.T[self.own]
                np.matmul(by_state, own, out=emission.transpose(1, 0, 2))
                emission *= point.given.weights[:, :1, None]
            first, move = self.steps.spread(*self.chain.along(point.values, along))
            yield some, (emission, np.ascontiguousarray(first), np.ascontiguousarray(move))

    def _emission_slopes(self, point: Point, some: slice) -> np.ndarray:
        """(T, K, m) derivatives of weighted log densities by some of the coordinates."""
        found = SCRATCH.zeros("emission", (*point.known.nodes.shape, some.stop - some.start))
        for state, places in enumerate(self.own):
            here = (places >= some.start) & (places < some.stop)
            slopes = point.scores[:, state, here] * point.given.weights[:, :1]
            found[:, state, places[here] - some.start] = slopes
        return found

    @_quiet
    def moved_back(
        self, point: Point, shares: np.ndarray, firsts: np.ndarray, pairs: np.ndarray
    ) -> np.ndarray:
        """(m, D): derivatives of counts, pulled back through the potentials."""
        found = np.zeros((shares.shape[-1], self.program.space.size))
        own = np.matmul(point.scores.transpose(1, 2, 0), shares.transpose(1, 0, 2))
        np.add.at(found.T, self.own, own)
        counts = self.steps.gathered(firsts, pairs, self.tables)
        return found + self.chain.slopes(point.values, *counts).T

    @_quiet
    def complete(self, point: Point, counted: np.ndarray, *, roughly: bool = False) -> np.ndarray:
        """(D, D) second derivatives of the log posterior, if counts of states (T, K) were given; or an
        approximation, that of `ClosedForms.metric`."""
        found = np.zeros((self.program.space.size, self.program.space.size))
        rows = self.steps.rows
        of_states = self.program.model.by_emission(counted)
        of_rows = [np.bincount(self.steps.index, column, len(rows.x)) for column in of_states.T]
        shares = np.stack(of_rows, 1)
        second = self.forms.metric if roughly else self.forms.curvature
        own = second(point.values, shares, rows)
        own = own + self.forms.prior_curvature(point.values, rows)
        for places, block in zip(self.of_states, own, strict=True):
            found[np.ix_(places, places)] += block
        firsts, moves = self._expected_moves(point)
        return found + self.chain.curvature(point.values, firsts, moves)

    def _expected_moves(self, point: Point) -> tuple[np.ndarray, np.ndarray]:
        """Expected first states (S, K) and transitions (M, K, K), times weights."""
        known, scale = point.known, point.given.coefficients[:, 0]
        begins, links = self.steps.starts[:-1], point.given.links_of(0)
        firsts = (scale * links[begins])[:, None] * known.nodes[begins]
        into = scale[self.steps.sequence] * links
        if self.steps.moves is None:
            moves = np.einsum("ti,tij->ij", into[1:, None] * known.nodes[:-1], known.onward[1:])[None]
        else:
            moves = into[:, None, None] * self.transitions(known)
        return self.steps.gathered(firsts, moves, self.tables)
