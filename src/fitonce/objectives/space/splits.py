"""When the diffuse start of a fold is forgotten, so that the rest of its pass is an ordinary filter."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fitonce.core.lanes import LANES
from fitonce.objectives.space.layout import Layout, Paths
from fitonce.objectives.space.passes import Pass

_SETTLED = 0.1  # of the information about each diffuse direction
_KEPT = 0.75  # of the steps that have it on all data, in a fold
_FEWEST = 8  # steps


@dataclass(frozen=True, eq=False)
class Splits:
    """Of a model on data."""

    layout: Layout

    @cached_property
    def _lengths(self) -> np.ndarray:
        return np.diff(self.layout.steps.starts)

    @cached_property
    def settled(self) -> int | None:
        """Steps after which all data determine first states, at the parameters that fits start from."""
        if not self.layout.diffuse.shape[1]:
            return None
        steps, ones = self.layout.steps, np.ones((len(self.layout.steps.y), 1))
        paths = Paths(ones, ones, np.ones((len(self._lengths), 1)))
        theta = self.layout.space.to_free(self.layout.model.start(steps, None))[None]
        system = self.layout.systems(theta)
        if self.layout.model.density is not None:  # counts have noise of their own
            system = system._replace(noise=system.noise + steps.unit[:, None, None] ** 2)
        ends = _FEWEST
        while ends < self._lengths.max():
            if Pass.least_known(self.layout, theta, paths, ends, system) > _SETTLED:
                return ends
            ends *= 2
        return None

    def groups(self, paths: Paths) -> list[tuple[np.ndarray, int | None]]:
        """Folds that go through the filter together, and after how many steps their start is forgotten.

        That depends on each fold alone, and not on those beside it: so does no digit of its numbers.
        """
        ends = self._ends(paths)
        found: list[tuple[np.ndarray, int | None]] = []
        for end in np.unique(ends):
            folds = np.flatnonzero(ends == end)
            places = range(0, len(folds), LANES)
            found += [(folds[at : at + LANES], int(end) or None) for at in places]
        return found

    def _ends(self, paths: Paths) -> np.ndarray:
        """(F,), 0 for never."""
        ends = np.zeros(paths.weights.shape[1], int)
        if (
            self.settled is None or (paths.shares != 1).any()
        ):  # shares are of terms, not of what is known
            return ends
        starts, seen = self.layout.steps.starts, self.layout.steps.seen.max(1)
        counts = np.zeros((len(seen) + 1, len(ends)), int)
        np.cumsum(seen[:, None] & (paths.weights > 0.5), 0, out=counts[1:])
        whole = np.concatenate([[0], np.cumsum(seen)])
        need = _KEPT * (whole[np.minimum(starts[:-1] + self.settled, starts[1:])] - whole[starts[:-1]])
        end = self.settled
        while end < self._lengths.max() and not ends.all():
            long = self._lengths > end
            kept = counts[starts[:-1][long] + end] - counts[starts[:-1][long]]
            ends[(ends == 0) & (kept >= need[long, None]).all(0)] = end
            end *= 2
        return ends
