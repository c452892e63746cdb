"""A hidden chain whose states last for durations of their own, in NumPy: stages of states.

It has the log-potentials of E = K m stages: states begin with their first stage; from each stage a state
is left, by the transitions between states, or goes on to the next stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fitonce.models.hidden.closed_chain import ClosedChain
from fitonce.models.hidden.closed_terms import Named
from fitonce.models.hidden.durations import hazard_slopes, log_hazards


@dataclass(frozen=True, eq=False)
class ClosedStages:
    """Like `ClosedChain`, of stages.

    Args:
        between: first states, and transitions between states.
        kind, stages: of the durations; m stages.
        places: (P, K) of the logarithms of `dwell` - 1 and, if there is one, of `dwell_size` in theta;
            -1 where that is frozen.
        size_prior: shape and rate of the Gamma prior of `dwell_size`.
    """

    between: ClosedChain
    kind: str
    stages: int
    places: np.ndarray
    size_prior: tuple[float, float]

    @property
    def stretch(self) -> np.ndarray:
        return self.between.stretch

    def logs(self, values: Named) -> tuple[np.ndarray, np.ndarray]:
        first, moves = self.between.logs(values)
        given = (values["dwell"], values.get("dwell_size"))
        return self._of_stages(first, moves, *log_hazards(self.kind, *given, self.stages, np), -np.inf)

    def _of_stages(
        self, first: np.ndarray, moves: np.ndarray, leave: np.ndarray, stay: np.ndarray, none: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """(S, E, ...) and (M, E, E, ...) from those of states, and what is added when a stage is left or
        stayed in (K, m, ...); `none` where nothing is possible."""
        states, m, more = first.shape[1], self.stages, first.shape[2:]
        firsts = np.full((len(first), states, m, *more), none)
        firsts[:, :, 0] = first
        pairs = np.full((len(moves), states, m, states, m, *more), none)
        pairs[:, :, :, :, 0] = moves[:, :, None] + leave[None, :, :, None]
        onward = np.minimum(np.arange(m) + 1, m - 1)
        for state in range(states):
            pairs[:, state, :, state, 0] = none
            pairs[:, state, np.arange(m), state, onward] = stay[state]
        size = states * m
        return firsts.reshape(-1, size, *more), pairs.reshape(-1, size, size, *more)

    def _of_states(self, firsts: np.ndarray, pairs: np.ndarray) -> tuple[np.ndarray, ...]:
        """Counts of first states (S, K, ...) and of transitions between states (M, K, K, ...), and how
        often stages (K, m, ...) were left and stayed in."""
        m, size = self.stages, firsts.shape[1]
        states, more = size // m, firsts.shape[2:]
        split = pairs.reshape(-1, states, m, states, m, *more)
        onward = np.minimum(np.arange(m) + 1, m - 1)
        every = np.arange(states)
        stayed = np.stack([split[:, k, np.arange(m), k, onward].sum(0) for k in every])
        entered = split[:, :, :, :, 0].copy()
        entered[:, every, :, every] = 0.0
        left = entered.sum((0, 3))
        return firsts.reshape(-1, states, m, *more)[:, :, 0], entered.sum(2), left, stayed

    def along(self, values: Named, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first, moves = self.between.along(values, directions)
        leave, stay, *_ = self._hazards(values)
        moved = np.where(self.places[..., None] >= 0, directions.T[self.places], 0.0)  # (P, K, d)
        by_leaving = np.einsum("kmp,pkd->kmd", leave, moved)
        by_staying = np.einsum("kmp,pkd->kmd", stay, moved)
        return self._of_stages(first, moves, by_leaving, by_staying, 0.0)

    def _hazards(self, values: Named) -> tuple[np.ndarray, ...]:
        """First derivatives of the logarithms of leaving and of staying (K, m, P), then second ones."""
        return hazard_slopes(self.kind, values["dwell"], values.get("dwell_size"), self.stages)

    def slopes(
        self, values: Named, firsts: np.ndarray, pairs: np.ndarray, *, prior: bool = False
    ) -> np.ndarray:
        first, between, left, stayed = self._of_states(firsts, pairs)
        found = self.between.slopes(values, first, between, prior=prior)
        alike = values["dwell"].ndim == 1
        common = self._hazards(values) if alike else None
        for fold in range(found.shape[-1]):
            here = {} if alike else {name: array[..., fold] for name, array in values.items()}
            leave, stay, *_ = common or self._hazards(here)
            total = np.einsum("kmp,km->pk", leave, left[..., fold])
            total += np.einsum("kmp,km->pk", stay, stayed[..., fold])
            self._add(found[:, fold], total)
        if prior and self._learns_size:
            shape, rate = self.size_prior
            found[self.places[1]] += shape - 1.0 - rate * values["dwell_size"]
        return found

    def _add(self, slopes: np.ndarray, found: np.ndarray) -> None:
        """Add what was found (P, K) to slopes (D,)."""
        free = self.places >= 0
        slopes[self.places[free]] += found[free]

    @property
    def _learns_size(self) -> bool:
        return len(self.places) > 1 and bool(self.places[1, 0] >= 0)

    def curvature(self, values: Named, firsts: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        first, between, left, stayed = self._of_states(firsts, pairs)
        found = self.between.curvature(values, first, between)
        _, _, leave, stay = self._hazards(values)
        blocks = np.einsum("kmpq,km->kpq", leave, left) + np.einsum("kmpq,km->kpq", stay, stayed)
        for state, block in enumerate(blocks):
            free = self.places[:, state] >= 0
            here = self.places[free, state]
            found[np.ix_(here, here)] += block[np.ix_(free, free)]
        if self._learns_size:
            found[self.places[1], self.places[1]] -= self.size_prior[1] * values["dwell_size"]
        return found

    def log_prior(self, values: Named) -> Any:
        total = self.between.log_prior(values)
        if self._learns_size:
            shape, rate = self.size_prior
            size = values["dwell_size"]
            total = total + np.sum((shape - 1.0) * np.log(size) - rate * size, 0)
        return total
