"""The JAX programs of chains, from parameters through model, scheme and engine, all folds at once.

Arrays have a leading fold axis: thetas (F, D) and path coordinates (F, P).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from fitonce.core.deferred import jax, jit, jnp
from fitonce.core.numerics import Array, scale_log
from fitonce.engines import chain as chain_engine
from fitonce.engines import chain_groups as grouped
from fitonce.models.base import ChainModel
from fitonce.models.potentials import Chain
from fitonce.objectives.base import Program
from fitonce.objectives.chain.layout import ChainLayout
from fitonce.objectives.priors import log_prior, log_priors
from fitonce.objectives.schemes import A, ChainScheme, Structures


def chain_potentials(program: Program, thetas: Array, prepared: Any) -> Chain:
    """The model's potentials with a leading fold axis."""
    model: ChainModel = program.model
    return jax.vmap(lambda theta: model.potentials(program.space.to_params(theta), prepared))(thetas)


@partial(jit, static_argnums=0)
def log_likelihoods(
    program: Program, thetas: Array, coordinates: Array, prepared: Any, layout: ChainLayout
) -> Array:
    """(F,) weighted log-likelihoods."""
    return _weighted(program, chain_potentials(program, thetas, prepared), coordinates, layout)


def values(
    program: Program, thetas: Array, coordinates: Array, prepared: Any, layout: ChainLayout
) -> Array:
    """(F,) the objective."""
    likelihood = log_likelihoods(program, thetas, coordinates, prepared, layout)
    return -likelihood - log_priors(program, thetas, prepared)


def _weighted(program: Program, chain: Chain, coordinates: Array, layout: ChainLayout) -> Array:
    """(F,) weighted log-likelihoods of potentials with a leading fold axis."""
    scheme: ChainScheme = program.scheme  # type: ignore[assignment]
    terms = jax.vmap(lambda c, u: scheme.terms(c, u, layout))(chain, coordinates)
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


@partial(jit, static_argnums=0)
def posterior(
    program: Program, thetas: Array, weights: Array, slots: Array, prepared: Any, layout: ChainLayout
) -> tuple[Array, Array]:
    """Emission log densities and p(z | kept data), (F, M, K) each, at places `slots` (F, M) of the
    flattened grid, with weights (F, sites)."""
    emission, kept = _held_out(program, thetas, weights, slots, prepared, layout)
    return emission, chain_engine.marginals(*kept, layout.lengths, program.kernel, at=slots)


def _held_out(
    program: Program, thetas: Array, weights: Array, slots: Array, prepared: Any, layout: ChainLayout
) -> tuple[Array, tuple[Array, Array]]:
    """Emission log densities (F, M, K) at `slots`, and the potentials of what is kept."""
    chain = chain_potentials(program, thetas, prepared)
    ((_, unary, pairwise),) = jax.vmap(lambda c, w: A().terms(c, w, layout))(chain, weights)
    pairwise = pairwise[:, None] if pairwise.ndim == 3 else pairwise
    flat = chain.emission.reshape(len(thetas), -1, unary.shape[-1])
    return jnp.take_along_axis(flat, slots[..., None], 1), (unary, pairwise)


def _single(program: Program, theta: Array, prepared: Any, layout: ChainLayout) -> Array:
    """(sites,) log p(x_t | x_-t), zero where nothing was observed."""
    chain = program.model.potentials(program.space.to_params(theta), prepared)
    emission = jnp.where(layout.observed[..., None], chain.emission, 0.0)
    moves = chain.transition[None] if chain.transition.ndim == 2 else chain.transition
    value = chain_engine.leave_one_out(emission, chain.initial, moves, layout.lengths)
    return value.ravel() if layout.slots is None else value.ravel()[layout.slots]


@partial(jit, static_argnums=0)
def leave_one_out(
    program: Program, theta: Array, prepared: Any, layout: ChainLayout
) -> tuple[Array, Array]:
    """Values (sites,) and slopes (D, sites), from one pass with D tangents."""

    def along(direction: Array) -> tuple[Array, Array]:
        return jax.jvp(lambda t: _single(program, t, prepared, layout), (theta,), (direction,))

    return jax.vmap(along, out_axes=(None, 0))(jnp.eye(theta.shape[0]))


@partial(jit, static_argnums=0)
def pointwise_losses(
    program: Program, thetas: Array, weights: Array, scored: Array, prepared: Any, layout: ChainLayout
) -> Array:
    """(F, M): -log p(x_t | kept data) of sites `scored` (F, M)."""
    slots = layout.to_slots(scored)
    emission, kept = _held_out(program, thetas, weights, slots, prepared, layout)
    return chain_engine.held_out_losses(*kept, layout.lengths, program.kernel, emission, slots)


@partial(jit, static_argnums=0)
def expectations(
    program: Program, theta: Array, coordinates: Array, prepared: Any, layout: ChainLayout
) -> tuple[Array, Chain]:
    """F, and the expected count of each potential: the derivative of the log-likelihood by it."""

    def value(chain: Chain) -> Array:
        alone = Chain(*(part[None] for part in chain))
        return _weighted(program, alone, coordinates[None], layout)[0]

    params = program.space.to_params(theta)
    likelihood, counts = jax.value_and_grad(value)(program.model.potentials(params, prepared))
    return -likelihood - log_prior(program, theta, prepared), counts


@partial(jit, static_argnums=0)
def sequence_slopes(program: Program, theta: Array, prepared: Any, layout: ChainLayout) -> Array:
    """(N, D): the gradient of -log p(x_n) for every sequence."""

    def one(t: Array, n: Array) -> Array:
        part = (prepared.take(n[None]), layout.take(n[None]))
        return -log_likelihoods(program, t[None], jnp.ones((1, 1)), *part)[0]

    return jax.vmap(jax.grad(one), (None, 0))(theta, jnp.arange(layout.observed.shape[0]))


@partial(jit, static_argnums=0)
def sequence_losses(
    program: Program, thetas: Array, scored: Array, prepared: Any, layout: ChainLayout
) -> Array:
    """(F, M): -log p(x_n) of sequences `scored` (F, M); each fold reads only its own."""

    def one(theta: Array, chosen: Array) -> Array:
        some, where = prepared.take(chosen), layout.take(chosen)
        chain = program.model.potentials(program.space.to_params(theta), some)
        ((_, unary, pairwise),) = Structures().terms(chain, jnp.ones(len(chosen)), where)
        pairwise = pairwise[None] if pairwise.ndim == 2 else pairwise
        return -chain_engine.log_partition(unary, pairwise, where.lengths, program.kernel)

    return jax.vmap(one)(thetas, scored)
