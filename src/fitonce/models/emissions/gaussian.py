"""Gaussian emissions with fixed, spherical, diagonal, full or tied covariance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fitonce.core.arguments import require, require_choice, require_number
from fitonce.core.constraints import Constraint, Covariance, Free, Positive
from fitonce.core.deferred import jnp
from fitonce.core.numerics import Array, as_numbers, is_number
from fitonce.core.parameters import Params
from fitonce.core.predictive import Tails
from fitonce.core.small_factors import cholesky, solve_lower
from fitonce.core.units import Units, in_units
from fitonce.data.sequences import Sequences
from fitonce.models.emissions.base import (
    Emission,
    EmissionTraits,
    Rows,
    best_kmeans,
    channel_moments,
    freeze_value,
    spread_levels,
    sum_channels,
    upright,
)
from fitonce.models.emissions.closed_covariance import ClosedFullGaussian
from fitonce.models.emissions.closed_forms import LOG_2PI, ClosedForms, Observations
from fitonce.models.emissions.closed_gaussian import ClosedGaussian, NormalPrior
from fitonce.models.emissions.gaussian_steps import best_diagonal, best_full, best_variance
from fitonce.models.emissions.tails import normal_tails

CovarianceShape = Literal["fixed", "spherical", "diag", "full", "tied"]
SHAPES = ("fixed", "spherical", "diag", "full", "tied")
_MATRICES = ("full", "tied")


@dataclass(frozen=True)
class Gaussian(Emission):
    """`mean` (K, C), and `variance` (K,) or (K, C), or `covariance` (K, C, C), or (C, C) if states share
    it; on a graph all are (K,).

    Priors: mean ~ Normal(mean_centre, mean_scale^2), flat if None; each covariance S has the log-prior
    -(strength / 2) (log det S + trace(S^-1 scale^2)): `strength` pseudo-observations of spread
    `scale`, which keeps a state from collapsing onto one point. `scale=None` is a tenth of each
    channel's standard deviation in the whole data set, so that units do not matter; left-out data
    contribute to it, so give a number to rule that out. `strength=0` is maximum likelihood. `squares`
    gives the sum of squares of the pseudo-observations itself, in place of strength scale^2: a number,
    or one for each channel, or a matrix (C, C) for a full or tied covariance.

    Priors of other libraries: `mean_weight` adds -(mean_weight / 2) (mean - mean_centre)' S^-1
    (mean - mean_centre), the normal part of a normal-inverse-Wishart or normal-inverse-gamma prior,
    whose log det S counts in `strength`; `variance_rate` adds -variance_rate v for the variance v of
    each channel, as a gamma prior of variances does. With `squares` the strength may be negative.

    Args:
        covariance: "fixed" (at `fixed_variance`), "spherical", "diag", "full", or "tied": one full
            covariance that all states share.
        fixed_variance: a number, or one per channel, used with "fixed".
        mean_scale, strength, scale, squares, mean_centre, mean_weight, variance_rate: priors, as above.
    """

    covariance: CovarianceShape = "diag"
    fixed_variance: Any = 1.0
    mean_scale: float | None = None
    strength: float = 1.0
    scale: float | None = None
    squares: Any = None
    mean_centre: Any = 0.0
    mean_weight: float = 0.0
    variance_rate: float = 0.0

    def __post_init__(self) -> None:
        require_choice("covariance", self.covariance, SHAPES)
        require_variance("fixed_variance", self.fixed_variance)
        require(
            is_number(self.strength) and (self.strength >= 0 or self.squares is not None),
            "strength",
            "a non-negative number",
            self.strength,
        )
        for name in ("mean_weight", "variance_rate"):
            value = getattr(self, name)
            require_number(name, value, least=0)
        if self.variance_rate and self.covariance not in ("spherical", "diag"):
            raise ValueError(
                f"variance_rate is for spherical and diag variances, got covariance='{self.covariance}'"
            )
        require(
            as_numbers(self.mean_centre) is not None,
            "mean_centre",
            "a number or one per channel",
            self.mean_centre,
        )
        object.__setattr__(self, "mean_centre", freeze_value(self.mean_centre))
        for name in ("mean_scale", "scale"):
            value = getattr(self, name)
            require_number(name, value, above=0, optional=True)
        object.__setattr__(self, "fixed_variance", freeze_value(self.fixed_variance))
        if self.squares is not None:
            fine = as_numbers(self.squares) is not None and self.scale is None
            require(fine, "squares", "numbers, given without a scale", self.squares)
            object.__setattr__(self, "squares", freeze_value(self.squares))

    @property
    def traits(self) -> EmissionTraits:
        return EmissionTraits(m_step=True, em_starts=True, tails=True)

    def check(self, data: Sequences, exposure: np.ndarray | None = None) -> None:
        if np.shape(self.mean_centre) not in ((), (len(data.channels),)):
            raise ValueError(
                f"mean_centre must be a number or one per channel, shape ({len(data.channels)},), got "
                f"shape {np.shape(self.mean_centre)}"
            )
        if self.covariance == "fixed":
            width = np.shape(self.fixed_variance)
            if width not in ((), (len(data.channels),)):
                raise ValueError(
                    "the fixed variance must be a number or one per channel, shape "
                    f"({len(data.channels)},), got shape {width}"
                )

    def check_to_fit(self, data: Sequences) -> None:
        known = self.squares is not None or (self.strength > 0 and self.scale is not None)
        if known or self.covariance == "fixed":
            return
        for number, name in enumerate(data.channels):
            values = data.values[..., number][data.observed[..., number]]
            if np.ptp(values) == 0:
                raise ValueError(
                    f"channel '{name}' is constant ({values[0]:g}), so its variance has no estimate; "
                    "drop the channel, or set its prior spread with scale="
                )

    def parameters(self, n_states: int, rows: Rows) -> dict[str, Constraint]:
        channels = rows.x.shape[1:]
        if self.covariance in _MATRICES and not channels:
            raise ValueError(
                f"single values have no {self.covariance} covariance; use covariance='diag'"
            )
        unit, origin = self._units(rows)
        square = unit**2
        names: dict[str, Constraint] = {"mean": in_units(Free((n_states, *channels)), unit, origin)}
        if self.covariance == "spherical":
            names["variance"] = in_units(Positive((n_states,)), square.max())
        elif self.covariance == "diag":
            names["variance"] = in_units(Positive((n_states, *channels)), square)
        elif self.covariance in _MATRICES:
            states = (n_states,) if self.covariance == "full" else ()
            shape = (*states, *channels, *channels)
            names["covariance"] = in_units(Covariance(shape), np.outer(unit, unit))
        return names

    def _units(self, rows: Rows) -> Units:
        """Of the channels; that of `scale` where one does not vary."""
        mean, variance = channel_moments(np.asarray(rows.x), rows.weights())
        return Units.of(mean, np.where(variance > 0, variance, (self.scale or 1.0) ** 2))

    def start(self, n_states: int, rows: Rows, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
        x = np.asarray(rows.x).reshape(len(rows.x), -1)
        seen = rows.mask().reshape(x.shape) & (np.asarray(rows.counts) > 0)[:, None]
        spread = np.array([x[seen[:, c], c].var() for c in range(x.shape[1])])
        spread = np.where(spread > 0, spread, (self.scale or 1.0) ** 2)
        centres = kmeans_centres(x, seen, np.sqrt(spread), n_states, rng, of_sites=rows.x.ndim == 1)
        variance = spread / n_states
        start: dict[str, np.ndarray] = {"mean": centres.reshape(n_states, *rows.x.shape[1:])}
        if self.covariance == "spherical":
            start["variance"] = np.full(n_states, variance.mean())
        elif self.covariance == "diag":
            start["variance"] = np.tile(variance, (n_states, 1)).reshape(start["mean"].shape)
        elif self.covariance == "full":
            start["covariance"] = np.tile(np.diag(variance), (n_states, 1, 1))
        elif self.covariance == "tied":
            start["covariance"] = np.diag(variance)
        return start

    def _variances(self, params: Params) -> Array:
        """Variances of the shape of the means, unless covariances are matrices."""
        fixed = self.covariance == "fixed"
        variance = jnp.asarray(self.fixed_variance) if fixed else params["variance"]
        if self.covariance == "spherical":
            variance = upright(variance, params["mean"])
        return jnp.broadcast_to(variance, params["mean"].shape)

    def log_prior(self, params: Params, rows: Rows) -> Array:
        value, away = jnp.zeros(()), params["mean"] - jnp.asarray(self.mean_centre)
        if self.mean_scale is not None:
            value -= 0.5 * jnp.sum((away / self.mean_scale) ** 2)
        if self.mean_weight and self.covariance in _MATRICES:
            value += self.mean_weight * jnp.sum(_half_squares(away, params["covariance"]))
        elif self.mean_weight:
            value -= 0.5 * self.mean_weight * jnp.sum(away**2 / self._variances(params))
        if self.covariance in ("spherical", "diag"):
            variance, squares = self._variances(params), self._squares_of(rows)
            value -= 0.5 * jnp.sum(self.strength * jnp.log(variance) + squares / variance)
            value -= self.variance_rate * jnp.sum(variance)
        elif self.covariance in _MATRICES:
            factor = cholesky(params["covariance"])
            identity = jnp.broadcast_to(jnp.eye(factor.shape[-1]), factor.shape)
            inverse = solve_lower(factor, identity)
            log_det = 2.0 * jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)))
            trace = jnp.sum((inverse @ self._squares_of(rows)) * inverse)
            value -= 0.5 * (self.strength * log_det + trace)
        return value

    def _squares_of(self, rows: Rows) -> Array:
        """Those of the prior: (C,) or (), or (C, C) of matrices; by default of a tenth of each channel's
        standard deviation."""
        weight = jnp.ones_like(rows.x) if rows.observed is None else rows.observed.astype(float)
        return self._squares(jnp, rows.x, weight * upright(rows.counts, rows.x))

    def _squares(self, maths: Any, x: Any, weight: Any) -> Any:
        """The same in NumPy or JAX, from x and how often each value occurs among the observed ones."""
        if self.squares is not None:
            matrices = self.covariance in _MATRICES
            shape = (*x.shape[1:], *x.shape[1:]) if matrices else x.shape[1:]
            return maths.broadcast_to(maths.asarray(self.squares), shape)
        square = 0.01 * channel_moments(x, weight)[1] if self.scale is None else self.scale**2
        found = self.strength * maths.broadcast_to(maths.asarray(square), x.shape[1:])
        return maths.diag(found) if self.covariance in _MATRICES else found

    def log_density(self, params: Params, rows: Rows) -> Array:
        return self.log_density_of(rows.x[:, None] - params["mean"], params, rows)

    def log_density_of(self, residual: Array, params: Params, rows: Rows) -> Array:
        """(R, K), of residuals (R, K, C) or (R, K)."""
        if self.covariance in _MATRICES:
            return _full_log_density(residual, params["covariance"], rows.observed)
        variance = self._variances(params)
        return sum_channels(-0.5 * (residual**2 / variance + jnp.log(variance) + LOG_2PI), rows)

    def normal_prior(self, x: np.ndarray, weight: np.ndarray) -> NormalPrior:
        """The priors, from x and how often each value occurs among the observed ones."""
        centre = np.broadcast_to(np.asarray(self.mean_centre, float), x.shape[1:])
        squares = self._squares(np, x, weight)
        means = (self.mean_scale, centre, self.mean_weight)
        return NormalPrior(*means, self.strength, squares, self.variance_rate)

    def closed_forms(self, rows: Observations) -> ClosedForms | None:
        prior = self.normal_prior(rows.x, rows.seen * rows.counts[:, None])
        if self.covariance in _MATRICES:
            if not rows.seen.all():  # every pattern of missing channels has a factor of its own
                return None
            return ClosedFullGaussian(prior, self.covariance == "tied")
        learned, spherical = self.covariance != "fixed", self.covariance == "spherical"
        return ClosedGaussian(learned, spherical, self.fixed_variance, prior)

    def draw(
        self, params: Params, states: np.ndarray, known: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        mean = params["mean"]
        noise = rng.normal(size=(len(states), mean.shape[1]))
        if self.covariance in _MATRICES:
            shape = (*mean.shape, mean.shape[1])
            factors = np.linalg.cholesky(np.broadcast_to(params["covariance"], shape))
            return mean[states] + np.einsum("mij,mj->mi", factors[states], noise)
        fixed = self.covariance == "fixed"
        variance = np.asarray(self.fixed_variance if fixed else params["variance"], float)
        variance = upright(variance, mean) if self.covariance == "spherical" else variance
        return mean[states] + np.sqrt(np.broadcast_to(variance, mean.shape))[states] * noise

    def moments(
        self, params: Params, states: np.ndarray, known: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        mean = np.asarray(params["mean"])
        if self.covariance in _MATRICES:
            variance = np.diagonal(np.asarray(params["covariance"]), axis1=-2, axis2=-1)
        else:
            variance = np.asarray(self._variances(params))
        return mean[states], np.broadcast_to(variance, mean.shape)[states]

    def tails(self, params: Params, rows: Rows) -> Tails:
        mean, variance = np.asarray(params["mean"]), np.asarray(self._variances(params))
        return normal_tails(np.asarray(rows.x)[:, None], mean, variance)

    def maximise(self, params: Params, shares: np.ndarray, rows: Rows) -> dict[str, np.ndarray]:
        """The best means at the current covariances, and then the best covariances."""
        mean = np.asarray(params["mean"])
        prior = self.normal_prior(np.asarray(rows.x), rows.weights())
        if self.covariance in _MATRICES:
            current = np.broadcast_to(np.asarray(params["covariance"]), (*mean.shape, mean.shape[1]))
            tied = self.covariance == "tied"
            mean, covariance = best_full(mean, current, shares, rows, prior, len(mean) if tied else 1)
            return {"mean": mean, "covariance": covariance[0] if tied else covariance}
        fixed = self.covariance == "fixed"
        variance = np.asarray(self.fixed_variance if fixed else params["variance"])
        variance = upright(variance, mean) if self.covariance == "spherical" else variance
        mean, squares, mass = best_diagonal(mean, variance, shares, rows, prior)
        if fixed:
            return {"mean": mean}
        rate = np.full(squares.shape, self.variance_rate)
        if self.covariance == "spherical":
            squares, mass, rate = (p.reshape(len(p), -1).sum(1) for p in (squares, mass, rate))
        return {"mean": mean, "variance": best_variance(squares, mass, rate)}


def read_gaussian(name: str, given: Any) -> Gaussian:
    """The emission itself, or that with a covariance of this shape."""
    if isinstance(given, str) and given in SHAPES:
        return Gaussian(given)  # type: ignore[arg-type]
    wanted = f"an fo.models.Gaussian or a covariance, one of {SHAPES}"
    require(isinstance(given, Gaussian), name, wanted, given)
    return given


def require_variance(name: str, value: Any) -> None:
    """Raise unless it is a positive number, or several."""
    variance = as_numbers(value)
    fine = variance is not None and variance.size and (variance > 0).all()
    require(fine, name, "a positive number or one per channel", value)


def _half_squares(residual: Array, covariance: Array) -> Array:
    """(K,) of residuals (K, C): minus half of residual' S^-1 residual."""
    states, channels = residual.shape
    factor = cholesky(jnp.broadcast_to(covariance, (states, channels, channels)))
    return -0.5 * jnp.sum(solve_lower(factor, residual[..., None]) ** 2, (1, 2))


def _full_log_density(residual: Array, covariance: Array, observed: Array | None) -> Array:
    """(R, K), of covariances (K, C, C) or (C, C). Missing channels are replaced by independent standard
    normal ones with residual zero."""
    states, channels = residual.shape[1:]
    covariance = jnp.broadcast_to(covariance, (states, channels, channels))
    if observed is None:
        factor = cholesky(covariance)  # (K, C, C)
        white = solve_lower(factor, jnp.moveaxis(residual, 0, -1))
        square = jnp.sum(white**2, -2).T
        count: Array | int = residual.shape[-1]
    else:
        both = observed[:, :, None] & observed[:, None, :]
        identity = jnp.eye(residual.shape[-1])
        factor = cholesky(jnp.where(both[:, None], covariance, identity))
        white = solve_lower(factor, jnp.where(observed[:, None], residual, 0.0)[..., None])
        square = jnp.sum(white[..., 0] ** 2, -1)
        count = jnp.sum(observed, -1)[:, None]
    log_det = 2.0 * jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), -1)
    return -0.5 * (square + log_det + count * LOG_2PI)


def kmeans_centres(
    x: np.ndarray,
    seen: np.ndarray,
    spread: np.ndarray,
    n_states: int,
    rng: np.random.Generator | None,
    of_sites: bool = False,
) -> np.ndarray:
    """(K, C) cluster centres of complete rows, ordered by the first channel; quantiles if too few, and
    random ones `of_sites`: these have one channel, in which clusters hardly depend on where they begin.
    `spread`: (C,) standard deviations."""
    whole = x[seen.all(1)]
    middle, scale = (whole.mean(0), whole.std(0)) if len(whole) else (0.0, np.ones(x.shape[1]))
    scale = np.where(scale > 0, scale, 1.0)
    # in units of the spread: beside a value that is very far, others are all the same
    few = len(np.unique(((whole - middle) / scale).round(12), axis=0)) < max(n_states, 2)
    if few or n_states == 1 or (of_sites and rng is not None):
        rows = Rows(x, seen, np.zeros((len(x), 0)), seen.any(1).astype(float))
        return spread_levels(n_states, rows, rng) + 1e-3 * np.arange(n_states)[:, None] * spread
    generator = rng or np.random.default_rng(0)
    sample = whole if len(whole) <= 20_000 else generator.choice(whole, 20_000, replace=False)
    points = (sample - middle) / scale
    centres = best_kmeans(points, n_states, generator, 8 if rng is None else 1)[0]
    return (centres * scale + middle)[np.argsort(centres[:, 0], kind="stable")]
