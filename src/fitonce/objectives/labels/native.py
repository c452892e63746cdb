"""Sums over label sequences by native loops: nothing is compiled for new data.

The same as `buckets.Buckets`, for sequences of any lengths. What labels kept with a probability need is
left to that.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg

from fitonce.core.parallel import cores
from fitonce.data.labelled import UNKNOWN
from fitonce.engines import native_chain_logs as logs_engine
from fitonce.objectives.base import LinearMap, Program, ValuesAndSlopes
from fitonce.objectives.labels.buckets import Buckets, in_buckets
from fitonce.objectives.labels.design import Design
from fitonce.objectives.labels.entries import linear_at, order_of
from fitonce.objectives.labels.native_covariance import count_covariance
from fitonce.objectives.labels.native_passes import (
    Chains,
    LabelConditionals,
    conditionals,
    expected,
    label_scores,
    log_marginals,
    tangent,
)
from fitonce.objectives.labels.sparse_preconditioner import sparse_preconditioner

_TOGETHER = 256  # rows whose marginals are computed together
_BYTES = 2**26  # of slopes of single rows at a time


class _Kept:
    """Results at the latest parameters, for all threads: each attribute is replaced as a whole."""

    def __init__(self) -> None:
        self.points: list[tuple[np.ndarray, Chains, LabelConditionals]] = []
        self.totals: tuple[Any, ...] | None = None


@dataclass(frozen=True, eq=False)
class NativeChains:
    """All sequences, one after the other.

    A row is one sequence with the parameters and the known labels of one fold.

    Attributes:
        program: the model and its parameter space.
        design: (sites, Q) features.
        scores: (sites, K) given scores, or None.
        lengths: (N,).
    """

    program: Program
    design: Design
    scores: np.ndarray | None
    lengths: np.ndarray
    _kept: _Kept = field(init=False, repr=False, default_factory=_Kept)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_kept"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _kept=_Kept())  # another process has seen nothing

    @property
    def longest(self) -> int:
        return int(self.lengths.max())

    @cached_property
    def _starts(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64)

    @cached_property
    def order(self) -> np.ndarray:
        """(D,) see `order_of`."""
        return order_of(self.program)

    @cached_property
    def _template(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights (Q, K) and transitions (K, K) where all parameters are zero, in one array, and which
        states can be first."""
        weights, transition, first = linear_at(self.program, np.zeros(self.program.space.size))
        return np.concatenate([weights.ravel(), transition.ravel()]), first

    @cached_property
    def _derived(self) -> Buckets:
        """The programs of JAX, for labels that are kept with a probability."""
        return in_buckets(self.program, self.design.dense(), self.scores, self.lengths)

    def slopes(self, by_feature: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """(..., D) from derivatives by the weights (..., Q, K) and transitions (..., K, K)."""
        batch = by_feature.shape[:-2]
        flat = [part.reshape(*batch, -1) for part in (by_feature, moves)]
        return np.concatenate(flat, -1)[..., self.order]

    def chains(
        self, theta: np.ndarray, sequences: np.ndarray | None = None, labels: np.ndarray | None = None
    ) -> Chains:
        """Potentials of sequences (R,), by default of all, that exclude all other states where labels
        (R, longest) are known."""
        template, first = self._template
        flat, states = template.copy(), len(first)
        flat[self.order] = theta
        weights, transition = np.split(flat, [flat.size - states * states])
        design, given, starts = self.design, self.scores, self._starts
        if sequences is not None:
            lengths = self.lengths[sequences]
            starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
            steps = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
            sites = np.repeat(self._starts[sequences], lengths) + steps
            design, given = design.some(sites), None if given is None else given[sites]
        unary = design.scores(weights.reshape(-1, states))
        unary = unary if given is None else unary + given
        unary[starts[:-1]] += first
        if labels is not None and sequences is not None:
            known = labels[np.repeat(np.arange(len(lengths)), lengths), steps]
            fixed = np.flatnonzero(known != UNKNOWN)
            kept = unary[fixed, known[fixed]]
            unary[fixed] = -np.inf
            unary[fixed, known[fixed]] = kept
        return Chains(unary, transition.reshape(states, states), starts, design)

    def totals(
        self, thetas: np.ndarray, coefficients: np.ndarray, labels: np.ndarray
    ) -> ValuesAndSlopes:
        """Sums over all sequences of coefficient (N,) times log Z, less the score of the labels (sites,)
        where they are not below zero, which they are in whole sequences; (F,), and slopes (F, D).

        Scores are subtracted sequence by sequence: the difference of two large sums has fewer digits.
        """
        values, slopes = np.empty(len(thetas)), np.empty(thetas.shape)
        for fold, theta in enumerate(thetas):
            held = self._kept.totals  # many folds begin where the full fit is
            if held is None or not all(map(np.array_equal, held[:2], (theta, coefficients))):
                found = self._total(self.chains(theta), coefficients, labels)
                held = self._kept.totals = (theta.copy(), coefficients, *found)
            values[fold], slopes[fold] = held[2:]
        return values, slopes

    def total(
        self, theta: np.ndarray, coefficients: np.ndarray, sequences: np.ndarray, labels: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """The same of sums of `log_partitions` of rows at one theta (D,), with coefficients (R,)."""
        return self._total(self.chains(theta, sequences, labels), coefficients)

    def _total(
        self, chains: Chains, coefficients: np.ndarray, labels: np.ndarray | None = None
    ) -> tuple[float, np.ndarray]:
        found, scale = expected(chains, coefficients), chains.of_steps(coefficients)
        values, pairs = found.values, found.pairs
        nodes = scale[:, None] * found.nodes
        if labels is not None:
            scores, moves = label_scores(chains, labels, scale)
            values, pairs = values - scores, pairs - moves
            known = np.flatnonzero(labels != UNKNOWN)
            nodes[known, labels[known]] -= scale[known]
        # A sequence that is left out may be impossible: 0 * -inf.
        value = coefficients @ np.where(coefficients != 0, values, 0.0)
        return float(value), self.slopes(chains.design.sums(nodes), pairs)

    def log_partitions(
        self,
        thetas: np.ndarray,
        sequences: np.ndarray,
        labels: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> ValuesAndSlopes:
        """See `Buckets.log_partitions`."""
        if weights is not None:
            return self._derived.log_partitions(thetas, sequences, labels, weights)
        values, slopes = np.empty(len(sequences)), np.empty(thetas.shape)
        for some in _alike(thetas, max(_BYTES // (8 * thetas.shape[1]), 1)):
            chains = self.chains(thetas[some.start], sequences[some], labels[some])
            found = expected(chains, np.ones(chains.count), each=True)
            values[some] = found.values
            by_feature = chains.design.sums_by_chain(chains.starts, found.nodes)
            slopes[some] = self.slopes(by_feature, found.pairs)
        return values, slopes

    def partitions(self, theta: np.ndarray, sequences: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The values of `log_partitions` alone, at one theta (D,)."""
        chains = self.chains(theta, sequences, labels)
        return expected(chains, np.zeros(chains.count)).values

    def log_marginals(
        self, thetas: np.ndarray, sequences: np.ndarray, labels: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Chunks of row numbers (n,) and log p(z_t | known labels, x) (n, T, K), anything at padding."""
        for some in _alike(thetas, _TOGETHER):
            chains = self.chains(thetas[some.start], sequences[some], labels[some])
            lengths = np.diff(chains.starts)
            places = np.minimum(np.arange(lengths.max())[None], lengths[:, None] - 1)
            rows = np.arange(some.start, some.stop)
            yield rows, log_marginals(chains)[chains.starts[:-1, None] + places]

    def best_paths(
        self, theta: np.ndarray, sequences: np.ndarray | None = None
    ) -> list[np.ndarray | None]:
        """The most probable states of sequences (R,), by default of all; None where no path is
        possible."""
        chains = self.chains(theta, sequences)
        unary, starts = chains.unary, chains.starts
        path, steps = np.empty(len(unary), np.int64), np.arange(len(unary))
        first = np.zeros((1, unary.shape[1]))
        logs_engine.best_path(unary, steps, chains.transition[None], first, starts, path)
        scores = unary[steps, path]
        scores[1:] += chains.transition[path[:-1], path[1:]]
        scores[starts[:-1]] = unary[starts[:-1], path[starts[:-1]]]
        possible = chains.totals(scores) > -np.inf
        found = np.split(path, starts[1:-1])
        return [each if fine else None for each, fine in zip(found, possible, strict=True)]

    def covariance(
        self,
        theta: np.ndarray,
        coefficients: np.ndarray,
        sequences: np.ndarray,
        labels: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> np.ndarray:
        """See `Buckets.covariance`."""
        if weights is not None:
            return self._derived.covariance(theta, coefficients, sequences, labels, weights)
        if not np.any(coefficients):
            return np.zeros((len(theta), len(theta)))
        used = np.flatnonzero(coefficients)
        chains = self.chains(theta, sequences[used], labels[used])
        return count_covariance(chains, coefficients[used])[np.ix_(self.order, self.order)]

    def products_of_totals(
        self, theta: np.ndarray, directions: np.ndarray, coefficients: np.ndarray
    ) -> np.ndarray:
        """(m, D) second derivatives of `totals` at theta (D,), times directions (m, D)."""
        return self._products(*self._point(theta), directions, coefficients)

    def products(
        self,
        theta: np.ndarray,
        directions: np.ndarray,
        coefficients: np.ndarray,
        sequences: np.ndarray,
        labels: np.ndarray,
    ) -> np.ndarray:
        """The same of sums of `log_partitions` of rows, with coefficients (R,)."""
        chains = self.chains(theta, sequences, labels)
        return self._products(chains, conditionals(chains), directions, coefficients)

    def _point(self, theta: np.ndarray) -> tuple[Chains, LabelConditionals]:
        """Of all sequences; kept for the next products, of one fold for each core."""
        for point in self._kept.points:
            if np.array_equal(point[0], theta):
                return point[1], point[2]
        chains = self.chains(theta)
        point = (np.array(theta), chains, conditionals(chains))
        self._kept.points = [point, *self._kept.points[: cores() - 1]]
        return point[1], point[2]

    def _products(
        self, chains: Chains, known: LabelConditionals, directions: np.ndarray, coefficients: np.ndarray
    ) -> np.ndarray:
        states, split = chains.unary.shape[1], chains.design.width * chains.unary.shape[1]
        found, weight = np.empty(directions.shape), chains.of_steps(coefficients)[:, None]
        for row, direction in enumerate(directions):
            flat = np.zeros(split + states * states)
            flat[self.order] = direction
            along = chains.design.scores(flat[:split].reshape(-1, states))
            moves = flat[split:].reshape(states, states)
            d_nodes, d_pairs = tangent(chains, known, along, moves, coefficients)
            found[row] = self.slopes(chains.design.sums(weight * d_nodes), d_pairs)
        return found

    def preconditioner(self, theta: np.ndarray, coefficients: np.ndarray, precision: float) -> LinearMap:
        """The inverse of second derivatives of `totals` without covariances between steps and between
        states, plus a precision."""
        if self.design.is_sparse:
            return sparse_preconditioner(*self._point(theta), coefficients, precision, self.order)
        chains = self.chains(theta)
        found = expected(chains, coefficients)
        spread = chains.of_steps(coefficients)[:, None] * found.nodes * (1.0 - found.nodes)
        states, width = spread.shape[1], chains.design.width
        blocks = chains.design.squares(spread) + precision * np.eye(width)
        factors = [linalg.cho_factor(block) for block in blocks]
        scale = 1.0 / (found.pairs.ravel() + precision)
        split, order = width * states, self.order

        def solve(columns: np.ndarray) -> np.ndarray:
            flat = np.zeros((split + len(scale), columns.shape[1]))
            flat[order] = columns
            by_state = flat[:split].reshape(width, states, -1)
            for k, factor in enumerate(factors):
                by_state[:, k] = linalg.cho_solve(factor, by_state[:, k], check_finite=False)
            flat[split:] *= scale[:, None]
            return flat[order]

        return solve


def _alike(thetas: np.ndarray, most: int) -> Iterator[slice]:
    """Runs of at most so many rows with the same parameters."""
    changed = np.zeros(0, int)
    if len(thetas) and thetas.strides[0] != 0:
        changed = 1 + np.flatnonzero((thetas[1:] != thetas[:-1]).any(1))
    for start, stop in itertools.pairwise([0, *changed.tolist(), len(thetas)]):
        for first in range(start, stop, most):
            yield slice(first, min(first + most, stop))
