"""Chains as the native loops read them: the steps of all sequences, and their potentials."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy import sparse

from fitonce.data.sequences import Sequences
from fitonce.models.emissions.closed_forms import Observations
from fitonce.models.hmm import Prepared


@dataclass(frozen=True, eq=False)
class Steps:
    """All steps of all sequences in one axis.

    Attributes:
        rows: distinct observations, or one for each step.
        index: (T,) the row of each step.
        starts: (N + 1,) first steps of the sequences.
        seen: (T,) ones at steps where something was observed, zeros elsewhere.
        places: (R,) where the rows are among those of the prepared data, which has padding and, of equal
            rows, may have several.
        moves: (T,) the distinct transition into each step, arbitrary at first ones; None: all are alike.
        kind: (N,) the kind of each sequence's beginning, see `Links`; None: all are alike.
    """

    rows: Observations
    index: np.ndarray
    starts: np.ndarray
    seen: np.ndarray
    places: np.ndarray
    moves: np.ndarray | None = None
    kind: np.ndarray | None = None

    @classmethod
    def of(cls, data: Sequences, prepared: Prepared, distinct: bool = False) -> Steps:
        """`distinct`: whether the emission takes equal rows as one that counts several times."""
        slots = np.flatnonzero(data.valid.ravel())
        arrays = prepared.rows
        if prepared.index is None:
            chosen, index = _distinct(arrays, slots) if distinct else (slots, np.arange(len(slots)))
        else:
            chosen = np.arange(len(arrays.x))
            index = np.asarray(prepared.index).ravel()[slots].astype(np.int64)
        x = np.ascontiguousarray(np.asarray(arrays.x, float)[chosen])
        constant = np.zeros(len(x)) if arrays.constant is None else np.asarray(arrays.constant)[chosen]
        mask = arrays.mask()[chosen].astype(float)
        counts = np.asarray(arrays.counts, float)[chosen]
        if len(chosen) < len(slots) and prepared.index is None:
            counts = np.bincount(index, np.asarray(arrays.counts, float)[slots])
        rows = Observations(x, mask, counts, constant, np.asarray(arrays.covariates, float)[chosen])
        starts = np.concatenate([[0], np.cumsum(data.lengths)]).astype(np.int64)
        seen = data.observed.any(-1).ravel()[slots].astype(float)
        moves = kind = None
        if prepared.links is not None:
            before = np.asarray(prepared.links.index)
            moves = np.pad(before, ((0, 0), (1, 0))).ravel()[slots]
            kind = np.asarray(prepared.links.kind, int)
            kind = kind if kind.any() else None
        return cls(rows, index, starts, seen, chosen, moves, kind)

    @property
    def sequence(self) -> np.ndarray:
        """(T,) the sequence of each step."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @property
    def is_first(self) -> np.ndarray:
        """(T,) whether a step is the first of its sequence."""
        found = np.zeros(len(self.index), bool)
        found[self.starts[:-1]] = True
        return found

    @property
    def n_links(self) -> int:
        """The number of transitions in a grid of sequences (N, T - 1), padding included."""
        lengths = np.diff(self.starts)
        return int(len(lengths) * (lengths.max() - 1))

    @property
    def links(self) -> np.ndarray:
        """(T,) where the transition into each step is in that grid; arbitrary for first steps."""
        lengths = np.diff(self.starts)
        within = np.arange(len(self.index)) - np.repeat(self.starts[:-1], lengths)
        return self.sequence * (lengths.max() - 1) + within - 1

    def some(self, sequences: np.ndarray) -> tuple[Steps, np.ndarray]:
        """Some of the sequences (n,), with all rows, and which steps they are."""
        taken = np.concatenate([np.arange(*self.starts[n : n + 2]) for n in sequences])
        starts = np.concatenate([[0], np.cumsum(np.diff(self.starts)[sequences])])
        moves = None if self.moves is None else self.moves[taken]
        kind = None if self.kind is None else self.kind[sequences]
        parts = (self.rows, self.index[taken], starts, self.seen[taken], self.places, moves, kind)
        return Steps(*parts), taken

    def spread(self, firsts: np.ndarray, moves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What belongs to first states (S, ...) and to distinct transitions (M, ...), by sequence and
        step; of length one where it is the same for all."""
        firsts = firsts[:1] if self.kind is None else firsts[self.kind]
        return firsts, moves if self.moves is None or len(moves) == 1 else moves[self.moves]

    def gathered(
        self, firsts: np.ndarray, moves: np.ndarray, tables: tuple[int, int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The sums of what belongs to sequences and steps (or is summed already), as many as `tables`:
        of kinds of first states and of distinct transitions."""
        found = np.zeros((tables[0], *firsts.shape[1:]))
        if self.kind is None:
            found[0] = firsts.sum(0)
        else:
            np.add.at(found, self.kind, firsts)
        if self.moves is None or len(moves) == 1:
            return found, moves.sum(0, keepdims=True)
        inside = ~self.is_first
        size = (tables[1], inside.sum())
        ones = sparse.csr_array((np.ones(size[1]), (self.moves[inside], np.arange(size[1]))), size)
        summed = ones @ moves[inside].reshape(size[1], math.prod(moves.shape[1:]))
        return found, summed.reshape(tables[1], *moves.shape[1:])

    def differences(self, values: np.ndarray) -> np.ndarray:
        """(T, F) each step's value minus that of the next; after the last of a sequence, zero."""
        found = np.array(values)
        found[:-1] -= values[1:]
        ends = self.starts[1:] - 1
        found[ends] = values[ends]
        return found

    def totals(self, values: np.ndarray) -> np.ndarray:
        """Sums over the steps of each sequence, (T, ...) to (N, ...)."""
        return np.add.reduceat(values, self.starts[:-1], 0)


def _distinct(rows: Any, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of steps at `slots`: the first of each distinct row, and the distinct row of each step. Counts
    repeat themselves, and densities are the longest part of a pass where there is one for each step."""
    x, known = np.asarray(rows.x, float)[slots], np.asarray(rows.covariates, float)[slots]
    if not (x == np.floor(x)).all():
        return slots, np.arange(len(slots))
    counted = np.asarray(rows.counts, float)[slots, None] > 0
    keys = np.concatenate([x, rows.mask()[slots], known, counted], 1)
    _, first, index = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return slots[first], index.ravel().astype(np.int64)


@dataclass(frozen=True, eq=False)
class Potentials:
    """Logarithms of the potentials of a group of folds, which are the last axis.

    Attributes:
        rows: (R, K, F) log densities.
        weights: (T, F) of emissions, zero where nothing was observed.
        initial: (1 or N, K, F).
        moves: (1 or T, K, K, F).
        coefficients: (N, F) weights of sequences.
        links: (T, F) weights of transitions into the steps, of the initial distribution at first ones;
            None: ones.
        increments: (T, F) weights of log p(x_t | x_<t); None: those of the sequences. Coefficients are
            then ones.
    """

    rows: np.ndarray
    weights: np.ndarray
    initial: np.ndarray
    moves: np.ndarray
    coefficients: np.ndarray
    links: np.ndarray | None = None
    increments: np.ndarray | None = None

    def alone(self, fold: int) -> Potentials:
        """Those of one fold."""
        parts = {part.name: getattr(self, part.name) for part in fields(self)}
        alone = {name: array[..., fold, None] for name, array in parts.items() if array is not None}
        return Potentials(**alone)

    def some(self, sequences: np.ndarray, steps: np.ndarray) -> Potentials:
        """Those of some of the sequences (n,), whose steps are (t,); without links and increments."""
        initial = self.initial if len(self.initial) == 1 else self.initial[sequences]
        moves = self.moves if len(self.moves) == 1 else self.moves[steps]
        return Potentials(self.rows, self.weights[steps], initial, moves, self.coefficients[sequences])

    def links_of(self, fold: int) -> np.ndarray:
        """(T,)."""
        count = len(self.weights)
        return np.ones(count) if self.links is None else np.ascontiguousarray(self.links[:, fold])
