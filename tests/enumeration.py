"""Brute-force twins: sums over all K^T paths."""

from __future__ import annotations

import numpy as np


def paths(steps: int, states: int) -> np.ndarray:
    """(K^T, T)."""
    return configurations((states,) * steps)


def path_scores(unary: np.ndarray, pairwise: np.ndarray) -> np.ndarray:
    """(K^T,) log score of every path; pairwise (K, K) or (T - 1, K, K)."""
    steps, states = unary.shape
    route = paths(steps, states)
    score = unary[np.arange(steps), route].sum(1)
    if steps > 1:
        if pairwise.ndim == 2:
            score = score + pairwise[route[:, :-1], route[:, 1:]].sum(1)
        else:
            score = score + pairwise[np.arange(steps - 1), route[:, :-1], route[:, 1:]].sum(1)
    return score


def log_partition(unary: np.ndarray, pairwise: np.ndarray) -> float:
    """log Z."""
    scores = path_scores(unary, pairwise)
    return float(np.log(np.sum(np.exp(scores - scores.max()))) + scores.max())


def marginals(unary: np.ndarray, pairwise: np.ndarray) -> np.ndarray:
    """(T, K)."""
    steps, states = unary.shape
    scores = path_scores(unary, pairwise)
    weight = np.exp(scores - scores.max())
    weight /= weight.sum()
    route = paths(steps, states)
    return np.stack([np.bincount(route[:, t], weight, states) for t in range(steps)])


def transitions(
    unary: np.ndarray, pairwise: np.ndarray, counted: np.ndarray | None = None
) -> np.ndarray:
    """(K, K) expected transitions, from row to column, each times its entry of `counted` (T - 1,)."""
    steps, states = unary.shape
    scores = path_scores(unary, pairwise)
    weight = np.exp(scores - scores.max())
    weight /= weight.sum()
    route, found = paths(steps, states), np.zeros((states, states))
    counted = np.ones(steps - 1) if counted is None else counted
    for here, there, times in zip(route.T, route.T[1:], counted, strict=False):
        np.add.at(found, (here, there), times * weight)
    return found


def configurations(states) -> np.ndarray:
    """(product of states, V) every configuration of a field."""
    return np.indices(states).reshape(len(states), -1).T


def field_scores(states, unary, scopes, tables) -> np.ndarray:
    """(configurations,) log score of each; unary (V, K), tables a list of arrays."""
    z = configurations(states)
    score = unary[np.arange(len(states)), z].sum(1)
    for scope, table in zip(scopes, tables, strict=True):
        score = score + table[tuple(z[:, list(scope)].T)]
    return score
