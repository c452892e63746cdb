"""Sequences of unequal length in a few padded grids."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_MOST = 6  # each bucket is one more program to compile
_WASTE = 0.2  # of the steps that may be padding
_FEW = 20_000  # steps that are not worth another program


@dataclass(frozen=True, eq=False)
class Bucket:
    """Sequences of similar length.

    Attributes:
        members: (n,) numbers of the sequences.
        lengths: (n,) of each.
        sites: (n, T) the site at each step; any, at padding.
    """

    members: np.ndarray
    lengths: np.ndarray
    sites: np.ndarray

    @property
    def valid(self) -> np.ndarray:
        """(n, T): true where there is a step rather than padding."""
        return np.arange(self.sites.shape[1])[None] < self.lengths[:, None]

    def grid(self, values: np.ndarray) -> np.ndarray:
        """Values (sites, ...) as (n, T, ...), zero at padding."""
        found = values[self.sites]
        found[~self.valid] = 0
        return found


def bucketed(lengths: np.ndarray, most: int = _MOST) -> list[Bucket]:
    """As few buckets as keep padding low, and at most so many, chosen so that padding is least."""
    for count in range(1, most + 1):
        ends = _ends(lengths, count)
        places = np.searchsorted(ends, lengths)
        steps = int(np.take(ends, places).sum())
        if steps <= _FEW or steps - lengths.sum() <= _WASTE * steps:
            break
    offsets = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    made = []
    for shortest, longest in zip([0, *ends[:-1]], ends, strict=True):
        members = np.flatnonzero((lengths > shortest) & (lengths <= longest))
        inside = np.minimum(np.arange(longest)[None], lengths[members][:, None] - 1)
        made.append(Bucket(members, lengths[members], offsets[members][:, None] + inside))
    return made


def _ends(lengths: np.ndarray, most: int) -> list[int]:
    """The longest length in each bucket: the cheapest cut of the sorted distinct lengths into at most
    `most` stretches, by dynamic programming."""
    sizes, counts = np.unique(lengths, return_counts=True)
    below = np.concatenate([[0], np.cumsum(counts)])
    cost = below[1:] * sizes  # of one bucket up to each size
    cuts: list[np.ndarray] = []
    for _ in range(min(most, len(sizes)) - 1):
        # of a last bucket that begins after size i and ends at size j
        with_last = cost[:, None] + (below[None, 1:] - below[1:, None]) * sizes[None, :]
        with_last[np.tril_indices(len(sizes), -1)] = np.iinfo(with_last.dtype).max
        cuts.append(with_last.argmin(0))
        cost = with_last.min(0)
    ends, last = [], len(sizes) - 1
    for cut in reversed(cuts):
        ends.append(last)
        last = int(cut[last])
    ends.append(last)
    return sorted({int(sizes[end]) for end in ends})
