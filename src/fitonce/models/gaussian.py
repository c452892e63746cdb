"""Gaussian emissions with fixed, spherical, diagonal or full covariance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from fitonce.constraints import Constraint, Covariance, Free, Positive
from fitonce.data import Sequences
from fitonce.models.base import Rows
from fitonce.models.emissions import freeze_value, spread_levels
from fitonce.numerics import Array
from fitonce.params import Params

Shape = Literal["fixed", "spherical", "diag", "full"]
SHAPES = ("fixed", "spherical", "diag", "full")
_LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True)
class Gaussian:
    """`mean` (K, C), and `variance` (K,) or (K, C), or `covariance` (K, C, C).

    Priors: mean ~ Normal(0, mean_scale^2), flat when None; each covariance has the log-prior
    -(strength / 2) (log det S + trace(S^-1 scale^2)): `strength` pseudo-observations of spread
    `scale`, which keeps a state from collapsing onto one point. `scale=None` is a tenth of each
    channel's standard deviation in all of the data, so that units do not matter: what a fold leaves out
    still had its part in that. Give a number to rule this out; `strength=0` is maximum likelihood.
    """

    covariance: Shape = "diag"
    fixed_variance: Any = 1.0
    mean_scale: float | None = None
    strength: float = 1.0
    scale: float | None = None
    deduplicate: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.covariance not in SHAPES:
            raise ValueError(f"covariance must be one of {SHAPES}, got '{self.covariance}'")
        if not (np.asarray(self.fixed_variance, float) > 0).all():
            raise ValueError(f"variance must be positive, got {self.fixed_variance}")
        if not self.strength >= 0:
            raise ValueError(f"strength must not be negative, got {self.strength}")
        for name in ("mean_scale", "scale"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive or None, got {value}")
        object.__setattr__(self, "fixed_variance", freeze_value(self.fixed_variance))

    def check(self, data: Sequences) -> None:
        if self.covariance == "fixed":
            width = np.shape(self.fixed_variance)
            if width not in ((), (len(data.channels),)):
                raise ValueError(
                    f"variance must be a number or one for each of {len(data.channels)} channels, "
                    f"got shape {width}"
                )
            return
        for number, name in enumerate(data.channels):
            values = data.values[..., number][data.observed[..., number]]
            if np.ptp(values) == 0 and (self.strength == 0 or self.scale is None):
                raise ValueError(
                    f"channel '{name}' is constant ({values[0]:g}), so its variance has no estimate; "
                    "drop the channel, or set its prior spread with scale="
                )

    def covariates(self, data: Sequences) -> np.ndarray | None:
        return None

    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]:
        channels = rows.x.shape[1]
        names: dict[str, Constraint] = {"mean": Free((n_states, channels))}
        if self.covariance == "spherical":
            names["variance"] = Positive((n_states,))
        elif self.covariance == "diag":
            names["variance"] = Positive((n_states, channels))
        elif self.covariance == "full":
            names["covariance"] = Covariance((n_states, channels, channels))
        return names

    def start(self, n_states: int, rows: Rows, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        x = np.asarray(rows.x)
        seen = np.ones(x.shape, bool) if rows.observed is None else np.asarray(rows.observed)
        centres = _kmeans(x, seen & (np.asarray(rows.counts) > 0)[:, None], n_states, rng)
        spread = np.array([x[seen[:, c], c].var() for c in range(x.shape[1])])
        variance = np.maximum(spread / n_states, 1e-3 * spread.max() or (self.scale or 1.0) ** 2)
        start: dict[str, np.ndarray] = {"mean": centres}
        if self.covariance == "spherical":
            start["variance"] = np.full(n_states, variance.mean())
        elif self.covariance == "diag":
            start["variance"] = np.tile(variance, (n_states, 1))
        elif self.covariance == "full":
            start["covariance"] = np.tile(np.diag(variance), (n_states, 1, 1))
        return start

    def log_prior(self, params: Params, rows: Rows) -> Array:
        value = jnp.zeros(())
        if self.mean_scale is not None:
            value -= 0.5 * jnp.sum((params["mean"] / self.mean_scale) ** 2)
        if self.covariance in ("spherical", "diag"):
            variance = params["variance"]
            variance = variance[:, None] if self.covariance == "spherical" else variance
            variance = jnp.broadcast_to(variance, params["mean"].shape)
            square = self._prior_variance(rows)
            value -= 0.5 * self.strength * jnp.sum(jnp.log(variance) + square / variance)
        elif self.covariance == "full":
            factor = jnp.linalg.cholesky(params["covariance"])
            identity = jnp.broadcast_to(jnp.eye(factor.shape[-1]), factor.shape)
            inverse = solve_triangular(factor, identity, lower=True)
            log_det = 2.0 * jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)))
            trace = jnp.sum(inverse**2 * self._prior_variance(rows))
            value -= 0.5 * self.strength * (log_det + trace)
        return value

    def _prior_variance(self, rows: Rows) -> Array:
        """(C,): scale^2, or a hundredth of each channel's variance."""
        if self.scale is not None:
            return jnp.full(rows.x.shape[1], self.scale**2)
        weight = jnp.ones_like(rows.x) if rows.observed is None else rows.observed.astype(float)
        weight = weight * rows.counts[:, None]
        weight = weight / jnp.sum(weight, 0)
        centred = rows.x - jnp.sum(weight * rows.x, 0)
        return 0.01 * jnp.sum(weight * centred**2, 0)

    def log_density(self, params: Params, rows: Rows) -> Array:
        residual = rows.x[:, None] - params["mean"]  # (R, K, C)
        if self.covariance == "full":
            return _full_log_density(residual, params["covariance"], rows.observed)
        if self.covariance == "fixed":
            variance = jnp.asarray(self.fixed_variance)
        elif self.covariance == "spherical":
            variance = params["variance"][:, None]
        else:
            variance = params["variance"]
        variance = jnp.broadcast_to(variance, params["mean"].shape)
        terms = residual**2 / variance + jnp.log(variance) + _LOG_2PI
        if rows.observed is not None:
            terms = jnp.where(rows.observed[:, None], terms, 0.0)
        return -0.5 * jnp.sum(terms, -1)


def _full_log_density(residual: Array, covariance: Array, observed: Array | None) -> Array:
    """(R, K). Unobserved channels are replaced by independent standard ones with residual zero."""
    if observed is None:
        factor = jnp.linalg.cholesky(covariance)  # (K, C, C)
        white = solve_triangular(factor, jnp.moveaxis(residual, 0, -1), lower=True)
        square = jnp.sum(white**2, -2).T
        count: Array | int = residual.shape[-1]
    else:
        both = observed[:, :, None] & observed[:, None, :]
        identity = jnp.eye(residual.shape[-1])
        factor = jnp.linalg.cholesky(jnp.where(both[:, None], covariance, identity))
        white = solve_triangular(
            factor, jnp.where(observed[:, None], residual, 0.0)[..., None], lower=True
        )
        square = jnp.sum(white[..., 0] ** 2, -1)
        count = jnp.sum(observed, -1)[:, None]
    log_det = 2.0 * jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), -1)
    return -0.5 * (square + log_det + count * _LOG_2PI)


def _kmeans(
    x: np.ndarray, seen: np.ndarray, n_states: int, rng: np.random.Generator | None
) -> np.ndarray:
    """(K, C) cluster centres, ordered by the first channel; complete rows where there are enough."""
    from scipy.cluster.vq import kmeans2

    whole = x[seen.all(1)]
    distinct = len(np.unique(whole, axis=0)) if len(whole) else 0
    rows = Rows(x, seen, np.zeros((len(x), 0)), seen.any(1).astype(float))  # type: ignore[arg-type]
    if distinct < max(n_states, 2):
        levels = spread_levels(n_states, rows, rng)
        return levels + 1e-3 * np.arange(n_states)[:, None]
    scale = np.where(whole.std(0) > 0, whole.std(0), 1.0)
    generator = rng or np.random.default_rng(0)
    sample = whole if len(whole) <= 20_000 else generator.choice(whole, 20_000, replace=False)
    best, best_cost = None, np.inf
    for _ in range(8 if rng is None else 1):
        centres, labels = kmeans2(sample / scale, n_states, minit="++", rng=generator, missing="warn")
        cost = float(((sample / scale - centres[labels]) ** 2).sum())
        if cost < best_cost:
            best, best_cost = centres, cost
    centres = np.asarray(best) * scale
    return centres[np.argsort(centres[:, 0], kind="stable")]
