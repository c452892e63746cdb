"""Emissions of single sites: one value each, K classes, parameters of shape (K,).

name, takes_exposure          -> in words, and whether counts are counted from something
check(x, exposure)            -> raise ValueError for data it cannot describe
constant(x, exposure)         -> (V,) the part of the log density that no parameter moves
parameters(n_classes)         -> names and constraints
start(n_classes, sites, rng)  -> values near the data
log_prior(params, sites)      -> up to a constant, on the constrained values
log_density(params, sites)    -> (V, K)
maximise(shares, sites)       -> the best parameters when site v is of class k by shares[v, k]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import xlog1py, xlogy
from scipy.special import gammaln

from fitonce.constraints import Constraint, Free, Positive, Proportion
from fitonce.models.emissions import gamma_log_prior, require_counts, require_gamma
from fitonce.numerics import Array
from fitonce.params import Params

_LOG_2PI = float(np.log(2.0 * np.pi))


class Sites(NamedTuple):
    """Observations of V sites, harmless values where missing.

    Attributes:
        x: (V,) values.
        exposure: (V,) what counts are counted from; ones where it does not matter.
        observed: (V,) bools.
        constant: (V,) the part of the log density that no parameter moves.
        spread: () the variance of the observed values.
        beta: () the coupling of the field, where it is not learned.
    """

    x: Array
    exposure: Array
    observed: Array
    constant: Array
    spread: Array
    beta: Array


class SiteEmission(Protocol):
    """See the module's text."""

    name: str
    takes_exposure: bool

    def check(self, x: np.ndarray, exposure: np.ndarray | None) -> None: ...
    def constant(self, x: np.ndarray, exposure: np.ndarray) -> np.ndarray: ...
    def parameters(self, n_classes: int) -> dict[str, Constraint]: ...
    def start(self, n_classes: int, sites: Sites, rng: np.random.Generator | None) -> Params: ...
    def log_prior(self, params: Params, sites: Sites) -> Array: ...
    def log_density(self, params: Params, sites: Sites) -> Array: ...
    def maximise(self, shares: np.ndarray, sites: Sites) -> Params: ...


def _quantiles(ratio: np.ndarray, n_classes: int, rng: np.random.Generator | None) -> np.ndarray:
    """(K,) rising levels of what was observed, distinct where it varies."""
    at = (np.arange(n_classes) + 0.5) / n_classes if rng is None else np.sort(rng.random(n_classes))
    levels = np.quantile(ratio, at)
    step = 1e-3 * float(ratio.std()) or 1e-6 * max(abs(float(ratio.mean())), 1.0)
    return levels + step * np.arange(n_classes)


def _rates(sites: Sites, n_classes: int, rng: np.random.Generator | None) -> np.ndarray:
    x, e, seen = (np.asarray(part) for part in (sites.x, sites.exposure, sites.observed))
    overall = x[seen].sum() / e[seen].sum()
    levels = _quantiles(x[seen] / e[seen], n_classes, rng)
    # Where most counts are zero a level would be, too, and a rate of zero has no logarithm.
    return np.maximum(levels, 0.05 * (overall or 0.1) * (1.0 + 0.1 * np.arange(n_classes)))


def _sums(shares: np.ndarray, sites: Sites) -> tuple[np.ndarray, np.ndarray]:
    """(K,) counts and exposures of each class."""
    weight = shares * np.asarray(sites.observed)[:, None]
    return np.asarray(sites.x) @ weight, np.asarray(sites.exposure) @ weight


@dataclass(frozen=True)
class PoissonSites:
    """Counts with mean `rate` (K,) times exposure; Gamma(shape, inverse_scale) prior, (1, 0) is flat."""

    shape: float = 1.0
    inverse_scale: float = 0.0
    name = "poisson"
    takes_exposure = True

    def __post_init__(self) -> None:
        require_gamma("the Poisson prior", (self.shape, self.inverse_scale))

    def check(self, x: np.ndarray, exposure: np.ndarray | None) -> None:
        require_counts(x[np.isfinite(x)], "a Poisson emission")

    def constant(self, x: np.ndarray, exposure: np.ndarray) -> np.ndarray:
        return np.where(x > 0, x * np.log(exposure), 0.0) - gammaln(x + 1.0)

    def parameters(self, n_classes: int) -> dict[str, Constraint]:
        return {"rate": Positive((n_classes,))}

    def start(self, n_classes: int, sites: Sites, rng: np.random.Generator | None) -> Params:
        return {"rate": _rates(sites, n_classes, rng)}

    def log_prior(self, params: Params, sites: Sites) -> Array:
        return gamma_log_prior(params["rate"], self.shape, self.inverse_scale)

    def log_density(self, params: Params, sites: Sites) -> Array:
        rate = params["rate"]
        return (
            sites.x[:, None] * jnp.log(rate) - sites.exposure[:, None] * rate + sites.constant[:, None]
        )

    def maximise(self, shares: np.ndarray, sites: Sites) -> Params:
        counts, exposures = _sums(shares, sites)
        return {"rate": (counts + self.shape - 1.0) / (exposures + self.inverse_scale)}


@dataclass(frozen=True)
class BinomialSites:
    """Counts out of an exposure, each with probability `rate` (K,); Beta(a, b) prior, (1, 1) is flat."""

    a: float = 1.0
    b: float = 1.0
    name = "binomial"
    takes_exposure = True

    def __post_init__(self) -> None:
        if not (self.a > 0 and self.b > 0):
            raise ValueError(f"the binomial prior must be two positive numbers, got {(self.a, self.b)}")

    def check(self, x: np.ndarray, exposure: np.ndarray | None) -> None:
        require_counts(x[np.isfinite(x)], "a binomial emission")
        if exposure is None:
            raise ValueError("a binomial emission needs exposure=, how many each count is out of")
        whole = np.flatnonzero(exposure != np.floor(exposure))
        if whole.size:
            raise ValueError(
                f"a binomial exposure must be an integer, got {exposure[whole[0]]:g} at site {whole[0]}"
            )
        over = np.flatnonzero(x > exposure)
        if over.size:
            site = over[0]
            raise ValueError(
                f"a binomial count cannot exceed its exposure, but site {site} has {x[site]:g} of "
                f"{exposure[site]:g}"
            )

    def constant(self, x: np.ndarray, exposure: np.ndarray) -> np.ndarray:
        return gammaln(exposure + 1.0) - gammaln(x + 1.0) - gammaln(exposure - x + 1.0)

    def parameters(self, n_classes: int) -> dict[str, Constraint]:
        return {"rate": Proportion((n_classes,))}

    def start(self, n_classes: int, sites: Sites, rng: np.random.Generator | None) -> Params:
        # Away from one, whose log-odds are infinite, and still in rising order.
        ceiling = 1.0 - 0.02 * (n_classes - np.arange(n_classes)) / n_classes
        return {"rate": np.minimum(_rates(sites, n_classes, rng), ceiling)}

    def log_prior(self, params: Params, sites: Sites) -> Array:
        rate = params["rate"]
        return jnp.sum(xlogy(self.a - 1.0, rate) + xlogy(self.b - 1.0, 1.0 - rate))

    def log_density(self, params: Params, sites: Sites) -> Array:
        rate, x = params["rate"], sites.x[:, None]
        failures = sites.exposure[:, None] - x
        return xlogy(x, rate) + xlog1py(failures, -rate) + sites.constant[:, None]

    def maximise(self, shares: np.ndarray, sites: Sites) -> Params:
        counts, exposures = _sums(shares, sites)
        return {"rate": (counts + self.a - 1.0) / (exposures + self.a + self.b - 2.0)}


@dataclass(frozen=True)
class GaussianSites:
    """`mean` and `variance` (K,).

    The prior of a variance counts as `strength` pseudo-observations of spread `scale`, so that no class
    collapses onto one site; None: a tenth of the standard deviation of all data.
    """

    strength: float = 1.0
    scale: float | None = None
    name = "gaussian"
    takes_exposure = False

    def __post_init__(self) -> None:
        if not self.strength >= 0:
            raise ValueError(f"strength must not be negative, got {self.strength}")
        if self.scale is not None and not self.scale > 0:
            raise ValueError(f"scale must be positive or None, got {self.scale}")

    def check(self, x: np.ndarray, exposure: np.ndarray | None) -> None:
        seen = x[np.isfinite(x)]
        if np.ptp(seen) == 0 and (self.strength == 0 or self.scale is None):
            raise ValueError(
                f"the data is constant ({seen[0]:g}), so its variance has no estimate; set scale="
            )

    def constant(self, x: np.ndarray, exposure: np.ndarray) -> np.ndarray:
        return np.full(x.shape, -0.5 * _LOG_2PI)

    def parameters(self, n_classes: int) -> dict[str, Constraint]:
        return {"mean": Free((n_classes,)), "variance": Positive((n_classes,))}

    def start(self, n_classes: int, sites: Sites, rng: np.random.Generator | None) -> Params:
        levels = _quantiles(np.asarray(sites.x)[np.asarray(sites.observed)], n_classes, rng)
        spread = float(sites.spread) / n_classes or (self.scale or 1.0) ** 2
        return {"mean": levels, "variance": np.full(n_classes, spread)}

    def _prior_variance(self, sites: Sites) -> Any:
        return 0.01 * sites.spread if self.scale is None else self.scale**2

    def log_prior(self, params: Params, sites: Sites) -> Array:
        variance = params["variance"]
        pull = jnp.log(variance) + self._prior_variance(sites) / variance
        return -0.5 * self.strength * jnp.sum(pull)

    def log_density(self, params: Params, sites: Sites) -> Array:
        variance = params["variance"]
        square = (sites.x[:, None] - params["mean"]) ** 2
        return -0.5 * (square / variance + jnp.log(variance)) + sites.constant[:, None]

    def maximise(self, shares: np.ndarray, sites: Sites) -> Params:
        weight = shares * np.asarray(sites.observed)[:, None]
        total = weight.sum(0)
        mean = np.asarray(sites.x) @ weight / total
        square = ((np.asarray(sites.x)[:, None] - mean) ** 2 * weight).sum(0)
        prior = self.strength * np.asarray(self._prior_variance(sites))
        return {"mean": mean, "variance": (square + prior) / (total + self.strength)}


EMISSIONS: dict[str, Callable[[], SiteEmission]] = {
    "poisson": PoissonSites,
    "gaussian": GaussianSites,
    "binomial": BinomialSites,
}
