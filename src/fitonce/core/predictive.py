"""Predictive distributions, as far as held-out values are judged by them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Tails(NamedTuple):
    """Of one shape: the mean of the distribution, and the probabilities below and above what was
    observed, with half of that of the observation itself in each."""

    expected: np.ndarray
    below: np.ndarray
    above: np.ndarray
