"""Durations of states: how long a chain stays is a distribution of its own (semi-Markov), by stages.

A state is a row of stages. From stage r the state is left with the probability that it lasts r steps,
given that it lasts so long; else the next stage follows, after the last one itself, so that durations
beyond have a geometric tail. With d(r) the distribution and A(r) = d(r) + d(r + 1) + ...,

    leave(r) = d(r) / A(r)      stay(r) = A(r + 1) / A(r)

Sums end some hundred steps after the last stage.
"""

from __future__ import annotations

from typing import Any

import numpy as np

DURATIONS = ("negative-binomial", "poisson")  # of the steps after the first
_BEYOND = 400  # steps after the last stage
_RANGE = (
    300.0  # nats: what is less probable than the mode by more does not matter, and 1 / x^2 is finite
)


def log_hazards(kind: str, mean: Any, size: Any, stages: int, maths: Any) -> tuple[Any, Any]:
    """(K, m, ...) logarithms of leaving and of staying in each stage, for mean durations (K, ...) and,
    of negative binomials, sizes; in NumPy or JAX."""
    logs = maths.cumsum(_log_ratios(kind, _excess(mean, maths), size, stages, maths), 1)
    logs = maths.concatenate([maths.zeros_like(logs[:, :1]), logs], 1)
    logs = maths.maximum(logs - logs.max(1, keepdims=True), -_RANGE)
    tail = maths.log(maths.cumsum(maths.exp(logs[:, ::-1]), 1)[:, ::-1])
    return (logs - tail)[:, :stages], (tail[:, 1:] - tail[:, :-1])[:, :stages]


def _excess(mean: Any, maths: Any) -> Any:
    """What durations have beyond one step, which rounding may take away altogether."""
    return maths.maximum(mean - 1.0, np.finfo(float).tiny)


def mean_durations(leave: np.ndarray, stay: np.ndarray) -> np.ndarray:
    """(K,) how long states last on average, with the geometric tail, from `log_hazards` (K, m)."""
    reached = np.exp(np.cumsum(stay, 1))  # beyond each stage
    return 1.0 + reached[:, :-1].sum(1) + reached[:, -1] / np.exp(leave[:, -1])


def _log_ratios(kind: str, excess: Any, size: Any, stages: int, maths: Any) -> Any:
    """(K, R, ...) log d(r + 1) / d(r), r from 1 on."""
    steps = np.arange(1.0, stages + _BEYOND).reshape(-1, *(1,) * (excess.ndim - 1))
    if kind == "poisson":
        return maths.log(excess[:, None]) - np.log(steps)
    odds = maths.log(excess) - maths.log(excess + size)
    return odds[:, None] + maths.log(steps - 1.0 + size[:, None]) - np.log(steps)


def hazard_slopes(
    kind: str, mean: np.ndarray, size: np.ndarray | None, stages: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """First derivatives (K, m, P) of `log_hazards`, of leaving and of staying, and second ones (K, m, P,
    P), by log(mean - 1) and, of negative binomials, log(size)."""
    logs, one, two = _log_durations(kind, _excess(mean, np), size, stages)
    inside = logs > logs.max(1, keepdims=True) - _RANGE
    one, two = one * inside[..., None], two * inside[..., None, None]
    share = np.exp(np.maximum(logs - logs.max(1, keepdims=True), -_RANGE))
    total = _later(share)
    mean_one = _later(share[..., None] * one) / total[..., None]
    square = _later(share[..., None, None] * (_outer(one) + two)) / total[..., None, None]
    of_tail = square - _outer(mean_one)
    return (
        (one - mean_one)[:, :stages],
        (mean_one[:, 1:] - mean_one[:, :-1])[:, :stages],
        (two - of_tail)[:, :stages],
        (of_tail[:, 1:] - of_tail[:, :-1])[:, :stages],
    )


def _later(values: np.ndarray) -> np.ndarray:
    """Sums from each step on."""
    return np.cumsum(values[:, ::-1], 1)[:, ::-1]


def _outer(values: np.ndarray) -> np.ndarray:
    return values[..., None] * values[..., None, :]


def _log_durations(
    kind: str, excess: np.ndarray, size: np.ndarray | None, stages: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log d(r) up to a constant (K, R), and its derivatives (K, R, P) and (K, R, P, P)."""
    ratios = _log_ratios(kind, excess, size, stages, np)
    steps, states = np.arange(1.0, stages + _BEYOND), len(excess)
    if size is None:
        one, two = np.ones((*ratios.shape, 1)), np.zeros((*ratios.shape, 1, 1))
    else:
        share = (excess / (excess + size))[:, None]
        own = size[:, None] / (steps - 1.0 + size[:, None])
        bend = np.broadcast_to(share * (1.0 - share), ratios.shape)
        one = np.stack([np.broadcast_to(1.0 - share, ratios.shape), own - (1.0 - share)], -1)
        by_size = own * (1.0 - own) - bend
        two = np.stack([np.stack([-bend, bend], -1), np.stack([bend, by_size], -1)], -1)
    found = [np.cumsum(part, 1) for part in (ratios, one, two)]
    return tuple(  # type: ignore[return-value]
        np.concatenate([np.zeros((states, 1, *part.shape[2:])), part], 1) for part in found
    )
