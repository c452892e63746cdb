"""Passes of the Kalman filter for groups of folds: log-likelihoods, derivatives, smoothed states."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fitonce.core.lanes import LANES
from fitonce.engines import kalman as engine
from fitonce.models.space.system import System
from fitonce.objectives.space.diffuse import State, full, integral, triangle
from fitonce.objectives.space.layout import Layout, Paths

LOG_2PI = float(np.log(2.0 * np.pi))
_ENOUGH = 1e-3  # of the information about a diffuse direction, where it is integrated over early


def _in_lanes(array: np.ndarray) -> np.ndarray:
    """With LANES folds, the last one repeated."""
    lanes = np.minimum(np.arange(LANES), array.shape[-1] - 1)
    return np.ascontiguousarray(array[..., lanes], float)


def _ends(layout: Layout, paths: Paths, wanted: np.ndarray) -> np.ndarray:
    """(N,) the end of what each sequence has of steps that are kept or wanted."""
    first = layout.steps.starts[:-1]
    needed = (paths.weights * paths.shares != 0).any(1)
    needed[wanted] = True
    ends = np.where(needed, np.arange(len(needed)) + 1, 0)
    return np.maximum(np.maximum.reduceat(ends, first), first + 1)


class _Stretch:
    """A part of each sequence, and what the filter keeps of its steps."""

    def __init__(
        self,
        begin: np.ndarray,
        end: np.ndarray,
        width: int,
        first: State,
        *,
        onward: bool,
        spreads: bool,
    ) -> None:
        counts = end - begin + onward
        self.spans = np.stack([begin, end, np.cumsum(counts) - counts], 1)
        self.first, self.onward = first, onward
        self.size, self.columns = first.mean.shape[1:3]
        places = int(counts.sum()) + 1  # a sequence without steps here has a first state, too

        def made(count: int, *shape: int) -> np.ndarray:
            return np.empty((count, *shape, LANES))

        self.kept = (
            made(places, self.size, self.columns),
            made(places if spreads else 2, first.spread.shape[1]),
            made(places, width, self.size),
            made(places, width, self.columns),
            made(places, width, width),
        )
        self.products = np.empty((len(begin), self.columns, self.columns, LANES))

    @property
    def after(self) -> State:
        """The states after the stretch."""
        places = self.spans[:, 2] + self.spans[:, 1] - self.spans[:, 0]
        return State(self.kept[0][places], self.kept[1][places])


class Pass:
    """One pass forward, and backward where it is asked for, of at most LANES folds.

    After `end` steps of each sequence the diffuse directions are integrated over: what is then known of
    the state is an ordinary start for the rest. Any end gives the same numbers, an early one sooner.
    Without `states` nothing is kept that only expectations need. `wanted`: (m,) the steps whose
    expectations may be asked for, None for all; a sequence ends at the last one that is wanted or kept
    by a fold. `system`: the matrices, where they are not those at thetas (F, D).
    """

    def __init__(
        self,
        layout: Layout,
        thetas: np.ndarray,
        paths: Paths,
        end: int | None = None,
        *,
        states: bool = True,
        wanted: np.ndarray | None = None,
        system: System | None = None,
    ) -> None:
        self._prepare(layout, thetas, paths, system)
        if wanted is not None:
            self._stops = _ends(layout, paths, wanted)
        self._spreads = states or bool(layout.learned.any())
        self._begin(end)
        if end is not None:
            self._go_on()
        self._sum()

    def _prepare(
        self, layout: Layout, thetas: np.ndarray, paths: Paths, system: System | None = None
    ) -> None:
        self.layout, self.thetas, self.folds = layout, thetas, len(thetas)
        with np.errstate(all="ignore"):  # far from any optimum matrices may overflow
            arrays = layout.arrays(layout.systems(thetas) if system is None else system)
        self._arrays = {name: _in_lanes(array) for name, array in arrays.items()}
        self._paths = Paths(*map(_in_lanes, paths))
        self._entries = {name: np.ascontiguousarray(layout.used[name]) for name in layout.used}
        self._pivots = [np.ones((*layout.steps.y.shape, LANES)) for _ in range(2)]
        self._stops = layout.steps.starts[1:]

    def _begin(self, end: int | None) -> None:
        """The first steps of all sequences, or all steps."""
        starts, width = self.layout.steps.starts, self.layout.steps.y.shape[1]
        spread = self._arrays["spread"][triangle(self.layout.n_states)]
        first = State(self._arrays["mean"][None], spread[None])
        stop = self._stops if end is None else np.minimum(starts[:-1] + end, self._stops)
        onward = end is not None
        spreads = onward or self._spreads
        for _ in range(2 if first.mean.shape[2] > 1 else 1):
            stretch = _Stretch(starts[:-1], stop, width, first, onward=onward, spreads=spreads)
            self._filter(stretch)
            self._stretches, self._integral = [stretch], integral(stretch.products, self._scale())
            # Beside a flat prior any first mean will do. Again from what is expected: from zero, the
            # squares of a level that is large beside its changes would cancel.
            first = self._integral.from_here(first)

    def _go_on(self) -> None:
        """The other steps, or all again where too little is known so far."""
        steps, begun = self.layout.steps, self._stretches[0]
        stop = begun.spans[:, 1]
        if not (self._integral.least[stop < self._stops] > _ENOUGH).all():
            return self._begin(None)
        known = self._integral.known(begun.after)
        rest = _Stretch(stop, self._stops, steps.y.shape[1], known, onward=False, spreads=self._spreads)
        self._stretches.append(rest)
        return self._filter(rest)

    def _sum(self) -> None:
        """values: (N, F), nan where kept data do not determine the first state."""
        some = slice(self.folds)
        with np.errstate(all="ignore"):
            terms = self._paths.shares[:, some] * self._logs[0]
            terms = np.add.reduceat(terms, self.layout.steps.starts[:-1])
            squares = sum(stretch.products[:, 0, 0, some] for stretch in self._stretches)
            self.values = self._integral.values[:, some] - 0.5 * (terms + squares)

    def _filter(self, stretch: _Stretch) -> None:
        into = (*stretch.kept, *self._pivots, stretch.products)
        engine.filtered(*self._given(stretch), *self._matrices(0), *stretch.first, *into)

    def _given(self, stretch: _Stretch) -> tuple[Any, ...]:
        steps, paths = self.layout.steps, self._paths
        weights = (paths.weights, paths.shares, self.layout.floor)
        return steps.y, steps.seen, *weights, stretch.spans, stretch.onward

    def _matrices(self, direction: int) -> tuple[Any, ...]:
        a, e = self._arrays, self._entries
        loading = (e["loading"], a["loading"], a["offset"], a["noise"])
        moving = (e["moving"], a["moving"], self.layout.known[direction])
        return (*loading, *moving, a["drift"], e["shaking"], a["shaking"])

    def _scale(self) -> np.ndarray:
        """(L, q): what is known of diffuse directions of the first state, beside a flat prior."""
        diffuse = self.layout.diffuse
        unit = np.einsum("ij,ikl,kj->jl", diffuse, self._arrays["spread"], diffuse)
        return np.sqrt(np.maximum(unit.T, 0.0))

    @cached_property
    def _logs(self) -> tuple[np.ndarray, np.ndarray]:
        """(T, F) each: the logarithms of |G|, |S| and powers of 2 pi in terms of steps, and their
        derivative by weights."""
        counts = self.layout.steps.seen.sum(1)[:, None]
        with np.errstate(all="ignore"):
            total, held = (np.log(pivots[..., : self.folds]).sum(1) for pivots in self._pivots)
        weights = self._paths.weights[:, : self.folds]
        slope = np.where(counts > 0, counts * LOG_2PI + held, 0.0)
        return weights * counts * LOG_2PI + total - (1.0 - weights) * held, slope

    @classmethod
    def least_known(
        cls, layout: Layout, thetas: np.ndarray, paths: Paths, end: int, system: System | None = None
    ) -> float:
        """The least information about a diffuse direction after some steps: see `Integral`."""
        begun = cls.__new__(cls)
        begun._prepare(layout, thetas, paths, system)
        begun._begin(end)
        short = begun._stretches[0].spans[:, 1] == layout.steps.starts[1:]
        return float(begun._integral.least[~short].min(initial=np.inf))

    @property
    def of_sequences(self) -> np.ndarray:
        """(F, N) log-likelihoods."""
        return self.values.T

    @property
    def log_likelihoods(self) -> np.ndarray:
        """(F,) sums over sequences, times their coefficients."""
        return (self._paths.coefficients[:, : self.folds] * self.values).sum(0)

    def back(self, wanted: np.ndarray | None = None, *, own: bool = False, whole: bool = False) -> Back:
        """The pass backward.

        Args:
            wanted: (m,) steps whose expectations given all kept data are wanted.
            own: whether precisions of steps given all others are wanted.
            whole: whether expectations are of states, not of what is observed.
        """
        steps, arrays = self.layout.steps, self._arrays
        assert wanted is None or self._spreads, "this pass has kept no states"
        count, width = steps.y.shape
        rows = self.layout.n_states if whole else width
        wanted = np.zeros(0, int) if wanted is None else wanted
        places = np.full(count, -1)
        places[wanted] = np.arange(len(wanted))
        names = ("loading", "offset", "noise", "moving", "drift", "shaking")
        found = Back(
            {name: np.zeros(arrays[name].shape) for name in names},
            np.empty((count, LANES)),
            np.empty((count, LANES)),
            np.zeros((count, width, LANES)),
            np.zeros((count if own else 0, width, width, LANES)),
            np.empty((len(wanted), rows, LANES)),
            np.empty((len(wanted), rows, rows, LANES)),
        )
        self._adjoint(found, places, whole)
        return found

    def by_steps(self, back: Back) -> tuple[np.ndarray, np.ndarray]:
        """(T, F) each: derivatives by weights, and by shares."""
        some = slice(self.folds)
        terms, slope = self._logs
        each = np.repeat(self._paths.coefficients[:, some], np.diff(self.layout.steps.starts), 0)
        by_weights = back.by_weights[:, some] - 0.5 * each * self._paths.shares[:, some] * slope
        return by_weights, back.by_shares[:, some] - 0.5 * each * terms

    def _adjoint(self, found: Back, places: np.ndarray, whole: bool) -> None:
        """Stretch by stretch, from the last one."""
        coefficients = self._paths.coefficients
        first = self._stretches[0]
        for stretch in self._stretches[::-1]:
            if stretch is self._stretches[-1]:
                bars = State(
                    np.empty((len(coefficients), stretch.size, stretch.columns, LANES)),
                    np.empty((len(coefficients), stretch.first.spread.shape[1], LANES)),
                )
                ends = (
                    self._integral
                    if stretch is first
                    else integral(stretch.products, np.ones((LANES, 0)))
                )
                begin = ends.at_the_end(coefficients)
            else:
                bars, begin = self._integral.through(stretch.after, bars, coefficients)
            engine.adjoint(
                *self._given(stretch), coefficients, *self._matrices(1), *stretch.kept, *begin,
                self.layout.learned, *found.bars.values(), *bars, *found[1:4], found.own, places,
                *found[5:], whole,
            )  # fmt: skip
        found.bars["mean"] = bars.mean.sum(0)
        found.bars["spread"] = full(bars.spread.sum(0)[None], first.size)[0]


def contracted(layout: Layout, thetas: np.ndarray, bars: dict[str, np.ndarray]) -> np.ndarray:
    """(F, D) derivatives of log-likelihoods by theta, from those by the matrices."""
    folds = len(thetas)
    found = np.zeros((folds, layout.space.size))
    if not found.size:
        return found
    for name, slope in layout.slopes(thetas).items():
        if slope.any():
            bar = bars[name][..., :folds]
            if len(bar) > len(slope):  # one matrix for all steps
                bar = bar.sum(0, keepdims=True)
            bar = bar.reshape(-1, folds)
            found += np.einsum("kf,kfd->fd", bar, slope.reshape(*bar.shape, -1))
    return found


class Back(NamedTuple):
    """Of a pass backward, with LANES folds in the last axis.

    Attributes:
        bars: derivatives by the matrices, by name.
        by_weights, by_shares: (T, L), without what logarithms add: see `by_steps`.
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
