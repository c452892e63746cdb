"""What the potentials of a hidden chain depend on, besides parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fitonce.core.deferred import pytree
from fitonce.core.numerics import Array, EitherArray
from fitonce.data.sequences import Sequences


@pytree
@dataclass(frozen=True)
class Links:
    """Transitions that are not the same at every step: the distinct ones, and which is where.

    Attributes:
        known: (M, Q) covariates of the step that is entered.
        ends: (M,) one where that is the last step of its sequence, else zero.
        index: (N, T - 1) the distinct one of each transition; arbitrary at padding.
        alone: (N,) one for sequences of one step, else zero.
        counts: (M,) how often each occurs.
    """

    known: EitherArray
    ends: EitherArray
    index: EitherArray
    alone: EitherArray
    counts: EitherArray

    @classmethod
    def of(cls, data: Sequences, known: np.ndarray, ends: bool) -> Links:
        """From covariates (N, T, Q); `ends`: whether the last step matters."""
        last = np.arange(1, data.values.shape[1]) == data.lengths[:, None] - 1
        inside = data.valid[:, 1:]
        keys = np.concatenate([known[:, 1:], (last & ends)[..., None]], -1)
        first = np.append(known[0, 0], 0.0)  # so that there is one, and what fills in at padding
        keys = np.concatenate(
            [first[None], np.where(inside[..., None], keys, first).reshape(-1, len(first))]
        )
        distinct, places = np.unique(keys, axis=0, return_inverse=True)
        places = places.ravel()[1:]
        counts = np.bincount(places[inside.ravel()], minlength=len(distinct))
        alone = ((data.lengths == 1) & ends).astype(float)
        return cls(
            distinct[:, :-1], distinct[:, -1], places.reshape(inside.shape), alone, counts.astype(float)
        )

    def take(self, sequences: Array) -> Links:
        """Those of some of the sequences."""
        return Links(self.known, self.ends, self.index[sequences], self.alone[sequences], self.counts)

    def tables(self, pairs: np.ndarray) -> np.ndarray:
        """(M, ...) sums of what belongs to transitions (N, T - 1, ...)."""
        found = np.zeros((len(self.known), *pairs.shape[2:]))
        np.add.at(found, np.asarray(self.index), pairs)
        return found
