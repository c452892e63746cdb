"""Losses of all folds at given parameters, and what is averaged of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fitonce.batches import Batches
from fitonce.folds import Folds
from fitonce.heldout import Loss, heldout_losses

_CARRIED = 0.9  # of a latent state's sites


@dataclass(frozen=True, eq=False)
class Scoring:
    """The folds' losses as matrices with one row per fold and a column for each scored thing.

    Attributes:
        folds: what is scored.
        batches: the same folds as batches of an objective.
        loss: "pointwise", "joint" (one column) or the user's function.
        data: what the user's function is given.
    """

    folds: Folds
    batches: Batches
    loss: Loss
    data: Any

    @cached_property
    def sizes(self) -> np.ndarray:
        """(F,) how many things each fold scores."""
        return np.array([len(indices) for indices in self.folds.scored])

    @cached_property
    def _scored(self) -> tuple[np.ndarray, np.ndarray]:
        """(F, W) indices, padded by the fold's first, and which are not padding."""
        width = int(self.sizes.max())
        counted = np.arange(width)[None] < self.sizes[:, None]
        scored = np.empty((len(self.folds), width), int)
        for row, indices in zip(scored, self.folds.scored, strict=True):
            row[: len(indices)], row[len(indices) :] = indices, indices[0]
        return scored, counted

    @cached_property
    def counted(self) -> np.ndarray:
        """(F, W) which entries of a matrix of losses are not padding."""
        return np.ones((len(self.folds), 1), bool) if self.loss == "joint" else self._scored[1]

    def losses(self, thetas: np.ndarray, which: np.ndarray) -> np.ndarray:
        """(n, W) losses of the folds `which` (n,) at thetas (n, D)."""
        scored, counted = self._scored
        objective = self.batches.objective

        def work(weights: np.ndarray, folds: np.ndarray, t: np.ndarray) -> tuple[np.ndarray]:
            values = heldout_losses(
                objective, self.loss, t, weights, scored[folds], counted[folds], self.data
            )
            return (np.asarray(values, float),)

        touched = max(len(indices) for indices in self.folds.dropped)
        need = objective.bytes_per_loss(touched) / objective.bytes_per_fold
        known = None if callable(self.loss) else (self.loss, scored, counted)
        arrays = (which, thetas)
        return self.batches.map(work, "held-out losses", *arrays, per_fold=need, knows=known)[0]

    def carriers(self, theta: np.ndarray) -> np.ndarray:
        """(F,) whether a fold leaves out nearly all that is in some latent state at `theta`.

        Parameters of that state rest on the fold. Where they fit it well its gradients are small, and
        nothing that is measured by gradients shows that they would be lost.
        """
        objective = self.batches.objective
        if objective.layout is None or self.folds.kind != "sites":
            return np.zeros(len(self.folds), bool)
        shares = objective.posterior(theta) * (objective.base > 0)[:, None]
        total = np.maximum(shares.sum(0), np.finfo(float).tiny)
        gone = np.array([shares[indices].sum(0) for indices in self.folds.dropped])
        return (gone > _CARRIED * total).any(1)

    def means(self, losses: np.ndarray) -> np.ndarray:
        """(F,) the mean loss of each fold; nothing skips a nan."""
        return np.where(self.counted, losses, 0.0).sum(1) / self.sizes

    def standard_error(self, losses: np.ndarray, used: np.ndarray) -> float:
        """Cluster-robust standard error of the mean over the `used` (F,) folds of fold means.

        The estimate is sum_c s_c / sum_c m_c over clusters c (stretches of sites, regions of a graph, or
        sequences): each
        left-out thing adds its loss to s_c and 1 to m_c, both times its share 1 / (folds * size of its
        fold). The variance is that of a ratio of sums of independent clusters. A joint loss belongs to
        its fold as a whole, so folds are the clusters; folds that overlap are not independent, and
        give nan.
        """
        index = np.concatenate(self.folds.scored)
        if self.loss == "joint":
            if len(np.unique(index)) < len(index):
                return float("nan")
            fold = cluster = np.arange(len(self.folds))
            values, sizes = self.means(losses), np.ones(len(self.folds))
        else:
            fold = np.repeat(np.arange(len(self.folds)), self.sizes)
            values, sizes = losses[self.counted], self.sizes
            cluster = self.batches.objective.clusters[index]
        return clustered_error(values, fold, sizes[fold], cluster, used)


def clustered_error(
    values: np.ndarray, fold: np.ndarray, sizes: np.ndarray, cluster: np.ndarray, used: np.ndarray
) -> float:
    """The same for rows: their values, folds, the sizes of these, their clusters; (F,) folds `used`."""
    kept = used[fold]
    share = 1.0 / (max(used.sum(), 1) * sizes[kept])
    mass = np.bincount(cluster[kept], share)
    total = np.bincount(cluster[kept], share * values[kept])
    count = int((mass > 0).sum())
    if count < 2:
        return float("nan")
    residual = total - mass * total.sum() / mass.sum()
    return float(np.sqrt(count / (count - 1) * np.sum(residual**2)))
