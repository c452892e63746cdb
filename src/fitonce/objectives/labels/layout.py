"""Labelled data as an objective reads it: features in buckets, labels in a grid, counts of labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from fitonce.core.numerics import in_float64
from fitonce.data.labelled import UNKNOWN, Labelled
from fitonce.objectives.base import Program
from fitonce.objectives.labels.buckets import Buckets, in_buckets


@dataclass(frozen=True, eq=False)
class LabelLayout:
    """Labelled data as a model of labels reads it.

    Attributes:
        data: as given.
        buckets: its features in buckets, with the program that reads them.
        design: (sites, Q) what multiplies the model's weights.
        scores: (sites, K) given scores, or None.
    """

    data: Labelled
    buckets: Buckets
    design: np.ndarray
    scores: np.ndarray | None

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
        grid = np.full((self.data.n_sequences, self.buckets.longest), UNKNOWN, np.int32)
        grid[self.sequence, self.time] = self.data.labels
        return grid

    @cached_property
    def is_complete(self) -> np.ndarray:
        """(N,) whether all labels of a sequence are known."""
        return np.minimum.reduceat(self.data.labels, self.data.offsets) != UNKNOWN

    @cached_property
    def complete_scores(self) -> tuple[float, np.ndarray]:
        """The score of the labels of all complete sequences: a constant, and slopes (D,) by theta."""
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
        given = np.zeros(len(sites)) if self.scores is None else self.scores[sites, tag]
        return np.bincount(row, given, len(sequences)), self.slopes(by_feature, moves)

    def slopes(self, by_feature: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """Counts of features by tag (n, Q, K) and of transitions (n, K, K) as slopes (n, D)."""
        flat = [counts.reshape(len(counts), prod(counts.shape[1:])) for counts in (by_feature, moves)]
        return np.concatenate(flat, 1)[:, self.buckets.order]


@in_float64
def label_layout(program: Program, data: Labelled) -> LabelLayout:
    """`data` as the program's model reads it."""
    design, scores = program.model.design(data.features, data.lengths)
    return LabelLayout(data, in_buckets(program, design, scores, data.lengths), design, scores)
