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
        counts: (M,) how often each occurs.
        firsts: (S, Q) covariates of first steps, one for each kind of beginning that differs.
        kind: (N,) which of the kinds the beginning of a sequence is. Where sequences end: one, if the
            first step is the last, else zero; where they begin in the stationary distribution: by the
            covariates of the first step.
    """

    known: EitherArray
    ends: EitherArray
    index: EitherArray
    counts: EitherArray
    firsts: EitherArray
    kind: EitherArray

    @classmethod
    def of(cls, data: Sequences, known: np.ndarray, *, ends: bool, begins: bool) -> Links:
        """From covariates (N, T, Q); whether the last step matters, and the covariates of the first."""
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
        firsts, kind = known[:1, 0], np.zeros(len(data.lengths), int)
        if ends:
            firsts, kind = firsts.repeat(2, 0), (data.lengths == 1).astype(int)
        if begins:
            firsts, kind = np.unique(known[:, 0], axis=0, return_inverse=True)
        index = places.reshape(inside.shape)
        return cls(distinct[:, :-1], distinct[:, -1], index, counts.astype(float), firsts, kind.ravel())

    def take(self, sequences: Array) -> Links:
        """Those of some of the sequences."""
        index, kind = self.index[sequences], self.kind[sequences]
        return Links(self.known, self.ends, index, self.counts, self.firsts, kind)

    def tables(self, pairs: np.ndarray) -> np.ndarray:
        """(M, ...) sums of what belongs to transitions (N, T - 1, ...)."""
        found = np.zeros((len(self.known), *pairs.shape[2:]))
        np.add.at(found, np.asarray(self.index), pairs)
        return found
