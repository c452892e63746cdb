"""What folds predict for the tokens that they leave out, at their own parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fitonce.data.labelled import UNKNOWN
from fitonce.objectives.label_records import HeldoutTags
from fitonce.objectives.labels.layout import LabelLayout
from fitonce.objectives.labels.predictions import impossible

ThetaOf = Callable[[int], np.ndarray]


def of_sequences(layout: LabelLayout, theta_of: ThetaOf, scored: Sequence[np.ndarray]) -> HeldoutTags:
    """All tokens of the sequences `scored` by each fold: the jointly most probable tags."""
    parts = []
    for fold, sequences in enumerate(scored):
        theta = theta_of(fold)
        paths = layout.chains.best_paths(theta, sequences)
        for number, path in zip(sequences, paths, strict=True):
            if path is None:
                raise impossible(layout.data, int(number))
        nothing = np.full((len(sequences), layout.chains.longest), UNKNOWN, np.int32)
        logs = _log_marginals(layout, theta, sequences, nothing)
        lengths = layout.data.lengths[sequences]
        starts = layout.data.offsets[sequences]
        sites = np.concatenate([np.arange(a, a + n) for a, n in zip(starts, lengths, strict=True)])
        shares = np.concatenate([row[:length] for row, length in zip(logs, lengths, strict=True)])
        parts.append(_rows(layout, fold, sites, np.concatenate(paths), shares))  # type: ignore[arg-type]
    return HeldoutTags(*map(np.concatenate, zip(*parts, strict=True)))


def of_labels(
    layout: LabelLayout,
    theta_of: ThetaOf,
    dropped: Sequence[np.ndarray],
    scored: Sequence[np.ndarray],
) -> HeldoutTags:
    """The sites `scored` by each fold: the most probable tag of each given the labels that it keeps."""
    parts = []
    for fold, (out, sites) in enumerate(zip(dropped, scored, strict=True)):
        sequences, row = np.unique(layout.sequence[sites], return_inverse=True)
        kept = layout.labels[sequences]
        gone = out[np.isin(layout.sequence[out], sequences)]
        kept[np.searchsorted(sequences, layout.sequence[gone]), layout.time[gone]] = UNKNOWN
        logs = _log_marginals(layout, theta_of(fold), sequences, kept)
        shares = np.stack([logs[r][t] for r, t in zip(row, layout.time[sites], strict=True)])
        parts.append(_rows(layout, fold, sites, shares.argmax(1), shares))
    return HeldoutTags(*map(np.concatenate, zip(*parts, strict=True)))


def _log_marginals(
    layout: LabelLayout, theta: np.ndarray, sequences: np.ndarray, labels: np.ndarray
) -> list[np.ndarray]:
    """(T, K) for each sequence, where T may count padding."""
    thetas = np.broadcast_to(theta, (len(sequences), len(theta)))
    found: list[np.ndarray] = [np.zeros((0, 0))] * len(sequences)
    for some, logs in layout.chains.log_marginals(thetas, sequences, labels):
        for place, row in zip(some, logs, strict=True):
            found[place] = row
    return found


def _rows(
    layout: LabelLayout, fold: int, sites: np.ndarray, tags: np.ndarray, logs: np.ndarray
) -> HeldoutTags:
    row, labels = np.arange(len(sites)), layout.data.labels[sites]
    losses = np.where(labels == UNKNOWN, np.nan, -logs[row, labels])
    return HeldoutTags(np.full(len(sites), fold), sites, tags, np.exp(logs[row, tags]), losses)
