"""The JAX programs around a junction tree: from parameters to potentials, and derivatives back.

Potentials have folds last, unary (V, K, F) and factors (P, F); parameters and coordinates have them
first.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from fitonce.core.deferred import jax, jit, jnp
from fitonce.core.numerics import Array
from fitonce.models.base import FieldModel
from fitonce.models.potentials import Field
from fitonce.objectives.base import Program
from fitonce.objectives.priors import log_priors
from fitonce.objectives.schemes import FieldScheme


def _field(program: Program, thetas: Array, coordinates: Array, prepared: Any, layout: Any) -> Field:
    """Weighted potentials, folds last: unary (V, K, F), factors (P, F)."""
    model: FieldModel = program.model
    scheme: FieldScheme = program.scheme  # type: ignore[assignment]

    def one(theta: Array, u: Array) -> Field:
        return scheme.weigh(model.potentials(program.space.to_params(theta), prepared), u, layout)

    return jax.vmap(one, out_axes=-1)(thetas, coordinates)


@partial(jit, static_argnums=0)
def potentials(
    program: Program, thetas: Array, coordinates: Array, prepared: Any, layout: Any
) -> tuple[Field, Array]:
    """Weighted potentials, and log priors (F,)."""
    return _field(program, thetas, coordinates, prepared, layout), log_priors(program, thetas, prepared)


def _pull(
    program: Program, thetas: Array, coordinates: Array, weights: Field, prepared: Any, layout: Any
) -> tuple[Array, Array]:
    """Gradients of F by thetas (F, D) and coordinates (F, P), given d log Z / d potentials."""

    def forward(t: Array, u: Array) -> tuple[Field, Array]:
        return _field(program, t, u, prepared, layout), log_priors(program, t, prepared)

    _, back = jax.vjp(forward, thetas, coordinates)
    by_theta, by_weight = back((weights, jnp.ones(thetas.shape[0])))
    return -by_theta, -by_weight


@partial(jit, static_argnums=0)
def gradients(program: Program, *arguments: Any) -> Array:
    """(F, D) of F, given d log Z / d potentials; arguments as for `_pull`."""
    return _pull(program, *arguments)[0]


@partial(jit, static_argnums=0)
def directions(program: Program, thetas: Array, coordinates: Array, *data: Any) -> Field:
    """Derivatives of the potentials along each parameter: (V, K, D, F), (P, D, F)."""

    def along(direction: Array) -> Field:
        tangents = jnp.broadcast_to(direction, thetas.shape)
        return jax.jvp(lambda t: _field(program, t, coordinates, *data), (thetas,), (tangents,))[1]

    return jax.vmap(along, out_axes=-2)(jnp.eye(thetas.shape[1]))


@partial(jit, static_argnums=0)
def second(
    program: Program, thetas: Array, coordinates: Array, weights: Field, moves: Field, *data: Any
) -> tuple[Array, Array]:
    """(D, F, D) and (D, F, P): derivatives of `_pull` along each parameter; `moves`: those of the
    marginals."""

    def along(direction: Array, move: Field) -> tuple[Array, Array]:
        tangents = jnp.broadcast_to(direction, thetas.shape)
        pull = lambda t, m: _pull(program, t, coordinates, m, *data)  # noqa: E731
        return jax.jvp(pull, (thetas, weights), (tangents, move))[1]

    return jax.vmap(along, in_axes=(0, -2))(jnp.eye(thetas.shape[1]), moves)
