"""Labelled data laid out for an objective: features in buckets, labels in a grid, counts of labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fitonce import rows
from fitonce.labelled import UNKNOWN, Labelled
from fitonce.numerics import in_float64
from fitonce.objective import Program
from fitonce.shelves import Shelves, shelved


@dataclass(frozen=True, eq=False)
class Corpus:
    """Labelled data as a model of labels reads it.

    Attributes:
        data: what was given.
        shelves: its features in buckets.
        design: (sites, Q) what multiplies the model's weights.
        scores: (sites, K) that are given, or None.
        order: (D,) each parameter's place among weights (Q, K) and transitions (K, K).
    """

    data: Labelled
    shelves: Shelves
    design: np.ndarray
    scores: np.ndarray | None
    order: np.ndarray

    @cached_property
    def sequence(self) -> np.ndarray:
        """(sites,) the sequence of each site."""
        return np.repeat(np.arange(self.data.n_sequences), self.data.lengths)

    @cached_property
    def time(self) -> np.ndarray:
        """(sites,) the place of each site in its sequence."""
        return np.arange(self.data.n_sites) - self.data.offsets[self.sequence]

    @cached_property
    def labels(self) -> np.ndarray:
        """(N, longest), -1 where unknown and at padding."""
        grid = np.full((self.data.n_sequences, self.shelves.longest), UNKNOWN, np.int32)
        grid[self.sequence, self.time] = self.data.labels
        return grid

    @cached_property
    def is_complete(self) -> np.ndarray:
        """(N,) whether all labels of a sequence are known."""
        return np.minimum.reduceat(self.data.labels, self.data.offsets) != UNKNOWN

    @cached_property
    def complete_scores(self) -> tuple[float, np.ndarray]:
        """The score of all complete sequences' labels is a constant plus slopes (D,) times theta."""
        constants, slopes = self.scores_of(np.flatnonzero(self.is_complete))
        return float(constants.sum()), slopes.sum(0)

    def scores_of(self, sequences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same of single complete sequences (R,): constants (R,) and slopes (R, D)."""
        lengths = self.data.lengths[sequences]
        row = np.repeat(np.arange(len(sequences)), lengths)
        time = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        sites = self.data.offsets[sequences][row] + time
        tag, states = self.data.labels[sites], len(self.data.tags)
        width = self.design.shape[1]
        by_feature = np.zeros((len(sequences), width, states))
        np.add.at(by_feature, (row[:, None], np.arange(width), tag[:, None]), self.design[sites])
        moves = np.zeros((len(sequences), states, states))
        later = time > 0
        np.add.at(moves, (row[later], tag[np.flatnonzero(later) - 1], tag[later]), 1.0)
        shapes = ((len(sequences), width * states), (len(sequences), states * states))
        parts = [a.reshape(s) for a, s in zip((by_feature, moves), shapes, strict=True)]
        flat = np.concatenate(parts, 1)
        given = np.zeros(len(sites)) if self.scores is None else self.scores[sites, tag]
        return np.bincount(row, given, len(sequences)), flat[:, self.order]


@in_float64
def corpus_of(program: Program, data: Labelled) -> Corpus:
    """`data` as the program's model reads it."""
    design, scores = program.model.design(data.features, data.lengths)
    shelves = shelved(design, scores, data.lengths)
    return Corpus(data, shelves, design, scores, np.asarray(rows.order(program)))
