"""Losses of labels and of sequences that folds leave out, at the folds' own parameters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fitonce.data.labelled import UNKNOWN
from fitonce.objectives.base import ValuesAndSlopes
from fitonce.objectives.labels.changes import evaluate, weights_in_grid
from fitonce.objectives.labels.layout import LabelLayout
from fitonce.objectives.labels.native import NativeChains


def of_labels(
    layout: LabelLayout, thetas: np.ndarray, weights: np.ndarray, scored: np.ndarray
) -> np.ndarray:
    """(F, M): -log p(z_t | kept labels, x) of the sites `scored` (F, M), at thetas (F, D) and weights
    (F, sites)."""
    fold, index = np.repeat(np.arange(len(scored)), scored.shape[1]), scored.ravel()
    pairs, row = np.unique(np.stack([fold, layout.sequence[index]]), axis=1, return_inverse=True)
    kept = weights_in_grid(layout, weights, *pairs)
    labels = np.where(kept > 0, layout.labels[pairs[1]], UNKNOWN)
    losses = np.empty(len(index))
    order = np.argsort(row, kind="stable")
    starts = np.searchsorted(row[order], np.arange(pairs.shape[1] + 1))
    for rows, theta in _by_fold(layout, pairs[0], thetas):
        for some, logs in layout.chains.log_marginals(theta, pairs[1][rows], labels[rows]):
            for place, pair in enumerate(rows[some]):
                here = order[starts[pair] : starts[pair + 1]]
                sites = index[here]
                losses[here] = -logs[place, layout.time[sites], layout.data.labels[sites]]
    return losses.reshape(scored.shape)


def _by_fold(
    layout: LabelLayout, fold: np.ndarray, thetas: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows of folds (R,) and their thetas (n, D): of all folds at once or, where parameters are many, of
    one after the other, whose theta is not repeated in memory."""
    if not layout.is_wide(len(fold)):
        yield np.arange(len(fold)), thetas[fold]
        return
    for number in np.unique(fold):
        rows = np.flatnonzero(fold == number)
        yield rows, np.broadcast_to(thetas[number], (len(rows), thetas.shape[1]))


def values_of_sequences(layout: LabelLayout, thetas: np.ndarray, scored: np.ndarray) -> np.ndarray:
    """(F, M): -log p(z_n | x_n) of the sequences `scored` (F, M), at thetas (F, D)."""
    fold, sequences = np.repeat(np.arange(len(scored)), scored.shape[1]), scored.ravel()
    found, chains = np.empty(scored.size), layout.chains
    for rows, theta in _by_fold(layout, fold, thetas):
        if isinstance(chains, NativeChains) and theta.strides[0] == 0:  # no slopes
            known = layout.labels[sequences[rows]]
            at = (theta[0], sequences[rows])
            found[rows] = chains.partitions(*at, np.full_like(known, UNKNOWN))
            found[rows] -= chains.partitions(*at, known)
        else:
            found[rows] = of_sequences(layout, theta, sequences[rows])[0]
    return found.reshape(scored.shape)


def of_sequences(layout: LabelLayout, thetas: np.ndarray, sequences: np.ndarray) -> ValuesAndSlopes:
    """log Z - log N (n,) of sequences (n,) at thetas (n, D), and slopes (n, D)."""
    rows, known = (layout, thetas, sequences), layout.labels[sequences]
    partition, expected = evaluate(*rows, np.full_like(known, UNKNOWN))
    numerator, observed = evaluate(*rows, known)
    return partition - numerator, expected - observed
