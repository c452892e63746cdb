"""Weighted least squares with a network of one hidden layer: steps of Gauss-Newton, damped as needed.

Derivatives of the outputs are products of a hidden unit's slope with an input, and of a hidden unit
with an output, so that the matrix of Gauss and Newton comes from one Gram matrix of both.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from scipy import linalg
from threadpoolctl import ThreadpoolController

from fitonce.models.emissions.base import Rows

_STEPS = 2  # of a state in an M step: EM changes the shares before more of them pay
_MOST_DAMPINGS = 8
_NO_SHARE = 1e-10  # a row that is this little of a state tells it nothing


class Layers(NamedTuple):
    """Of one state: bias_in (H,), bias_out (C,), weight_in (H, Q), weight_out (C, H). The order is that
    of the free coordinates."""

    bias_in: np.ndarray
    bias_out: np.ndarray
    weight_in: np.ndarray
    weight_out: np.ndarray

    def flat(self) -> np.ndarray:
        return np.concatenate([part.ravel() for part in self])

    def like(self, flat: np.ndarray) -> Layers:
        ends = np.cumsum([part.size for part in self])[:-1]
        parts = np.split(flat, ends)
        return Layers(*(new.reshape(old.shape) for new, old in zip(parts, self, strict=True)))

    def places(self) -> np.ndarray:
        """Where coefficients of (unit, input or one) and then of (output, unit or one) are in `flat`."""
        numbers = self.like(np.arange(self.flat().size))
        inner = np.concatenate([numbers.weight_in, numbers.bias_in[:, None]], 1)
        outer = np.concatenate([numbers.weight_out, numbers.bias_out[:, None]], 1)
        return np.concatenate([inner.ravel(), outer.ravel()])


class Problem(NamedTuple):
    """Rows of one state: inputs with a one (R, Q + 1), targets (R, C), which of them count, shares."""

    inputs: np.ndarray
    targets: np.ndarray
    observed: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(cls, rows: Rows, shares: np.ndarray) -> Problem:
        """Of the rows that are of this state with some probability."""
        counted = np.flatnonzero((shares > _NO_SHARE) & (np.asarray(rows.counts) > 0))
        x = np.asarray(rows.x)[counted]
        known = np.asarray(rows.covariates)[counted]
        seen = rows.observed
        observed = np.ones(x.shape, bool) if seen is None else np.asarray(seen)[counted]
        return cls(np.concatenate([known, np.ones((len(x), 1))], 1), x, observed, shares[counted])

    def hidden(self, layers: Layers) -> np.ndarray:
        inner = np.concatenate([layers.weight_in, layers.bias_in[:, None]], 1)
        return np.tanh(self.inputs @ inner.T)

    def residuals(self, layers: Layers) -> np.ndarray:
        found = self.targets - self.hidden(layers) @ layers.weight_out.T - layers.bias_out
        return np.where(self.observed, found, 0.0)

    def squares(self, layers: Layers) -> float:
        """sum_r share_r |residual_r|^2."""
        return float(self.shares @ (self.residuals(layers) ** 2).sum(1))

    def gradient(self, layers: Layers) -> np.ndarray:
        """Of half of `squares`."""
        hidden, rest = self.hidden(layers), self.residuals(layers) * self.shares[:, None]
        inner = ((rest @ layers.weight_out) * (1.0 - hidden**2)).T @ self.inputs
        outer = rest.T @ _with_one(hidden)
        found = np.empty(layers.flat().size)
        found[layers.places()] = -np.concatenate([inner.ravel(), outer.ravel()])
        return found

    def gauss_newton(self, layers: Layers) -> np.ndarray:
        """Second derivatives of half of `squares`, less those of the network; channels that were not
        observed counted as if they had been, which is more than they tell."""
        hidden = self.hidden(layers)
        size = hidden.shape[1] * self.inputs.shape[1]  # not -1: a state may have no rows
        slopes = ((1.0 - hidden**2)[:, :, None] * self.inputs[:, None]).reshape(-1, size)
        both = np.concatenate([slopes, _with_one(hidden)], 1)
        gram = (both * self.shares[:, None]).T @ both
        inner, width = slopes.shape[1], self.inputs.shape[1]
        repeated = np.repeat(layers.weight_out, width, 1)  # (C, H (Q + 1))
        channels = len(layers.weight_out)
        cross = repeated.T[:, :, None] * gram[:inner, None, inner:]  # (H (Q + 1), C, H + 1)
        cross = cross.reshape(inner, -1)
        found = np.empty((inner + cross.shape[1],) * 2)
        found[:inner, :inner] = gram[:inner, :inner] * (repeated.T @ repeated)
        found[:inner, inner:], found[inner:, :inner] = cross, cross.T
        found[inner:, inner:] = np.kron(np.eye(channels), gram[inner:, inner:])
        ordered, places = np.empty_like(found), layers.places()
        ordered[np.ix_(places, places)] = found
        return ordered


@functools.cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()  # looks for them: some milliseconds


def improved(problem: Problem, layers: Layers, variance: float, precision: float) -> Layers:
    """Layers with less of squares / (2 variance) + precision |layers|^2 / 2, or the same.

    In one thread: systems of a few hundred unknowns are solved faster so, and many times so where other
    work keeps the cores busy.
    """
    with _libraries().limit(limits=1, user_api="blas"):
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


def _with_one(hidden: np.ndarray) -> np.ndarray:
    return np.concatenate([hidden, np.ones((len(hidden), 1))], 1)
