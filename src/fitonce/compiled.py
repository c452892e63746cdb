"""F(theta, w) of chains and of custom densities: one JAX program, batched over folds.

Every function here takes a leading fold axis, and differentiates the sum over folds: one program for
all of them, whose inner loops run over folds. The weights are path coordinates (see `weighting`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fitonce.data import Sequences
from fitonce.engines.chain import increments, leave_one_out, log_partition, marginals
from fitonce.models.base import ChainModel
from fitonce.numerics import Array, in_float64, scale_log
from fitonce.objective import Program
from fitonce.potentials import Chain, Layout
from fitonce.weighting import A, Scheme, Structures


def layout_of(data: Sequences) -> Layout:
    """Where the sites of `data` lie in the padded grid."""
    full = bool(data.valid.all())
    observed = jnp.asarray(data.observed.any(-1))
    if full:
        return Layout(observed, None, None, None)
    places = np.where(data.valid, np.cumsum(data.valid.ravel()).reshape(data.valid.shape) - 1, 0)
    slots = np.flatnonzero(data.valid.ravel())
    return Layout(observed, jnp.asarray(data.lengths), jnp.asarray(places), jnp.asarray(slots))


# --- values, batched over folds: thetas (F, D), coordinates (F, P) ----------------------------------


def chain_potentials(program: Program, thetas: Array, prepared: Any) -> Chain:
    """The model's potentials with a leading fold axis."""
    model: ChainModel = program.model
    return jax.vmap(lambda theta: model.potentials(program.space.to_params(theta), prepared))(thetas)


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
    chain = chain_potentials(program, thetas, prepared)
    terms = jax.vmap(lambda c, u: program.scheme.terms(c, u, layout))(chain, coordinates)
    total = jnp.zeros(thetas.shape[0])
    for coefficient, unary, pairwise in terms:
        pairwise = pairwise[:, None] if pairwise.ndim == 3 else pairwise
        if coefficient.ndim == unary.ndim - 1:
            value = increments(unary, pairwise, layout.lengths)
        else:
            value = log_partition(unary, pairwise, layout.lengths, program.kernel)
        total += jnp.sum(scale_log(coefficient, value), tuple(range(1, coefficient.ndim)))
    return total


def sequence_log_likelihoods(program: Program, thetas: Array, prepared: Any, layout: Layout) -> Array:
    """(F, N) log p(x_n), everything observed kept."""
    chain = chain_potentials(program, thetas, prepared)
    everything = jnp.ones(layout.observed.shape[0])
    ((_, unary, pairwise),) = jax.vmap(lambda c: Structures().terms(c, everything, layout))(chain)
    return log_partition(unary, pairwise[:, None], layout.lengths, program.kernel)


def _values(program: Program, thetas: Array, coordinates: Array, *data: Any) -> Array:
    def log_prior(theta: Array) -> Array:
        return program.model.log_prior_at(program.space.to_params(theta), data[0])

    likelihood = log_likelihoods(program, thetas, coordinates, *data)
    return -likelihood - jax.vmap(log_prior)(thetas)


def _gradients(program: Program, thetas: Array, coordinates: Array, *data: Any) -> Array:
    return jax.grad(lambda t: jnp.sum(_values(program, t, coordinates, *data)))(thetas)


def _values_and_gradients(
    program: Program, thetas: Array, coordinates: Array, *data: Any
) -> tuple[Array, Array]:
    def total(t: Array) -> tuple[Array, Array]:
        values = _values(program, t, coordinates, *data)
        return jnp.sum(values), values

    gradients, values = jax.grad(total, has_aux=True)(thetas)
    return values, gradients


def _hessians(program: Program, thetas: Array, coordinates: Array, *data: Any) -> Array:
    """(F, D, D): the D unit directions pushed through the gradient, all folds at once."""

    def column(direction: Array) -> Array:
        tangents = jnp.broadcast_to(direction, thetas.shape)
        return jax.jvp(lambda t: _gradients(program, t, coordinates, *data), (thetas,), (tangents,))[1]

    return jnp.moveaxis(jax.vmap(column)(jnp.eye(thetas.shape[1])), 0, -1)


def _derivatives(
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
    states = marginals(unary, pairwise[:, None], layout.lengths, program.kernel, at=slots)
    flat = chain.emission.reshape(len(thetas), -1, states.shape[-1])
    return jnp.take_along_axis(flat, slots[..., None], 1), states


def _leave_one_out(program: Program, theta: Array, prepared: Any, layout: Layout) -> Array:
    """(sites,) log p(x_t | x_-t), zero where nothing was observed."""
    chain = program.model.potentials(program.space.to_params(theta), prepared)
    emission = jnp.where(layout.observed[..., None], chain.emission, 0.0)
    value = leave_one_out(emission, chain.initial, chain.transition[None], layout.lengths)
    return value.ravel() if layout.slots is None else value.ravel()[layout.slots]


@partial(jax.jit, static_argnums=0)
def _leave_one_out_jit(
    program: Program, theta: Array, prepared: Any, layout: Layout
) -> tuple[Array, Array]:
    """Values (sites,) and slopes (D, sites), from one sweep of D tangents."""

    def along(direction: Array) -> tuple[Array, Array]:
        return jax.jvp(lambda t: _leave_one_out(program, t, prepared, layout), (theta,), (direction,))

    return jax.vmap(along, out_axes=(None, 0))(jnp.eye(theta.shape[0]))


_posterior_jit = partial(jax.jit, static_argnums=0)(posterior)
_gradients_jit = partial(jax.jit, static_argnums=0)(_gradients)
_both_jit = partial(jax.jit, static_argnums=0)(_values_and_gradients)
_hessians_jit = partial(jax.jit, static_argnums=0)(_hessians)
_derivatives_jit = partial(jax.jit, static_argnums=0)(_derivatives)


@dataclass(frozen=True, eq=False)
class CompiledObjective:
    """F of a chain or a custom density; see `fitonce.objective.Objective`.

    Attributes:
        program: what is compiled.
        prepared, layout: the data as the model and the engine read it.
        base: (P,) the weights of the full fit.
    """

    program: Program
    prepared: Any
    layout: Layout | None
    base: np.ndarray

    @property
    def _data(self) -> tuple[Any, Layout | None]:
        return self.prepared, self.layout

    @property
    def bytes_per_fold(self) -> int:
        """About how much memory one fold needs."""
        return int(self.program.model.bytes_per_fold(self.prepared))

    @in_float64
    def coordinates(self, weights: np.ndarray) -> Array:
        """Path coordinates of weights (..., P)."""
        w = jnp.asarray(weights, float)
        if self.layout is None:
            return w
        path = partial(self.program.scheme.path, layout=self.layout)
        return path(w) if w.ndim == 1 else jax.vmap(path)(w)

    def value(self, theta: np.ndarray, weights: np.ndarray | None = None) -> float:
        """F(theta, w), with the full fit's weights by default."""
        weights = self.base if weights is None else weights
        values, _ = self.values_and_gradients(np.asarray(theta)[None], np.asarray(weights)[None])
        return float(values[0])

    @in_float64
    def gradients(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(F, D)."""
        u = self.coordinates(weights)
        return np.asarray(_gradients_jit(self.program, jnp.asarray(thetas), u, *self._data))

    @in_float64
    def values_and_gradients(
        self, thetas: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(F,), (F, D)."""
        u = self.coordinates(weights)
        values, gradients = _both_jit(self.program, jnp.asarray(thetas), u, *self._data)
        return np.asarray(values), np.asarray(gradients)

    @in_float64
    def hessians(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(F, D, D). A single one comes with J, from the program that the expansion needs too."""
        u = self.coordinates(weights)
        if len(thetas) == 1:
            parts = _derivatives_jit(self.program, jnp.asarray(thetas[0]), u[0], *self._data)
            return np.asarray(parts[1])[None]
        return np.asarray(_hessians_jit(self.program, jnp.asarray(thetas), u, *self._data))

    @in_float64
    def derivatives(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Gradient, H and J (D, path coordinates) at the full fit's weights."""
        u = self.coordinates(self.base)
        parts = _derivatives_jit(self.program, jnp.asarray(theta), u, *self._data)
        gradient, hessian, cross = map(np.asarray, parts)
        return gradient, 0.5 * (hessian + hessian.T), cross

    @in_float64
    def leave_one_out(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log p(x_t | x_-t) (sites,) and its derivatives by theta (D, sites)."""
        if self.layout is None:
            raise ValueError(
                "a Custom model has no chain to sweep; use cross_validate on fo.folds.points"
            )
        values, slopes = _leave_one_out_jit(self.program, jnp.asarray(theta), self.prepared, self.layout)
        return np.asarray(values), np.asarray(slopes)

    @in_float64
    def posterior(self, theta: np.ndarray) -> np.ndarray:
        """(sites, K) probabilities of the latent states given all data."""
        if self.layout is None:
            raise ValueError("a Custom model has no latent states that are known here")
        sites = jnp.arange(len(self.base))[None]
        slots, weights = self.layout.to_slots(sites), jnp.asarray(self.base)[None]
        arrays = (jnp.asarray(theta)[None], weights, slots, self.prepared, self.layout)
        return np.asarray(_posterior_jit(self.program, *arrays)[1][0])

    def with_scheme(self, scheme: Scheme) -> CompiledObjective:
        """The same along another path."""
        layout = self.layout
        if layout is None or scheme == self.program.scheme:
            return self
        base = self.base
        if scheme.kind == "sequences":
            base = np.any(np.asarray(layout.observed), axis=1).astype(float)
        return CompiledObjective(replace(self.program, scheme=scheme), self.prepared, layout, base)
