"""Stacking: the mixture of models that would have predicted best what was held out.

The weights maximise the mean log-density of held-out data under the mixture sum_k w_k p_k, over weights
that are not negative and sum to one (Yao, Vehtari, Simpson and Gelman 2018). Each term is one held-out
loss: a point, given what its fold kept; a sequence; or, for joint losses, all that a fold scores.

What is assumed. The score is a mean, which dependence between neighbours does not bias if the series is
stationary: the weights estimate the best mixture for data of the same kind, predicted in the same way.
They come without standard errors, and neighbours that resemble each other make them noisier than as
many independent points would: weights from a few independent stretches are a guess. The mixture is of
predictions of one term at a time. It is no mixture of states or paths, and mixing point by point is
another model than mixing whole stretches: joint losses give other weights, usually nearer to 0 and 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fitonce.results.result import CVResult

_SLACK = 1e-8  # nats per term: how far below the best mixture a solution may be
_ROUNDS = 500


def weights_of(results: list[CVResult], used: np.ndarray) -> np.ndarray:
    """(K,) of the models of results whose losses are minus log-densities, in their best mixture on the
    folds (F,) that are `used`."""
    fold = results[0].pointwise["fold"].to_numpy()
    sizes = results[0].folds["size"].to_numpy()
    kept = used[fold]
    losses = np.stack([result.pointwise["loss"].to_numpy()[kept] for result in results], 1)
    return stacking_weights(losses, 1.0 / sizes[fold[kept]])  # each fold counts once, as in estimates


def stacking_weights(losses: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(K,) weights of models, given their losses (n, K), minus log-densities of the same n terms, which
    count with `shares` (n,)."""
    count = losses.shape[1]
    if count == 1:
        return np.ones(1)
    from scipy import optimize  # a slow import

    solve: Any = optimize.minimize  # its stubs refuse a gradient of any length
    shares = shares / shares.sum()
    densities = np.exp(losses.min(1, keepdims=True) - losses)  # the best of each row is 1
    found = solve(
        lambda w: -float(shares @ np.log(densities @ w)),
        np.full(count, 1.0 / count),
        jac=lambda w: -gains(w, densities, shares),
        bounds=[(1e-12, 1.0)] * count,  # at zero a term that only one model predicts has no logarithm
        constraints=optimize.LinearConstraint(np.ones(count), 1.0, 1.0),
        method="SLSQP",
        tol=1e-14,
    )
    weights = np.maximum(found.x, 0.0)
    weights /= weights.sum()
    for _ in range(_ROUNDS):  # EM, which cannot go astray, for what is left
        ahead = gains(weights, densities, shares)
        if ahead.max() - 1.0 < _SLACK:
            break
        weights = weights * ahead
    return np.where(weights < 1e-9, 0.0, weights)


def gains(weights: np.ndarray, densities: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(K,) slopes of the score along each weight. At the best weights none is above one, and otherwise
    the score is at most the excess of the largest below that of the best."""
    return (shares / (densities @ weights)) @ densities
