"""What folds change in an objective of labels: a few sequences, with fewer of their labels known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fitonce.data.labelled import UNKNOWN
from fitonce.objectives.base import ValuesAndSlopes
from fitonce.objectives.labels.layout import LabelLayout
from fitonce.objectives.labels.native import NativeChains


class Changes(NamedTuple):
    """Terms of some folds' objectives: coefficient times log N of a sequence with some labels known.

    Attributes:
        fold, coefficient, sequence: (R,).
        labels: (R, longest), -1 where not known; with none known, log N is log Z.
        weights: (R, longest) the probability that each is kept; None: all known ones are.
    """

    fold: np.ndarray
    coefficient: np.ndarray
    sequence: np.ndarray
    labels: np.ndarray
    weights: np.ndarray | None = None

    def some(self, chosen: np.ndarray) -> Changes:
        """The terms where `chosen` (R,) is true."""
        found = Changes(*(array[chosen] for array in self[:4]))
        return found if self.weights is None else found._replace(weights=self.weights[chosen])

    def of(self, fold: int) -> Changes:
        """The terms of one fold."""
        return self.some(self.fold == fold)


def joined(first: Changes, second: Changes) -> Changes:
    """All terms of both; the second has no weights."""
    found = Changes(*(np.concatenate(pair) for pair in zip(first[:4], second[:4], strict=True)))
    if first.weights is None:
        return found
    certain = (second.labels != UNKNOWN).astype(float)
    return found._replace(weights=np.concatenate([first.weights, certain]))


def of_sequences(layout: LabelLayout, base: np.ndarray, weights: np.ndarray) -> Changes:
    """Where the weight of a sequence (F, N) differs from its base (N,): log Z - log N, times the
    difference."""
    fold, sequence = np.nonzero(weights != base)
    change = (weights - base)[fold, sequence]
    known = layout.labels[sequence]
    return Changes(
        np.tile(fold, 2),
        np.concatenate([change, -change]),
        np.tile(sequence, 2),
        np.concatenate([np.full_like(known, UNKNOWN), known]),
    )


def of_labels(layout: LabelLayout, base: np.ndarray, weights: np.ndarray) -> Changes:
    """Where the weight of a label (F, sites) differs from its base (sites,): log N at the base weights,
    less log N at the new ones."""
    if not ((weights >= 0) & (weights <= 1)).all():
        raise ValueError(
            f"weights of labels must be between 0 and 1, got {weights.min():g} to {weights.max():g}"
        )
    fold, site = np.nonzero(weights != base)
    fold, sequence = np.unique(np.stack([fold, layout.sequence[site]]), axis=1)
    known = layout.labels[sequence]
    kept = np.where(known != UNKNOWN, weights_in_grid(layout, weights, fold, sequence), 0.0)
    partly = bool(((kept > 0) & (kept < 1)).any())
    return Changes(
        np.tile(fold, 2),
        np.repeat([1.0, -1.0], len(fold)),
        np.tile(sequence, 2),
        np.concatenate([known, known if partly else np.where(kept > 0, known, UNKNOWN)]),
        np.concatenate([(known != UNKNOWN).astype(float), kept]) if partly else None,
    )


def weights_in_grid(
    layout: LabelLayout, weights: np.ndarray, fold: np.ndarray, sequence: np.ndarray
) -> np.ndarray:
    """(R, longest) the weights (F, sites) of sequences (R,) in folds (R,), zero at padding."""
    steps = np.arange(layout.chains.longest)[None]
    sites = np.minimum(layout.data.offsets[sequence][:, None] + steps, layout.data.n_sites - 1)
    inside = steps < layout.data.lengths[sequence][:, None]
    return np.where(inside, weights[fold[:, None], sites], 0.0)


def is_linear(
    layout: LabelLayout, sequence: np.ndarray, labels: np.ndarray, weights: np.ndarray | None
) -> np.ndarray:
    """(R,) whether all labels of a sequence are kept, so that log N is their score, linear in theta."""
    if weights is not None:
        return np.zeros(len(sequence), bool)
    return (labels != UNKNOWN).sum(1) == layout.data.lengths[sequence]


def evaluate(
    layout: LabelLayout,
    thetas: np.ndarray,
    sequence: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None = None,
) -> ValuesAndSlopes:
    """log N of terms (R,) at thetas (R, D), and slopes (R, D); other arguments as in `Changes`."""
    values, slopes = np.empty(len(sequence)), np.empty(thetas.shape)
    linear = is_linear(layout, sequence, labels, weights)
    if linear.any():
        constants, slopes[linear] = layout.scores_of(sequence[linear])
        values[linear] = constants + np.einsum("rd,rd->r", slopes[linear], thetas[linear])
    if not linear.all():
        kept = None if weights is None else weights[~linear]
        rows = (thetas[~linear], sequence[~linear], labels[~linear], kept)
        values[~linear], slopes[~linear] = layout.chains.log_partitions(*rows)
    return values, slopes


def summed(layout: LabelLayout, thetas: np.ndarray, terms: Changes) -> ValuesAndSlopes:
    """Sums over the terms of each fold of coefficient times log N, (F,), at thetas (F, D), and their
    slopes (F, D). Slopes of single terms are only made where they are few and small."""
    values, slopes = np.zeros(len(thetas)), np.zeros(thetas.shape)
    chains = layout.chains
    if layout.is_wide(len(terms.fold)) and terms.weights is None and isinstance(chains, NativeChains):
        for fold in np.unique(terms.fold):
            values[fold], slopes[fold] = _sum_of_fold(layout, thetas[fold], terms.of(fold))
        return values, slopes
    more, steeper = evaluate(layout, thetas[terms.fold], *terms[2:])
    np.add.at(values, terms.fold, terms.coefficient * more)
    np.add.at(slopes, terms.fold, terms.coefficient[:, None] * steeper)
    return values, slopes


def _sum_of_fold(layout: LabelLayout, theta: np.ndarray, terms: Changes) -> tuple[float, np.ndarray]:
    """The same of one fold, theta (D,), without slopes of single terms."""
    linear = is_linear(layout, *terms[2:])
    plain = terms.some(linear)
    coefficients = np.bincount(plain.sequence, plain.coefficient, layout.data.n_sequences)
    constant, slopes = layout.score_of_labels(coefficients)
    value = constant + float(slopes @ theta)
    if not linear.all():
        curved = terms.some(~linear)
        more, steeper = layout.chains.total(theta, *curved[1:4])  # type: ignore[union-attr]
        value, slopes = value + more, slopes + steeper
    return value, slopes
