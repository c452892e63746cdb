"""Ratios of sums over sequences, such as precision or F1, and their standard errors."""

from __future__ import annotations

from typing import Any

import numpy as np


def ratios(above: Any, below: Any) -> tuple[np.ndarray, np.ndarray]:
    """Sums over sequences of `above` (N, M), divided by those of `below` (N, M), and their standard
    errors, both (M,); arrays, or sparse arrays.

    Sequences are independent, tokens in them are not. To first order the error of a ratio R is the sum
    over sequences of (above - R below) / total. A ratio of no things is nan. Where all are right, or
    all wrong, or one sequence has nearly all of them, the errors say nothing: nan.
    """
    top, total = (np.asarray(part.sum(0), float).ravel() for part in (above, below))
    squares = _products(above, above), _products(above, below), _products(below, below)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = top / total
        variance = (squares[0] - 2.0 * value * squares[1] + value**2 * squares[2]) / total**2
        count = total**2 / squares[2]  # as many sequences of equal size have as little noise
        se = np.sqrt(np.maximum(variance, 0.0) * count / (count - 1.0))
    told = (value > 0.0) & (value < 1.0) & (count > 1.0 + 1e-9)
    return value, np.where(told, se, np.nan)


def _products(one: Any, other: Any) -> np.ndarray:
    """(M,) sums over sequences of products."""
    product = one.multiply(other) if hasattr(one, "multiply") else one * other
    return np.asarray(product.sum(0), float).ravel()
