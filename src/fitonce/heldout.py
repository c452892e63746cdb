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

from fitonce.compiled import log_likelihoods, posterior, sequence_log_likelihoods
from fitonce.fields import FieldObjective
from fitonce.models.custom import Custom, one_each
from fitonce.numerics import Array, in_float64, logsumexp, safe_log
from fitonce.objective import Objective, Program
from fitonce.potentials import Layout
from fitonce.weighting import A

Loss = Literal["pointwise", "joint"] | Callable[[Any, Any, Array], Array]
LOSSES = ("pointwise", "joint")


@partial(jax.jit, static_argnums=0)
def _pointwise(
    program: Program, thetas: Array, weights: Array, scored: Array, prepared: Any, layout: Layout
) -> Array:
    slots = layout.to_slots(scored)
    emission, states = posterior(program, thetas, weights, slots, prepared, layout)
    return -logsumexp(safe_log(states) + emission, -1)


@partial(jax.jit, static_argnums=0)
def _sequences(program: Program, thetas: Array, scored: Array, prepared: Any, layout: Layout) -> Array:
    values = sequence_log_likelihoods(program, thetas, prepared, layout)
    return -jnp.take_along_axis(values, scored, 1)


@partial(jax.jit, static_argnums=0)
def _joint(
    program: Program, thetas: Array, without: Array, with_scored: Array, prepared: Any, layout: Any
) -> Array:
    known = log_likelihoods(program, thetas, without, prepared, layout)
    return known - log_likelihoods(program, thetas, with_scored, prepared, layout)


@partial(jax.jit, static_argnums=0)
def _custom(program: Program, thetas: Array, weights: Array, scored: Array, data: Any) -> Array:
    def one(theta: Array, weight: Array, indices: Array) -> Array:
        return program.model.losses(program.space.to_params(theta), data, weight, indices)

    return jax.vmap(one)(thetas, weights, scored)


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


@in_float64
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
    program = objective.program
    t, w, s = jnp.asarray(thetas), jnp.asarray(weights), jnp.asarray(scored)
    arrays = (objective.prepared, objective.layout)
    sequences = program.scheme.kind == "sequences"
    if callable(loss):
        given = objective.prepared if objective.layout is None else data
        try:
            return np.asarray(_user(program, loss, t, w, s, given))
        except jax.errors.JAXTypeError as error:
            raise ValueError(
                f"loss must be written with jax.numpy, got {type(error).__name__}: "
                f"{str(error).splitlines()[0]}"
            ) from None
    if loss == "joint":
        back = np.array(weights)
        for row, indices, real in zip(back, scored, counted, strict=True):
            row[indices[real]] = objective.base[indices[real]]
        if isinstance(objective, FieldObjective):
            without = objective.log_likelihoods(thetas, weights)
            return (without - objective.log_likelihoods(thetas, back))[:, None]
        known = Program(program.model, program.space, _inference_scheme(program), program.kernel)
        return np.asarray(_joint(known, t, w, jnp.asarray(back), *arrays))[:, None]
    if isinstance(objective, FieldObjective):
        return objective.pointwise_losses(thetas, weights, scored)
    if isinstance(program.model, Custom):
        return np.asarray(_custom(program, t, w, s, objective.prepared))
    if sequences:
        return np.asarray(_sequences(program, t, s, *arrays))
    return np.asarray(_pointwise(program, t, w, s, *arrays))


def _inference_scheme(program: Program) -> Any:
    return program.scheme if program.scheme.kind == "sequences" else A()
