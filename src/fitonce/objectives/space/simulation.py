"""Random data from a fitted state-space model, and the future: exact, and as paths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fitonce.core.chunks import pieces
from fitonce.core.lanes import LANES
from fitonce.data.sequences import Sequences
from fitonce.models.space.system import Series, System
from fitonce.objectives.simulation import Drawn, Simulator
from fitonce.objectives.space.layout import Layout
from fitonce.objectives.space.smoothing import BYTES, whole_pass
from fitonce.results.forecast import Forecast


@dataclass(frozen=True, eq=False)
class FittedSpace(Simulator):
    """A model on its data, and its parameters."""

    layout: Layout
    theta: np.ndarray
    data: Sequences

    @property
    def bytes_per_step(self) -> int:
        states, width = self.layout.n_states, len(self.data.channels)
        columns = 1 + self.layout.diffuse.shape[1]
        return 8 * LANES * (states * (states + columns) + width * (columns + 2 * width + 6))

    @property
    def reads(self) -> tuple[str, ...]:
        return self.layout.model.covariates

    def drawn(self, n: int, sequence: int, seed: int, covariates: Any) -> Drawn:
        steps, rng = self._steps(n, covariates), np.random.default_rng(seed)
        found = list(paths(self._system(steps), self._firsts(sequence, rng), n, 0, rng))
        states, values = (np.concatenate(part) for part in zip(*found, strict=True))
        return Drawn(states, self._observed(values, steps.sizes, rng))

    def simulated(self, seed: int) -> Sequences:
        system, starts = self._system(self.layout.steps), self.layout.steps.starts
        values = np.zeros_like(self.data.values)
        for number, length in enumerate(self.data.lengths):
            rng = np.random.default_rng((seed, number))
            path = paths(system, self._firsts(number, rng), int(length), int(starts[number]), rng)
            found = np.concatenate([value for _, value in path])
            sizes = self.layout.steps.sequence(number).sizes
            values[number, :length] = self._observed(found, sizes, rng)
        return replace(self.data, values=np.where(self.data.observed, values, 0.0))

    def ahead(self, steps: int, sequence: int, n: int, seed: int, covariates: Any) -> Forecast:
        given, more = self.layout.steps.sequence(sequence), self._steps(steps, covariates, sequence)
        end, longer = len(given.y), given.followed_by(more)
        one = whole_pass(replace(self.layout, steps=longer), self.theta)
        system, wanted = self._system(longer), np.arange(end, end + steps)
        first = one.back(wanted[:1], whole=True)
        rng = np.random.default_rng(seed)
        firsts = drawn_normal(first.expected[0, :, 0], first.spreads[0, ..., 0], n, rng)
        index, past = self.indices_ahead(sequence, steps)
        samples = np.stack([value for _, value in paths(system, firsts, steps, end, rng)], 1)
        normal = None
        if self.layout.model.density is None:
            back = one.back(wanted)
            mean = back.expected[..., 0] + _at(system.offset, wanted)
            variances = np.einsum("tcc->tc", back.spreads[..., 0] + _at(system.noise, wanted))
            normal = np.stack([mean, np.sqrt(np.maximum(variances, 0.0))])
        return Forecast(
            samples=self._observed(samples, more.sizes, rng),
            states=None,
            state_probabilities=None,
            channels=self.data.channels,
            observed=np.where(given.seen, given.counts[:, None] if normal is None else given.y, np.nan),
            circular=(False,) * len(self.data.channels),
            index=index,
            past=past,
            normal=normal,
        )

    def _observed(self, signals: np.ndarray, sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """(..., T, C) what is observed of signals (..., T, C): themselves, or random counts."""
        density = self.layout.model.density
        return signals if density is None else density.drawn(signals, sizes[:, None], rng)

    def _steps(self, count: int, covariates: Any, sequence: int | None = None) -> Series:
        """Further steps of a sequence, of which nothing is observed."""
        none = np.zeros((count, len(self.data.channels)))
        known = self._known(covariates, count, sequence)
        return self.layout.model.read(Series(none, none > 0, np.array([0, count]), known))

    def _known(self, given: Any, steps: int, sequence: int | None) -> np.ndarray:
        """(steps, Q) covariates of further steps."""
        known, names = self.covariates_ahead(given, steps, sequence)
        shape = np.ones((1, steps, 1))
        longer = Sequences(shape, shape > 0, np.array([steps]), ("",), None, None, known[None], names)
        return longer.covariates_of(self.reads)[0]

    def _system(self, steps: Series) -> System:
        return replace(self.layout, steps=steps).systems(self.theta[None])

    def _firsts(self, sequence: int, rng: np.random.Generator) -> np.ndarray:
        """(1, n) a first state: diffuse directions as they are expected given a sequence, the others
        drawn from what the model says about them. Where some are vague all count as diffuse."""
        layout = self.layout
        system = self._system(layout.steps)
        diffuse = np.eye(layout.n_states) if layout.model.vague else layout.diffuse
        drawn = drawn_normal(system.mean[:, 0], system.spread[..., 0], 1, rng)
        if not diffuse.size:
            return drawn
        onto = diffuse @ np.linalg.pinv(diffuse)
        return drawn + (self._expected_firsts[sequence] - drawn) @ onto.T

    @cached_property
    def _expected_firsts(self) -> np.ndarray:
        """(N, n) first states given all data."""
        one, starts = whole_pass(self.layout, self.theta), self.layout.steps.starts[:-1]
        each = 8 * LANES * self.layout.n_states**2
        parts = [one.back(some, whole=True).expected[..., 0] for some in pieces(starts, each, BYTES)]
        return np.concatenate(parts)


def _at(array: np.ndarray, steps: Any) -> np.ndarray:
    """Matrices of one or some steps, of the one fold."""
    return array[..., 0][steps if len(array) > 1 else 0]


def drawn_normal(
    mean: np.ndarray, spread: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """(count, n) draws; the covariance may be singular."""
    return mean + rng.normal(size=(count, len(mean))) @ _root(spread).T


def _root(spread: np.ndarray) -> np.ndarray:
    """(n, n) whose square is a covariance."""
    values, vectors = np.linalg.eigh(0.5 * (spread + spread.T))
    return vectors * np.sqrt(np.maximum(values, 0.0))


def _roots(spreads: np.ndarray) -> np.ndarray:
    """(1 or T, n, n) of covariances (1 or T, n, n, 1)."""
    return np.stack([_root(one) for one in spreads[..., 0]])


def paths(
    system: System, firsts: np.ndarray, steps: int, begin: int, rng: np.random.Generator
) -> Iterator[Drawn]:
    """Random states (count, n) and observations (count, C) of one step after the other, from the first
    states, at step `begin`, on."""
    noises, shakes = _roots(system.noise), _roots(system.shaking)
    now = firsts
    for step in range(begin, begin + steps):
        expected = now @ _at(system.loading, step).T + _at(system.offset, step)
        noise = noises[step if len(noises) > 1 else 0]
        yield Drawn(now, expected + rng.normal(size=expected.shape) @ noise.T)
        shaking = shakes[step if len(shakes) > 1 else 0]
        now = now @ _at(system.moving, step).T + _at(system.drift, step)
        now = now + rng.normal(size=now.shape) @ shaking.T
