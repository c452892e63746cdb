"""Passes of the Kalman filter for groups of folds: log-likelihoods, derivatives, smoothed states."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fitonce.core.lanes import LANES
from fitonce.core.parameters import ParameterSpace
from fitonce.engines import kalman as engine
from fitonce.models.space.system import Series, SpaceModel, System

LOG_2PI = float(np.log(2.0 * np.pi))
_STEP = 1e-100  # in the imaginary direction
_UNDETERMINED = (
    1e-10  # of the information about a diffuse direction, relative to all that there could be
)
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

    def some(self, part: slice) -> Paths:
        return Paths(*(array[:, part] for array in self))


@dataclass(frozen=True, eq=False)
class Layout:
    """A model on data: which entries of its matrices are used, and which depend on parameters."""

    model: SpaceModel
    space: ParameterSpace
    steps: Series

    @cached_property
    def _probed(self) -> System:
        rng = np.random.default_rng(0)
        first = self.space.to_free(self.model.start(self.steps, None))
        return self.systems(first + 0.1 * rng.normal(size=(_PROBES, self.space.size)))

    def systems(self, thetas: np.ndarray) -> System:
        return self.model.system(self.space.values(thetas), self.steps)

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


def _in_lanes(array: np.ndarray) -> np.ndarray:
    """With LANES folds, the last one repeated."""
    lanes = np.minimum(np.arange(LANES), array.shape[-1] - 1)
    return np.ascontiguousarray(array[..., lanes], float)


class Pass:
    """One pass forward, and backward where it is asked for, of at most LANES folds."""

    def __init__(self, layout: Layout, thetas: np.ndarray, paths: Paths) -> None:
        self.layout, self.thetas, self.folds = layout, thetas, len(thetas)
        steps = layout.steps
        with np.errstate(all="ignore"):  # far from any optimum matrices may overflow
            arrays = layout.arrays(layout.systems(thetas))
        self._arrays = {name: _in_lanes(array) for name, array in arrays.items()}
        self._paths = Paths(*map(_in_lanes, paths))
        self._entries = {name: np.ascontiguousarray(layout.used[name]) for name in layout.used}
        count, width = steps.y.shape
        size, columns = self._arrays["mean"].shape[:2]
        shapes = (size, columns), (size, size), (width, columns), (width, width), (width,), (width,)
        self._kept = [np.empty((count, *shape, LANES)) for shape in shapes]
        self._products = np.empty((len(steps.starts) - 1, columns, columns, LANES))
        given, matrices = self._given(), self._matrices()
        start = (self._arrays["mean"], self._arrays["spread"])
        engine.filtered(*given, *matrices, *start, *self._kept, self._products)
        self._integrate()

    def _given(self) -> tuple[Any, ...]:
        steps, layout = self.layout.steps, self.layout
        return steps.y, steps.seen, self._paths.weights, self._paths.shares, layout.floor, steps.starts

    def _matrices(self) -> tuple[Any, ...]:
        a, e = self._arrays, self._entries
        loading = (e["loading"], a["loading"], a["offset"], a["noise"])
        return (*loading, e["moving"], a["moving"], a["drift"], e["shaking"], a["shaking"])

    @cached_property
    def _logs(self) -> tuple[np.ndarray, np.ndarray]:
        """(T, L) each: the logarithms of |G|, |S| and powers of 2 pi in terms of steps, and their
        derivative by weights."""
        counts = self.layout.steps.seen.sum(1)[:, None]
        with np.errstate(all="ignore"):
            total, held = (np.log(pivots).sum(1) for pivots in self._kept[4:])
        weights = self._paths.weights
        slope = np.where(counts > 0, counts * LOG_2PI + held, 0.0)
        return weights * counts * LOG_2PI + total - (1.0 - weights) * held, slope

    def _integrate(self) -> None:
        """Over diffuse directions: values (N, L), centres (N, M, L), inverses (N, M, M, L)."""
        terms = np.add.reduceat(self._paths.shares * self._logs[0], self.layout.steps.starts[:-1])
        products = np.moveaxis(self._products, -1, 1)  # (N, L, M, M)
        values = -0.5 * (terms + products[..., 0, 0])
        centres, inverses = np.zeros(products.shape[:-1]), np.zeros(products.shape)
        centres[..., 0] = 1.0
        rest = products.shape[-1] - 1
        if rest:
            with np.errstate(all="ignore"):
                inner, outer = products[..., 1:, 1:], products[..., 0, 1:]
                lost = self._undetermined(inner)
                inverse = np.linalg.inv(np.where(lost[..., None, None], np.eye(rest), inner))
                centres[..., 1:] = -np.einsum("nlij,nlj->nli", inverse, outer)
                inverses[..., 1:, 1:] = inverse
                values = values - 0.5 * np.einsum("nli,nli->nl", outer, centres[..., 1:])
                values = np.where(lost, np.nan, values + 0.5 * np.linalg.slogdet(inverse)[1])
        self.values = values  # (N, L), nan where kept data do not determine the first state
        self._centres = np.ascontiguousarray(np.moveaxis(centres, 1, -1))
        self._inverses = np.ascontiguousarray(np.moveaxis(inverses, 1, -1))

    def _undetermined(self, inner: np.ndarray) -> np.ndarray:
        """(N, L): whether some diffuse direction has next to no information (q, q)."""
        unit = np.einsum(
            "ij,ikl,kj->jl", self.layout.diffuse, self._arrays["spread"], self.layout.diffuse
        )
        scale = np.sqrt(np.maximum(unit.T, 0.0))[None]  # (1, L, q)
        scaled = inner * scale[..., :, None] * scale[..., None, :]
        finite = np.isfinite(scaled).all((-1, -2))
        least = np.linalg.eigvalsh(np.where(finite[..., None, None], scaled, np.eye(inner.shape[-1])))
        return ~finite | ~(least[..., 0] > _UNDETERMINED)

    @property
    def log_likelihoods(self) -> np.ndarray:
        """(F,) sums over sequences, times their coefficients."""
        return (self._paths.coefficients * self.values).sum(0)[: self.folds]

    def back(self, wanted: np.ndarray | None = None, *, own: bool = False, whole: bool = False) -> Back:
        """The pass backward.

        Args:
            wanted: (m,) steps whose expectations given all kept data are wanted.
            own: whether precisions of steps given all others are wanted.
            whole: whether expectations are of states, not of what is observed.
        """
        steps, arrays = self.layout.steps, self._arrays
        count, width = steps.y.shape
        rows = self.layout.n_states if whole else width
        wanted = np.zeros(0, int) if wanted is None else wanted
        places = np.full(count, -1)
        places[wanted] = np.arange(len(wanted))
        names = ("loading", "offset", "noise", "moving", "drift", "shaking", "mean", "spread")
        bars = {name: np.zeros(arrays[name].shape) for name in names}
        found = Back(
            bars,
            np.empty((count, LANES)),
            np.empty((count, LANES)),
            np.zeros((count, width, LANES)),
            np.zeros((count if own else 0, width, width, LANES)),
            np.empty((len(wanted), rows, LANES)),
            np.empty((len(wanted), rows, rows, LANES)),
        )
        given, kept = self._given(), self._kept[:4]
        engine.adjoint(
            *given, self._paths.coefficients, *self._matrices(), *kept, self._centres, self._inverses,
            self.layout.learned, *bars.values(), *found[1:4], found.own, places, *found[5:], whole,
        )  # fmt: skip
        terms, slope = self._logs
        each = np.repeat(self._paths.coefficients, np.diff(steps.starts), 0)
        by_weights = found.by_weights - 0.5 * each * self._paths.shares * slope
        by_shares = found.by_shares - 0.5 * each * terms
        return found._replace(by_weights=by_weights, by_shares=by_shares)

    def slopes(self, back: Back) -> np.ndarray:
        """(F, D) derivatives of the log-likelihoods by theta."""
        found = np.zeros((self.folds, self.layout.space.size))
        if not found.size:
            return found
        for name, slope in self.layout.slopes(self.thetas).items():
            if slope.any():
                bar = back.bars[name][..., : self.folds].reshape(-1, self.folds)
                found += np.einsum("kf,kfd->fd", bar, slope.reshape(*bar.shape, -1))
        return found


class Back(NamedTuple):
    """Of a pass backward, with LANES folds in the last axis.

    Attributes:
        bars: derivatives by the matrices, by name.
        by_weights, by_shares: (T, L).
        by_y: (T, C, L) of the channels that are observed, first in order.
        own: (T, C, C, L) or (0, C, C, L) precisions of steps given all others.
        expected: (m, C or n, L), and
        spreads: (m, C or n, C or n, L), given all kept data.
    """

    bars: dict[str, np.ndarray]
    by_weights: np.ndarray
    by_shares: np.ndarray
    by_y: np.ndarray
    own: np.ndarray
    expected: np.ndarray
    spreads: np.ndarray
