"""Gaussian emissions with fixed, spherical, diagonal or full covariance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fitonce.core.constraints import Constraint, Covariance, Free, Positive
from fitonce.core.deferred import jax, jnp
from fitonce.core.numerics import Array
from fitonce.core.parameters import Params
from fitonce.data.sequences import Sequences
from fitonce.models.emissions.base import (
    LOG_2PI,
    Emission,
    EmissionTraits,
    Rows,
    best_kmeans,
    freeze_value,
    spread_levels,
    sum_channels,
    upright,
    weighted_sums,
)
from fitonce.models.emissions.closed_covariance import ClosedFullGaussian
from fitonce.models.emissions.closed_forms import ClosedForms, Observations
from fitonce.models.emissions.closed_gaussian import ClosedGaussian

CovarianceShape = Literal["fixed", "spherical", "diag", "full"]
SHAPES = ("fixed", "spherical", "diag", "full")


@dataclass(frozen=True)
class Gaussian(Emission):
    """`mean` (K, C), and `variance` (K,) or (K, C), or `covariance` (K, C, C); on a graph all are (K,).

    Priors: mean ~ Normal(0, mean_scale^2), flat if None; each covariance S has the log-prior
    -(strength / 2) (log det S + trace(S^-1 scale^2)): `strength` pseudo-observations of spread
    `scale`, which keeps a state from collapsing onto one point. `scale=None` is a tenth of each
    channel's standard deviation in the whole data set, so that units do not matter; left-out data
    contribute to it, so give a number to rule that out. `strength=0` is maximum likelihood.

    Args:
        covariance: "fixed" (at `fixed_variance`), "spherical", "diag" or "full".
        fixed_variance: a number, or one per channel, used with "fixed".
        mean_scale, strength, scale: priors, as above.
    """

    covariance: CovarianceShape = "diag"
    fixed_variance: Any = 1.0
    mean_scale: float | None = None
    strength: float = 1.0
    scale: float | None = None

    def __post_init__(self) -> None:
        if self.covariance not in SHAPES:
            raise ValueError(f"covariance must be one of {SHAPES}, got '{self.covariance}'")
        if not (np.asarray(self.fixed_variance, float) > 0).all():
            raise ValueError(f"the fixed variance must be positive, got {self.fixed_variance}")
        if not self.strength >= 0:
            raise ValueError(f"strength must not be negative, got {self.strength}")
        for name in ("mean_scale", "scale"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive or None, got {value}")
        object.__setattr__(self, "fixed_variance", freeze_value(self.fixed_variance))

    @property
    def traits(self) -> EmissionTraits:
        # With missing channels, the best full covariance has no closed form.
        return EmissionTraits(m_step=self.covariance != "full")

    def check(self, data: Sequences, exposure: np.ndarray | None = None) -> None:
        if self.covariance == "fixed":
            width = np.shape(self.fixed_variance)
            if width not in ((), (len(data.channels),)):
                raise ValueError(
                    "the fixed variance must be a number or one per channel, shape "
                    f"({len(data.channels)},), got shape {width}"
                )
            return
        for number, name in enumerate(data.channels):
            values = data.values[..., number][data.observed[..., number]]
            if np.ptp(values) == 0 and (self.strength == 0 or self.scale is None):
                raise ValueError(
                    f"channel '{name}' is constant ({values[0]:g}), so its variance has no estimate; "
                    "drop the channel, or set its prior spread with scale="
                )

    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]:
        channels = rows.x.shape[1:]
        names: dict[str, Constraint] = {"mean": Free((n_states, *channels))}
        if self.covariance == "spherical":
            names["variance"] = Positive((n_states,))
        elif self.covariance == "diag":
            names["variance"] = Positive((n_states, *channels))
        elif self.covariance == "full":
            if not channels:
                raise ValueError("single values have no full covariance; use covariance='diag'")
            names["covariance"] = Covariance((n_states, *channels, *channels))
        return names

    def start(self, n_states: int, rows: Rows, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        x = np.asarray(rows.x).reshape(len(rows.x), -1)
        seen = rows.mask().reshape(x.shape) & (np.asarray(rows.counts) > 0)[:, None]
        centres = _kmeans(x, seen, n_states, rng)
        spread = np.array([x[seen[:, c], c].var() for c in range(x.shape[1])])
        variance = np.maximum(spread / n_states, 1e-3 * spread.max() or (self.scale or 1.0) ** 2)
        start: dict[str, np.ndarray] = {"mean": centres.reshape(n_states, *rows.x.shape[1:])}
        if self.covariance == "spherical":
            start["variance"] = np.full(n_states, variance.mean())
        elif self.covariance == "diag":
            start["variance"] = np.tile(variance, (n_states, 1)).reshape(start["mean"].shape)
        elif self.covariance == "full":
            start["covariance"] = np.tile(np.diag(variance), (n_states, 1, 1))
        return start

    def _variances(self, params: Params) -> Array:
        """Variances of the shape of the means, unless the covariance is full."""
        fixed = self.covariance == "fixed"
        variance = jnp.asarray(self.fixed_variance) if fixed else params["variance"]
        if self.covariance == "spherical":
            variance = upright(variance, params["mean"])
        return jnp.broadcast_to(variance, params["mean"].shape)

    def log_prior(self, params: Params, rows: Rows) -> Array:
        value = jnp.zeros(())
        if self.mean_scale is not None:
            value -= 0.5 * jnp.sum((params["mean"] / self.mean_scale) ** 2)
        if self.covariance in ("spherical", "diag"):
            variance, square = self._variances(params), self._prior_variance(rows)
            value -= 0.5 * self.strength * jnp.sum(jnp.log(variance) + square / variance)
        elif self.covariance == "full":
            factor = jnp.linalg.cholesky(params["covariance"])
            identity = jnp.broadcast_to(jnp.eye(factor.shape[-1]), factor.shape)
            inverse = jax.scipy.linalg.solve_triangular(factor, identity, lower=True)
            log_det = 2.0 * jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)))
            trace = jnp.sum(inverse**2 * self._prior_variance(rows))
            value -= 0.5 * self.strength * (log_det + trace)
        return value

    def _prior_variance(self, rows: Rows) -> Array:
        """(C,) or (): scale^2, or a hundredth of each channel's variance."""
        if self.scale is not None:
            return jnp.full(rows.x.shape[1:], self.scale**2)
        weight = jnp.ones_like(rows.x) if rows.observed is None else rows.observed.astype(float)
        weight = weight * upright(rows.counts, rows.x)
        weight = weight / jnp.sum(weight, 0)
        centred = rows.x - jnp.sum(weight * rows.x, 0)
        return 0.01 * jnp.sum(weight * centred**2, 0)

    def log_density(self, params: Params, rows: Rows) -> Array:
        residual = rows.x[:, None] - params["mean"]  # (R, K, C) or (R, K)
        if self.covariance == "full":
            return _full_log_density(residual, params["covariance"], rows.observed)
        variance = self._variances(params)
        return sum_channels(-0.5 * (residual**2 / variance + jnp.log(variance) + LOG_2PI), rows)

    def closed_forms(self, rows: Observations) -> ClosedForms | None:
        square = self._prior_variance_of(rows)
        if self.covariance == "full":
            # Every pattern of missing channels has a factor of its own.
            whole = bool(rows.seen.all())
            return ClosedFullGaussian(self.mean_scale, self.strength, square) if whole else None
        return ClosedGaussian(
            self.covariance != "fixed",
            self.covariance == "spherical",
            self.fixed_variance,
            self.mean_scale,
            self.strength,
            square,
        )

    def _prior_variance_of(self, rows: Observations) -> np.ndarray:
        """(C,): scale^2, or a hundredth of each channel's variance."""
        if self.scale is not None:
            return np.full(rows.x.shape[1], self.scale**2)
        weight = rows.seen * rows.counts[:, None]
        weight = weight / weight.sum(0)
        centred = rows.x - np.sum(weight * rows.x, 0)
        return 0.01 * np.sum(weight * centred**2, 0)

    def maximise(self, params: Params, shares: np.ndarray, rows: Rows) -> dict[str, np.ndarray]:
        """The best means at the current variances, and then the best variances."""
        x = np.asarray(rows.x)
        total = weighted_sums(1.0, shares, rows)
        shrinkage: Any = 0.0
        if self.mean_scale is not None:
            shrinkage = np.asarray(self._variances(params)) / self.mean_scale**2
        with np.errstate(invalid="ignore"):  # the mean of a state without mass is nan
            mean = weighted_sums(x, shares, rows) / (total + shrinkage)
        if self.covariance == "fixed":
            return {"mean": mean}
        square = np.stack([
            weighted_sums((x - centre) ** 2, shares[:, k : k + 1], rows)[0]
            for k, centre in enumerate(mean)
        ])  # fmt: skip
        square = square + self.strength * np.asarray(self._prior_variance(rows))
        mass = total + self.strength
        if self.covariance == "spherical":
            square, mass = (part.reshape(len(part), -1).sum(1) for part in (square, mass))
        return {"mean": mean, "variance": square / mass}


def _full_log_density(residual: Array, covariance: Array, observed: Array | None) -> Array:
    """(R, K). Missing channels are replaced by independent standard normal ones with residual zero."""
    if observed is None:
        factor = jnp.linalg.cholesky(covariance)  # (K, C, C)
        white = jax.scipy.linalg.solve_triangular(factor, jnp.moveaxis(residual, 0, -1), lower=True)
        square = jnp.sum(white**2, -2).T
        count: Array | int = residual.shape[-1]
    else:
        both = observed[:, :, None] & observed[:, None, :]
        identity = jnp.eye(residual.shape[-1])
        factor = jnp.linalg.cholesky(jnp.where(both[:, None], covariance, identity))
        white = jax.scipy.linalg.solve_triangular(
            factor, jnp.where(observed[:, None], residual, 0.0)[..., None], lower=True
        )
        square = jnp.sum(white[..., 0] ** 2, -1)
        count = jnp.sum(observed, -1)[:, None]
    log_det = 2.0 * jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), -1)
    return -0.5 * (square + log_det + count * LOG_2PI)


def _kmeans(
    x: np.ndarray, seen: np.ndarray, n_states: int, rng: np.random.Generator | None
) -> np.ndarray:
    """(K, C) cluster centres of complete rows, ordered by the first channel; quantiles if too few."""
    whole = x[seen.all(1)]
    distinct = len(np.unique(whole, axis=0)) if len(whole) else 0
    if distinct < max(n_states, 2):
        rows = Rows(x, seen, np.zeros((len(x), 0)), seen.any(1).astype(float))
        return spread_levels(n_states, rows, rng) + 1e-3 * np.arange(n_states)[:, None]
    scale = np.where(whole.std(0) > 0, whole.std(0), 1.0)
    generator = rng or np.random.default_rng(0)
    sample = whole if len(whole) <= 20_000 else generator.choice(whole, 20_000, replace=False)
    centres = best_kmeans(sample / scale, n_states, generator, 8 if rng is None else 1)[0] * scale
    return centres[np.argsort(centres[:, 0], kind="stable")]
