"""Losses of labels and of sequences that folds leave out, at the folds' own parameters."""

from __future__ import annotations

import numpy as np

from fitonce.data.labelled import UNKNOWN
from fitonce.objectives.base import ValuesAndSlopes
from fitonce.objectives.labels.changes import evaluate, weights_in_grid
from fitonce.objectives.labels.layout import LabelLayout


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
    for some, logs in layout.chains.log_marginals(thetas[pairs[0]], pairs[1], labels):
        for place, pair in enumerate(some):
            here = order[starts[pair] : starts[pair + 1]]
            sites = index[here]
            losses[here] = -logs[place, layout.time[sites], layout.data.labels[sites]]
    return losses.reshape(scored.shape)


def of_sequences(layout: LabelLayout, thetas: np.ndarray, sequences: np.ndarray) -> ValuesAndSlopes:
    """log Z - log N (n,) of sequences (n,) at thetas (n, D), and slopes (n, D)."""
    rows, known = (layout, thetas, sequences), layout.labels[sequences]
    partition, expected = evaluate(*rows, np.full_like(known, UNKNOWN))
    numerator, observed = evaluate(*rows, known)
    return partition - numerator, expected - observed
