"""Constraints whose free coordinates are counted in the units of the data.

A location of a channel is `origin + unit * free`, a variance `unit^2 * exp(free)`: free coordinates are
then of moderate size whatever the data are measured in, and so are steps and derivatives. Fits and
certificates do not depend on linear maps of coordinates but for rounding, so that coarse units will do:
powers of 256, which cost no digits, and are one for most data. Those have the plain coordinates, and
programs of JAX, into which units are compiled, in common.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fitonce.core.constraints import Constraint, Covariance, Free, Positive, as_tuples
from fitonce.core.deferred import jnp
from fitonce.core.numerics import Array
from fitonce.core.parameters import ParameterSpace

_COARSE = 8  # binary digits


class Units(NamedTuple):
    """Of channels: `unit`, a power of 256 within a factor of 16 of the standard deviation, and `origin`,
    a multiple of 256 units within 128 of the mean; both of the shape of one observation."""

    unit: np.ndarray
    origin: np.ndarray

    @classmethod
    def of(cls, mean: np.ndarray, variance: np.ndarray) -> Units:
        """One is the unit of a channel that does not vary."""
        digits = 0.5 * np.log2(np.where(variance > 0, variance, 1.0))
        unit = np.exp2(_COARSE * np.round(digits / _COARSE))
        step = 2.0**_COARSE * unit
        return cls(unit, step * np.round(mean / step))


@dataclass(frozen=True)
class _InUnits:
    """Values are `origin + unit * inner value`; both are nested tuples, of the shape's last axes."""

    shape: tuple[int, ...]
    unit: Any
    origin: Any = 0.0
    _kind: ClassVar[Any]

    @property
    def _inner(self) -> Constraint:
        return self._kind(self.shape)

    def _units(self) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.unit, float), self.shape)

    def _relative(self, value: np.ndarray) -> np.ndarray:
        return (value - np.asarray(self.origin)) / np.asarray(self.unit)

    def coordinates(self) -> list[tuple[int, ...]]:
        return self._inner.coordinates()

    def to_free(self, value: np.ndarray) -> np.ndarray:
        return self._inner.to_free(self._relative(value))

    def to_value(self, free: Array) -> Array:
        return jnp.asarray(self.origin) + jnp.asarray(self.unit) * self._inner.to_value(free)

    def values(self, free: np.ndarray) -> np.ndarray:
        unit, origin = (np.asarray(part, float)[..., None] for part in (self.unit, self.origin))
        return origin + unit * self._inner.values(free)

    def violation(self, value: np.ndarray) -> str | None:
        return self._inner.violation(self._relative(value))

    def stretch(self) -> np.ndarray:
        """For each free coordinate, how far the one of the plain constraint moves with it."""
        return np.ones(len(self.coordinates()))


class FreeInUnits(_InUnits):
    """Any real numbers."""

    _kind = Free

    def stretch(self) -> np.ndarray:
        return self._units().ravel()


class PositiveInUnits(_InUnits):
    """Positive numbers; `unit` is that of the numbers. Logarithms shift, and do not stretch."""

    _kind = Positive


class CovarianceInUnits(_InUnits):
    """Covariances; `unit` (C, C) has products of the channels' units. Rows of the Cholesky factor are in
    units of their channels."""

    _kind = Covariance

    def stretch(self) -> np.ndarray:
        units = self._units()
        return np.array([
            1.0 if i[-1] == i[-2] else np.sqrt(units[(*i[:-1], i[-2])]) for i in self.coordinates()
        ])  # fmt: skip


@dataclass(frozen=True)
class Contrasts:
    """Any real numbers on the support, zero elsewhere. Free coordinates are in units of the values.

    Args:
        shape: of the values.
        support: nested tuples of bools of that shape.
        unit: of the values along the last axis, nested tuples.
    """

    shape: tuple[int, ...]
    support: Any
    unit: Any

    @classmethod
    def on(cls, support: np.ndarray, unit: np.ndarray) -> Contrasts:
        return cls(support.shape, as_tuples(support.tolist()), as_tuples(np.asarray(unit).tolist()))

    def _places(self) -> tuple[np.ndarray, ...]:
        return np.nonzero(np.asarray(self.support, bool).reshape(self.shape))

    def coordinates(self) -> list[tuple[int, ...]]:
        return [tuple(map(int, place)) for place in zip(*self._places(), strict=True)]

    def stretch(self) -> np.ndarray:
        """For each free coordinate, how far the value moves with it."""
        return np.asarray(self.unit, float)[self._places()[-1]]

    def to_free(self, value: np.ndarray) -> np.ndarray:
        return value[self._places()] / self.stretch()

    def to_value(self, free: Array) -> Array:
        return jnp.zeros(self.shape, free.dtype).at[self._places()].set(self.stretch() * free)

    def values(self, free: np.ndarray) -> np.ndarray:
        found = np.zeros((*self.shape, free.shape[-1]), free.dtype)
        found[self._places()] = self.stretch()[:, None] * free
        return found

    def violation(self, value: np.ndarray) -> str | None:
        outside = ~np.asarray(self.support, bool).reshape(self.shape)
        return None if np.all(value[outside] == 0) else "real numbers, zero where states are compared to"


_IN_UNITS: dict[type, Any] = {
    Free: FreeInUnits,
    Positive: PositiveInUnits,
    Covariance: CovarianceInUnits,
}


def in_units(constraint: Constraint, unit: np.ndarray, origin: np.ndarray | float = 0.0) -> Constraint:
    """The constraint with coordinates in units of its values; itself where these are one."""
    unit, origin = np.asarray(unit, float), np.asarray(origin, float)
    if (unit == 1.0).all() and (origin == 0.0).all():
        return constraint
    made = _IN_UNITS[type(constraint)]
    return made(constraint.shape, as_tuples(unit.tolist()), as_tuples(origin.tolist()))


def stretch_of(space: ParameterSpace) -> np.ndarray:
    """(D,) for each free coordinate, how far the one of the plain constraint moves with it."""
    parts = [np.zeros(0)]
    for _, leaf, places in space.leaves():
        counted = isinstance(leaf, (_InUnits, Contrasts))
        parts.append(leaf.stretch() if counted else np.ones(len(places)))  # type: ignore[attr-defined]
    return np.concatenate(parts)
