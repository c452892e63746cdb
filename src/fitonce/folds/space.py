"""Folds of sites on a graph: connected regions, spatial k folds, single sites with a buffer.

All take what `fo.graph` reads, or a model with a graph. Sites that are missing are known when the
folds meet the data; pass `data=` where a region should be drawn again because all of it is missing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fitonce.data.graph import Graph, partition
from fitonce.data.graph import graph as read_graph
from fitonce.folds.record import Folds, Shape, at_least_one, is_between, make_folds, shape_of, share_of


def regions(
    graph: Any,
    *,
    hops: int | None = None,
    percent: float | None = None,
    n: int | None = None,
    seed: int = 0,
    data: Any = None,
) -> Folds:
    """Connected balls around sites: all within `hops` steps of the centre, or `percent` % of sites.

    Args:
        graph: the graph, or a model or fit that has one.
        hops: steps from the centre.
        percent: share of all sites; a ball grows by whole rings, of the last a part drawn by `seed`.
        n: how many centres, drawn without replacement; None: every site is one. Sites in a part of the
            graph smaller than the region are not.
        seed: of the draws.
        data: for its missing sites: a region without an observed site is left out of the draw.
    """
    found, shape = _read(graph, data)
    if (hops is None) == (percent is None):
        raise ValueError(
            "regions takes either hops or percent, got " + ("neither" if hops is None else "both")
        )
    if hops is not None and not is_between(hops, 0):
        raise ValueError(f"hops must be an integer not below 0, got {hops!r}")
    size = None if percent is None else share_of(percent, found.n_sites, "sites")
    rng = np.random.default_rng(seed)
    rank = rng.permutation(found.n_sites)
    centres = np.arange(found.n_sites) if n is None else rng.permutation(found.n_sites)
    most = found.n_sites if n is None else at_least_one(n)
    balls = []
    for centre in centres:
        ball = _ball(found, centre, hops, size, rank)
        if ball is not None and shape.base[ball].any():
            balls.append(ball)
        if len(balls) == most:
            break
    if len(balls) < (n or 1):
        raise ValueError(
            f"{n or 1} regions were asked for, but only {len(balls)} sites can be the centre of one: "
            "in a part of the graph that is large enough, with something observed"
        )
    what = f"{hops} hops" if size is None else f"{percent:g} % of sites"
    drawn = "" if n is None and size is None else f" (seed {seed})"
    return make_folds("sites", balls, shape, f"regions of {what}{drawn}")


def spatial_kfold(graph: Any, k: int, *, seed: int = 0, data: Any = None) -> Folds:
    """Every site left out once, in `k` connected regions of similar size.

    Regions grow from distant sites, the smallest first. On a graph in parts a region may have to
    take a part that is left over, and is then not connected.
    """
    found, shape = _read(graph, data)
    if not is_between(k, 2, found.n_sites):
        raise ValueError(
            f"k must be an integer between 2 and the number of sites ({found.n_sites}), got {k}"
        )
    label = partition(found, k, seed)
    sets = [np.flatnonzero(label == part) for part in range(k)]
    return make_folds("sites", sets, shape, f"spatial {k}-fold (seed {seed})")


def buffered(graph: Any, *, hops: int = 1, data: Any = None) -> Folds:
    """Each observed site on its own, and all within `hops` of it dropped from training, not scored."""
    found, shape = _read(graph, data)
    if not is_between(hops, 0):
        raise ValueError(f"hops must be an integer not below 0, got {hops!r}")
    centres = np.flatnonzero(shape.base)
    dropped = [np.flatnonzero(found.hops_from(int(centre)) <= hops) for centre in centres]
    label = f"buffered leave-one-out, {hops} hops"
    return make_folds("sites", dropped, shape, label, [[centre] for centre in centres])


def _ball(
    graph: Graph, centre: int, hops: int | None, size: int | None, rank: np.ndarray
) -> np.ndarray | None:
    """Sites within `hops`, or `size` of them: whole rings first; a ring's sites touch the one inside.

    None where the centre's part of the graph is smaller.
    """
    steps = graph.hops_from(centre)
    if size is None:
        return np.flatnonzero(steps <= (hops or 0))
    reached = np.flatnonzero(np.isfinite(steps))
    if len(reached) < size:
        return None
    return reached[np.lexsort((rank[reached], steps[reached]))[:size]]


def _read(graph: Any, data: Any) -> tuple[Graph, Shape]:
    found = read_graph(graph)
    shape = shape_of(found.n_sites if data is None else data)
    if len(shape.base) != found.n_sites:
        raise ValueError(f"data has {len(shape.base):,} sites, the graph has {found.n_sites:,}")
    return found, shape
