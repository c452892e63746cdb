"""Weighted least squares with a network of one hidden layer, by damped Gauss-Newton steps.

Derivatives of the outputs are products of a hidden unit's slope with an input, and of a hidden unit
with an output, so that the Gauss-Newton matrix follows from Gram matrices of both: one, or one for each
channel if some are missing. The Hessian adds second derivatives of each hidden unit.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import numpy as np
from scipy import linalg

from fitonce.core.threads import one_blas_thread
from fitonce.models.emissions.base import Rows
from fitonce.models.emissions.closed_regression import with_intercept

_STEPS = 2  # per state and M step: more do not pay, because EM then changes the shares
_MOST_DAMPINGS = 8
_NO_SHARE = 1e-10  # rows with a smaller share of a state are ignored


class Layers(NamedTuple):
    """The network of one state: bias_in (H,), bias_out (C,), weight_in (H, Q), weight_out (C, H), in the
    order of the free coordinates."""

    bias_in: np.ndarray
    bias_out: np.ndarray
    weight_in: np.ndarray
    weight_out: np.ndarray

    def flat(self) -> np.ndarray:
        return np.concatenate([part.ravel() for part in self])

    def like(self, flat: np.ndarray) -> Layers:
        """Inverse of `flat`, for layers of these shapes."""
        parts = np.split(flat, np.cumsum([part.size for part in self])[:-1])
        return Layers(*(new.reshape(old.shape) for new, old in zip(parts, self, strict=True)))

    def inner(self) -> np.ndarray:
        """(H, Q + 1) coefficients of the hidden units, the bias last."""
        return np.concatenate([self.weight_in, self.bias_in[:, None]], 1)

    def places(self) -> np.ndarray:
        """Positions in `flat` of `inner`, then of the coefficients (C, H + 1) of the outputs."""
        numbers = self.like(np.arange(self.flat().size))
        outer = np.concatenate([numbers.weight_out, numbers.bias_out[:, None]], 1)
        return np.concatenate([numbers.inner().ravel(), outer.ravel()])


class Problem(NamedTuple):
    """Data of one state: inputs with a constant (R, Q + 1), targets and mask (R, C), shares (R,)."""

    inputs: np.ndarray
    targets: np.ndarray
    observed: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(cls, rows: Rows, shares: np.ndarray) -> Problem:
        """The rows that are in this state with non-negligible probability."""
        inputs, counted = with_intercept(np.asarray(rows.covariates)), np.asarray(rows.counts) > 0
        return cls(inputs, np.asarray(rows.x), rows.mask(), shares * counted).without_tiny_shares()

    def without_tiny_shares(self) -> Problem:
        used = np.flatnonzero(self.shares > _NO_SHARE)
        return Problem(*(part[used] for part in self))

    def hidden(self, layers: Layers) -> np.ndarray:
        return np.tanh(self.inputs @ layers.inner().T)

    def residuals(self, layers: Layers) -> np.ndarray:
        residuals = self.targets - self.hidden(layers) @ layers.weight_out.T - layers.bias_out
        return np.where(self.observed, residuals, 0.0)

    def squares(self, layers: Layers) -> float:
        """sum_r share_r |residual_r|^2."""
        return float(self.shares @ (self.residuals(layers) ** 2).sum(1))

    def gradient(self, layers: Layers) -> np.ndarray:
        """The gradient of `squares` / 2."""
        hidden, rest = self.hidden(layers), self.residuals(layers) * self.shares[:, None]
        inner = ((rest @ layers.weight_out) * (1.0 - hidden**2)).T @ self.inputs
        outer = rest.T @ with_intercept(hidden)
        gradient = np.empty(layers.flat().size)
        gradient[layers.places()] = -np.concatenate([inner.ravel(), outer.ravel()])
        return gradient

    def gauss_newton(self, layers: Layers) -> np.ndarray:
        """The Gauss-Newton approximation of the Hessian of `squares` / 2."""
        return self._ordered(layers, self._gauss_newton(layers))

    def hessian(self, layers: Layers) -> np.ndarray:
        """That of `squares` / 2, with second derivatives of the network."""
        matrix, hidden = self._gauss_newton(layers), self.hidden(layers)
        rest, slope = self.residuals(layers) * self.shares[:, None], 1.0 - hidden**2
        bend = 2.0 * hidden * slope * (rest @ layers.weight_out)
        width, units = self.inputs.shape[1], hidden.shape[1]
        for unit in range(units):
            inner = slice(unit * width, (unit + 1) * width)
            matrix[inner, inner] += (self.inputs * bend[:, unit, None]).T @ self.inputs
            outer = units * width + unit + (units + 1) * np.arange(rest.shape[1])
            cross = (self.inputs * slope[:, unit, None]).T @ rest
            matrix[inner, outer] -= cross
            matrix[outer, inner] -= cross.T
        return self._ordered(layers, matrix)

    def _gauss_newton(self, layers: Layers) -> np.ndarray:
        """By coefficients of the hidden units, then by those of the outputs."""
        hidden = self.hidden(layers)
        inner = hidden.shape[1] * self.inputs.shape[1]  # not -1: a state may have no rows
        slopes = ((1.0 - hidden**2)[:, :, None] * self.inputs[:, None]).reshape(-1, inner)
        both = np.concatenate([slopes, with_intercept(hidden)], 1)
        repeated = np.repeat(layers.weight_out, self.inputs.shape[1], 1)  # (C, H (Q + 1))
        channels, outer = len(repeated), both.shape[1] - inner
        matrix = np.zeros((inner + channels * outer, inner + channels * outer))
        same = bool((self.observed == self.observed[:, :1]).all())
        for channel, weight in enumerate(repeated):
            if channel == 0 or not same:
                gram = (both * (self.shares * self.observed[:, channel])[:, None]).T @ both
            own = slice(inner + channel * outer, inner + (channel + 1) * outer)
            matrix[:inner, :inner] += gram[:inner, :inner] * np.outer(weight, weight)
            matrix[:inner, own] = weight[:, None] * gram[:inner, inner:]
            matrix[own, :inner] = matrix[:inner, own].T
            matrix[own, own] = gram[inner:, inner:]
        return matrix

    @staticmethod
    def _ordered(layers: Layers, matrix: np.ndarray) -> np.ndarray:
        """In the order of `Layers.flat`."""
        ordered, places = np.empty_like(matrix), layers.places()
        ordered[np.ix_(places, places)] = matrix
        return ordered

    def pulls_of_rows(self, layers: Layers) -> np.ndarray:
        """(R, P) slopes of -|residual_r|^2 / 2."""
        hidden, rest = self.hidden(layers), self.residuals(layers)
        inner = ((rest @ layers.weight_out) * (1.0 - hidden**2))[:, :, None] * self.inputs[:, None]
        outer = rest[:, :, None] * with_intercept(hidden)[:, None]
        found = np.empty((len(rest), layers.flat().size))
        found[:, layers.places()] = np.concatenate([p.reshape(len(rest), -1) for p in (inner, outer)], 1)
        return found


def improved(problem: Problem, layers: Layers, variance: float, precision: float) -> Layers:
    """Layers with a lower squares / (2 variance) + precision |layers|^2 / 2, or the same layers.

    Runs in one thread, which is faster for systems of a few hundred unknowns, and much faster while
    other work keeps the cores busy.
    """
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        return _improved(problem, layers, variance, precision)


def _improved(problem: Problem, layers: Layers, variance: float, precision: float) -> Layers:
    flat = layers.flat()

    def cost(trial: np.ndarray) -> float:
        return 0.5 * (problem.squares(layers.like(trial)) / variance + precision * float(trial @ trial))

    best = cost(flat)
    for _ in range(_STEPS):
        gradient = problem.gradient(layers.like(flat)) / variance + precision * flat
        matrix = problem.gauss_newton(layers.like(flat)) / variance
        damping, scale = precision, float(np.trace(matrix)) / len(flat)
        for _ in range(_MOST_DAMPINGS):
            with suppress(linalg.LinAlgError, ValueError):  # singular to rounding, or not finite
                factor = linalg.cho_factor(matrix + damping * np.eye(len(flat)))
                step = linalg.cho_solve(factor, -gradient)
                value = cost(flat + step)
                if value < best:
                    break
            damping = max(10.0 * damping, 1e-3 * scale)
        else:
            break
        flat, best = flat + step, value
    return layers.like(flat)
