"""What folds change in an objective of labels: a few sequences, with fewer of their labels known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fitonce.data.labelled import UNKNOWN
from fitonce.objectives.base import Program
from fitonce.objectives.labels.layout import Corpus


class Changes(NamedTuple):
    """Terms of some folds' objectives: coefficient times log N of a sequence with some labels known.

    Attributes:
        fold, sequence, coefficient: (R,).
        labels: (R, longest), -1 where not known; with none known, log N is log Z.
        weights: (R, longest) with what probability each is kept; None: all known ones are.
    """

    fold: np.ndarray
    sequence: np.ndarray
    coefficient: np.ndarray
    labels: np.ndarray
    weights: np.ndarray | None = None

    def some(self, chosen: np.ndarray) -> Changes:
        """The rows where `chosen` (R,) is true."""
        found = Changes(*(array[chosen] for array in self[:4]))
        return found if self.weights is None else found._replace(weights=self.weights[chosen])


def changes_of(sequence: np.ndarray, labels: np.ndarray, fold: np.ndarray | None = None) -> Changes:
    """Rows with coefficients of one, all of fold 0 unless said."""
    fold = np.zeros(len(sequence), int) if fold is None else fold
    return Changes(fold, sequence, np.ones(len(sequence)), labels)


def joined(first: Changes, second: Changes) -> Changes:
    """All of both; the second has no weights."""
    found = Changes(*(np.concatenate(pair) for pair in zip(first[:4], second[:4], strict=True)))
    if first.weights is None:
        return found
    surely = (second.labels != UNKNOWN).astype(float)
    return found._replace(weights=np.concatenate([first.weights, surely]))


def of_sequences(corpus: Corpus, base: np.ndarray, weights: np.ndarray) -> Changes:
    """Where a sequence's weight (F, N) is not its base (N,): its log Z - log N, by the difference."""
    fold, sequence = np.nonzero(weights != base)
    change = (weights - base)[fold, sequence]
    known = corpus.labels[sequence]
    return Changes(
        np.tile(fold, 2),
        np.tile(sequence, 2),
        np.concatenate([change, -change]),
        np.concatenate([np.full_like(known, UNKNOWN), known]),
    )


def of_labels(corpus: Corpus, base: np.ndarray, weights: np.ndarray) -> Changes:
    """Where a label's weight (F, sites) is not its base (sites,): log N as it was, less as it is."""
    if not ((weights >= 0) & (weights <= 1)).all():
        raise ValueError(
            f"a label is kept with a weight between 0 and 1, got {weights.min():g} to {weights.max():g}"
        )
    fold, site = np.nonzero(weights != base)
    pairs = np.unique(np.stack([fold, corpus.sequence[site]]), axis=1)
    known = corpus.labels[pairs[1]]
    chances = np.where(known != UNKNOWN, kept(corpus, weights, *pairs), 0.0)
    partly = bool(((chances > 0) & (chances < 1)).any())
    return Changes(
        np.tile(pairs[0], 2),
        np.tile(pairs[1], 2),
        np.repeat([1.0, -1.0], pairs.shape[1]),
        np.concatenate([known, known if partly else np.where(chances > 0, known, UNKNOWN)]),
        np.concatenate([(known != UNKNOWN).astype(float), chances]) if partly else None,
    )


def kept(corpus: Corpus, weights: np.ndarray, fold: np.ndarray, sequence: np.ndarray) -> np.ndarray:
    """(R, longest) the weights (F, sites) of rows, zero at padding."""
    steps = np.arange(corpus.shelves.longest)[None]
    sites = np.minimum(corpus.data.offsets[sequence][:, None] + steps, corpus.data.n_sites - 1)
    inside = steps < corpus.data.lengths[sequence][:, None]
    return np.where(inside, weights[fold[:, None], sites], 0.0)


def is_linear(corpus: Corpus, rows: Changes) -> np.ndarray:
    """(R,) whether all labels of a row are kept, so that log N is its score."""
    if rows.weights is not None:
        return np.zeros(len(rows.fold), bool)
    return (rows.labels != UNKNOWN).sum(1) == corpus.data.lengths[rows.sequence]


def evaluate(
    program: Program, corpus: Corpus, thetas: np.ndarray, rows: Changes
) -> tuple[np.ndarray, np.ndarray]:
    """log N of rows (R,) and slopes (R, D), each at the theta (F, D) of its fold."""
    values, slopes = np.empty(len(rows.fold)), np.empty((len(rows.fold), thetas.shape[1]))
    linear = is_linear(corpus, rows)
    if linear.any():
        constants, counts = corpus.scores_of(rows.sequence[linear])
        values[linear] = constants + np.einsum("rd,rd->r", counts, thetas[rows.fold[linear]])
        slopes[linear] = counts
    if not linear.all():
        others = rows.some(~linear)
        arrays = (thetas[others.fold], others.sequence, others.labels, corpus.order, others.weights)
        values[~linear], slopes[~linear] = corpus.shelves.log_partitions(program, *arrays)
    return values, slopes
