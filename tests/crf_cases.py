"""Small random CRFs of several kinds, each with its brute-force twin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import fitonce as fo
from crf_enumeration import Twin


@dataclass(frozen=True)
class Case:
    """A CRF, and what it says can happen, written out."""

    model: Any
    tags: tuple[str, ...]
    moves: Any = None
    first: Any = None
    width: int = 2
    lengths: tuple[int, ...] = (5, 1, 4, 2)

    def masks(self):
        count = len(self.tags)
        first = np.ones(count) if self.first is None else np.array(self.first)
        moves = np.ones((count, count)) if self.moves is None else np.array(self.moves)
        return first.astype(bool), moves.astype(bool)


_RANDOM = [[0, 1, 1, 0], [1, 1, 0, 1], [1, 0, 0, 1], [1, 1, 1, 0]]  # two steps lead anywhere
_ONWARD = [[1, 1, 0], [0, 1, 1], [0, 0, 1]]  # some tags are left for good
_IOB2 = [[1, 1, 0, 1], [1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 0, 1]]

CRF = fo.models.LinearChainCRF
CASES = {
    "linear": Case(CRF(), ("a", "b", "c"), lengths=(5, 1, 4, 6, 2)),
    "scores": Case(CRF("scores", scale=1.5), ("a", "b", "c", "d"), width=4, lengths=(4, 1, 6)),
    "iob2": Case(CRF(support="iob2"), ("O", "B-X", "I-X", "B-Y"), _IOB2, (1, 1, 0, 1)),
    "random": Case(
        CRF(support=_RANDOM, start_support=[1, 0, 1, 1], scale=0.7),
        ("a", "b", "c", "d"), _RANDOM, (1, 0, 1, 1), width=1,
    ),
    "onward": Case(
        CRF("scores", support=_ONWARD, start_support=[1, 0, 0]),
        ("a", "b", "c"), _ONWARD, (1, 0, 0), width=3,
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Problem:
    """A CRF at a point, and its twin."""

    fit: Any
    twin: Twin
    data: Any

    @property
    def theta(self):
        return self.fit.theta

    @property
    def known(self):
        return self.data.weights > 0

    def split(self, values):
        """Values of all sites, sequence by sequence."""
        return np.split(np.asarray(values), np.cumsum(self.twin.lengths)[:-1])

    def places(self):
        """The sequence and the step of every site."""
        return [(n, t) for n, length in enumerate(self.twin.lengths) for t in range(length)]


def draw(case: Case, seed: int, unknown: bool = False, spread: float = 1.0, kernel=None) -> Problem:
    """Random features, labels that can happen, and parameters; where labels are unknown, the first
    sequence has all, the second has none and the last has its first."""
    rng = np.random.default_rng(seed)
    first, moves = case.masks()
    features = [rng.normal(size=(length, case.width)) for length in case.lengths]
    states = [np.full(length, -1) for length in case.lengths]
    paths = Twin([], features, states, first, moves, 1.0, False).routes
    codes = [z[rng.integers(len(z))].copy() for z in paths]
    if unknown:
        codes[1][:] = -1
        last = codes[-1][0]
        for labels in codes[2:]:
            labels[rng.random(len(labels)) < 0.4] = -1
        codes[-1][0] = last
    data = fo.labelled(features, named(codes, case.tags), tags=case.tags)
    zeros = Twin([], features, codes, first, moves, 1.0, case.model.features == "scores").params([])
    names = fo.fit_at(case.model, data, zeros).names
    twin = Twin(names, features, codes, first, moves, case.model.scale, case.model.features == "scores")
    theta = spread * rng.normal(size=len(names))
    return Problem(fo.fit_at(case.model, data, twin.params(theta), kernel=kernel), twin, data)


def named(codes, tags):
    """Numbers of tags as their names, None where unknown."""
    return [[None if code < 0 else tags[code] for code in row] for row in codes]
