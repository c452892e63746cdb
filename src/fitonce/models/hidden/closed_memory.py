"""A hidden chain for emissions that depend on earlier states, too.

The engine's states are tuples (z_t, z_t-1, ..., z_t-p), see `models.histories`; p is the memory.
Transitions are those of states, and possible where the rest of the tuple moves on. Of sequences nothing
is known before their first step; emissions must not depend on it there, so any history will do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fitonce.models.hidden.closed_chain import ClosedChain
from fitonce.models.hidden.closed_terms import Named, Pair
from fitonce.models.histories import moves_on, repeated


def with_memory(first: Any, moves: Any, memory: int, maths: Any) -> tuple[Any, Any]:
    """(..., E) and (..., E, E) log-potentials, from those of states, in JAX (`maths`)."""
    states = first.shape[-1]
    now, ahead = moves_on(states, memory)
    size = len(now)
    firsts = maths.full((*first.shape[:-1], size), -np.inf).at[..., repeated(states, memory)].set(first)
    pairs = maths.full((*moves.shape[:-2], size, size), -np.inf)
    return firsts, pairs.at[..., now, ahead].set(moves[..., now[:, 0] // states**memory, :])


def tuples_of(first: np.ndarray, moves: np.ndarray, memory: int, none: float) -> tuple[Any, Any]:
    """(S, E, ...) and (M, E, E, ...) from what is of states (S, K, ...) and (M, K, K, ...); `none` where
    nothing is possible."""
    states = first.shape[1]
    now, ahead = moves_on(states, memory)
    firsts = np.full((len(first), len(now), *first.shape[2:]), none)
    firsts[:, repeated(states, memory)] = first
    pairs = np.full((len(moves), len(now), len(now), *moves.shape[3:]), none)
    pairs[:, now, ahead] = np.repeat(moves, states**memory, 1)
    return firsts, pairs


@dataclass(frozen=True, eq=False)
class ClosedMemory:
    """Like `ClosedChain`, of tuples.

    Args:
        between: first states, and transitions between states.
        states, memory: K and p.
    """

    between: ClosedChain
    states: int
    memory: int

    @property
    def stretch(self) -> np.ndarray:
        return self.between.stretch

    def _of_states(self, firsts: np.ndarray, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        now, ahead = moves_on(self.states, self.memory)
        moved = pairs[:, now, ahead]
        shape = (len(pairs), self.states, -1, self.states, *pairs.shape[3:])
        return firsts[:, repeated(self.states, self.memory)], moved.reshape(shape).sum(2)

    def logs(self, values: Named) -> tuple[np.ndarray, np.ndarray]:
        return tuples_of(*self.between.logs(values), self.memory, -np.inf)

    def along(self, values: Named, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return tuples_of(*self.between.along(values, directions), self.memory, 0.0)

    def slopes(
        self, values: Named, firsts: np.ndarray, pairs: np.ndarray, *, prior: bool = False
    ) -> np.ndarray:
        return self.between.slopes(values, *self._of_states(firsts, pairs), prior=prior)

    def curvature(self, values: Named, firsts: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        return self.between.curvature(values, *self._of_states(firsts, pairs))

    def each(self, values: Named, firsts: np.ndarray, pairs: np.ndarray, where: Any) -> Pair:
        return self.between.each(values, *self._of_states(firsts, pairs), where)

    def log_prior(self, values: Named) -> Any:
        return self.between.log_prior(values)
