"""Integrals over the diffuse directions of first states, and their derivatives.

The filter carries a state as A b with covariance P, where b = (1, delta) and delta has a flat prior.
After some steps its products s = sum of w V' G^-1 V say what these know of delta: its mean -V s_delta
and its covariance V, the inverse of s_delta,delta.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from fitonce.core.lanes import LANES
from fitonce.engines.kalman import UNDETERMINED


class State(NamedTuple):
    """Of sequences: means (N, n, M, L), a column for each direction, and lower triangles (N, R, L)."""

    mean: np.ndarray
    spread: np.ndarray


class Backward(NamedTuple):
    """What a pass backward starts from: see `kalman.adjoint`."""

    tables: np.ndarray
    centres: np.ndarray
    inverses: np.ndarray


@cache
def triangle(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the entries of a lower triangle, row by row."""
    return np.tril_indices(size)


def full(lower: np.ndarray, size: int) -> np.ndarray:
    """(N, n, n, L) symmetric."""
    rows, columns = triangle(size)
    found = np.empty((len(lower), size, size, LANES))
    found[:, rows, columns] = found[:, columns, rows] = lower
    return found


class Integral(NamedTuple):
    """
    Attributes:
        values: (N, L) what the integral adds to log-likelihoods; nan where it does not exist.
        centres, inverses: (N, M, L) and (N, M, M, L) mean and covariance of b.
        least: (N, L) the least information about a direction, relative to all that there could be.
    """

    values: np.ndarray
    centres: np.ndarray
    inverses: np.ndarray
    least: np.ndarray

    def known(self, state: State) -> State:
        """A state whose directions are integrated over: one column."""
        mean = np.einsum("nimL,nmL->niL", state.mean, self.centres)[:, :, None]
        rows, columns = triangle(state.mean.shape[1])
        along = np.einsum("nimL,nmkL->nikL", state.mean, self.inverses)
        more = np.einsum("nrkL,nrkL->nrL", along[:, rows], state.mean[:, columns])
        return State(np.ascontiguousarray(mean), state.spread + more)

    def from_here(self, first: State) -> State:
        """The same first states, whose means are those that are expected."""
        known = np.where(np.isfinite(self.centres), self.centres, 0.0)
        known[:, 0] = 1.0
        mean = np.repeat(first.mean, len(known), 0) if len(first.mean) == 1 else first.mean.copy()
        mean[:, :, 0] = np.einsum("nimL,nmL->niL", mean, known)
        return State(
            mean,
            np.ascontiguousarray(np.broadcast_to(first.spread, (len(known), *first.spread.shape[1:]))),
        )

    def at_the_end(self, coefficients: np.ndarray) -> Backward:
        """For a pass backward from where the integral is taken."""
        both = np.einsum("niL,njL->nijL", self.centres, self.centres) + self.inverses
        return Backward(coefficients[:, None, None] * both, self.centres, self.inverses)

    def through(self, state: State, bars: State, coefficients: np.ndarray) -> tuple[State, Backward]:
        """Derivatives by a state before it is integrated over, from those (N, n, 1, L) after."""
        columns, inverse = state.mean[:, :, 1:], self.inverses[:, 1:, 1:]
        centre, pull = self.centres[:, 1:], bars.mean[:, :, 0]
        loaded = np.einsum("nijL,njqL->niqL", full(bars.spread, columns.shape[1]), columns)
        moved = np.einsum("nqkL,nikL,niL->nqL", inverse, columns, pull)
        spread = np.einsum("nijL,nkjL->nikL", inverse, np.einsum("niqL,nikL->nqkL", loaded, columns))
        spread = 2.0 * np.einsum("nijL,nkjL->nikL", spread, inverse)
        by_columns = np.einsum("niL,nqL->niqL", pull, centre)
        by_columns = by_columns + 2.0 * np.einsum("niqL,nqkL->nikL", loaded, inverse)
        begin = self.at_the_end(coefficients)
        tables, centres, inverses = (array.copy() for array in begin)
        outer = np.einsum("niL,njL->nijL", moved, centre)
        tables[:, 0, 1:] += moved
        tables[:, 1:, 0] += moved
        tables[:, 1:, 1:] += spread + outer + np.swapaxes(outer, 1, 2)
        centres[:, 1:] += moved
        inverses[:, 1:, 1:] += spread - np.einsum("niL,njL->nijL", moved, moved)
        mean = np.concatenate([bars.mean, by_columns], 2)
        return State(mean, bars.spread), Backward(tables, centres, inverses)


def integral(products: np.ndarray, scale: np.ndarray) -> Integral:
    """Over directions of products (N, M, M, L), which are large beside 1 / scale (L, M - 1) ** 2."""
    sequences, columns = products.shape[:2]
    centres, inverses = np.zeros((sequences, columns, LANES)), np.zeros(products.shape)
    centres[:, 0] = 1.0
    rest = columns - 1
    if not rest:
        full = np.full((sequences, LANES), np.inf)
        return Integral(np.zeros((sequences, LANES)), centres, inverses, full)
    with np.errstate(all="ignore"):
        inner, outer = np.moveaxis(products[:, 1:, 1:], -1, 1), np.moveaxis(products[:, 0, 1:], -1, 1)
        scaled = inner * scale[:, :, None] * scale[:, None, :]
        finite = np.isfinite(scaled).all((-1, -2))
        least = np.linalg.eigvalsh(np.where(finite[..., None, None], scaled, np.eye(rest)))[..., 0]
        least = np.where(finite, least, np.nan)
        lost = ~(least > UNDETERMINED)
        inverse = np.linalg.inv(np.where(lost[..., None, None], np.eye(rest), inner))
        centre = -np.einsum("nlij,nlj->nli", inverse, outer)
        values = 0.5 * (np.linalg.slogdet(inverse)[1] - np.einsum("nli,nli->nl", outer, centre))
    centres[:, 1:] = np.moveaxis(centre, 1, -1)
    inverses[:, 1:, 1:] = np.moveaxis(inverse, 1, -1)
    return Integral(np.where(lost, np.nan, values), centres, inverses, least)
