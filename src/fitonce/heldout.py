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
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from fitonce.models.custom import one_each
from fitonce.numerics import Array, in_float64
from fitonce.objective import Objective, Program

Loss = Literal["pointwise", "joint"] | Callable[[Any, Any, Array], Array]
LOSSES = ("pointwise", "joint")


@partial(jax.jit, static_argnums=(0, 1))
def _user(program: Program, loss: Any, thetas: Array, weights: Array, scored: Array, data: Any) -> Array:
    def one(theta: Array, weight: Array, indices: Array) -> Array:
        losses = loss(program.space.to_params(theta), data, weight)
        return one_each(losses, weight, "loss")[indices]

    return jax.vmap(one)(thetas, weights, scored)


def resolve(loss: Any) -> Loss:
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
    data: Any,
) -> np.ndarray:
    """Losses (F, M) of the `scored` (F, M) things where `counted` (F, M); (F, 1) for a joint loss.

    Args:
        objective: along the scheme of the folds.
        loss: "pointwise", "joint" or the user's function of params, data and weights.
        thetas, weights: (F, D), (F, P).
        scored, counted: padded indices of what is scored, and which of them are not padding.
        data: what the user's function is given.
    """
    if callable(loss):
        return _by_user(objective, loss, thetas, weights, scored, data)
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
    objective: Objective,
    loss: Any,
    thetas: np.ndarray,
    weights: np.ndarray,
    scored: np.ndarray,
    data: Any,
) -> np.ndarray:
    given = objective.prepared if objective.layout is None else data
    arrays = (jnp.asarray(thetas), jnp.asarray(weights), jnp.asarray(scored))
    try:
        return np.asarray(_user(objective.program, loss, *arrays, given))
    except jax.errors.JAXTypeError as error:
        raise ValueError(
            f"loss must be written with jax.numpy, got {type(error).__name__}: "
            f"{str(error).splitlines()[0]}"
        ) from None
