"""A state-space model on data: which entries of its matrices are used, which depend on parameters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fitonce.core.parameters import ParameterSpace
from fitonce.models.space.system import Series, SpaceModel, System, require_shapes
from fitonce.objectives.space.diffuse import triangle

_STEP = 1e-100  # in the imaginary direction
_PROBES = 3  # parameters that show which entries of matrices are ever used


class Paths(NamedTuple):
    """Where folds are on their paths.

    Attributes:
        weights: (T, F) of the information of steps.
        shares: (T, F) of the terms of steps in the log-likelihood.
        coefficients: (N, F) of sequences.
    """

    weights: np.ndarray
    shares: np.ndarray
    coefficients: np.ndarray

    def some(self, part: np.ndarray) -> Paths:
        return Paths(*(array[:, part] for array in self))


_Map = tuple[np.ndarray, np.ndarray, np.ndarray]  # where rows begin, places of entries, their factors
_NO_MAP: _Map = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


def _sandwich(matrix: np.ndarray) -> _Map:
    """S to B S B' as a sparse map of lower triangles; empty where two products are less work."""
    size, used = len(matrix), np.count_nonzero(matrix)
    rows, columns = triangle(size)
    if (
        np.sum(np.count_nonzero(matrix, 1)[rows] * np.count_nonzero(matrix, 1)[columns])
        > 2 * size * used
    ):
        return _NO_MAP
    places = np.zeros((size, size), np.int64)
    places[rows, columns] = places[columns, rows] = np.arange(len(rows))
    sources, factors, firsts = [], [], [0]
    for i, j in zip(rows, columns, strict=True):
        both = np.multiply.outer(matrix[i], matrix[j])
        found = np.bincount(places[both != 0], both[both != 0], len(rows))
        sources.append(np.flatnonzero(found))
        factors.append(found[sources[-1]])
        firsts.append(firsts[-1] + len(sources[-1]))
    return np.array(firsts, np.int64), np.concatenate(sources), np.concatenate(factors)


@dataclass(frozen=True, eq=False)
class Layout:
    """A model on data: which entries of its matrices are used, and which depend on parameters.

    Attributes:
        model, space, steps: the model, its parameters, and the data.
        around: (D,) parameters near which that is found; None: where fits to these data start.
    """

    model: SpaceModel
    space: ParameterSpace
    steps: Series
    around: np.ndarray | None = None

    @cached_property
    def first(self) -> np.ndarray:
        """(D,)."""
        known = self.around
        return self.space.to_free(self.model.start(self.steps, None)) if known is None else known

    @cached_property
    def _probed(self) -> System:
        rng = np.random.default_rng(0)
        return self.systems(self.first + 0.1 * rng.normal(size=(_PROBES, self.space.size)))

    def systems(self, thetas: np.ndarray) -> System:
        made = self.model.system(self.space.values(thetas), self.steps)
        return require_shapes(made, self.steps, self.model)

    @cached_property
    def used(self) -> dict[str, np.ndarray]:
        """(K, 2) rows and columns of entries that are not always zero."""
        found = self._probed
        return {
            name: np.argwhere((getattr(found, name) != 0).any((0, -1)))
            for name in ("loading", "moving", "shaking")
        }

    @cached_property
    def learned(self) -> np.ndarray:
        """(2,) bools: whether loadings, and whether transitions, depend on parameters."""
        each = (self._probed.loading, self._probed.moving)
        return np.array([bool((array != array[..., :1]).any()) for array in each])

    @cached_property
    def known(self) -> tuple[_Map, _Map]:
        """P to T P T', and P_bar to T' P_bar T; empty where T is not known, or not sparse enough."""
        moving = self._probed.moving
        if self.learned[1] or len(moving) > 1:
            return _NO_MAP, _NO_MAP
        return _sandwich(moving[0, :, :, 0]), _sandwich(moving[0, :, :, 0].T)

    @property
    def diffuse(self) -> np.ndarray:
        """(n, q)."""
        return self._probed.diffuse

    @property
    def n_states(self) -> int:
        return len(self._probed.mean)

    @cached_property
    def floor(self) -> np.ndarray:
        """(C,) what S is above H: nearly nothing, or a constant for channels that have no noise."""
        diagonal = np.einsum("tccf->cf", np.abs(self._probed.noise))
        return np.where((diagonal > 0).all(1), 1e-8, 1.0) * self.steps.unit**2

    def entries(self, system: System, name: str) -> np.ndarray:
        """(1 or T, K, F) of the entries that are used."""
        rows, columns = self.used[name].T
        return getattr(system, name)[:, rows, columns]

    def arrays(self, system: System) -> dict[str, np.ndarray]:
        """Matrices as the engine reads them; `mean` has a column for each diffuse direction."""
        folds = system.mean.shape[-1]
        directions = np.repeat(self.diffuse[..., None], folds, -1)
        found = {
            "loading": self.entries(system, "loading"),
            "offset": system.offset,
            "noise": system.noise,
            "moving": self.entries(system, "moving"),
            "drift": system.drift,
            "shaking": self.entries(system, "shaking"),
            "mean": np.concatenate([system.mean[:, None], directions], 1),
            "spread": system.spread,
        }
        return found

    def slopes(self, thetas: np.ndarray) -> dict[str, np.ndarray]:
        """Derivatives of `arrays` by theta: (..., F, D)."""
        folds, size = thetas.shape
        moved = np.repeat(thetas, size, 0) + _STEP * 1j * np.tile(np.eye(size), (folds, 1))
        found = self.arrays(self.systems(moved))
        return {
            name: array.imag.reshape(*array.shape[:-1], folds, size) / _STEP
            for name, array in found.items()
        }
