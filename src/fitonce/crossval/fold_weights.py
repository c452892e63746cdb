"""Weights of folds: made where they are needed or, on an accelerator, sent there once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from fitonce.core.deferred import float64, jax, jit, jnp
from fitonce.core.devices import device_bytes, on_cpu
from fitonce.core.numerics import Array, rows_of
from fitonce.folds import Folds
from fitonce.objectives.base import Objective

_SHARE = 1 / 8  # of the memory, for weights


@dataclass(frozen=True, eq=False)
class _Whole:
    """The weights of all folds.

    Attributes:
        make: fold numbers (n,) to weights (n, P).
        send: makes the weights of all folds (F, P) on the accelerator.
        count: F.
        there: whether they are kept on the accelerator.
    """

    make: Callable[[np.ndarray], np.ndarray]
    send: Callable[[], Array]
    count: int
    there: bool

    @cached_property
    def sent(self) -> Array:
        """(F, P)."""
        with float64():
            return self.send()


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
        cls,
        objective: Objective,
        count: int,
        make: Callable[[np.ndarray], np.ndarray],
        send: Callable[[], Array] | None = None,
    ) -> FoldWeights:
        """Of so many folds; `make` takes fold numbers (n,) to weights (n, P), and `send` makes all of
        them (F, P) on the accelerator, unless they are to be made on the host."""
        there = objective.traits.weights_of_jax and not on_cpu()
        there = there and 8 * count * len(objective.base) <= _SHARE * device_bytes()
        everything = lambda: jax.device_put(make(np.arange(count)))  # noqa: E731
        return cls(_Whole(make, send or everything, count, there), np.arange(count))

    @classmethod
    def of_folds(cls, objective: Objective, folds: Folds) -> FoldWeights:
        """Of folds: what they leave out is less to send than weights."""
        return cls.of(objective, len(folds), folds.weights_of, lambda: _without(folds))

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
            if np.array_equal(wanted, np.arange(self.whole.count)):
                return self.whole.sent
            return rows_of(self.whole.sent, jax.device_put(wanted))


def _without(folds: Folds) -> Array:
    """(F, P) weights of folds, made on the accelerator."""
    sizes = [len(indices) for indices in folds.dropped]
    fold = np.repeat(np.arange(len(folds), dtype=np.int32), sizes)
    site = np.concatenate(folds.dropped).astype(np.int32)
    count = len(site)
    step = 2 ** max(count.bit_length() - 3, 0)  # a few common lengths run the same program
    padding = -count % step
    fold, site = (np.pad(part, (0, padding), mode="edge") for part in (fold, site))
    return _zeroed(len(folds), jax.device_put(folds.base), jax.device_put(fold), jax.device_put(site))


@partial(jit, static_argnums=0)
def _zeroed(count: int, base: Array, rows: Array, columns: Array) -> Array:
    """(F, P) `base` (P,) in every row, with zeros at `rows`, `columns`."""
    return jnp.broadcast_to(base, (count, len(base))).at[rows, columns].set(0.0)
