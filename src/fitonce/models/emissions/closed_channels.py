"""Closed forms of emissions whose channels are independent, each with a density of a few coordinates.

The first coordinate is a location, to which covariates may add: location + coefficients . covariates
+ shared_coefficients . others, the latter the same in all states.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy import special

from fitonce.core.constraints import Constraint, Free, Positive, Proportion
from fitonce.models.emissions.closed_forms import ClosedForms, Observations, Values, diagonal
from fitonce.models.emissions.densities import Density, Maths, numpy_maths

COEFFICIENTS, COMMON = "coefficients", "shared_coefficients"
_CONSTRAINTS: dict[str, Callable[[tuple[int, ...]], Constraint]] = {
    "real": Free,
    "positive": Positive,
    "proportion": Proportion,
}


class Prior(ABC):
    """The log prior density of a parameter's value as a function of its free coordinate."""

    @abstractmethod
    def log(self, at: Any, maths: Maths) -> Any: ...

    @abstractmethod
    def slope(self, at: np.ndarray) -> np.ndarray: ...

    @abstractmethod
    def second(self, at: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class GammaPrior(Prior):
    """Of a positive number; 1 and 0 make it flat."""

    shape: float = 1.0
    rate: float = 0.0

    def log(self, at: Any, maths: Maths) -> Any:
        return (self.shape - 1.0) * at - self.rate * maths.np.exp(at)

    def slope(self, at: np.ndarray) -> np.ndarray:
        return self.shape - 1.0 - self.rate * np.exp(at)

    def second(self, at: np.ndarray) -> np.ndarray:
        return -self.rate * np.exp(at)


@dataclass(frozen=True)
class BetaPrior(Prior):
    """Of a proportion; 1 and 1 make it flat."""

    a: float = 1.0
    b: float = 1.0

    def log(self, at: Any, maths: Maths) -> Any:
        return (self.a - 1.0) * at - (self.a + self.b - 2.0) * maths.np.logaddexp(0.0, at)

    def slope(self, at: np.ndarray) -> np.ndarray:
        return self.a - 1.0 - (self.a + self.b - 2.0) * special.expit(at)

    def second(self, at: np.ndarray) -> np.ndarray:
        rate = special.expit(at)
        return -(self.a + self.b - 2.0) * rate * (1.0 - rate)


def _beside(array: np.ndarray, at: Any) -> np.ndarray:
    """An array that begins with channels, to broadcast against coordinates that begin with states."""
    return array.reshape((*array.shape, *(1,) * (np.ndim(at) - 1 - array.ndim)))


@dataclass(frozen=True, eq=False)
class CentredPrior(Prior):
    """Of a real number, with a precision for each channel (and covariate); zero makes it flat."""

    precision: np.ndarray

    def log(self, at: Any, maths: Maths) -> Any:
        return -0.5 * _beside(self.precision, at) * at**2

    def slope(self, at: np.ndarray) -> np.ndarray:
        return -_beside(self.precision, at) * at

    def second(self, at: np.ndarray) -> np.ndarray:
        return np.broadcast_to(-_beside(self.precision, at), at.shape)

    def split(self, first: int) -> tuple[CentredPrior, CentredPrior]:
        """That of the first covariates, and that of the others."""
        return CentredPrior(self.precision[..., :first]), CentredPrior(self.precision[..., first:])


FLAT = CentredPrior(np.zeros(()))


@dataclass(frozen=True, eq=False)
class SpreadPrior(Prior):
    """Of a variance, `power` 1, or of a standard deviation, 2: that of `Gaussian`, as many
    pseudo-observations as `strength` says, with variance `square` (C,).

    That is the square of the standard deviation `given`, or, if that is None, of a tenth of that of the
    data, `whose` it is in words."""

    power: int
    strength: float
    square: np.ndarray
    given: float | None
    whose: str = "each channel's"

    def _ratio(self, at: Any, maths: Maths) -> Any:
        return _beside(self.square, at) * maths.np.exp(-self.power * at)

    def log(self, at: Any, maths: Maths) -> Any:
        return -0.5 * self.strength * (self.power * at + self._ratio(at, maths))

    def slope(self, at: np.ndarray) -> np.ndarray:
        return -0.5 * self.strength * self.power * (1.0 - self._ratio(at, numpy_maths()))

    def second(self, at: np.ndarray) -> np.ndarray:
        return -0.5 * self.strength * self.power**2 * self._ratio(at, numpy_maths())


@dataclass(frozen=True)
class Coordinate:
    """A parameter of every state and channel."""

    name: str
    kind: Literal["real", "positive", "proportion"]

    def constraint(self, shape: tuple[int, ...]) -> Constraint:
        return _CONSTRAINTS[self.kind](shape)

    def free(self, value: Any, maths: Maths) -> Any:
        """Its coordinate, from its value."""
        if self.kind == "real":
            return value
        return maths.np.log(value) if self.kind == "positive" else maths.special.logit(value)


@dataclass(frozen=True, eq=False)
class ClosedChannels(ClosedForms):
    """Args:
    density: of one channel.
    coordinates, priors: its parameters, the location first.
    covariates: how many of the rows' covariates have coefficients of each state, the first ones.
    common: how many after these have coefficients that all states share.
    coefficients: the prior of both.
    argument: (x, all covariates) to what the density calls x and what is added to the location,
        see `Channelwise.argument`.
    """

    density: Density
    coordinates: tuple[Coordinate, ...]
    priors: tuple[Prior, ...]
    covariates: int
    common: int
    coefficients: CentredPrior
    argument: Callable[[Any, Any, Maths], tuple[Any, Any]]

    @property
    def shared(self) -> tuple[str, ...]:
        return (COMMON,) if self.common else ()

    def numbers(self, states: int, rows: Observations) -> int:
        return 4 * states * rows.x.size

    def operations(self, states: int, rows: Observations) -> int:
        return 20 * states * rows.x.size * len(self.coordinates)

    @cached_property
    def _names(self) -> list[str]:
        names = [coordinate.name for coordinate in self.coordinates]
        return sorted([*names, *(name for name, _ in self._linear)])

    @cached_property
    def _linear(self) -> list[tuple[str, slice]]:
        """Parameters that are coefficients, and their covariates."""
        both = self.covariates + self.common
        parts = [(COEFFICIENTS, 0, self.covariates), (COMMON, self.covariates, both)]
        return [(name, slice(first, last)) for name, first, last in parts if last > first]

    def _slopes_of(self, values: Values, name: str) -> np.ndarray:
        """(K or 1, C, width, F) coefficients."""
        return values[name][None] if name == COMMON else values[name]

    def _at(self, values: Values) -> list[np.ndarray]:
        """Coordinates (K, C, F)."""
        return [one.free(values[one.name], numpy_maths()) for one in self.coordinates]

    def _places(self, values: Values, rows: Observations) -> tuple[Any, tuple[np.ndarray, ...]]:
        """x, and coordinates that broadcast to (R, K, C, F): those of one fold have an axis for it."""
        maths = numpy_maths()
        x, offset = self.argument(rows.x[:, None, :, None], rows.covariates, maths)
        location, *others = (part[None] for part in self._at(values))
        for name, which in self._linear:
            known = rows.covariates[:, which]
            location = location + np.tensordot(known, self._slopes_of(values, name), (1, 2))
        return x, (location + offset, *others)

    def log_density(self, values: Values, rows: Observations) -> np.ndarray:
        found = self.density.log(*self._places(values, rows), numpy_maths())
        found = np.where(rows.seen[:, None, :, None] > 0, found, 0.0)
        return found.sum(2) + rows.constant[:, None, None]

    def _joined(self, parts: dict[str, np.ndarray]) -> np.ndarray:
        """(..., C, width, F) by name to (..., P, F)."""
        ordered = [parts[name] for name in self._names]
        flat = [part.reshape(*part.shape[:-3], -1, part.shape[-1]) for part in ordered]
        return np.concatenate(flat, -2)

    def slopes(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        x, at = self._places(values, rows)
        weights = shares[:, :, None] * rows.seen[:, None, :, None]
        weighted = [np.where(weights != 0, weights * part, 0.0) for part in self.density.slopes(x, at)]
        parts = {
            one.name: part.sum(0)[:, :, None]
            for one, part in zip(self.coordinates, weighted, strict=True)
        }
        for name, which in self._linear:
            parts[name] = np.einsum("rkcf,rq->kcqf", weighted[0], rows.covariates[:, which])
        return self._joined(parts)

    def scores(self, values: Values, rows: Observations) -> np.ndarray:
        x, at = self._places(values.lifted(), rows)
        seen = rows.seen[:, None, :, None] > 0
        slopes = [np.where(seen, part, 0.0) for part in self.density.slopes(x, at)]
        parts = {
            one.name: part[:, :, :, None] for one, part in zip(self.coordinates, slopes, strict=True)
        }
        for name, which in self._linear:
            parts[name] = slopes[0][:, :, :, None] * rows.covariates[:, None, None, which, None]
        return self._joined(parts)[..., 0]

    def curvature(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        x, at = self._places(values.lifted(), rows)
        weights = shares[:, :, None] * rows.seen[:, None]
        known = rows.covariates[:, : self.covariates + self.common]
        design = np.concatenate([np.ones((len(rows.x), 1)), known], 1)
        places, states = self._layout(rows.x.shape[1]), shares.shape[1]
        found = np.zeros((states, places[-1].max() + 1, places[-1].max() + 1))
        for (i, j), second in self.density.second(x, at).items():
            part = np.where(weights != 0, weights * second[..., 0], 0.0)  # (R, K, C)
            left, right = (design if n == 0 else design[:, :1] for n in (i, j))
            blocks = np.einsum("rkc,ra,rb->kcab", part, left, right, optimize=True)
            for channel in range(rows.x.shape[1]):
                rows_of, columns = places[i][channel], places[j][channel]
                found[:, rows_of[:, None], columns] = blocks[:, channel]
                found[:, columns[:, None], rows_of] = np.swapaxes(blocks[:, channel], 1, 2)
        return found

    def _layout(self, channels: int) -> list[np.ndarray]:
        """For each coordinate (C, width), where its derivatives are among the P: those of the location,
        then of its coefficients. The last array holds all places."""
        widths = {one.name: 1 for one in self.coordinates}
        widths |= {name: which.stop - which.start for name, which in self._linear}
        at, places = 0, {}
        for name in self._names:
            size = channels * widths[name]
            places[name] = np.arange(at, at + size).reshape(channels, -1)
            at += size
        found = [places[one.name] for one in self.coordinates]
        found[0] = np.concatenate([found[0], *(places[name] for name, _ in self._linear)], 1)
        return [*found, np.arange(at)]

    def _priors(self, values: Values) -> list[tuple[str, Prior, np.ndarray]]:
        """Name, prior and coordinates (K or 1, C, width, F) of each parameter."""
        parts = zip(self.coordinates, self.priors, self._at(values), strict=True)
        found = [(one.name, prior, at[:, :, None]) for one, prior, at in parts]
        both = zip((COEFFICIENTS, COMMON), self.coefficients.split(self.covariates), strict=True)
        of_linear = dict(both)
        return found + [
            (name, of_linear[name], self._slopes_of(values, name)) for name, _ in self._linear
        ]

    def _of_first(self, name: str, found: np.ndarray, values: Values) -> np.ndarray:
        """(K, ...): what states share has one prior, here that of the first state."""
        if name != COMMON:
            return found
        states = len(values[self.coordinates[0].name])
        return np.concatenate([found, np.zeros((states - 1, *found.shape[1:]))])

    def log_prior(self, values: Values, rows: Observations) -> np.ndarray:
        maths = numpy_maths()
        return sum(prior.log(at, maths).sum((0, 1, 2)) for _, prior, at in self._priors(values))

    def prior_slopes(self, values: Values, rows: Observations) -> np.ndarray:
        parts = self._priors(values)
        return self._joined(
            {name: self._of_first(name, prior.slope(at), values) for name, prior, at in parts}
        )

    def prior_curvature(self, values: Values, rows: Observations) -> np.ndarray:
        lifted = values.lifted()
        parts = {
            name: self._of_first(name, prior.second(at), lifted)
            for name, prior, at in self._priors(lifted)
        }
        return diagonal(self._joined(parts)[..., 0])
