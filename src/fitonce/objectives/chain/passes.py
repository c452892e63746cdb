"""Passes of the native engine over all sequences: what F and its derivatives need of hidden states."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fitonce.core.lanes import LANES
from fitonce.core.native import Scratch
from fitonce.core.parallel import cores
from fitonce.data.sequences import Sequences
from fitonce.engines import native_chain as engine
from fitonce.engines import native_chain_logs as logs_engine
from fitonce.models.emissions.closed_forms import Observations
from fitonce.models.hmm import Prepared

_SAFE_RANGE = 600.0 / 4  # nats between transitions, so that no divisor or its square underflows
_SCRATCH = Scratch()


@dataclass(frozen=True, eq=False)
class Steps:
    """All steps of all sequences in one axis.

    Attributes:
        rows: distinct observations, or one for each step.
        index: (T,) the row of each step.
        starts: (N + 1,) first steps of the sequences.
        seen: (T,) ones at steps where something was observed, zeros elsewhere.
        places: (R,) where the rows are among those of the prepared data, which has padding.
    """

    rows: Observations
    index: np.ndarray
    starts: np.ndarray
    seen: np.ndarray
    places: np.ndarray

    @classmethod
    def of(cls, data: Sequences, prepared: Prepared) -> Steps:
        slots = np.flatnonzero(data.valid.ravel())
        arrays = prepared.rows
        chosen = slots if prepared.index is None else np.arange(len(arrays.x))
        x = np.ascontiguousarray(np.asarray(arrays.x, float)[chosen])
        constant = np.zeros(len(x)) if arrays.constant is None else np.asarray(arrays.constant)[chosen]
        mask = arrays.mask()[chosen].astype(float)
        rows = Observations(x, mask, np.asarray(arrays.counts, float)[chosen], constant)
        index = np.arange(len(x))
        if prepared.index is not None:
            index = np.asarray(prepared.index).ravel()[slots].astype(np.int64)
        starts = np.concatenate([[0], np.cumsum(data.lengths)]).astype(np.int64)
        seen = data.observed.any(-1).ravel()[slots].astype(float)
        return cls(rows, index, starts, seen, chosen)

    @property
    def sequence(self) -> np.ndarray:
        """(T,) the sequence of each step."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def some(self, sequences: np.ndarray) -> tuple[Steps, np.ndarray]:
        """Some of the sequences (n,), with all rows, and which steps they are."""
        taken = np.concatenate([np.arange(*self.starts[n : n + 2]) for n in sequences])
        starts = np.concatenate([[0], np.cumsum(np.diff(self.starts)[sequences])])
        return replace(self, index=self.index[taken], starts=starts, seen=self.seen[taken]), taken

    def totals(self, values: np.ndarray) -> np.ndarray:
        """Sums over the steps of each sequence, (T, ...) to (N, ...)."""
        return np.add.reduceat(values, self.starts[:-1], 0)


@dataclass(frozen=True, eq=False)
class Potentials:
    """Logarithms of the potentials of a group of folds, which are the last axis.

    Attributes:
        rows: (R, K, F) log densities.
        weights: (T, F) of emissions, zero where nothing was observed.
        initial: (1 or N, K, F).
        moves: (1 or T, K, K, F).
        coefficients: (N, F) weights of sequences.
    """

    rows: np.ndarray
    weights: np.ndarray
    initial: np.ndarray
    moves: np.ndarray
    coefficients: np.ndarray


@dataclass(frozen=True, eq=False)
class Posterior:
    """Of a group of folds. Arrays are those of this thread, and valid until its next pass.

    Attributes:
        values: (F,) weighted log-likelihoods.
        nodes: (T, K, F) p(z_t = k).
        shares: (R, K, F) expected states of the rows, times weights and coefficients.
        firsts, pairs: like `initial` and `moves`: expected first states and transitions.
    """

    values: np.ndarray
    nodes: np.ndarray
    shares: np.ndarray
    firsts: np.ndarray
    pairs: np.ndarray


def posterior(steps: Steps, given: Potentials) -> Posterior:
    """By scaled probabilities where no divisor can underflow, else in logarithms."""
    finite = np.isfinite(given.moves).all()
    if finite and np.max(given.moves.max((1, 2)) - given.moves.min((1, 2))) < _SAFE_RANGE:
        found = _scaled(steps, given)
        if found is not None:
            return found
    return _by_logarithms(steps, given)


def _scaled(steps: Steps, given: Potentials) -> Posterior | None:
    """None where a sequence is impossible."""
    folds, index = given.weights.shape[-1], steps.index
    rows, weights = given.rows, given.weights
    tempered = bool(((weights != 0.0) & (weights != 1.0)).any())
    if tempered:  # a row of its own for each step
        with np.errstate(invalid="ignore"):
            rows = np.where(weights[:, None] == 0, 0.0, weights[:, None] * rows[index])
        index, weights = np.arange(len(index)), np.ones_like(weights)
    emitted, row_peak = _relative("rows", rows, 1)
    first, first_peak = _relative("initial", given.initial, 1)
    move, move_peak = _relative("moves", given.moves, (1, 2))
    lanes, coefficients = _filled("weights", weights), _filled("coefficients", given.coefficients)
    nodes = _SCRATCH.take("nodes", (len(index), *emitted.shape[1:]))
    inverses, work = _SCRATCH.take("inverses", lanes.shape), _SCRATCH.take("work", (2, *first.shape[1:]))
    shares, firsts, pairs = (
        _SCRATCH.zeros(name, array.shape)
        for name, array in (("shares", emitted), ("firsts", first), ("pairs", move))
    )
    inputs = (emitted, index, lanes, first, move, steps.starts, coefficients)
    engine.scaled_posterior(*inputs, nodes, shares, inverses, firsts, pairs, work)
    logs = weights * row_peak[index, 0] - np.log(inverses[:, :folds])
    if len(move_peak) > 1:
        move_peak[steps.starts[:-1]] = 0.0  # nothing moves into a first step
        logs += move_peak[:, 0, 0]
    values = steps.totals(logs) + first_peak[:, 0]
    if len(move_peak) == 1:
        values += (np.diff(steps.starts)[:, None] - 1) * move_peak[0, 0]
    if not np.isfinite(values).all():
        return None
    total = np.sum(given.coefficients * values, 0)
    nodes, shares, firsts, pairs = (array[..., :folds] for array in (nodes, shares, firsts, pairs))
    return Posterior(total, nodes, _by_row(steps, given, nodes) if tempered else shares, firsts, pairs)


def _filled(name: str, array: np.ndarray) -> np.ndarray:
    """With the last fold repeated until all lanes are filled."""
    folds = array.shape[-1]
    found = _SCRATCH.take(name, (*array.shape[:-1], LANES))
    found[..., :folds] = array
    found[..., folds:] = array[..., -1:]
    return found


def _relative(name: str, logs: np.ndarray, axis: int | tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """exp(logs - peak) in all lanes, and the peak along `axis`; zero where nothing is possible."""
    peak = logs.max(axis, keepdims=True)
    peak = np.where(np.isfinite(peak), peak, 0.0)
    found = _SCRATCH.take(name, (*logs.shape[:-1], LANES))
    folds = logs.shape[-1]
    np.subtract(logs, peak, out=found[..., :folds])
    np.exp(found[..., :folds], out=found[..., :folds])
    found[..., folds:] = found[..., folds - 1 : folds]
    return found, peak


def _by_row(steps: Steps, given: Potentials, nodes: np.ndarray) -> np.ndarray:
    """(R, K, F) the shares of rows, from nodes."""
    scale = given.weights * given.coefficients[steps.sequence]
    shares = np.zeros(given.rows.shape)
    np.add.at(shares, steps.index, scale[:, None] * nodes)
    return shares


def _by_logarithms(steps: Steps, given: Potentials) -> Posterior:
    found = []
    for fold in range(given.weights.shape[-1]):
        one = conditionals(steps, given, fold)
        scale = given.coefficients[:, fold]
        of_step = scale[steps.sequence]
        begins = steps.starts[:-1]
        firsts = scale[:, None] * one.nodes[begins]
        pairs = np.zeros((len(of_step), *one.back.shape[1:]))
        pairs[1:] = of_step[1:, None, None] * one.nodes[:-1, :, None] * one.onward[1:]
        firsts = firsts if len(given.initial) > 1 else firsts.sum(0)[None]
        pairs = pairs if len(given.moves) > 1 else pairs.sum(0)[None]
        with np.errstate(invalid="ignore"):
            value = np.where(scale != 0, scale * one.values, 0.0).sum()
        found.append((value, one.nodes, firsts, pairs))
    values, nodes, firsts, pairs = (np.stack(part, -1) for part in zip(*found, strict=True))
    return Posterior(values, nodes, _by_row(steps, given, nodes), firsts, pairs)


@dataclass(frozen=True, eq=False)
class Conditionals:
    """Of one fold, see `native_chain_logs.conditionals`; also the messages (T, K) as logarithms."""

    ahead: np.ndarray
    behind: np.ndarray
    nodes: np.ndarray
    back: np.ndarray
    onward: np.ndarray
    values: np.ndarray


def conditionals(steps: Steps, given: Potentials, fold: int) -> Conditionals:
    """In logarithms, and so exact whatever the potentials."""
    rows, weights, initial, moves = (
        np.ascontiguousarray(array[..., fold])
        for array in (given.rows, given.weights, given.initial, given.moves)
    )
    count, states = len(steps.index), rows.shape[1]
    ahead, behind, nodes = (np.empty((count, states)) for _ in range(3))
    back, onward = np.empty((count, states, states)), np.empty((count, states, states))
    values = np.empty(len(steps.starts) - 1)
    emission = (rows, steps.index, weights)
    logs_engine.log_messages(*emission, initial, moves, steps.starts, ahead, behind)
    logs_engine.conditionals(*emission, moves, steps.starts, ahead, behind, nodes, back, onward, values)
    return Conditionals(ahead, behind, nodes, back, onward, values)


class FoldGroups:
    """Groups of folds on threads, one for each core."""

    def __init__(self) -> None:
        self._reset()
        if hasattr(os, "register_at_fork"):  # a child process has none of the threads
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    def run(self, work: Callable[[slice], Any], folds: int) -> list[Any]:
        """work(slice) of each group, in order."""
        groups = [slice(start, min(start + LANES, folds)) for start in range(0, folds, LANES)]
        if len(groups) == 1:
            return [work(groups[0])]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(cores())
        return list(self._pool.map(work, groups))


GROUPS = FoldGroups()
