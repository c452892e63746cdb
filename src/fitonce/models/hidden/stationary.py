"""The stationary distribution of a chain, and its derivatives in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np

from fitonce.core.numerics import unless_singular


def stationary(transition: Any, maths: Any) -> Any:
    """(K, ...) of transitions (K, K, ...), in NumPy or JAX (`maths`): states are removed one by one and
    put back (Grassmann, Taksar and Heyman), which subtracts nothing and needs no solver."""
    moves = [[transition[i, j] for j in range(transition.shape[1])] for i in range(len(transition))]
    leave: list[Any] = [None] * len(moves)
    for last in range(len(moves) - 1, 0, -1):
        leave[last] = sum(moves[last][j] for j in range(last))
        for i in range(last):
            share = moves[i][last] / leave[last]
            for j in range(last):
                moves[i][j] = moves[i][j] + share * moves[last][j]
    found = [maths.ones_like(transition[0, 0])]
    for state in range(1, len(moves)):
        found.append(sum(found[i] * moves[i][state] for i in range(state)) / leave[state])
    total = sum(found)
    return maths.stack([share / total for share in found])


def fundamental(transition: np.ndarray, share: np.ndarray) -> np.ndarray:
    """(..., K, K) the inverse of I - P + 1 s' for transitions P (..., K, K) and their stationary
    distributions s (..., K): a change dP moves s by s dP Z. Not numbers where there is none, as of
    states that are never left."""
    matrices = np.eye(transition.shape[-1]) - transition + share[..., None, :]
    return unless_singular(np.linalg.inv, matrices)


def is_irreducible(support: np.ndarray) -> bool:
    """Whether all states can reach each other, so that every state has a positive stationary share."""
    reach = np.linalg.matrix_power(np.eye(len(support)) + support, len(support))
    return bool((reach > 0).all())
