"""Weighted least squares with a network of one hidden layer, by damped Gauss-Newton steps.

Derivatives of the outputs are products of a hidden unit's slope with an input, and of a hidden unit
with an output, so that the Gauss-Newton matrix follows from one Gram matrix of both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from fitonce.core.threads import one_blas_thread
from fitonce.models.emissions.base import Rows
from fitonce.models.emissions.regression import with_intercept

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
        used = np.flatnonzero((shares > _NO_SHARE) & (np.asarray(rows.counts) > 0))
        inputs = with_intercept(np.asarray(rows.covariates)[used])
        return cls(inputs, np.asarray(rows.x)[used], rows.mask()[used], shares[used])

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
        """The Gauss-Newton approximation of the Hessian of `squares` / 2. It treats missing channels as
        observed, which overestimates their information."""
        hidden = self.hidden(layers)
        inner = hidden.shape[1] * self.inputs.shape[1]  # not -1: a state may have no rows
        slopes = ((1.0 - hidden**2)[:, :, None] * self.inputs[:, None]).reshape(-1, inner)
        both = np.concatenate([slopes, with_intercept(hidden)], 1)
        gram = (both * self.shares[:, None]).T @ both
        repeated = np.repeat(layers.weight_out, self.inputs.shape[1], 1)  # (C, H (Q + 1))
        cross = repeated.T[:, :, None] * gram[:inner, None, inner:]  # (H (Q + 1), C, H + 1)
        cross = cross.reshape(inner, -1)
        outer = np.kron(np.eye(len(layers.weight_out)), gram[inner:, inner:])
        matrix = np.block([[gram[:inner, :inner] * (repeated.T @ repeated), cross], [cross.T, outer]])
        ordered, places = np.empty_like(matrix), layers.places()
        ordered[np.ix_(places, places)] = matrix
        return ordered


def improved(problem: Problem, layers: Layers, variance: float, precision: float) -> Layers:
    """Layers with a lower squares / (2 variance) + precision |layers|^2 / 2, or the same layers.

    Runs in one thread, which is faster for systems of a few hundred unknowns, and much faster while
    other work keeps the cores busy.
    """
    with one_blas_thread():
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
            step = linalg.solve(matrix + damping * np.eye(len(flat)), -gradient, assume_a="pos")
            value = cost(flat + step)
            if value < best:
                break
            damping = max(10.0 * damping, 1e-3 * scale)
        else:
            break
        flat, best = flat + step, value
    return layers.like(flat)
