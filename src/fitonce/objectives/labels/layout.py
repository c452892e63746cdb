"""Labelled data as an objective reads it: features in buckets, labels in a grid, counts of labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from fitonce.core.numerics import in_float64
from fitonce.data.labelled import UNKNOWN, Labelled
from fitonce.objectives.base import Program, ValuesAndSlopes
from fitonce.objectives.labels.buckets import Buckets, in_buckets
from fitonce.objectives.labels.design import Design, design_of
from fitonce.objectives.labels.native import NativeChains

WIDE = 2**24  # bytes


@dataclass(frozen=True, eq=False)
class LabelLayout:
    """Labelled data as a model of labels reads it.

    Attributes:
        data: as given.
        chains: sums over the labels of its sequences, by native loops or by programs of JAX.
        design: (sites, Q) what multiplies the model's weights.
        scores: (sites, K) given scores, or None.
    """

    data: Labelled
    chains: NativeChains | Buckets
    design: Design
    scores: np.ndarray | None

    def is_wide(self, rows: int) -> bool:
        """Whether slopes or parameters of so many rows are better not made, but summed at once."""
        places = self.design.width * len(self.data.tags) if self.design.is_sparse else 0
        return 8 * rows * max(self.chains.program.space.size, places) > WIDE

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
        grid = np.full((self.data.n_sequences, self.chains.longest), UNKNOWN, np.int32)
        grid[self.sequence, self.time] = self.data.labels
        return grid

    @cached_property
    def is_complete(self) -> np.ndarray:
        """(N,) whether all labels of a sequence are known."""
        return np.minimum.reduceat(self.data.labels, self.data.offsets) != UNKNOWN

    @cached_property
    def _complete_labels(self) -> np.ndarray:
        """(sites,) of complete sequences, -1 in others."""
        return np.where(np.repeat(self.is_complete, self.data.lengths), self.data.labels, UNKNOWN)

    @cached_property
    def _complete_scores(self) -> tuple[float, np.ndarray]:
        return self.score_of_labels(self.is_complete.astype(float))

    def complete_losses(self, thetas: np.ndarray) -> ValuesAndSlopes:
        """Sums over sequences of log Z, less the score of the labels of complete ones, (F,), at thetas
        (F, D), and slopes (F, D)."""
        counts = self.data.sequence_weights
        if isinstance(self.chains, NativeChains):
            return self.chains.totals(thetas, counts, self._complete_labels)
        values, slopes = self.chains.totals(thetas, counts)
        constant, observed = self._complete_scores
        return values - thetas @ observed - constant, slopes - observed

    def score_of_labels(self, coefficients: np.ndarray) -> tuple[float, np.ndarray]:
        """The score of the labels of sequences, times coefficients (N,): a constant, and slopes (D,) by
        theta. Sequences are complete where coefficients are not zero."""
        tag, states = self.data.labels, len(self.data.tags)
        scale = np.repeat(coefficients, self.data.lengths)
        later = np.flatnonzero((scale != 0) & (self.time > 0))
        moves = np.zeros((states, states))
        np.add.at(moves, (tag[later - 1], tag[later]), scale[later])
        by_feature = self.design.label_counts(tag, scale, states)
        constant, sites = 0.0, np.flatnonzero(scale)
        if self.scores is not None:
            constant = float(scale[sites] @ self.scores[sites, tag[sites]])
        return constant, self.slopes(by_feature[None], moves[None])[0]

    def scores_of(self, sequences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same of single complete sequences (R,): constants (R,) and slopes (R, D)."""
        lengths = self.data.lengths[sequences]
        row = np.repeat(np.arange(len(sequences)), lengths)
        time = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        sites = self.data.offsets[sequences][row] + time
        tag, states = self.data.labels[sites], len(self.data.tags)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        by_feature = self.design.some(sites).sums_by_chain(starts, np.eye(states)[tag])
        moves = np.zeros((len(sequences), states, states))
        later = time > 0
        np.add.at(moves, (row[later], tag[np.flatnonzero(later) - 1], tag[later]), 1.0)
        given = np.zeros(len(sites)) if self.scores is None else self.scores[sites, tag]
        return np.bincount(row, given, len(sequences)), self.slopes(by_feature, moves)

    def slopes(self, by_feature: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """Counts of features by tag (n, Q, K) and of transitions (n, K, K) as slopes (n, D)."""
        flat = [counts.reshape(len(counts), prod(counts.shape[1:])) for counts in (by_feature, moves)]
        return np.concatenate(flat, 1)[:, self.chains.order]


@in_float64
def label_layout(program: Program, data: Labelled, native: bool) -> LabelLayout:
    """`data` as the program's model reads it."""
    design, scores = design_of(program.model, data)
    if native:
        return LabelLayout(data, NativeChains(program, design, scores, data.lengths), design, scores)
    return LabelLayout(data, in_buckets(program, design.dense(), scores, data.lengths), design, scores)
