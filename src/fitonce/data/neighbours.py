"""Which sites of a map are neighbours: common borders, distances, nearest sites, a triangulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial import Delaunay, QhullError, cKDTree

from fitonce.core.wording import counted
from fitonce.data.geography import Geography, SiteShape

WAYS = ("contiguity", "rook", "distance", "nearest", "delaunay")
_SAME = 1e-7  # of the map's extent: corners nearer than this are one
_MOST_PAIRS = 5_000_000


def contiguous(shapes: Sequence[SiteShape], sides: bool = False) -> np.ndarray:
    """(E, 2) pairs of polygons that touch, if only in a corner; `sides`: in more than a corner.

    Corners that lie on a side of another polygon count, too: files that were drawn or thinned out
    polygon by polygon do not have all corners in common.
    """
    rings = [(site, ring) for site, shape in enumerate(shapes) for ring in shape.rings]
    if not rings:
        raise ValueError("contiguity needs polygons, got points; take distance, nearest or delaunay")
    corners = np.concatenate([ring for _, ring in rings])
    owner = np.repeat([site for site, _ in rings], [len(ring) for _, ring in rings])
    tolerance = _SAME * float(np.ptp(corners, axis=0).max())
    corners = corners - corners.min(0)
    number = _numbered(corners, tolerance)
    ends = np.arange(1, len(corners) + 1)
    starts = np.cumsum([0, *(len(ring) for _, ring in rings)])
    ends[starts[1:] - 1] = starts[:-1]  # a ring closes
    real = number != number[ends]
    begin, end, site = np.flatnonzero(real), ends[real], owner[real]
    on, corner = _on_sides(corners, begin, end, tolerance, number)
    if not sides:
        touching = np.stack([np.append(owner, site[on]), np.append(number, number[corner])], 1)
        return _sharing(touching[:, 0], touching[:, 1], len(shapes))
    site, one, two = _pieces(corners, number, (begin, end, site), on, corner)
    low, high = np.minimum(one, two), np.maximum(one, two)
    return _sharing(site, low * (number.max() + 1) + high, len(shapes))


def _numbered(corners: np.ndarray, tolerance: float) -> np.ndarray:
    """(P,) numbers of places; corners nearer than the tolerance have the same."""
    distinct, which = np.unique(corners, axis=0, return_inverse=True)
    pairs = cKDTree(distinct).query_pairs(tolerance, output_type="ndarray")
    links = sparse.coo_array((np.ones(len(pairs)), tuple(pairs.T)), shape=(len(distinct),) * 2)
    return sparse.csgraph.connected_components(links, directed=False)[1][which.ravel()]


def _on_sides(
    corners: np.ndarray, begin: np.ndarray, end: np.ndarray, tolerance: float, number: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sides and corners (one for each place) that lie on them, without their own ends."""
    first = np.unique(number, return_index=True)[1]
    tree = cKDTree(corners[first])
    a, b = corners[begin], corners[end]
    length = np.sqrt(((b - a) ** 2).sum(1))
    near = tree.query_ball_point((a + b) / 2, length / 2 + tolerance, return_sorted=False)
    counts = np.fromiter(map(len, near), int, len(near))
    on = np.repeat(np.arange(len(begin)), counts)
    corner = first[np.concatenate([np.asarray(one, int) for one in near])]
    other = (number[corner] != number[begin[on]]) & (number[corner] != number[end[on]])
    on, corner = on[other], corner[other]
    along, off = (b - a)[on], corners[corner] - a[on]
    across = np.abs(along[:, 0] * off[:, 1] - along[:, 1] * off[:, 0]) / length[on]
    share = (along * off).sum(1) / length[on] ** 2
    lies = (across <= tolerance) & (share > 0) & (share < 1)
    return on[lies], corner[lies]


def _pieces(
    corners: np.ndarray,
    number: np.ndarray,
    sides: tuple[np.ndarray, np.ndarray, np.ndarray],
    on: np.ndarray,
    corner: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Site, and numbers of both ends, of all sides, cut at the corners that lie on them."""
    begin, end, site = sides
    every = np.arange(len(begin))
    side = np.concatenate([every, on, every])
    at = np.concatenate([begin, corner, end])
    far = ((corners[at] - corners[begin[side]]) ** 2).sum(1)
    order = np.lexsort((far, side))
    side, at = side[order], number[at[order]]
    inner = side[1:] == side[:-1]
    return site[side[1:][inner]], at[:-1][inner], at[1:][inner]


def _sharing(site: np.ndarray, thing: np.ndarray, sites: int) -> np.ndarray:
    """(E, 2) pairs of sites that have a thing in common."""
    found = np.unique(thing, return_inverse=True)[1].ravel()
    ones = np.ones(len(site), np.int8)
    has = sparse.csr_array((ones, (site, found)), shape=(sites, int(found.max()) + 1)).astype(bool)
    common: Any = sparse.coo_array(has.astype(np.int32) @ has.astype(np.int32).T)
    pairs = np.stack([common.row, common.col], 1).astype(int)
    return pairs[pairs[:, 0] < pairs[:, 1]]


def within(where: Geography, distance: float) -> np.ndarray:
    """(E, 2) pairs of sites whose points are no further apart than this, in `where.unit`."""
    known, tree = _tree(where)
    reach = where.reach(distance) * (1 + 1e-12)
    most = tree.count_neighbors(tree, reach)
    if most > 2 * _MOST_PAIRS:
        raise ValueError(
            f"{(most - len(known)) // 2:,} pairs of sites are within {distance:g} {where.unit}, too "
            "many to be neighbours; take a smaller distance"
        )
    return known[tree.query_pairs(reach, output_type="ndarray")]


def least_distance(where: Geography) -> float:
    """Between the two nearest sites, in `where.unit`."""
    _, tree = _tree(where)
    straight = float(np.asarray(tree.query(tree.data, 2)[0])[:, 1].min())
    return where.along(straight)


def nearest(where: Geography, count: int) -> np.ndarray:
    """(E, 2) pairs of sites of which one is among the `count` nearest of the other."""
    known, tree = _tree(where)
    if not 1 <= count < len(known):
        most = counted(len(known), "site")
        raise ValueError(f"nearest must be at least 1 and less than the {most} of the map, got {count}")
    found = np.asarray(tree.query(tree.data, count + 1)[1])
    own = np.arange(len(known))[:, None]
    others = found != own
    others[others.all(1), -1] = False  # sites at one point: the own number may not be among them
    pairs = np.stack([np.broadcast_to(own, found.shape)[others], found[others]], 1)
    return known[np.unique(np.sort(pairs, 1), axis=0)]


def triangulated(where: Geography) -> np.ndarray:
    """(E, 2) sides of the triangles between neighbouring points (Delaunay's triangulation)."""
    known, _ = _tree(where)
    points = where.points[known]
    twins = len(points) - len(np.unique(points, axis=0))
    if twins:
        raise ValueError(
            f"a triangulation needs distinct points, but {twins} are repeated; take nearest"
        )
    try:
        found = Delaunay((points - points.mean(0)) * [1.0 / where.aspect, 1.0]).simplices
    except (QhullError, ValueError):
        raise ValueError("a triangulation needs three points that are not on one line") from None
    pairs = np.concatenate([found[:, [0, 1]], found[:, [1, 2]], found[:, [0, 2]]])
    return known[np.unique(np.sort(pairs, 1), axis=0)]


def _tree(where: Geography) -> tuple[np.ndarray, cKDTree]:
    """Sites that lie somewhere, and their positions."""
    known = np.flatnonzero(np.isfinite(where.points).all(1))
    if len(known) < 2:
        raise ValueError(f"neighbours need two sites with a place, got {len(known)}")
    return known, cKDTree(where.positions()[known])
