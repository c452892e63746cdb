"""Student t, log-normal, gamma, exponential, beta and von Mises emissions, gammas with zeros, and
Gaussian regressions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import logit

from fitonce.core.arguments import require_number
from fitonce.data.sequences import Sequences
from fitonce.models.emissions import densities
from fitonce.models.emissions.base import (
    Rows,
    channel_moments,
    require_beta,
    require_gamma,
    spread_levels,
)
from fitonce.models.emissions.channelwise import Channelwise, Random, in_every_state
from fitonce.models.emissions.closed_channels import (
    FLAT,
    BetaPrior,
    Coordinate,
    GammaPrior,
    Prior,
    SpreadPrior,
)
from fitonce.models.emissions.densities import Density, Maths
from fitonce.models.emissions.gaussian import kmeans_centres

_MEAN = Coordinate("mean", "positive")
_FOR_ZEROS = (
    '; the emission "zero-inflated-gamma" takes zeros, too (--emission {}=zero-inflated-gamma, '
    "--model zero-inflated-gamma-hmm)"
)


def _require_spread(strength: Any, scale: Any, name: str = "scale") -> None:
    """Of a prior of variances, see `Gaussian`."""
    require_number("strength", strength, least=0)
    require_number(name, scale, above=0, optional=True)


def _square(scale: float | None, x: Any, weights: Any) -> Any:
    """(C,) the variance of pseudo-observations: scale^2, or a hundredth of each channel's variance."""
    return np.full(x.shape[1:], scale**2) if scale is not None else 0.01 * channel_moments(x, weights)[1]


def _require_within(
    data: Sequences, what: str, low: float, high: float, words: str, of_zeros: str = ""
) -> None:
    """Raise unless all observed values are strictly between two numbers, with `of_zeros` where only
    zeros are not."""
    for channel, name in enumerate(data.channels):
        values = data.values[..., channel][data.observed[..., channel]]
        bad = values[(values <= low) | (values >= high)]
        if bad.size:
            column = f" (of column '{name}')" if len(data.channels) > 1 else ""
            hint = of_zeros.format(name) if (bad == 0).all() else ""
            raise ValueError(f"{what}{column} needs {words}, got {bad[0]:g}{hint}")


def _require_positive(data: Sequences, what: str) -> None:
    """Raise unless all observed values are positive; where zeros are to blame, with what takes them."""
    _require_within(data, what, 0.0, np.inf, "positive numbers", _FOR_ZEROS)


def _require_spread_of(data: Sequences, known: bool, given: str) -> None:
    """Raise where a channel does not vary and its spread is not known from an argument `given`."""
    for channel, name in enumerate(data.channels):
        values = data.values[..., channel][data.observed[..., channel]]
        if np.ptp(values) == 0 and not known:
            raise ValueError(
                f"channel '{name}' is constant ({values[0]:g}), so its spread has no estimate; drop the "
                f"channel, or set its prior spread with {given}="
            )


def _centres(values: np.ndarray, rows: Rows, n_states: int, rng: Any) -> tuple[np.ndarray, np.ndarray]:
    """Starting centres of values on the scale of a link, shaped as parameters, and variances (C,)."""
    flat = values.reshape(len(values), -1)
    seen = rows.mask().reshape(flat.shape) & (np.asarray(rows.counts) > 0)[:, None]
    variance = np.array([flat[seen[:, c], c].var() for c in range(flat.shape[1])])
    variance = np.where(variance > 0, variance, 1.0)
    sites = rows.x.ndim == 1
    centres = kmeans_centres(flat, seen, np.sqrt(variance), n_states, rng, of_sites=sites)
    return centres.reshape(n_states, *values.shape[1:]), variance.reshape(values.shape[1:])


@dataclass(frozen=True)
class StudentT(Channelwise):
    """Numbers with outliers: `location`, `scale` and `df` (degrees of freedom), all (K, C).

    Args:
        strength, spread: prior of the scale, that of a Gaussian's standard deviation (`Gaussian`:
            `spread` is its scale).
        df_prior: Gamma prior of the degrees of freedom: shape and rate.
    """

    strength: float = 1.0
    spread: float | None = None
    df_prior: tuple[float, float] = (2.0, 0.1)

    density: ClassVar[Density] = densities.StudentTDensity()
    coordinates: ClassVar[Any] = (
        Coordinate("location", "real"),
        Coordinate("scale", "positive"),
        Coordinate("df", "positive"),
    )
    identity_link: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_spread(self.strength, self.spread, "spread")
        require_gamma("df_prior", self.df_prior)

    def check_to_fit(self, data: Sequences) -> None:
        super().check_to_fit(data)
        _require_spread_of(data, self.spread is not None and self.strength > 0, "spread")

    def priors(self, x: Any, weights: Any) -> tuple[Prior, ...]:
        spread = SpreadPrior(2, self.strength, _square(self.spread, x, weights), self.spread)
        return FLAT, spread, GammaPrior(*self.df_prior)

    def levels(self, n_states: int, rows: Rows, rng: Random) -> dict[str, np.ndarray]:
        centres, variance = _centres(np.asarray(rows.x, float), rows, n_states, rng)
        scale = in_every_state(np.sqrt(variance / n_states), n_states, rows)
        return {"location": centres, "scale": scale, "df": in_every_state(5.0, n_states, rows)}


@dataclass(frozen=True)
class LogNormal(Channelwise):
    """Positive numbers whose logarithms are normal with `mean` and `variance`, both (K, C).

    Args:
        strength, scale: prior of the variance of logarithms, see `Gaussian`.
    """

    strength: float = 1.0
    scale: float | None = None

    density: ClassVar[Density] = densities.NormalDensity()
    coordinates: ClassVar[Any] = (Coordinate("mean", "real"), Coordinate("variance", "positive"))

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_spread(self.strength, self.scale)

    def check(self, data: Sequences, exposure: np.ndarray | None = None) -> None:
        _require_positive(data, "a log-normal emission")

    def check_to_fit(self, data: Sequences) -> None:
        super().check_to_fit(data)
        _require_spread_of(data, self.scale is not None and self.strength > 0, "scale")

    def argument(self, x: Any, covariates: Any, maths: Maths) -> tuple[Any, Any]:
        return maths.np.log(x), 0.0

    def drawn(self, at: Any, known: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.exp(super().drawn(at, known, rng))

    def moments_at(self, at: Any, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        variance = np.exp(at[1])  # of the logarithm
        mean = np.exp(at[0] + 0.5 * variance)
        return mean, mean**2 * np.expm1(variance)

    def constant(self, x: np.ndarray, exposure: np.ndarray | None) -> np.ndarray:
        return -np.log(x)

    def features(self, rows: Rows) -> np.ndarray:
        return np.log(rows.values())

    def priors(self, x: Any, weights: Any) -> tuple[Prior, ...]:
        logs = np.log(x) if isinstance(x, np.ndarray) else densities.jax_maths().np.log(x)
        square = _square(self.scale, logs, weights)
        return FLAT, SpreadPrior(1, self.strength, square, self.scale, "each channel's logarithms'")

    def levels(self, n_states: int, rows: Rows, rng: Random) -> dict[str, np.ndarray]:
        centres, variance = _centres(np.log(np.asarray(rows.x, float)), rows, n_states, rng)
        return {"mean": centres, "variance": in_every_state(variance / n_states, n_states, rows)}


@dataclass(frozen=True)
class Gamma(Channelwise):
    """Positive numbers: `mean` and `shape`, both (K, C).

    Args:
        shape_prior: Gamma prior of the shape, which keeps a state from collapsing onto one point.
    """

    shape_prior: tuple[float, float] = (2.0, 0.01)

    density: ClassVar[Density] = densities.GammaDensity()
    coordinates: ClassVar[Any] = (_MEAN, Coordinate("shape", "positive"))

    def __post_init__(self) -> None:
        super().__post_init__()
        require_gamma("shape_prior", self.shape_prior)

    def check(self, data: Sequences, exposure: np.ndarray | None = None) -> None:
        _require_positive(data, "a gamma emission")

    def constant(self, x: np.ndarray, exposure: np.ndarray | None) -> np.ndarray:
        return -np.log(x)

    def features(self, rows: Rows) -> np.ndarray:
        return np.log(rows.values())

    def priors(self, x: Any, weights: Any) -> tuple[Prior, ...]:
        return FLAT, GammaPrior(*self.shape_prior)

    def levels(self, n_states: int, rows: Rows, rng: Random) -> dict[str, np.ndarray]:
        return _gamma_levels(n_states, rows, rng)


def _gamma_levels(n_states: int, rows: Rows, rng: Random) -> dict[str, np.ndarray]:
    centres, variance = _centres(np.log(np.asarray(rows.x, float)), rows, n_states, rng)
    shape = in_every_state(np.clip(n_states / variance, 0.5, 50.0), n_states, rows)
    return {"mean": np.exp(centres), "shape": shape}


@dataclass(frozen=True)
class ZeroInflatedGamma(Channelwise):
    """Zeros with probability `zeros`, else positive numbers with `mean` and `shape`; all (K, C).

    Numbers that are not exactly zero are positive ones, however small. The log density of a zero is
    log zeros, that of a positive number log(1 - zeros) and that of the gamma distribution.

    Args:
        shape_prior: Gamma prior of the shape, see `Gamma`.
        zeros_prior: Beta prior of `zeros`; above one, so that a state without any has an optimum.
    """

    shape_prior: tuple[float, float] = (2.0, 0.01)
    zeros_prior: tuple[float, float] = (1.1, 1.1)

    density: ClassVar[Density] = densities.ZeroMassDensity(densities.GammaDensity())
    coordinates: ClassVar[Any] = (
        _MEAN,
        Coordinate("shape", "positive"),
        Coordinate("zeros", "proportion"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_gamma("shape_prior", self.shape_prior)
        require_beta("zeros_prior", self.zeros_prior)

    def check(self, data: Sequences, exposure: np.ndarray | None = None) -> None:
        below = float(np.nextafter(0.0, -1.0))
        _require_within(
            data, "a zero-inflated gamma emission", below, np.inf, "zeros or positive numbers"
        )

    def check_to_fit(self, data: Sequences) -> None:
        super().check_to_fit(data)
        for channel, name in enumerate(data.channels):
            if not (data.values[..., channel][data.observed[..., channel]] > 0).any():
                raise ValueError(
                    f"channel '{name}' has zeros only, so the mean of positive numbers has no estimate; "
                    "drop the channel"
                )

    def constant(self, x: np.ndarray, exposure: np.ndarray | None) -> np.ndarray:
        return -np.log(np.where(x == 0, 1.0, x))

    def features(self, rows: Rows) -> np.ndarray:
        return np.sqrt(rows.values())

    def priors(self, x: Any, weights: Any) -> tuple[Prior, ...]:
        return FLAT, GammaPrior(*self.shape_prior), BetaPrior(*self.zeros_prior)

    def levels(self, n_states: int, rows: Rows, rng: Random) -> dict[str, np.ndarray]:
        x = np.asarray(rows.x, float)
        weights, zero = rows.weights(), x == 0
        share = ((weights * zero).sum(0) + 0.5) / (weights.sum(0) + 1.0)
        positive = replace(rows, x=np.where(zero, 1.0, x), observed=rows.mask() & ~zero)
        found = _gamma_levels(n_states, positive, rng)
        return {**found, "zeros": in_every_state(share, n_states, rows)}


@dataclass(frozen=True)
class Exponential(Channelwise):
    """Waiting times with `mean` (K, C)."""

    density: ClassVar[Density] = densities.ExponentialDensity()
    coordinates: ClassVar[Any] = (_MEAN,)

    def check(self, data: Sequences, exposure: np.ndarray | None = None) -> None:
        _require_positive(data, "an exponential emission")

    def features(self, rows: Rows) -> np.ndarray:
        return np.log(rows.values())

    def priors(self, x: Any, weights: Any) -> tuple[Prior, ...]:
        return (FLAT,)

    def levels(self, n_states: int, rows: Rows, rng: Random) -> dict[str, np.ndarray]:
        return {"mean": np.exp(_centres(np.log(np.asarray(rows.x, float)), rows, n_states, rng)[0])}


@dataclass(frozen=True)
class Beta(Channelwise):
    """Numbers between 0 and 1: `mean` and `precision`, both (K, C); the variance is
    mean (1 - mean) / (1 + precision).

    Args:
        precision_prior: Gamma prior of the precision, which keeps a state from collapsing.
    """

    precision_prior: tuple[float, float] = (2.0, 0.01)

    density: ClassVar[Density] = densities.BetaDensity()
    coordinates: ClassVar[Any] = (
        Coordinate("mean", "proportion"),
        Coordinate("precision", "positive"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_gamma("precision_prior", self.precision_prior)

    def check(self, data: Sequences, exposure: np.ndarray | None = None) -> None:
        _require_within(data, "a beta emission", 0.0, 1.0, "numbers between 0 and 1")

    def constant(self, x: np.ndarray, exposure: np.ndarray | None) -> np.ndarray:
        return -np.log(x) - np.log1p(-x)

    def features(self, rows: Rows) -> np.ndarray:
        return logit(rows.values())

    def priors(self, x: Any, weights: Any) -> tuple[Prior, ...]:
        return FLAT, GammaPrior(*self.precision_prior)

    def levels(self, n_states: int, rows: Rows, rng: Random) -> dict[str, np.ndarray]:
        x = np.asarray(rows.x, float)
        odds, _ = _centres(logit(x), rows, n_states, rng)
        return {"mean": 1.0 / (1.0 + np.exp(-odds)), "precision": in_every_state(10.0, n_states, rows)}


@dataclass(frozen=True)
class VonMises(Channelwise):
    """Angles in radians: `mean`, the direction, and `concentration`, both (K, C).

    Args:
        concentration_prior: Gamma prior of the concentration, which keeps a state from collapsing.
    """

    concentration_prior: tuple[float, float] = (2.0, 0.01)

    density: ClassVar[Density] = densities.VonMisesDensity()
    coordinates: ClassVar[Any] = (
        Coordinate("mean", "real"),
        Coordinate("concentration", "positive"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_gamma("concentration_prior", self.concentration_prior)

    def circular(self, channels: int) -> tuple[bool, ...]:
        return (True,) * channels

    def check(self, data: Sequences, exposure: np.ndarray | None = None) -> None:
        low, high = -2.0 * np.pi, 2.0 * np.pi + 1e-6
        _require_within(data, "a von Mises emission", low, high, "angles in radians, -2 pi to 2 pi")

    def priors(self, x: Any, weights: Any) -> tuple[Prior, ...]:
        return FLAT, GammaPrior(*self.concentration_prior)

    def levels(self, n_states: int, rows: Rows, rng: Random) -> dict[str, np.ndarray]:
        x = np.asarray(rows.x, float)
        wrapped = Rows(np.angle(np.exp(1j * x)), rows.observed, rows.covariates, rows.counts)
        mean = spread_levels(n_states, wrapped, rng)
        return {"mean": mean, "concentration": in_every_state(2.0, n_states, rows)}


@dataclass(frozen=True)
class GaussianRegression(Channelwise):
    """Numbers with mean = `mean` + coefficients . covariates, and `variance` (K, C).

    Args:
        strength, scale: prior of the variance, see `Gaussian`.
    """

    strength: float = 1.0
    scale: float | None = None

    density: ClassVar[Density] = densities.NormalDensity()
    coordinates: ClassVar[Any] = (Coordinate("mean", "real"), Coordinate("variance", "positive"))
    identity_link: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_spread(self.strength, self.scale)

    def check_to_fit(self, data: Sequences) -> None:
        super().check_to_fit(data)
        _require_spread_of(data, self.scale is not None and self.strength > 0, "scale")

    def priors(self, x: Any, weights: Any) -> tuple[Prior, ...]:
        return FLAT, SpreadPrior(1, self.strength, _square(self.scale, x, weights), self.scale)

    def levels(self, n_states: int, rows: Rows, rng: Random) -> dict[str, np.ndarray]:
        centres, variance = _centres(np.asarray(rows.x, float), rows, n_states, rng)
        return {"mean": centres, "variance": in_every_state(variance / n_states, n_states, rows)}
