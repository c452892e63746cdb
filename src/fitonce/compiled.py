"""F(theta, w) of chains and of custom densities: one JAX program, batched over folds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from fitonce import louis, programs
from fitonce.by_state import applies, prior_rows
from fitonce.complete import preconditioner
from fitonce.data import Sequences
from fitonce.numerics import Array, in_float64
from fitonce.objective import CLUSTERS, Program
from fitonce.parallel import Parallel, everywhere, over_devices
from fitonce.posteriors import Sample
from fitonce.potentials import Chain, Layout
from fitonce.sharing import split_hessian
from fitonce.weighting import A, C, Scheme, Structures

_TANGENTS = 100  # parameters: fewer are as fast by tangents
_TANGENT_BYTES = 2**30


def layout_of(data: Sequences) -> Layout:
    """Where the sites of `data` lie in the padded grid."""
    full = bool(data.valid.all())
    observed = jnp.asarray(data.observed.any(-1))
    if full:
        return Layout(observed, None, None, None)
    places = np.where(data.valid, np.cumsum(data.valid.ravel()).reshape(data.valid.shape) - 1, 0)
    slots = np.flatnonzero(data.valid.ravel())
    return Layout(observed, jnp.asarray(data.lengths), jnp.asarray(places), jnp.asarray(slots))


@dataclass(frozen=True, eq=False)
class CompiledObjective:
    """F of a chain or a custom density; see `fitonce.objective.Objective`.

    Attributes:
        program: what is compiled.
        prepared, layout: the data as the model and the engine read it.
        base: (P,) the weights of the full fit.
        parallel: where work runs, see `fitonce.parallel`.
    """

    program: Program
    prepared: Any
    layout: Layout | None
    base: np.ndarray
    parallel: Parallel = None
    convex: ClassVar[bool] = False
    has_products: ClassVar[bool] = True

    @cached_property
    def closed_form(self) -> bool:
        """Whether second derivatives are matrix products of scores, which pays where there are many."""
        if self.layout is None or self.program.space.size < _TANGENTS:
            return False
        return isinstance(self.program.scheme, (A, Structures)) and applies(self.program, self.prepared)

    @property
    def has_blocks(self) -> bool:
        return self.layout is not None and applies(self.program, self.prepared)

    @property
    def bends(self) -> bool:
        """Networks, whose second derivatives have no closed form: what there is of one is a stand-in."""
        return hasattr(getattr(self.program.model, "emission", None), "metric")

    @property
    def cheap_cross(self) -> bool:
        """Slopes of sequences are one gradient each."""
        return isinstance(self.program.scheme, Structures) and hasattr(self.prepared, "take")

    @property
    def _data(self) -> tuple[Any, Layout | None]:
        return self.prepared, self.layout

    @property
    def bytes_per_fold(self) -> int:
        """About how much memory one fold needs."""
        return int(self.program.model.bytes_per_fold(self.prepared))

    def bytes_per_loss(self, touched: int) -> int:
        """The same as a gradient, where losses take all of the data, too."""
        if self.cheap_cross:
            return max(self.bytes_per_fold * touched // len(self.base), 1)
        return self.bytes_per_fold

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
        u = self._put(self.coordinates(weights))
        return np.asarray(programs.gradients(self.program, self._put(thetas), u, *self._data))

    @in_float64
    def values_and_gradients(
        self, thetas: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(F,), (F, D)."""
        u = self._put(self.coordinates(weights))
        values, gradients = programs.values_and_gradients(
            self.program, self._put(thetas), u, *self._data
        )
        return np.asarray(values), np.asarray(gradients)

    @in_float64
    def hessians(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(F, D, D). A single one comes with J, from the program that the expansion needs too."""
        if self.closed_form:
            return np.stack([self._by_scores(t, w) for t, w in zip(thetas, weights, strict=True)])
        if self._directions < self.program.space.size:
            unit = np.eye(self.program.space.size)
            return np.stack([self.products_at(t, unit, w) for t, w in zip(thetas, weights, strict=True)])
        u = self.coordinates(weights)
        if len(thetas) == 1:
            parts = programs.derivatives(self.program, jnp.asarray(thetas[0]), u[0], *self._data)
            return np.asarray(parts[1])[None]
        return np.asarray(programs.hessians(self.program, jnp.asarray(thetas), u, *self._data))

    @in_float64
    def _by_scores(self, theta: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """H (D, D)."""
        hessian, _ = split_hessian(self.parallel, self.sample(weights), theta)
        for rows, prior in prior_rows(self.program, theta, self.prepared):
            hessian[rows] -= np.asarray(prior)
        return hessian

    @in_float64
    def device_hessian(self, theta: np.ndarray) -> Array:
        """H (D, D) at the full fit's weights, left on the accelerator where it was made."""
        devices = len(jax.devices()) if self.parallel == "devices" else 1
        hessian, _ = louis.device_hessian(self.sample(self.base), theta, devices)
        for rows, prior in prior_rows(self.program, theta, self.prepared):
            hessian = louis.plus(hessian, -prior, (rows.start, 0))
        return hessian

    @in_float64
    def sample(self, weights: np.ndarray) -> Sample:
        """The sequences with these weights, of sites or of sequences."""
        layout = cast(Layout, self.layout)
        if isinstance(self.program.scheme, Structures):
            grid, coefficients = np.ones(layout.observed.shape), np.asarray(weights)
        else:
            grid = np.asarray(layout.to_grid(jnp.asarray(weights)))
            coefficients = np.ones(len(layout.observed))
        return Sample(self.program, grid, coefficients, self.prepared, layout)

    @in_float64
    def products(
        self, thetas: np.ndarray, directions: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray]:
        """(F, D) each fold's Hessian times its direction."""
        arrays = map(self._put, (thetas, directions, self.coordinates(weights)))
        return (np.asarray(programs.products(self.program, *arrays, *self._data)),)

    @property
    def _directions(self) -> int:
        """How many tangents run together, by memory."""
        return int(np.clip(_TANGENT_BYTES // self.bytes_per_fold, 1, 512))

    @in_float64
    def products_at(
        self, theta: np.ndarray, directions: np.ndarray, weights: np.ndarray | None = None
    ) -> np.ndarray:
        """(m, D) the Hessian at one point times directions (m, D)."""
        u = self.coordinates(self.base if weights is None else weights)
        size = min(self._directions, len(directions))
        found = np.empty(directions.shape)
        for start in range(0, len(directions), size):
            some = np.minimum(np.arange(start, start + size), len(directions) - 1)
            arrays = (jnp.asarray(theta), jnp.asarray(directions[some]), u)
            found[some] = programs.products_at(self.program, *arrays, *self._data)
        return found

    @in_float64
    def preconditioner(
        self, theta: np.ndarray, weights: np.ndarray | None = None
    ) -> Callable[[np.ndarray], np.ndarray]:
        """An approximate H^-1, as a function of columns (D, m): that of all states seen, state by state.
        The identity where a model has no such blocks."""
        if not self.has_blocks:
            return np.array
        return preconditioner(self.sample(self.base if weights is None else weights), theta)

    @in_float64
    def expectations(self, theta: np.ndarray, weights: np.ndarray) -> tuple[float, Chain]:
        """F, and how often each potential of the chain is expected to count."""
        u = self.coordinates(weights)
        value, counts = programs.expectations(self.program, jnp.asarray(theta), u, *self._data)
        return float(value), counts

    @in_float64
    def slopes_along(self, theta: np.ndarray, changes: np.ndarray) -> np.ndarray:
        """(F, D): J times changes of the path coordinates (F, P), without J."""
        u = jnp.broadcast_to(self.coordinates(self.base), changes.shape)
        thetas = jnp.broadcast_to(jnp.asarray(theta), (len(changes), len(theta)))
        return np.asarray(
            programs.slopes_along(self.program, thetas, u, jnp.asarray(changes), *self._data)
        )

    @in_float64
    def derivatives(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Gradient, H and J (D, path coordinates) at the full fit's weights."""
        if self.closed_form:
            gradient = self.gradients(theta[None], self.base[None])[0]
            return gradient, self._by_scores(theta, self.base), self.cross(theta)
        u = self.coordinates(self.base)
        parts = programs.derivatives(self.program, jnp.asarray(theta), u, *self._data)
        gradient, hessian, cross = map(np.asarray, parts)
        return gradient, 0.5 * (hessian + hessian.T), cross

    @in_float64
    def cross(self, theta: np.ndarray) -> np.ndarray:
        """J (D, path coordinates): a gradient for each sequence, or with H."""
        if self.cheap_cross:
            return self._sequence_slopes(theta)
        u = self.coordinates(self.base)
        size = min(self._directions, len(theta))
        if size == len(theta) and not self.closed_form:
            parts = programs.derivatives(self.program, jnp.asarray(theta), u, *self._data)
            return np.asarray(parts[2])
        unit, found = np.eye(len(theta)), np.empty((len(theta), len(u)))
        for start in range(0, len(theta), size):
            some = np.minimum(np.arange(start, start + size), len(theta) - 1)
            arrays = (jnp.asarray(theta), jnp.asarray(unit[some]), u)
            found[some] = programs.cross_rows(self.program, *arrays, *self._data)
        return found

    def _sequence_slopes(self, theta: np.ndarray) -> np.ndarray:
        """(D, N), some sequences at a time."""
        layout: Any = self.layout
        count = len(layout.observed)
        per = self.bytes_per_fold // count + 16 * len(theta)
        size = int(np.clip(_TANGENT_BYTES // per, 1, count))
        found = np.empty((count, len(theta)))
        for start in range(0, count, size):
            some = np.minimum(np.arange(start, start + size), count - 1)
            part = (self.prepared.take(jnp.asarray(some)), layout.take(jnp.asarray(some)))
            found[some] = programs.sequence_slopes(self.program, jnp.asarray(theta), *part)
        return found.T

    @in_float64
    def leave_one_out(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log p(x_t | x_-t) (sites,) and its derivatives by theta (D, sites)."""
        if self.layout is None:
            raise ValueError(
                "a Custom model has no chain to sweep; use cross_validate on fo.folds.points"
            )
        values, slopes = programs.leave_one_out(
            self.program, jnp.asarray(theta), self.prepared, self.layout
        )
        return np.asarray(values), np.asarray(slopes)

    @in_float64
    def posterior(self, theta: np.ndarray) -> np.ndarray:
        """(sites, K) probabilities of the latent states given all data."""
        if self.layout is None:
            raise ValueError("a Custom model has no latent states that are known here")
        sites = jnp.arange(len(self.base))[None]
        slots, weights = self.layout.to_slots(sites), jnp.asarray(self.base)[None]
        arrays = (jnp.asarray(theta)[None], weights, slots, self.prepared, self.layout)
        return np.asarray(programs.posterior(self.program, *arrays)[1][0])

    @in_float64
    def log_likelihoods(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(F,) log p(kept data), latent states kept."""
        sequences = self.program.scheme.kind == "sequences"
        program = self.program if sequences else replace(self.program, scheme=A())
        arrays = (jnp.asarray(thetas), jnp.asarray(weights), *self._data)
        return np.asarray(programs.log_likelihoods(program, *arrays))

    @in_float64
    def pointwise_losses(
        self, thetas: np.ndarray, weights: np.ndarray, scored: np.ndarray
    ) -> np.ndarray:
        """(F, M): -log p(x_t | kept data), or of whole sequences, of what is `scored` (F, M)."""
        t, w, s = map(self._put, (thetas, weights, scored))
        if self.layout is None:
            return np.asarray(programs.custom_losses(self.program, t, w, s, self.prepared))
        if self.program.scheme.kind == "sequences":
            alone = hasattr(self.prepared, "take")
            losses = programs.losses_of if alone else programs.sequence_losses
            return np.asarray(losses(self.program, t, s, *self._data))
        return np.asarray(programs.pointwise_losses(self.program, t, w, s, *self._data))

    @property
    def clusters(self) -> np.ndarray:
        """(P,) contiguous stretches, which count as one observation each; sequences are their own."""
        count = len(self.base)
        whole = self.program.scheme.kind == "sequences"
        return np.arange(count) // (1 if whole else -(-count // CLUSTERS))

    @in_float64
    def run_on(self, parallel: Parallel) -> CompiledObjective:
        """The same, with its work elsewhere; on several devices the data are on each of them."""
        if parallel == self.parallel:
            return self
        prepared, layout = self.prepared, self.layout
        if parallel == "devices":
            prepared, layout = jax.device_put((prepared, layout), everywhere())
        return replace(self, parallel=parallel, prepared=prepared, layout=layout)

    def _put(self, array: Any) -> Array:
        """Rows of folds, split over the devices where there are several."""
        return over_devices(array) if self.parallel == "devices" else jnp.asarray(array)

    def with_scheme(self, scheme: Scheme) -> CompiledObjective:
        """The same along another path."""
        layout = self.layout
        if isinstance(scheme, C):
            raise ValueError(
                "scheme C leaves labels out, but this model's states are hidden: use A or B"
            )
        if layout is None or scheme == self.program.scheme:
            return self
        base = self.base
        if scheme.kind == "sequences":
            base = np.any(np.asarray(layout.observed), axis=1).astype(float)
        return replace(self, program=replace(self.program, scheme=scheme), base=base)
