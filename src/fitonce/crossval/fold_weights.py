"""Weights of folds: made where they are needed or, on an accelerator, sent there once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fitonce.core.deferred import float64, jax
from fitonce.core.devices import device_bytes, on_cpu
from fitonce.core.numerics import Array, rows_of
from fitonce.objectives.base import Objective

_RESIDENT = 8  # of the memory of an accelerator, the part that weights may take


@dataclass(frozen=True, eq=False)
class _Whole:
    """The weights of all folds.

    Attributes:
        make: fold numbers (n,) to weights (n, P).
        shape: (F, P).
        there: whether they are kept on the accelerator.
    """

    make: Callable[[np.ndarray], np.ndarray]
    shape: tuple[int, int]
    there: bool

    @cached_property
    def sent(self) -> Array:
        """(F, P)."""
        with float64():
            return jax.device_put(self.make(np.arange(self.shape[0])))


@dataclass(frozen=True, eq=False)
class FoldWeights:
    """Weights of some of the folds, by their numbers among these.

    Attributes:
        whole: of all folds.
        numbers: (n,) the folds that these are, of all.
    """

    whole: _Whole
    numbers: np.ndarray

    @classmethod
    def of(
        cls, objective: Objective, count: int, make: Callable[[np.ndarray], np.ndarray]
    ) -> FoldWeights:
        """Of so many folds; `make` takes fold numbers (n,) to weights (n, P)."""
        shape = (count, len(objective.base))
        there = objective.traits.weights_of_jax and not on_cpu()
        there = there and 8 * shape[0] * shape[1] * _RESIDENT <= device_bytes()
        return cls(_Whole(make, shape, there), np.arange(count))

    def some(self, folds: np.ndarray) -> FoldWeights:
        """Of the folds with these numbers (n,)."""
        return FoldWeights(self.whole, self.numbers[folds])

    def __call__(self, folds: np.ndarray) -> np.ndarray:
        """(n, P) of the folds with these numbers (n,)."""
        return self.whole.make(self.numbers[folds])

    def where_they_run(self, folds: np.ndarray) -> np.ndarray | Array:
        """The same, left on the accelerator where they are kept there."""
        if not self.whole.there:
            return self(folds)
        wanted = self.numbers[folds]
        with float64():
            if np.array_equal(wanted, np.arange(self.whole.shape[0])):
                return self.whole.sent
            return rows_of(self.whole.sent, jax.device_put(wanted))
