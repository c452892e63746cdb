"""How long the loops of a chain take, in seconds, from counts of operations; as measured on one core."""

from __future__ import annotations

from typing import NamedTuple


class Costs(NamedTuple):
    """Of one pass over the data.

    Attributes:
        operations: about those of the pass.
        node_states: steps times states.
        size: number of parameters D.
    """

    operations: int
    node_states: int
    size: int

    @property
    def gradient(self) -> float:
        """Of one fold in a group of folds."""
        return 1e-9 * (3e4 + 8 * self.operations)

    @property
    def tangents(self) -> float:
        """Of H by tangents."""
        return 1e-9 * (1e6 + self.node_states * (900 + 35 * self.size))

    @property
    def tangents_pay(self) -> bool:
        """Whether H is faster by tangents than by differences of gradients in groups of folds."""
        return self.tangents < self.size * self.gradient
