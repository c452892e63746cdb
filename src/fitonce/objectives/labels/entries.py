"""Where parameters are in the arrays of a model of labels, each of them being one entry."""

from __future__ import annotations

import numpy as np

from fitonce.objectives.base import Program


def linear_at(program: Program, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The parameters (D,) in the model's layout, as `models.potentials.Linear` has them, in NumPy."""
    weights, transition, first = program.model.stack(program.space.params_at(theta))
    return np.asarray(weights), np.asarray(transition), np.asarray(first)


def order_of(program: Program) -> np.ndarray:
    """(D,) the place of each parameter among the weights (Q, K) and then the transitions (K, K)."""
    size = program.space.size
    weights, transition, _ = linear_at(program, 1.0 + np.arange(size))  # each is its own number
    flat = np.concatenate([weights.ravel(), transition.ravel()])
    used = np.flatnonzero(np.isfinite(flat) & (flat > 0))
    found = np.empty(size, int)
    found[flat[used].astype(int) - 1] = used
    return found
