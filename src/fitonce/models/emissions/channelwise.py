"""Emissions whose channels are independent, each with a density of a few coordinates.

A subclass says what the density is, what its parameters are called and what their priors are, and how
fits start. Covariates and exposures add to the first coordinate, the location.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fitonce.core.arguments import read_names, require_flag, require_number
from fitonce.core.constraints import Constraint, Free
from fitonce.core.deferred import jnp
from fitonce.core.numerics import Array
from fitonce.core.parameters import Params
from fitonce.core.predictive import Tails
from fitonce.core.units import Units, in_units
from fitonce.data.sequences import Sequences
from fitonce.models.emissions.base import (
    Emission,
    EmissionTraits,
    Rows,
    channel_moments,
    coefficient_precision,
    sum_channels,
    upright,
)
from fitonce.models.emissions.closed_channels import (
    COEFFICIENTS,
    COMMON,
    CentredPrior,
    ClosedChannels,
    Coordinate,
    Prior,
)
from fitonce.models.emissions.closed_forms import ClosedForms, Observations
from fitonce.models.emissions.densities import Density, Maths, jax_maths, numpy_maths

Random = np.random.Generator | None  # of random starts; None for the first


def in_every_state(value: Any, n_states: int, rows: Rows) -> np.ndarray:
    """The same value in all states."""
    return np.broadcast_to(value, (n_states, *rows.x.shape[1:])).copy()


def read_regressors(given: Any) -> tuple[str, ...]:
    """Names of covariates, checked."""
    return read_names("regressors", given, "names of covariates")


def require_coefficient_scale(scale: Any) -> None:
    """Raise unless it is a positive number or None."""
    require_number("coefficient_scale", scale, above=0, optional=True)


def require_varying(data: Sequences, names: tuple[str, ...]) -> None:
    """Raise where a covariate is the same at all steps."""
    for name in names:
        values = data.covariates_of((name,))[data.valid]
        if np.ptp(values) == 0:
            raise ValueError(
                f"covariate '{name}' is constant ({values[0, 0]:g}); leave it out, for the location is "
                "that already"
            )


@dataclass(frozen=True)
class Channelwise(Emission):
    """Args:
    regressors: names of covariates of the data (`fo.sequences(..., covariates=)`) that add to the
        location, on the scale of its link: `coefficients` (K, C, Q). The location itself is then that
        where they are zero.
    coefficient_scale: prior standard deviation of coefficients for covariates of unit spread, in
        units of the link (of the channel, if that is the identity); None: flat.
    standardise: if false, `coefficient_scale` is that of the coefficients as they are, whatever the
        spread of covariates and channels.
    shared: names of covariates whose coefficients all states share: `shared_coefficients` (C, S).
    """

    regressors: tuple[str, ...] = ()
    coefficient_scale: float | None = 10.0
    standardise: bool = field(default=True, kw_only=True)
    shared: tuple[str, ...] = field(default=(), kw_only=True)

    density: ClassVar[Density]
    coordinates: ClassVar[tuple[Coordinate, ...]]  # of the density, the location first
    identity_link: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "regressors", read_regressors(self.regressors))
        object.__setattr__(self, "shared", read_names("shared", self.shared, "names of covariates"))
        if len(set(self.linear)) < len(self.linear):
            raise ValueError(f"regressors and shared ones must differ, got {list(self.linear)}")
        require_coefficient_scale(self.coefficient_scale)
        require_flag("standardise", self.standardise)

    @property
    def traits(self) -> EmissionTraits:
        return EmissionTraits(tails=not self.circular(1)[0])  # angles have no ends

    @abstractmethod
    def priors(self, x: Any, weights: Any) -> tuple[Prior, ...]:
        """Of the coordinates; x and how often each value occurs among the observed ones, both (R, C), in
        NumPy or JAX, are for those that depend on the spread of the data."""

    @abstractmethod
    def levels(self, n_states: int, rows: Rows, rng: Random) -> dict[str, np.ndarray]:
        """Starting values of all but the coefficients, which start at zero."""

    @property
    def linear(self) -> tuple[str, ...]:
        """Covariates with coefficients: those of each state, then those that states share."""
        return (*self.regressors, *self.shared)

    @property
    def reads(self) -> tuple[str, ...]:
        """Covariates with coefficients, then others."""
        return self.linear

    def argument(self, x: Any, covariates: Any, maths: Maths) -> tuple[Any, Any]:
        """What the density calls x, and what is added to the location, from x (R, 1, C, ...) and the
        covariates (R, Q)."""
        return x, 0.0

    def exposed(self, x: Any, offset: Any, exposure: Any, maths: Maths) -> tuple[Any, Any]:
        """The argument, where sites have exposures (R,): means are per unit of these."""
        return x, offset + upright(maths.np.log(exposure), x)

    def check_to_fit(self, data: Sequences) -> None:
        require_varying(data, self.linear)

    def covariates(self, data: Sequences) -> np.ndarray | None:
        return data.covariates_of(self.reads) if self.reads else None

    def _coefficient_prior(self, x: Any, weights: Any, covariates: Any, counts: Any) -> CentredPrior:
        """Of all of them, in the order of `linear`."""
        size = len(self.linear)
        if self.coefficient_scale is None or size == 0:
            return CentredPrior(np.zeros((*x.shape[1:], size)))
        if not self.standardise:
            return CentredPrior(np.full((*x.shape[1:], size), self.coefficient_scale**-2.0))
        spread = channel_moments(covariates[:, :size], counts[:, None])[1]
        of_channel = channel_moments(x, weights)[1] if self.identity_link else np.ones(x.shape[1:])
        return CentredPrior(coefficient_precision(spread, of_channel, self.coefficient_scale))

    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]:
        shape = (n_states, *rows.x.shape[1:])
        location, *others = self.coordinates
        names: dict[str, Constraint] = {one.name: one.constraint(shape) for one in others}
        names[location.name] = location.constraint(shape)
        unit: Any = np.ones(rows.x.shape[1:])
        if self.identity_link:
            unit, origin = Units.of(*channel_moments(np.asarray(rows.x), rows.weights()))
            names[location.name] = in_units(names[location.name], unit, origin)
        known = np.asarray(rows.covariates)[:, : len(self.linear)]
        of_covariates = Units.of(*channel_moments(known, np.asarray(rows.counts)[:, None])).unit
        slope, own = np.asarray(unit)[..., None] / of_covariates, len(self.regressors)
        if self.regressors:
            names[COEFFICIENTS] = in_units(Free((*shape, own)), slope[..., :own])
        if self.shared:
            free = Free((*rows.x.shape[1:], len(self.shared)))
            names[COMMON] = in_units(free, slope[..., own:])
        return names

    def start(self, n_states: int, rows: Rows, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        found = self.levels(n_states, rows, rng)
        if self.regressors:
            found[COEFFICIENTS] = np.zeros((n_states, *rows.x.shape[1:], len(self.regressors)))
        if self.shared:
            found[COMMON] = np.zeros((*rows.x.shape[1:], len(self.shared)))
        return found

    def log_prior(self, params: Params, rows: Rows) -> Array:
        maths, value = jax_maths(), jnp.zeros(())
        weights = jnp.ones_like(rows.x) if rows.observed is None else rows.observed.astype(float)
        weights = weights * upright(rows.counts, rows.x)
        for one, prior in zip(self.coordinates, self.priors(rows.x, weights), strict=True):
            value += jnp.sum(prior.log(one.free(params[one.name], maths), maths))
        prior = self._coefficient_prior(rows.x, weights, rows.covariates, rows.counts)
        own, common = prior.split(len(self.regressors))
        if self.regressors:
            value += jnp.sum(own.log(params[COEFFICIENTS], maths))
        if self.shared:
            value += jnp.sum(common.log(params[COMMON][None], maths))
        return value

    def log_density(self, params: Params, rows: Rows) -> Array:
        maths = jax_maths()
        return sum_channels(self.density.log(*self._located(params, rows, maths), maths), rows)

    def tails(self, params: Params, rows: Rows) -> Tails:
        arrays = {name: np.asarray(value) for name, value in params.items()}
        x, at = self._located(arrays, rows, numpy_maths())
        found, known = self.density.tails(x, at), self.moments_at(at, np.asarray(rows.covariates))
        return found if known is None else found._replace(expected=known[0])

    def _located(self, params: Params, rows: Rows, maths: Maths) -> tuple[Any, Any]:
        """What the density calls x, (R, 1, ...), and its coordinates, (R or 1, K, ...)."""
        at = [one.free(params[one.name], maths)[None] for one in self.coordinates]
        x, offset = self.argument(rows.x[:, None], rows.covariates, maths)
        own, both = len(self.regressors), len(self.linear)
        if self.regressors:
            known = rows.covariates[:, :own]
            at[0] = at[0] + maths.np.tensordot(known, params[COEFFICIENTS], (1, -1))
        if self.shared:
            known = rows.covariates[:, own:both]
            at[0] = at[0] + maths.np.tensordot(known, params[COMMON], (1, -1))[:, None]
        if rows.exposure is not None:
            x, offset = self.exposed(x, offset, rows.exposure, maths)
        return x, (at[0] + offset, *at[1:])

    def draw(
        self, params: Params, states: np.ndarray, known: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        return self.drawn(self._coordinates_of(params, states, known), known, rng)

    def moments(
        self, params: Params, states: np.ndarray, known: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        return self.moments_at(self._coordinates_of(params, states, known), known)

    def _coordinates_of(self, params: Params, states: np.ndarray, known: np.ndarray) -> Any:
        """(m, C) each, of steps in states (m,) given covariates (m, Q)."""
        at = [one.free(params[one.name], numpy_maths())[states] for one in self.coordinates]
        own, both = len(self.regressors), len(self.linear)
        if self.regressors:
            at[0] = at[0] + np.einsum("mcq,mq->mc", params[COEFFICIENTS][states], known[:, :own])
        if self.shared:
            at[0] = at[0] + known[:, own:both] @ params[COMMON].T
        offset = self.argument(np.ones((len(states), 1)), known, numpy_maths())[1]
        return at[0] + offset, *at[1:]

    def drawn(self, at: Any, known: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Random observations (m, C) at coordinates (m, C)."""
        return np.asarray(self.density.draw(at, rng), float)

    def moments_at(self, at: Any, known: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Means and variances (m, C) at coordinates (m, C)."""
        return self.density.moments(at)

    def closed_forms(self, rows: Observations) -> ClosedForms:
        weights = rows.seen * rows.counts[:, None]
        return ClosedChannels(
            self.density,
            self.coordinates,
            self.priors(rows.x, weights),
            len(self.regressors),
            len(self.shared),
            self._coefficient_prior(rows.x, weights, rows.covariates, rows.counts),
            self.argument,
        )
