"""Folds of sites on a graph: connected regions, spatial k-fold, single sites with a buffer.

All take what `fo.graph` reads, or a model with a graph. Pass `data=` if sites are missing: a region
without observed sites is then not drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fitonce.core.numerics import generator, is_count
from fitonce.core.wording import counted
from fitonce.data.graph import Graph, partition
from fitonce.data.graph import graph as read_graph
from fitonce.folds.record import Folds, Shape, at_least_one, check_k, make_folds, shape_of, share_of


def regions(
    graph: Any,
    *,
    hops: int | None = None,
    percent: float | None = None,
    n: int | None = None,
    seed: int = 0,
    data: Any = None,
) -> Folds:
    """Connected balls around sites: all sites within `hops` of the centre, or `percent` % of all sites.

    Args:
        graph: the graph, or a model or fit that has one.
        hops: steps from the centre.
        percent: share of all sites; a ball grows by whole rings, the last one filled at random.
        n: how many centres, drawn without replacement; None: every site. Sites in a component of the
            graph smaller than the region cannot be centres.
        seed: of the random draws.
        data: says which sites are missing; a region without an observed site is not drawn.
    """
    found, shape = _read(graph, data)
    if (hops is None) == (percent is None):
        raise ValueError(
            "regions takes either hops or percent, got " + ("neither" if hops is None else "both")
        )
    if hops is not None:
        _check_hops(hops)
    size = None if percent is None else share_of(percent, found.n_sites, "sites")
    rng = generator(seed)
    rank = rng.permutation(found.n_sites)
    centres = np.arange(found.n_sites) if n is None else rng.permutation(found.n_sites)
    most = found.n_sites if n is None else at_least_one(n)
    balls = []
    for centre in centres:
        steps = found.hops_from(centre)
        if hops is not None:
            ball = np.flatnonzero(steps <= hops)
        else:  # the nearest sites: whole rings, the last one by rank
            reached = np.flatnonzero(np.isfinite(steps))
            ball = reached[np.lexsort((rank[reached], steps[reached]))[:size]]
        if (size is None or len(ball) == size) and shape.base[ball].any():
            balls.append(ball)
        if len(balls) == most:
            break
    if len(balls) < (n or 1):
        raise ValueError(
            f"{counted(n or 1, 'region')} requested, but only {counted(len(balls), 'site')} can be the "
            "centre of one: in a component of the graph that is large enough, with something observed"
        )
    what = counted(hops, "hop") if hops is not None else f"{percent:g} % of sites"
    drawn = "" if n is None and size is None else f" (seed {seed})"
    return make_folds("sites", balls, shape, f"regions of {what}{drawn}")


def spatial_kfold(graph: Any, k: int, *, seed: int = 0, data: Any = None) -> Folds:
    """Every site left out once, in `k` connected regions of similar size.

    Regions grow from distant sites, the smallest first. If the graph is not connected, a region may
    have to take in another component, and is then not connected. Regions in which nothing was observed
    are no folds.
    """
    found, shape = _read(graph, data)
    check_k(k, found.n_sites, "sites")
    label = partition(found, k, seed)
    regions = [np.flatnonzero(label == part) for part in range(k)]
    sets = [region for region in regions if shape.base[region].any()]
    return make_folds("sites", sets, shape, f"spatial {k}-fold (seed {seed})")


def buffered(graph: Any, *, hops: int = 1, data: Any = None) -> Folds:
    """Each observed site scored on its own; all sites within `hops` of it are left out, too."""
    found, shape = _read(graph, data)
    _check_hops(hops)
    centres = np.flatnonzero(shape.base)
    dropped = [np.flatnonzero(found.hops_from(int(centre)) <= hops) for centre in centres]
    label = f"buffered leave-one-out, {counted(hops, 'hop')}"
    return make_folds("sites", dropped, shape, label, [[centre] for centre in centres])


def _check_hops(hops: Any) -> None:
    if not is_count(hops, 0):
        raise ValueError(f"hops must be an integer of at least 0, got {hops!r}")


def _read(graph: Any, data: Any) -> tuple[Graph, Shape]:
    found = read_graph(graph)
    shape = shape_of(found.n_sites if data is None else data)
    if len(shape.base) != found.n_sites:
        raise ValueError(f"data has {len(shape.base):,} sites, the graph has {found.n_sites:,}")
    return found, shape
