"""Closed forms of emissions: densities and derivatives that need no compiler, in NumPy.

Folds are the last axis: a parameter of shape (K, C) is an array (K, C, F). Derivatives are by P free
coordinates of each state, in the order of the parameters' names; those of a parameter that states share
are summed over states by whoever asks. Coordinates are those of plain constraints, without units.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

LOG_2PI = float(np.log(2.0 * np.pi))


class Values(dict[str, np.ndarray]):
    """Constrained values by name, and the free vectors `thetas` that they come from: (F, D), or (D,)
    where there is one fold and no axis for it."""

    thetas: np.ndarray

    @classmethod
    def at(cls, thetas: np.ndarray, values: dict[str, np.ndarray]) -> Values:
        found = cls(values)
        found.thetas = thetas
        return found

    def alone(self) -> Values:
        """The first fold, without an axis for folds."""
        return Values.at(self.thetas[0], {name: array[..., 0] for name, array in self.items()})

    def lifted(self) -> Values:
        """With an axis for one fold, where there is none."""
        return Values.at(self.thetas[None], {name: array[..., None] for name, array in self.items()})


class Observations(NamedTuple):
    """Rows of observations in NumPy.

    Attributes:
        x: (R, C), some valid value where missing.
        seen: (R, C) ones, and zeros where missing.
        counts: (R,) how often each row occurs among observed steps.
        constant: (R,) the part of the log density without parameters.
        covariates: (R, Q) known quantities, such as the day of the week.
    """

    x: np.ndarray
    seen: np.ndarray
    counts: np.ndarray
    constant: np.ndarray
    covariates: np.ndarray


class ClosedForms(ABC):
    """What an emission with closed forms computes."""

    @property
    def shared(self) -> tuple[str, ...]:
        """Names of parameters that all states share."""
        return ()

    def numbers(self, states: int, rows: Observations) -> int:
        """About how many log densities of a fold hold on the way."""
        return states * rows.x.size

    def operations(self, states: int, rows: Observations) -> int:
        """About how many log densities of a fold take."""
        return self.numbers(states, rows)

    @abstractmethod
    def log_density(self, values: Values, rows: Observations) -> np.ndarray:
        """(R, K, F)."""

    @abstractmethod
    def slopes(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        """(K, P, F) derivatives of sum_r shares[r, k, f] log p(row r | k)."""

    @abstractmethod
    def scores(self, values: Values, rows: Observations) -> np.ndarray:
        """(R, K, P) derivatives of log p(row r | k), of one fold."""

    @abstractmethod
    def curvature(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        """(K, P, P) second derivatives of sum_r shares[r, k] log p(row r | k), of one fold."""

    def metric(self, values: Values, shares: np.ndarray, rows: Observations) -> np.ndarray:
        """An approximation of `curvature`, for use as a preconditioner."""
        return self.curvature(values, shares, rows)

    @abstractmethod
    def log_prior(self, values: Values, rows: Observations) -> np.ndarray:
        """(F,), up to a constant."""

    @abstractmethod
    def prior_slopes(self, values: Values, rows: Observations) -> np.ndarray:
        """(K, P, F)."""

    @abstractmethod
    def prior_curvature(self, values: Values, rows: Observations) -> np.ndarray:
        """(K, P, P), of one fold."""


def sums_over_rows(features: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(K, m, F): sums over rows of shares (R, K, F) times features (R, m)."""
    found = features.T @ shares.reshape(len(shares), -1)
    return np.swapaxes(found.reshape(features.shape[1], *shares.shape[1:]), 0, 1)


def diagonal(entries: np.ndarray) -> np.ndarray:
    """(K, P, P) matrices with the entries (K, P) on their diagonals."""
    return entries[..., None] * np.eye(entries.shape[-1])


def x_log(x: np.ndarray | float, y: np.ndarray) -> np.ndarray:
    """x log y, zero where x is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(x == 0, 0.0, x * np.log(y))
