"""Passes of the native engine over labelled chains: what log Z and its derivatives need of states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fitonce.core.parallel import cores
from fitonce.core.thread_pool import THREADS
from fitonce.data.labelled import UNKNOWN
from fitonce.engines import native_chain_logs as logs_engine
from fitonce.engines import native_labels as engine
from fitonce.objectives.labels.design import Design

_SAFE_RANGE = 150.0  # nats between transitions, all possible: then nothing that matters underflows
_LOST = 1e-20  # relative error by underflow, in probabilities
_FEW = 5000  # steps that are not worth another thread


@dataclass(frozen=True, eq=False)
class Chains:
    """Log-potentials of chains that share their transitions.

    Attributes:
        unary: (T, K) of the steps of all chains, one after the other.
        transition: (K, K).
        starts: (N + 1,) first steps.
        design: (T, Q) the features of the steps.
    """

    unary: np.ndarray
    transition: np.ndarray
    starts: np.ndarray
    design: Design

    @property
    def count(self) -> int:
        return len(self.starts) - 1

    def totals(self, values: np.ndarray) -> np.ndarray:
        """Sums over the steps of each chain, (T, ...) to (N, ...)."""
        return np.add.reduceat(values, self.starts[:-1], 0)

    def of_steps(self, coefficients: np.ndarray) -> np.ndarray:
        """(T,) coefficients (N,) of the chains at their steps."""
        return np.repeat(coefficients, np.diff(self.starts))

    def between(self, first: int, last: int) -> Chains:
        """The chains from the first on and before the last."""
        steps = slice(self.starts[first], self.starts[last])
        return replace(self.potentials(first, last), design=self.design.some(steps))

    def potentials(self, first: int, last: int) -> Chains:
        """The same for passes that do not look at features, which are still those of all steps."""
        steps = slice(self.starts[first], self.starts[last])
        starts = self.starts[first : last + 1] - self.starts[first]
        return replace(self, unary=self.unary[steps], starts=starts)

    def cut(self, steps: int) -> Iterator[tuple[int, int]]:
        """First and last chains of stretches with about so many steps, at least one chain each."""
        places = np.arange(0, self.starts[-1], max(steps, 1))
        cuts = np.unique(np.searchsorted(self.starts[:-1], places))
        cuts = cuts[cuts < self.count].tolist()
        yield from zip(cuts, [*cuts[1:], self.count], strict=True)

    def shares(self) -> list[tuple[int, int]]:
        """First and last chains of stretches, one for each core."""
        return list(self.cut(max(-(-int(self.starts[-1]) // cores()), _FEW)))

    def on_threads(self, work: Callable[[int, int], Any]) -> list[Any]:
        """work(first, last) of stretches of chains, one for each core."""
        return THREADS.run(lambda ends: work(*ends), self.shares())


class LabelExpectations(NamedTuple):
    """Log-partition functions and posterior expectations.

    Attributes:
        values: (N,) log Z.
        nodes: (T, K) p(z_t).
        pairs: (K, K) expected transitions, a sum over chains weighted by their coefficients; (N, K, K)
            of each chain where asked for.
    """

    values: np.ndarray
    nodes: np.ndarray
    pairs: np.ndarray


class LabelConditionals(NamedTuple):
    """Of the states of chains.

    Attributes:
        nodes: (T, K) p(z_t).
        back, onward: (T, K, K) p(z_t-1 = i | z_t = j) and p(z_t = j | z_t-1 = i), zero at first steps.
    """

    nodes: np.ndarray
    back: np.ndarray
    onward: np.ndarray


def expected(chains: Chains, coefficients: np.ndarray, each: bool = False) -> LabelExpectations:
    """Expectations; `each`: transitions of each chain."""

    nodes = np.empty(
        chains.unary.shape
    )  # once for all threads: joining parts takes as long as the loops

    def work(first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        part, scale = chains.potentials(first, last), coefficients[first:last]
        here = nodes[chains.starts[first] : chains.starts[last]]
        scaled = _scaled(part, here)
        pairs = np.zeros((part.count if each else 1, *chains.transition.shape))
        own = np.where(scaled.again, 0.0, scale)
        engine.pair_counts(*scaled.potentials, *scaled.messages, own, pairs)
        values = scaled.values
        for n, steps, found, value in _by_logarithms(part, scaled.again):
            here[steps], values[n] = found.nodes, value
            moved = (found.nodes[:-1, :, None] * found.onward[1:]).sum(0)
            pairs[n if each else 0] += scale[n] * moved
        return values, pairs

    values, pairs = zip(*chains.on_threads(work), strict=True)
    counts = np.concatenate(pairs) if each else np.sum(pairs, 0)[0]
    return LabelExpectations(np.concatenate(values), nodes, counts)


def conditionals(chains: Chains) -> LabelConditionals:
    """Nodes, and the states of a step given those of its neighbours."""

    shape = (*chains.unary.shape, chains.unary.shape[1])
    known = LabelConditionals(np.empty(chains.unary.shape), np.empty(shape), np.empty(shape))

    def work(first: int, last: int) -> None:
        part = chains.potentials(first, last)
        here = [array[chains.starts[first] : chains.starts[last]] for array in known]
        scaled = _scaled(part, here[0])
        ahead, behind, _ = scaled.messages
        engine.conditional_moves(*scaled.potentials, ahead, behind, *here[1:])
        for _, steps, found, _ in _by_logarithms(part, scaled.again):
            for array, again in zip(here, found, strict=True):
                array[steps] = again

    chains.on_threads(work)
    return known


class _Scaled(NamedTuple):
    """Exponentials and starts; forward and backward messages and one over each normaliser; log Z (N,),
    and which chains (N,) must be done again."""

    potentials: tuple[np.ndarray, np.ndarray, np.ndarray]
    messages: tuple[np.ndarray, np.ndarray, np.ndarray]
    values: np.ndarray
    again: np.ndarray


def _scaled(part: Chains, nodes: np.ndarray) -> _Scaled:
    """Also p(z_t), into nodes (T, K)."""
    transition = part.transition
    highest = transition.max() if np.isfinite(transition.max()) else 0.0
    peak = part.unary.max(1)
    peak = np.where(np.isfinite(peak), peak, 0.0)
    emission, moves = np.exp(part.unary - peak[:, None]), np.exp(transition - highest)
    ahead, behind = np.empty_like(emission), np.empty_like(emission)
    inverses, lost = np.empty(len(emission)), np.empty(part.count)
    engine.scaled_messages(emission, moves, part.starts, ahead, behind, inverses, lost)
    values = part.totals(peak - np.log(inverses)) + (np.diff(part.starts) - 1) * highest
    again = ~np.isfinite(values)
    if not highest - transition.min() < _SAFE_RANGE:
        again |= ~(lost < _LOST)
    with np.errstate(invalid="ignore"):
        np.multiply(ahead, behind, out=nodes)
    potentials, messages = (emission, moves, part.starts), (ahead, behind, inverses)
    return _Scaled(potentials, messages, values, again)


def _by_logarithms(
    part: Chains, again: np.ndarray
) -> Iterator[tuple[int, slice, LabelConditionals, float]]:
    """Number, steps, conditionals and log Z of the chains `again`."""
    for n in np.flatnonzero(again):
        steps = slice(part.starts[n], part.starts[n + 1])
        count, states = steps.stop - steps.start, part.unary.shape[1]
        emission = (np.ascontiguousarray(part.unary[steps]), np.arange(count), np.ones(count))
        moves, starts = part.transition[None], np.array([0, count])
        ahead, behind, nodes = (np.empty((count, states)) for _ in range(3))
        back, onward = (np.empty((count, states, states)) for _ in range(2))
        value = np.empty(1)
        chain = (moves, np.ones(count), starts)
        logs_engine.log_messages(*emission, np.zeros((1, states)), *chain, ahead, behind)
        logs_engine.conditionals(*emission, *chain, ahead, behind, nodes, back, onward, value)
        yield int(n), steps, LabelConditionals(nodes, back, onward), float(value[0])


def label_scores(chains: Chains, labels: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N,) scores of the labels (T,) of chains, zero where they are below zero, which they are in whole
    chains; and (K, K) how often they move, times the scale (T,) of steps."""
    states, known = chains.unary.shape[1], labels != UNKNOWN
    inside = known.copy()
    inside[chains.starts[:-1]] = False
    later = np.flatnonzero(inside)
    before, after = labels[later - 1], labels[later]
    scores = np.where(known, chains.unary[np.arange(len(labels)), labels], 0.0)
    scores[later] += chains.transition[before, after]
    moves = np.bincount(before * states + after, scale[later], states * states)
    return chains.totals(scores), moves.reshape(states, states)


def log_marginals(chains: Chains) -> np.ndarray:
    """(T, K) log p(z_t), in logarithms throughout: exact where probabilities underflow."""
    states = chains.unary.shape[1]
    ahead, behind = np.empty_like(chains.unary), np.empty_like(chains.unary)
    emission = (chains.unary, np.arange(len(ahead)), np.ones(len(ahead)))
    given = (np.zeros((1, states)), chains.transition[None], np.ones(len(ahead)), chains.starts)
    logs_engine.log_messages(*emission, *given, ahead, behind)
    total = ahead + behind
    peak = total.max(1, keepdims=True)
    peak = np.where(np.isfinite(peak), peak, 0.0)
    with np.errstate(divide="ignore"):
        norm = np.log(np.exp(total - peak).sum(1, keepdims=True)) + peak
    return total - np.where(np.isfinite(norm), norm, 0.0)


def tangent(
    chains: Chains,
    known: LabelConditionals,
    d_unary: np.ndarray,
    d_transition: np.ndarray,
    coefficients: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives along one direction of nodes, (T, K), and of expected transitions weighted by
    coefficients (N,), (K, K); from those of potentials, d_unary (T, K) and d_transition (K, K)."""
    d_nodes = np.empty_like(d_unary)

    def work(first: int, last: int) -> np.ndarray:
        steps = slice(chains.starts[first], chains.starts[last])
        starts = chains.starts[first : last + 1] - chains.starts[first]
        d_pairs = np.zeros_like(d_transition)
        given = (*(array[steps] for array in known), d_unary[steps], d_transition)
        engine.tangent(*given, starts, coefficients[first:last], d_nodes[steps], d_pairs)
        return d_pairs

    return d_nodes, np.sum(chains.on_threads(work), 0)
