"""What all other nodes say of a node, for every node of a junction tree at once."""

from __future__ import annotations

import numpy as np

from fitonce.engines.clique_tables import log_sum, table_of
from fitonce.engines.elimination import JunctionTree
from fitonce.engines.junction_tree import collect, message_tangents


def cavities(
    tree: JunctionTree,
    unary: np.ndarray,
    factors: np.ndarray,
    d_unary: np.ndarray,
    d_factors: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """For every node: log sum over all others, of everything but the node's own unary potential.

    In logarithms both ways, so that what a node's own data all but excludes is still known to full
    precision.

    Args:
        tree, unary, factors: as for `collect`.
        d_unary, d_factors: (V, K, D, B) and (P, D, B), directions; D may be 0.

    Returns: (V, K, B) up to a constant for each node, and derivatives (V, K, D, B).
    """
    up = collect(tree, unary, factors, in_logs=True)
    d_messages, _ = message_tangents(tree, up, d_unary, d_factors)
    values, slopes = np.full(unary.shape, -np.inf), np.zeros(d_unary.shape)
    tops: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def reduced(number: int, gone: tuple[int, ...], **but: int) -> tuple[np.ndarray, np.ndarray]:
        """log sum exp over axes of a clique with what comes from above, and its slopes."""
        table = table_of(tree, number, unary, factors, up.logs, **but)
        move = table_of(tree, number, d_unary, d_factors, d_messages, **but)
        if number in tops:
            table, move = table + tops[number][0], move + tops[number][1]
        value, share = log_sum(table, gone)
        return value.squeeze(gone), (share[..., None, :] * move).sum(gone)

    for number, clique in enumerate(tree.cliques):
        for child, lies in clique.children:
            value, slope = reduced(number, lies.gone, without_child=child)
            shape = (*lies.states, *(1 for _ in tree.cliques[child].nodes))
            tops[child] = (
                value.reshape(*shape, *value.shape[-1:]),
                slope.reshape(*shape, *slope.shape[-2:]),
            )
        for node, place in clique.nodes:
            found = reduced(number, place.gone, without_node=node)
            values[node, : tree.states[node]], slopes[node, : tree.states[node]] = found
        tops.pop(number, None)
    return values, slopes
