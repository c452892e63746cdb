"""Coefficients of covariates that only what a fold leaves out determines.

What is expected of the observations is X beta + D b, where D says how the diffuse part b of first states
shows in each of them. Whatever the variances, kept rows determine beta if, and only if, their columns X
are independent beside D. The leverage of a fold in these columns, the largest eigenvalue of its block of
the projection onto them, is one where they are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fitonce.models.space.determined import starts_of
from fitonce.objectives.space.layout import Layout

_PLAUSIBLE = 0.99  # leverage: below, kept rows are not asked
_NOTHING = 1e-7  # of the length of columns beside D, in kept rows


def _basis(columns: np.ndarray) -> np.ndarray:
    """An orthonormal basis of columns (m, q), whatever their units."""
    lengths = np.linalg.norm(columns, axis=0)
    scaled = columns / np.where(lengths > 0, lengths, 1.0)
    turned, rest = np.linalg.qr(scaled)  # a tall matrix: many times faster than its singular vectors
    left, sizes, _ = np.linalg.svd(rest)
    return turned @ left[:, : len(sizes)][:, sizes > 1e-10 * sizes.max(initial=0.0)]


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Of a model on data, at theta (D,)."""

    layout: Layout
    theta: np.ndarray

    @cached_property
    def columns(self) -> np.ndarray:
        """(T, C, p) X: derivatives of offsets by the parameters that enter nothing else."""
        slopes = self.layout.slopes(self.theta[None])
        offset = slopes.pop("offset")[..., 0, :]
        alone = offset.any((0, 1))
        for slope in slopes.values():
            alone &= ~slope.reshape(-1, slope.shape[-1]).any(0)
        shape = (*self.layout.steps.y.shape, int(alone.sum()))
        return np.broadcast_to(offset[..., alone], shape)

    def _beside(self, number: int, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A basis of D in the rows of a sequence that are kept (steps, C), and what is left of X."""
        own = slice(*self.layout.steps.starts[number : number + 2])
        basis = _basis(self._starts_of[number][kept])
        columns = self.columns[own][kept]
        return basis, columns - basis @ (basis.T @ columns)

    @cached_property
    def _starts_of(self) -> list[np.ndarray]:
        system, steps = self.layout.systems(self.theta[None]), self.layout.steps
        return [starts_of(system, steps, number) for number in range(len(steps.starts) - 1)]

    @cached_property
    def _all(self) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
        """Of each sequence, a basis of D and what is left of X, and the lengths of the latter."""
        steps, starts = self.layout.steps, self.layout.steps.starts
        each = [self._beside(n, steps.seen[starts[n] : starts[n + 1]]) for n in range(len(starts) - 1)]
        bases, rest = [basis for basis, _ in each], [columns for _, columns in each]
        return bases, rest, np.linalg.norm(np.concatenate(rest), axis=0)

    def lost(self, dropped: Sequence[np.ndarray]) -> np.ndarray:
        """(F,) whether what is kept beside sets of steps does not determine some coefficient."""
        if not self.columns.shape[-1]:
            return np.zeros(len(dropped), bool)
        return np.array([self._is_lost(np.asarray(steps)) for steps in dropped])

    def _is_lost(self, dropped: np.ndarray) -> bool:
        starts, seen = self.layout.steps.starts, self.layout.steps.seen
        touched = np.unique(np.searchsorted(starts, dropped, side="right") - 1)
        if self._leverage(dropped, touched) < _PLAUSIBLE:
            return False
        kept = seen.copy()
        kept[dropped] = False
        rest = list(self._all[1])
        for number in touched:
            rest[number] = self._beside(number, kept[starts[number] : starts[number + 1]])[1]
        lengths = self._all[2]
        scaled = np.concatenate(rest) / np.where(lengths > 0, lengths, 1.0)
        if len(scaled) < scaled.shape[1]:
            return True
        sizes = np.linalg.svd(np.linalg.qr(scaled, mode="r"), compute_uv=False)
        return bool(sizes.min() < _NOTHING)

    def _leverage(self, dropped: np.ndarray, touched: np.ndarray) -> float:
        """The largest eigenvalue of the fold's block of the projection onto all columns."""
        starts, seen = self.layout.steps.starts, self.layout.steps.seen
        bases, place = self._all[0], 0
        width = sum(bases[number].shape[1] for number in touched)
        blocks = [np.zeros((0, width + self.columns.shape[-1]))]
        for number in touched:
            own, basis = slice(starts[number], starts[number + 1]), bases[number]
            left = np.zeros(seen.shape, bool)
            left[dropped] = True
            rows = (left & seen)[own][seen[own]]
            block, rest = np.zeros((int(rows.sum()), blocks[0].shape[1])), self._rest_of[number]
            block[:, place : place + basis.shape[1]] = basis[rows]
            block[:, width : width + rest.shape[1]] = rest[rows]
            place += basis.shape[1]
            blocks.append(block)
        rows = np.concatenate(blocks)
        return float(np.linalg.eigvalsh(rows.T @ rows)[-1])

    @cached_property
    def _rest_of(self) -> list[np.ndarray]:
        """A basis of what is left of X in all data, by sequences."""
        rest = self._all[1]
        return np.split(_basis(np.concatenate(rest)), np.cumsum([len(part) for part in rest])[:-1])
