"""The JAX programs of chains and custom densities.

Every function here takes a leading fold axis, thetas (F, D) and coordinates (F, P), and differentiates
the sum over folds: one program for all of them, whose inner loops run over folds. The weights are path
coordinates (see `weighting`).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from fitonce.engines import chain as chain_engine
from fitonce.engines import grouped
from fitonce.models.base import ChainModel
from fitonce.numerics import Array, logsumexp, safe_log, scale_log
from fitonce.objective import Program
from fitonce.potentials import Chain, Layout
from fitonce.weighting import A, Structures


def chain_potentials(program: Program, thetas: Array, prepared: Any) -> Chain:
    """The model's potentials with a leading fold axis."""
    model: ChainModel = program.model
    return jax.vmap(lambda theta: model.potentials(program.space.to_params(theta), prepared))(thetas)


@partial(jax.jit, static_argnums=0)
def log_likelihoods(
    program: Program, thetas: Array, coordinates: Array, prepared: Any, layout: Layout | None
) -> Array:
    """(F,) weighted log-likelihoods."""
    if layout is None:  # the model has no structure that we know: it takes the weights itself
        params = jax.vmap(program.space.to_params)(thetas)
        density = jax.vmap(program.model.log_density, (0, None, 0))
        values = density(params, prepared, coordinates)
        if values.shape != thetas.shape[:1]:
            raise ValueError(f"log_density must return a scalar, got shape {values.shape[1:]}")
        return values
    return _weighted(program, chain_potentials(program, thetas, prepared), coordinates, layout)


def _weighted(program: Program, chain: Chain, coordinates: Array, layout: Layout) -> Array:
    """(F,) weighted log-likelihoods of potentials with a leading fold axis."""
    terms = jax.vmap(lambda c, u: program.scheme.terms(c, u, layout))(chain, coordinates)
    total = jnp.zeros(coordinates.shape[0])
    for coefficient, unary, pairwise in terms:
        if pairwise.ndim == 3 and chain_engine.shares_products(unary, coefficient, program.kernel):
            lengths = layout.lengths
            lengths = jnp.full(unary.shape[1], unary.shape[2]) if lengths is None else lengths
            total += grouped.total_log_partition(unary, pairwise, lengths, coefficient)
            continue
        pairwise = pairwise[:, None] if pairwise.ndim == 3 else pairwise
        if coefficient.ndim == unary.ndim - 1:
            value = chain_engine.increments(unary, pairwise, layout.lengths)
        else:
            value = chain_engine.log_partition(unary, pairwise, layout.lengths, program.kernel)
        total += jnp.sum(scale_log(coefficient, value), tuple(range(1, coefficient.ndim)))
    return total


@partial(jax.jit, static_argnums=0)
def sequence_losses(
    program: Program, thetas: Array, scored: Array, prepared: Any, layout: Layout
) -> Array:
    """(F, M): -log p(x_n) of sequences `scored` (F, M)."""
    chain = chain_potentials(program, thetas, prepared)
    everything = jnp.ones(layout.observed.shape[0])
    ((_, unary, pairwise),) = jax.vmap(lambda c: Structures().terms(c, everything, layout))(chain)
    values = chain_engine.log_partition(unary, pairwise[:, None], layout.lengths, program.kernel)
    return -jnp.take_along_axis(values, scored, 1)


def _values(program: Program, thetas: Array, coordinates: Array, *data: Any) -> Array:
    def log_prior(theta: Array) -> Array:
        return program.model.log_prior_at(program.space.to_params(theta), data[0])

    likelihood = log_likelihoods(program, thetas, coordinates, *data)
    return -likelihood - jax.vmap(log_prior)(thetas)


@partial(jax.jit, static_argnums=0)
def gradients(program: Program, thetas: Array, coordinates: Array, *data: Any) -> Array:
    """(F, D)."""
    return jax.grad(lambda t: jnp.sum(_values(program, t, coordinates, *data)))(thetas)


@partial(jax.jit, static_argnums=0)
def values_and_gradients(
    program: Program, thetas: Array, coordinates: Array, *data: Any
) -> tuple[Array, Array]:
    """(F,), (F, D)."""

    def total(t: Array) -> tuple[Array, Array]:
        values = _values(program, t, coordinates, *data)
        return jnp.sum(values), values

    gradients, values = jax.grad(total, has_aux=True)(thetas)
    return values, gradients


@partial(jax.jit, static_argnums=0)
def hessians(program: Program, thetas: Array, coordinates: Array, *data: Any) -> Array:
    """(F, D, D): the D unit directions pushed through the gradient, all folds at once."""

    def column(direction: Array) -> Array:
        tangents = jnp.broadcast_to(direction, thetas.shape)
        return jax.jvp(lambda t: gradients(program, t, coordinates, *data), (thetas,), (tangents,))[1]

    return jnp.moveaxis(jax.vmap(column)(jnp.eye(thetas.shape[1])), 0, -1)


@partial(jax.jit, static_argnums=0)
def derivatives(
    program: Program, theta: Array, coordinates: Array, *data: Any
) -> tuple[Array, Array, Array]:
    """Gradient (D,), H (D, D) and J (D, P) of F at one point, in one forward-over-reverse pass."""

    def both(t: Array) -> tuple[Array, Array]:
        return jax.grad(lambda t, u: _values(program, t[None], u[None], *data)[0], argnums=(0, 1))(
            t, coordinates
        )

    def row(direction: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        return jax.jvp(both, (theta,), (direction,))

    (gradient, _), (hessian, cross) = jax.vmap(row, out_axes=((None, None), (0, 0)))(
        jnp.eye(theta.shape[0])
    )
    return gradient, hessian, cross


@partial(jax.jit, static_argnums=0)
def posterior(
    program: Program, thetas: Array, weights: Array, slots: Array, prepared: Any, layout: Layout
) -> tuple[Array, Array]:
    """Emission log densities and p(z | kept data) at some places of the flattened grid.

    Args:
        weights: (F, sites).
        slots: (F, M) places.

    Returns: (F, M, K) and (F, M, K).
    """
    chain = chain_potentials(program, thetas, prepared)
    ((_, unary, pairwise),) = jax.vmap(lambda c, w: A().terms(c, w, layout))(chain, weights)
    states = chain_engine.marginals(unary, pairwise[:, None], layout.lengths, program.kernel, at=slots)
    flat = chain.emission.reshape(len(thetas), -1, states.shape[-1])
    return jnp.take_along_axis(flat, slots[..., None], 1), states


def _single(program: Program, theta: Array, prepared: Any, layout: Layout) -> Array:
    """(sites,) log p(x_t | x_-t), zero where nothing was observed."""
    chain = program.model.potentials(program.space.to_params(theta), prepared)
    emission = jnp.where(layout.observed[..., None], chain.emission, 0.0)
    value = chain_engine.leave_one_out(emission, chain.initial, chain.transition[None], layout.lengths)
    return value.ravel() if layout.slots is None else value.ravel()[layout.slots]


@partial(jax.jit, static_argnums=0)
def leave_one_out(program: Program, theta: Array, prepared: Any, layout: Layout) -> tuple[Array, Array]:
    """Values (sites,) and slopes (D, sites), from one sweep of D tangents."""

    def along(direction: Array) -> tuple[Array, Array]:
        return jax.jvp(lambda t: _single(program, t, prepared, layout), (theta,), (direction,))

    return jax.vmap(along, out_axes=(None, 0))(jnp.eye(theta.shape[0]))


@partial(jax.jit, static_argnums=0)
def pointwise_losses(
    program: Program, thetas: Array, weights: Array, scored: Array, prepared: Any, layout: Layout
) -> Array:
    """(F, M): -log p(x_t | kept data) of sites `scored` (F, M)."""
    slots = layout.to_slots(scored)
    emission, states = posterior(program, thetas, weights, slots, prepared, layout)
    return -logsumexp(safe_log(states) + emission, -1)


@partial(jax.jit, static_argnums=0)
def custom_losses(program: Program, thetas: Array, weights: Array, scored: Array, data: Any) -> Array:
    """(F, M) of a custom density."""

    def one(theta: Array, weight: Array, indices: Array) -> Array:
        return program.model.losses(program.space.to_params(theta), data, weight, indices)

    return jax.vmap(one)(thetas, weights, scored)


@partial(jax.jit, static_argnums=0)
def products(
    program: Program, thetas: Array, directions: Array, coordinates: Array, *data: Any
) -> Array:
    """(F, D): each fold's Hessian times its direction (F, D)."""
    slope = lambda t: gradients(program, t, coordinates, *data)  # noqa: E731
    return jax.jvp(slope, (thetas,), (directions,))[1]


@partial(jax.jit, static_argnums=0)
def products_at(
    program: Program, theta: Array, directions: Array, coordinates: Array, *data: Any
) -> Array:
    """(m, D): the Hessian at one point times directions (m, D), which share its forward sweep."""
    slope = lambda t: gradients(program, t[None], coordinates[None], *data)[0]  # noqa: E731
    return jax.vmap(lambda d: jax.jvp(slope, (theta,), (d,))[1])(directions)


@partial(jax.jit, static_argnums=0)
def expectations(
    program: Program, theta: Array, coordinates: Array, prepared: Any, layout: Layout
) -> tuple[Array, Chain]:
    """F, and how often each potential is expected to count: the slope of the likelihood by them."""

    def value(chain: Chain) -> Array:
        alone = Chain(*(part[None] for part in chain))
        return _weighted(program, alone, coordinates[None], layout)[0]

    params = program.space.to_params(theta)
    likelihood, counts = jax.value_and_grad(value)(program.model.potentials(params, prepared))
    return -likelihood - program.model.log_prior_at(params, prepared), counts


@partial(jax.jit, static_argnums=0)
def sequence_slopes(program: Program, theta: Array, prepared: Any, layout: Layout) -> Array:
    """(N, D): the slope of -log p(x_n) of every sequence."""

    def one(t: Array, n: Array) -> Array:
        part = (prepared.take(n[None]), layout.take(n[None]))
        return -log_likelihoods(program, t[None], jnp.ones((1, 1)), *part)[0]

    return jax.vmap(jax.grad(one), (None, 0))(theta, jnp.arange(layout.observed.shape[0]))


@partial(jax.jit, static_argnums=0)
def losses_of(program: Program, thetas: Array, scored: Array, prepared: Any, layout: Layout) -> Array:
    """(F, M): -log p(x_n) of sequences `scored` (F, M), each fold looking at its own alone."""

    def one(theta: Array, chosen: Array) -> Array:
        part = (prepared.take(chosen), layout.take(chosen))
        return sequence_losses(program, theta[None], jnp.arange(len(chosen))[None], *part)[0]

    return jax.vmap(one)(thetas, scored)


@partial(jax.jit, static_argnums=0)
def cross_rows(
    program: Program, theta: Array, directions: Array, coordinates: Array, *data: Any
) -> Array:
    """(m, P): rows of J along directions (m, D)."""

    def slope(t: Array) -> Array:
        return jax.grad(lambda u: _values(program, t[None], u[None], *data)[0])(coordinates)

    return jax.vmap(lambda d: jax.jvp(slope, (theta,), (d,))[1])(directions)


@partial(jax.jit, static_argnums=0)
def slopes_along(
    program: Program, thetas: Array, coordinates: Array, changes: Array, *data: Any
) -> Array:
    """(F, D): how gradients change along changes (F, P) of the coordinates."""
    slope = lambda u: gradients(program, thetas, u, *data)  # noqa: E731
    return jax.jvp(slope, (coordinates,), (changes,))[1]
