"""Losses of what a fold leaves out, at the fold's own parameters, batched over folds.

* pointwise: -log p(x_t | x_-o), each left-out point by its own predictive distribution, from the
  posterior marginals of the states given the kept data (never a decoded state);
* joint: -log p(x_o | x_-o), the left-out points together, a difference of two log-partitions;
* whole sequences: -log p(x_n), one loss per left-out sequence.

Inference always keeps the latent states and treats what is left out as missing, whatever path the
parameters were found along.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from fitonce.core.numerics import Array, in_float64
from fitonce.core.parameters import ParameterSpace
from fitonce.crossval.batches import Batches
from fitonce.folds import Folds
from fitonce.models.custom import one_each
from fitonce.objectives.base import Objective
from fitonce.results.verdicts import clustered_error

Loss = Literal["pointwise", "joint"] | Callable[[Any, Any, Array], Array]
LOSSES = ("pointwise", "joint")


@partial(jax.jit, static_argnums=(0, 1))
def _user(
    space: ParameterSpace, loss: Any, thetas: Array, weights: Array, scored: Array, data: Any
) -> Array:
    def one(theta: Array, weight: Array, indices: Array) -> Array:
        losses = loss(space.to_params(theta), data, weight)
        return one_each(losses, weight, "loss")[indices]

    return jax.vmap(one)(thetas, weights, scored)


def resolve_loss(loss: Any) -> Loss:
    """Check a `loss=` argument."""
    if callable(loss) or (isinstance(loss, str) and loss in LOSSES):
        return loss
    raise ValueError(f"loss must be one of {LOSSES} or a function, got {loss!r}")


def heldout_losses(
    objective: Objective,
    loss: Loss,
    thetas: np.ndarray,
    weights: np.ndarray,
    scored: np.ndarray,
    counted: np.ndarray,
) -> np.ndarray:
    """Losses (F, M) of the `scored` (F, M) things where `counted` (F, M); (F, 1) for a joint loss.

    Args:
        objective: along the scheme of the folds.
        loss: "pointwise", "joint" or the user's function of params, data and weights.
        thetas, weights: (F, D), (F, P).
        scored, counted: padded indices of what is scored, and which of them are not padding.
    """
    if callable(loss):
        return _by_user(objective, loss, thetas, weights, scored)
    if loss == "pointwise":
        return objective.pointwise_losses(thetas, weights, scored)
    back = np.array(weights)
    for row, indices, real in zip(back, scored, counted, strict=True):
        row[indices[real]] = objective.base[indices[real]]
    known, every = (objective.log_likelihoods(thetas, w) for w in (weights, back))
    with np.errstate(invalid="ignore"):  # impossible with and without them: not a number
        return (known - every)[:, None]


@in_float64
def _by_user(
    objective: Objective, loss: Any, thetas: np.ndarray, weights: np.ndarray, scored: np.ndarray
) -> np.ndarray:
    arrays = (jnp.asarray(thetas), jnp.asarray(weights), jnp.asarray(scored))
    try:
        return np.asarray(_user(objective.space, loss, *arrays, objective.loss_data))
    except jax.errors.JAXTypeError as error:
        raise ValueError(
            f"loss must be written with jax.numpy, got {type(error).__name__}: "
            f"{str(error).splitlines()[0]}"
        ) from None


_CARRIED = 0.9  # of a latent state's sites


@dataclass(frozen=True, eq=False)
class Scoring:
    """The folds' losses as matrices with one row per fold and a column for each scored thing.

    Attributes:
        folds: what is scored.
        batches: the same folds as batches of an objective.
        loss: "pointwise", "joint" (one column) or the user's function.
    """

    folds: Folds
    batches: Batches
    loss: Loss

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
            values = heldout_losses(objective, self.loss, t, weights, scored[folds], counted[folds])
            return (np.asarray(values, float),)

        touched = max(len(indices) for indices in self.folds.dropped)
        need = objective.bytes_per_loss(touched) / objective.bytes_per_fold
        known = (self.loss, scored, counted)
        arrays = (which, thetas)
        return self.batches.map(work, "held-out losses", *arrays, per_fold=need, knows=known)[0]

    def carriers(self, theta: np.ndarray) -> np.ndarray:
        """(F,) whether a fold leaves out nearly all that is in some latent state at `theta`.

        Parameters of that state rest on the fold. Where they fit it well its gradients are small, and
        nothing that is measured by gradients shows that they would be lost.
        """
        objective = self.batches.objective
        if not objective.traits.hidden_states or self.folds.kind != "sites":
            return np.zeros(len(self.folds), bool)
        shares = objective.state_probabilities(theta) * (objective.base > 0)[:, None]
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
