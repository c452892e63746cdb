"""A method on weights at hand."""

from __future__ import annotations

from fitonce.crossval.batches import Batches
from fitonce.crossval.methods import METHODS


def solve(method, curve, weights):
    return METHODS[method](curve, Batches.of(curve.objective, weights))
