"""Folds of sites on a graph: connected regions, spatial k-fold, single sites with a buffer.

All take what `fo.graph` reads, or a model with a graph. Pass `data=` if sites are missing: a region
without observed sites is then not drawn.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.arguments import generator, naming, require_count, require_text, shown
from fitonce.core.wording import counted
from fitonce.data.alignment import aligned, require_same_order, site_labels
from fitonce.data.geography import read_distance
from fitonce.data.graph import Graph, partition
from fitonce.data.graph import graph as read_graph
from fitonce.folds.buffers import geography_of, with_rim
from fitonce.folds.record import (
    Folds,
    Shape,
    at_least_one,
    check_k,
    make_folds,
    shape_of,
    share_of,
)


def regions(
    graph: Any,
    *,
    hops: int | None = None,
    percent: float | None = None,
    labels: Any = None,
    n: int | None = None,
    buffer: int | str = 0,
    seed: int = 0,
    data: Any = None,
) -> Folds:
    """Regions of sites: balls of all sites within `hops` of a centre, connected balls of `percent` % of
    all sites, or the sites that share a label.

    Args:
        graph: the graph, or a map, a model or a fit that has one.
        hops: steps from the centre.
        percent: share of all sites; a ball grows by whole rings, the last one filled at random.
        labels: (sites,) the region of each site, such as its state; True: those of the map.
        n: how many regions, drawn without replacement; None: all. Sites in a component of the graph
            smaller than the region cannot be centres.
        buffer: the rim of a region is left out, too, but not scored: sites within this many hops of it,
            or within a distance of one of its sites, such as "20 km" (between points of sites of a map).
        seed: of the random draws.
        data: says which sites are missing (a region without an observed site is not drawn), and where
            sites of a map lie.
    """
    found, shape = _read(graph, data)
    ways = {"hops": hops, "percent": percent, "labels": labels}
    given = [name for name, value in ways.items() if value is not None]
    if len(given) != 1:
        got = "neither" if not given else "both" if len(given) == 2 else "all"
        raise ValueError(f"regions takes either hops, percent or labels, got {got}")
    if labels is not None:
        balls, label = _labelled(_labels(labels, graph, data, found, shape), shape, n, seed)
    else:
        balls, label = _balls(found, shape, hops, percent, n, seed)
    if isinstance(buffer, (int, np.integer)) and buffer == 0 and not isinstance(buffer, bool):
        return _on_graph(found, balls, shape, label, given=given[0])
    wider, rim = with_rim(found, balls, buffer, geography_of(graph, data))
    _require_rest(wider, balls, shape, rim)
    return _on_graph(found, wider, shape, f"{label}, without the rim of {rim}", balls)


def _on_graph(
    graph: Graph, sets: Any, shape: Shape, label: str, scored: Any = None, given: str = "graph"
) -> Folds:
    return replace(make_folds("sites", sets, shape, label, scored, given=given), graph=graph)


def _balls(
    found: Graph, shape: Shape, hops: int | None, percent: float | None, n: int | None, seed: int
) -> tuple[list[np.ndarray], str]:
    """Balls around sites, and how they are made."""
    if hops is not None:
        _check_hops(hops)
        hops = min(hops, found.n_sites)
    size = None if percent is None else share_of(percent, found.n_sites, "sites")
    rng = generator(seed)
    rank = rng.permutation(found.n_sites)
    centres = np.arange(found.n_sites) if n is None else rng.permutation(found.n_sites)
    most = found.n_sites if n is None else at_least_one(n)
    balls: list[np.ndarray] = []
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
            f"n: {counted(n or 1, 'region')} requested, but only {counted(len(balls), 'site')} can be "
            "the centre of one, in a component of the graph that is large enough, with something "
            "observed"
        )
    what = counted(hops, "hop") if hops is not None else f"{percent:g} % of sites"
    drawn = "" if n is None and size is None else f" (seed {seed})"
    return balls, f"regions of {what}{drawn}"


def _labels(labels: Any, graph: Any, data: Any, found: Graph, shape: Shape) -> np.ndarray:
    """(sites,) as given, or those of the map."""
    if labels is True:
        those = (getattr(one, "names", None) for one in (data, getattr(graph, "data", None)))
        known = (getattr(one, "regions", None) for one in those)
        labels = next((one for one in known if one), None)
        if labels is None:
            raise ValueError("labels=True needs a map that was read with regions=, a column of labels")
    named = site_labels(graph, found.names)
    named = shape.labels("sites") if named is None else named
    given = np.asarray(aligned(labels, named, "labels", "the sites"), object)
    if given.shape != (found.n_sites,):
        raise ValueError(
            f"labels must have one entry per site, shape ({found.n_sites},), got {given.shape}"
        )
    if any(one is None or one != one for one in given):
        raise ValueError("labels must have a region for every site, got a missing one")
    return given.astype(str)


def _labelled(
    labels: np.ndarray, shape: Shape, n: int | None, seed: int
) -> tuple[list[np.ndarray], str]:
    """The sites of each label, in the order of the labels, and how they are made."""
    sets = [np.flatnonzero(labels == one) for one in np.unique(labels)]
    sets = [part for part in sets if shape.base[part].any()]
    if len(sets) < 2:
        only = (
            "nothing was observed" if not sets else f"all that was observed is in '{labels[sets[0][0]]}'"
        )
        raise ValueError(f"labels (--regions) must tell at least two regions apart, but {only}")
    if n is None:
        return sets, "regions by label"
    if at_least_one(n) > len(sets):
        raise ValueError(f"{counted(n, 'region')} requested, but there are {len(sets)} labels")
    some = np.sort(generator(seed).permutation(len(sets))[:n])
    return [sets[part] for part in some], f"{n} of {len(sets)} regions by label (seed {seed})"


def _require_rest(wider: list[np.ndarray], balls: list[np.ndarray], shape: Shape, rim: str) -> None:
    for ball, out in zip(balls, wider, strict=True):
        if shape.base[out].sum() == shape.base.sum():
            raise ValueError(
                f"a region of {counted(len(ball), 'site')} and its rim of {rim} are the whole map, and "
                "nothing is left to fit; take a smaller buffer"
            )


def spatial_kfold(graph: Any, k: int, *, seed: int = 0, data: Any = None) -> Folds:
    """Every site left out once, in `k` connected regions of similar size.

    Regions grow from distant sites, the smallest first. If the graph is not connected, a region may
    have to take in another component, and is then not connected. Regions in which nothing was observed
    are no folds.
    """
    found, shape = _read(graph, data)
    check_k(k, found.n_sites, "sites")
    generator(seed)  # which checks it
    label = partition(found, k, seed)
    regions = [np.flatnonzero(label == part) for part in range(k)]
    sets = [region for region in regions if shape.base[region].any()]
    return _on_graph(found, sets, shape, f"spatial {k}-fold (seed {seed})")


def buffered(
    graph: Any, *, hops: int | None = None, within: str | None = None, data: Any = None
) -> Folds:
    """Each observed site scored on its own; all sites near it are left out, too.

    Args:
        graph: the graph, or a map, a model or a fit that has one.
        hops: sites within this many steps are near; None: 1, unless `within` is given.
        within: in place of hops, sites within this distance are near, such as "20 km" (between points of
            sites of a map).
        data: says which sites are missing, and where sites of a map lie.
    """
    found, shape = _read(graph, data)
    require_text("within", within, optional=True)
    if within is not None:
        if hops is not None:
            raise ValueError(
                f"buffered takes either hops or within, got hops={hops} and within='{within}'"
            )
        with naming("within"):
            _, unit = read_distance(within)
        if unit == "":
            raise ValueError(
                f"within must be a distance with its unit, such as '20 km', got {shown(within)}; "
                "steps are hops="
            )
    hops = 1 if hops is None else hops
    _check_hops(hops)
    hops = min(hops, found.n_sites)
    centres = [np.array([centre]) for centre in np.flatnonzero(shape.base)]
    buffer = hops if within is None else within
    dropped, rim = with_rim(found, centres, buffer, geography_of(graph, data))
    return _on_graph(found, dropped, shape, f"buffered leave-one-out, {rim}", centres, given="hops")


def _check_hops(hops: Any) -> None:
    require_count("hops", hops, 0)


def _read(graph: Any, data: Any) -> tuple[Graph, Shape]:
    with naming("graph"):
        found = read_graph(graph)
    shape = shape_of(found.n_sites if data is None else data)
    if len(shape.base) != found.n_sites:
        raise ValueError(f"data has {len(shape.base):,} sites, the graph has {found.n_sites:,}")
    if shape.indices is not None and found.names:
        require_same_order(shape.indices[0], pd.Index(found.names, tupleize_cols=False))
    return found, shape
