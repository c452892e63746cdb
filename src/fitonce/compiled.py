"""F(theta, w) of chains and of custom densities: one JAX program, batched over folds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from fitonce import programs
from fitonce.data import Sequences
from fitonce.numerics import Array, in_float64
from fitonce.objective import CLUSTERS, Program
from fitonce.potentials import Layout
from fitonce.weighting import A, C, Scheme


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
    """

    program: Program
    prepared: Any
    layout: Layout | None
    base: np.ndarray
    closed_form: ClassVar[bool] = False
    convex: ClassVar[bool] = False
    cheap_cross: ClassVar[bool] = False

    @property
    def _data(self) -> tuple[Any, Layout | None]:
        return self.prepared, self.layout

    @property
    def bytes_per_fold(self) -> int:
        """About how much memory one fold needs."""
        return int(self.program.model.bytes_per_fold(self.prepared))

    def bytes_per_loss(self, touched: int) -> int:
        """The same as a gradient: losses take all of the data, too."""
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
        u = self.coordinates(weights)
        return np.asarray(programs.gradients(self.program, jnp.asarray(thetas), u, *self._data))

    @in_float64
    def values_and_gradients(
        self, thetas: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(F,), (F, D)."""
        u = self.coordinates(weights)
        values, gradients = programs.values_and_gradients(
            self.program, jnp.asarray(thetas), u, *self._data
        )
        return np.asarray(values), np.asarray(gradients)

    @in_float64
    def hessians(self, thetas: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(F, D, D). A single one comes with J, from the program that the expansion needs too."""
        u = self.coordinates(weights)
        if len(thetas) == 1:
            parts = programs.derivatives(self.program, jnp.asarray(thetas[0]), u[0], *self._data)
            return np.asarray(parts[1])[None]
        return np.asarray(programs.hessians(self.program, jnp.asarray(thetas), u, *self._data))

    @in_float64
    def derivatives(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Gradient, H and J (D, path coordinates) at the full fit's weights."""
        u = self.coordinates(self.base)
        parts = programs.derivatives(self.program, jnp.asarray(theta), u, *self._data)
        gradient, hessian, cross = map(np.asarray, parts)
        return gradient, 0.5 * (hessian + hessian.T), cross

    def cross(self, theta: np.ndarray) -> np.ndarray:
        """J (D, path coordinates), which comes with H."""
        return self.derivatives(theta)[2]

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
        t, w, s = map(jnp.asarray, (thetas, weights, scored))
        if self.layout is None:
            return np.asarray(programs.custom_losses(self.program, t, w, s, self.prepared))
        if self.program.scheme.kind == "sequences":
            return np.asarray(programs.sequence_losses(self.program, t, s, *self._data))
        return np.asarray(programs.pointwise_losses(self.program, t, w, s, *self._data))

    @property
    def clusters(self) -> np.ndarray:
        """(P,) contiguous stretches, which count as one observation each; sequences are their own."""
        count = len(self.base)
        whole = self.program.scheme.kind == "sequences"
        return np.arange(count) // (1 if whole else -(-count // CLUSTERS))

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
        return CompiledObjective(replace(self.program, scheme=scheme), self.prepared, layout, base)
