"""Constraints of several series with common factors: stationary vector autoregressions, and loadings
that no rotation of the factors leaves the same."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fitonce.core.constraints import EachEntry
from fitonce.core.deferred import jnp
from fitonce.core.numerics import Array


@dataclass(frozen=True)
class StationaryVector(EachEntry):
    """Coefficients (p, k, k) of a stationary vector autoregression x_t = sum_i A_i x_t-i + noise of
    covariance I.

    Free coordinates are those of Ansley and Kohn (1986): matrices M_i, from which partial
    autocorrelations are P_i = B_i^-1 M_i with B_i B_i' = I + M_i M_i': singular values are below one.
    Whittle's recursion makes the coefficients of a process of covariance I from these, which is then
    transformed so that its noise has the covariance I. Every stationary autoregression has one M.
    """

    def to_free(self, value: np.ndarray) -> np.ndarray:
        found = _partial(np.asarray(value, float))
        lowers = [np.linalg.cholesky(np.eye(len(one)) - one @ one.T) for one in found]
        return np.concatenate(
            [np.linalg.solve(low, one).ravel() for low, one in zip(lowers, found, strict=True)]
        )

    def to_value(self, free: Array) -> Array:
        return _coefficients(free.reshape(*self.shape, 1), jnp)[..., 0]

    def values(self, free: np.ndarray) -> np.ndarray:
        return _coefficients(free.reshape(*self.shape, -1), np)

    def violation(self, value: np.ndarray) -> str | None:
        if np.abs(np.linalg.eigvals(_companion(value))).max() < 1 - 1e-12:
            return None
        return "coefficients of a stationary vector autoregression"


@dataclass(frozen=True)
class Loadings:
    """Loadings (C, k) of channels on factors whose noise has the covariance I: those of the channels
    `anchors` are lower triangular with a positive diagonal, which leaves no rotation and no sign open.

    Free coordinates are the entries in `unit`, one for each channel, and logarithms on that diagonal,
    which may be `shift` columns further to the right.
    """

    shape: tuple[int, ...]
    anchors: tuple[int, ...]
    unit: tuple[float, ...]
    shift: int = 0

    @cached_property
    def _places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows and columns of the entries that are not zero, and which of them are positive."""
        order = {channel: place + self.shift for place, channel in enumerate(self.anchors)}
        pairs = itertools.product(range(self.shape[0]), range(self.shape[1]))
        kept = np.array([pair for pair in pairs if pair[1] <= order.get(pair[0], self.shape[1])])
        positive = np.array([order.get(row) == column for row, column in kept.tolist()])
        return kept[:, 0], kept[:, 1], positive

    @property
    def kept(self) -> np.ndarray:
        """Bools of this shape: entries that are not always zero."""
        found = np.zeros(self.shape, bool)
        rows, columns, _ = self._places
        found[rows, columns] = True
        return found

    def coordinates(self) -> list[tuple[int, ...]]:
        rows, columns, _ = self._places
        return list(zip(rows.tolist(), columns.tolist(), strict=True))

    def _units(self) -> np.ndarray:
        return np.asarray(self.unit)[self._places[0]]

    def to_free(self, value: np.ndarray) -> np.ndarray:
        rows, columns, positive = self._places
        found = value[rows, columns] / self._units()
        return np.where(positive, np.log(np.where(positive, found, 1.0)), found)

    def to_value(self, free: Array) -> Array:
        rows, columns, positive = self._places
        entries = jnp.where(positive, jnp.exp(jnp.where(positive, free, 0.0)), free) * self._units()
        return jnp.zeros(self.shape, free.dtype).at[rows, columns].set(entries)

    def values(self, free: np.ndarray) -> np.ndarray:
        rows, columns, positive = self._places
        found = np.zeros((*self.shape, free.shape[-1]), free.dtype)
        entries = free.copy()
        entries[positive] = np.exp(free[positive])
        found[rows, columns] = entries * self._units()[:, None]
        return found

    def violation(self, value: np.ndarray) -> str | None:
        rows, columns, positive = self._places
        if not np.any(value[~self.kept]) and np.all(value[rows, columns][positive] > 0):
            return None
        return (
            f"lower triangular with a positive diagonal in the rows {list(self.anchors)} of the anchors"
        )


def anchored(loading: np.ndarray, anchors: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Loadings (C, k) after the rotation (k, k) of the factors that makes those of anchors lower
    triangular with a diagonal that is not negative."""
    turn, upper = np.linalg.qr(loading[list(anchors)].T)
    turn = turn * np.where(np.diag(upper) < 0, -1.0, 1.0)
    turned = loading @ turn
    turned[list(anchors)] = np.tril(turned[list(anchors)])
    return turned, turn


def _companion(coefficients: np.ndarray) -> np.ndarray:
    """(p k, p k)."""
    order, size = coefficients.shape[:2]
    found = np.eye(order * size, k=-size)
    found[:size] = np.concatenate(list(coefficients), 1)
    return found


def _product(first: Any, second: Any, xp: Any) -> Any:
    return xp.einsum("ijf,jkf->ikf", first, second)


def _turned(matrix: Any, xp: Any) -> Any:
    return xp.swapaxes(matrix, 0, 1)


def _lower(matrix: Any, xp: Any) -> Any:
    """Cholesky factors of (k, k, F), by analytic functions: entries may be complex."""
    size = matrix.shape[0]
    found: list[list[Any]] = [[xp.zeros_like(matrix[0, 0])] * size for _ in range(size)]
    for i in range(size):
        for j in range(i + 1):
            rest = matrix[i, j] - sum(found[i][k] * found[j][k] for k in range(j))
            found[i][j] = xp.sqrt(rest) if i == j else rest / found[j][j]
    return xp.stack([xp.stack(row) for row in found])


def _inverse(lower: Any, xp: Any) -> Any:
    """Of lower triangular (k, k, F)."""
    size = lower.shape[0]
    found: list[list[Any]] = [[xp.zeros_like(lower[0, 0])] * size for _ in range(size)]
    for j in range(size):
        found[j][j] = 1.0 / lower[j, j]
        for i in range(j + 1, size):
            found[i][j] = -sum(lower[i, k] * found[k][j] for k in range(j, i)) / lower[i, i]
    return xp.stack([xp.stack(row) for row in found])


def _coefficients(free: Any, xp: Any) -> Any:
    """(p, k, k, F) from M_i of the same shape."""
    order, size = free.shape[:2]
    eye = xp.asarray(np.eye(size)[..., None])
    ahead: list[Any] = []
    behind: list[Any] = []
    root = back_root = eye + 0.0 * free[0]  # of the covariances of errors, of the future and of the past
    for number in range(order):
        own = _inverse(_lower(eye + _product(free[number], _turned(free[number], xp), xp), xp), xp)
        partial = _product(own, free[number], xp)
        last = _product(_product(root, partial, xp), _inverse(back_root, xp), xp)
        first = _product(_product(back_root, _turned(partial, xp), xp), _inverse(root, xp), xp)
        ahead, behind = (
            [a - _product(last, b, xp) for a, b in zip(ahead, behind[::-1], strict=True)] + [last],
            [b - _product(first, a, xp) for a, b in zip(ahead[::-1], behind, strict=True)] + [first],
        )
        root = _product(root, own, xp)
        rest = _lower(eye - _product(_turned(partial, xp), partial, xp), xp)
        back_root = _product(back_root, rest, xp)
    apart = _inverse(root, xp)
    return xp.stack([_product(_product(apart, one, xp), root, xp) for one in ahead])


def _partial(coefficients: np.ndarray) -> np.ndarray:
    """(p, k, k) partial autocorrelation matrices of a stationary autoregression whose noise is I."""
    order, size = coefficients.shape[:2]
    move = _companion(coefficients)
    shake = np.zeros(move.shape)
    shake[:size, :size] = np.eye(size)
    joint = np.linalg.solve(np.eye(move.size) - np.kron(move, move), shake.ravel())
    joint = joint.reshape(move.shape)  # of x_t, x_t-1, ..., x_t-p+1
    lags = [joint[:size, lag * size : (lag + 1) * size] for lag in range(order)]
    lags.append(sum(a @ lag for a, lag in zip(coefficients, lags[::-1], strict=True)))
    unit = np.linalg.inv(np.linalg.cholesky(joint[:size, :size]))
    lags = [unit @ lag @ unit.T for lag in lags]  # E x_t x_t-h'
    ahead: list[np.ndarray] = []
    behind: list[np.ndarray] = []
    found, root, back_root = [], np.eye(size), np.eye(size)
    for number in range(order):
        rest = lags[number + 1] - sum(
            (a @ lags[number - i] for i, a in enumerate(ahead)), np.zeros((size, size))
        )
        partial = np.linalg.solve(root, np.linalg.solve(back_root, rest.T).T)
        last = root @ partial @ np.linalg.inv(back_root)
        first = back_root @ partial.T @ np.linalg.inv(root)
        ahead, behind = (
            [a - last @ b for a, b in zip(ahead, behind[::-1], strict=True)] + [last],
            [b - first @ a for a, b in zip(ahead[::-1], behind, strict=True)] + [first],
        )
        root = root @ np.linalg.cholesky(np.eye(size) - partial @ partial.T)
        back_root = back_root @ np.linalg.cholesky(np.eye(size) - partial.T @ partial)
        found.append(partial)
    return np.stack(found)
