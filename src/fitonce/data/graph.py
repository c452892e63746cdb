"""Undirected graphs of sites: read from common formats, checked once, and partitioned."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from fitonce.core.arguments import generator, require, require_count, shown
from fitonce.core.deferred import nx
from fitonce.core.memory import require_fits
from fitonce.core.numerics import is_count
from fitonce.core.wording import counted


@dataclass(frozen=True, eq=False)
class Graph:
    """Sites 0 .. n_sites - 1 and the undirected edges between them.

    Attributes:
        n_sites: number of sites.
        edges: (E, 2) integers, the smaller first, each edge once, sorted.
        names: of the sites, if the input had them.
    """

    n_sites: int
    edges: np.ndarray
    names: tuple[Any, ...] | None = None

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """(V, V) symmetric adjacency of zeros and ones."""
        ones = np.ones(2 * len(self.edges))
        i, j = np.concatenate([self.edges, self.edges[:, ::-1]]).T
        return sparse.csr_array((ones, (i, j)), shape=(self.n_sites, self.n_sites))

    def hops_from(self, site: int) -> np.ndarray:
        """(V,) length of the shortest path from a site, infinite if there is none."""
        require_count("site", site, 0, self.n_sites - 1)
        return sparse.csgraph.shortest_path(
            self.matrix, unweighted=True, directed=False, indices=int(site)
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return False
        return self.n_sites == other.n_sites and np.array_equal(self.edges, other.edges)

    def __hash__(self) -> int:
        return hash((self.n_sites, self.edges.tobytes()))

    @property
    def said(self) -> str:
        """ "100 sites, 245 edges, connected"."""
        parts = sparse.csgraph.connected_components(self.matrix, directed=False)[0]
        pieces = "connected" if parts == 1 else f"in {parts:,} parts"
        return f"{counted(self.n_sites, 'site')}, {counted(len(self.edges), 'edge')}, {pieces}"

    def __repr__(self) -> str:
        return f"Graph({self.said})"


def graph(adjacency: Any, n_sites: int | None = None) -> Graph:
    """Read an undirected graph.

    Args:
        adjacency: a dense or SciPy sparse matrix of zeros and ones; an edge list, (E, 2) integers or
            two columns of a DataFrame; a networkx graph; libpysal weights; or a model or fit that has
            a graph. Labels 0 .. n - 1 are site numbers; other labels are numbered in their order.
        n_sites: the number of sites of an edge list, if the last ones have no edge.
    """
    require_count("n_sites", n_sites, optional=True)
    found = _read(adjacency, n_sites)
    if n_sites is not None and n_sites != found.n_sites:
        raise ValueError(f"n_sites={n_sites}, but the graph has {counted(found.n_sites, 'site')}")
    return found


def read_order(order: Any, n_sites: int, names: Any = None) -> tuple[int, ...] | None:
    """The numbers of all sites in an order given by number, or by the names that sites have."""
    if order is None:
        return None
    wanted = f"each of the {n_sites:,} sites once, by name or number"
    require(hasattr(order, "__len__") and not isinstance(order, (str, bytes)), "order", wanted, order)
    given = [one.item() if isinstance(one, np.generic) else one for one in order]
    known: dict[Any, int] = {number: number for number in range(n_sites)}
    called = {str(name): number for number, name in enumerate(names or ())}
    numbered = all(is_count(one, 0, n_sites - 1) for one in given)
    if not numbered and any(str(one) in called for one in given):
        known, given = called, [str(one) for one in given]
    of_kind = lambda one: isinstance(one, (int, str)) and not isinstance(one, bool)  # noqa: E731
    strange = [one for one in given if not of_kind(one) or one not in known]
    if strange:
        raise ValueError(f"order must have {wanted}, got {shown(strange[0])}, which is none of them")
    numbers = [known[one] for one in given]
    if len(set(numbers)) < len(numbers):
        twice = next(one for k, one in enumerate(given) if one in given[:k])
        raise ValueError(f"order must have {wanted}, got {shown(twice)} twice")
    if len(numbers) < n_sites:
        raise ValueError(f"order must have {wanted}, got {len(numbers):,} of them")
    return tuple(numbers)


def of_pairs(pairs: np.ndarray, n_sites: int) -> Graph:
    """The graph with edges `pairs`, (E, 2) integers."""
    return _checked(n_sites, np.asarray(pairs, int).reshape(-1, 2), None)


def _read(adjacency: Any, n_sites: int | None) -> Graph:
    if not isinstance(adjacency, nx.Graph):  # a fit has a model, and a model a graph
        adjacency = getattr(adjacency, "model", adjacency)
        adjacency = getattr(adjacency, "graph", adjacency)
    if isinstance(adjacency, Graph):
        return adjacency
    if isinstance(adjacency, nx.Graph):
        return _by_label(_from_networkx(adjacency))
    if hasattr(adjacency, "sparse") and (
        hasattr(adjacency, "id_order") or hasattr(adjacency, "unique_ids")
    ):
        ids = adjacency.id_order if hasattr(adjacency, "id_order") else adjacency.unique_ids
        # libpysal weights are often row-standardised: only which of them are not zero matters.
        return _by_label(_from_matrix(sparse.coo_array(adjacency.sparse), tuple(ids)))
    if sparse.issparse(adjacency):
        return _from_matrix(_require_binary(adjacency.tocoo()))  # type: ignore[attr-defined]
    array = _as_array(adjacency)
    square = array.ndim == 2 and array.shape[0] == array.shape[1]
    if square and len(array) == 2:  # a list of two edges is square, too
        square = np.array_equal(array, array.T) and not array.diagonal().any() and n_sites in (None, 2)
        square = square and array.max() <= 1
    if square:
        return _from_matrix(_require_binary(sparse.coo_array(array)))
    return _from_edges(array, n_sites)


def _as_array(adjacency: Any) -> np.ndarray:
    if isinstance(adjacency, pd.DataFrame):
        adjacency = adjacency[["i", "j"]] if {"i", "j"} <= set(adjacency.columns) else adjacency
        numeric = all(dtype.kind in "biuf" for dtype in adjacency.dtypes)
        adjacency = adjacency.to_numpy(dtype=float, na_value=np.nan) if numeric else adjacency.to_numpy()
    try:
        array = np.asarray(adjacency if hasattr(adjacency, "__len__") else list(adjacency))
    except (TypeError, ValueError):
        array = np.empty((), object)
    if array.dtype.kind not in "biuf":
        raise ValueError(
            "adjacency must be a matrix of zeros and ones, an edge list of pairs of integers, a "
            f"networkx graph or libpysal weights, got {type(adjacency).__name__}"
        )
    return array


def _require_binary(matrix: Any) -> Any:
    other = matrix.data[~np.isin(matrix.data, (0, 1))]
    if other.size:
        raise ValueError(f"adjacency, a matrix, must hold zeros and ones, got {other[0]}")
    return matrix


def _from_networkx(given: nx.Graph) -> Graph:
    names = tuple(given.nodes)
    number = {name: k for k, name in enumerate(names)}
    pairs = np.array([(number[a], number[b]) for a, b in given.edges()], int).reshape(-1, 2)
    if given.is_directed():
        shape = (len(names), len(names))
        return _from_matrix(sparse.coo_array((np.ones(len(pairs)), tuple(pairs.T)), shape), names)
    return _checked(len(names), pairs, names)


def _by_label(found: Graph) -> Graph:
    """Sites in the order of their labels, if these are 0 .. n - 1 in any order."""
    labels = list(found.names or ())
    numbers = list(range(len(labels)))
    if not all(isinstance(label, (int, np.integer)) for label in labels) or sorted(labels) != numbers:
        return found
    return _checked(found.n_sites, np.array(labels, int)[found.edges], tuple(numbers))


def _from_matrix(matrix: Any, names: tuple[Any, ...] | None = None) -> Graph:
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"adjacency, a matrix, must be square, got shape {matrix.shape}")
    nonzero: Any = sparse.csr_array(matrix).astype(bool)
    nonzero.eliminate_zeros()  # stored zeros are not edges
    one_way = (nonzero != nonzero.T).tocoo()
    if one_way.nnz:
        i, j = int(one_way.row[0]), int(one_way.col[0])
        i, j = (i, j) if nonzero[i, j] else (j, i)
        pairs = counted(one_way.nnz // 2, "such pair")
        raise ValueError(
            f"adjacency must be symmetric, but site {i} has {j} as a neighbour and not the reverse "
            f"({pairs}); take the larger of the matrix and its transpose"
        )
    entries = sparse.coo_array(nonzero)
    return _checked(matrix.shape[0], np.stack([entries.row, entries.col], 1), names)


def _from_edges(array: np.ndarray, n_sites: int | None) -> Graph:
    if len(array) == 0:
        array = np.zeros((0, 2), int)
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(
            f"adjacency must be a square matrix or an edge list of shape (edges, 2), got {array.shape}"
        )
    broken = array[~np.isfinite(array) | (array != np.floor(array))]
    if broken.size:
        raise ValueError(f"adjacency, an edge list, must hold integers, got {broken[0]}")
    if n_sites is None and not len(array):
        raise ValueError(
            "adjacency, an empty edge list, does not give the number of sites; pass n_sites="
        )
    if n_sites is None:
        name, n_sites = "the number of sites of adjacency", int(array.max()) + 1
    else:
        name = "n_sites"
    require_fits(name, n_sites, lambda n: 16 * n, "a list of neighbours")
    return _checked(n_sites, array.astype(int), None)


def _checked(n_sites: int, pairs: np.ndarray, names: tuple[Any, ...] | None) -> Graph:
    outside = pairs[((pairs < 0) | (pairs >= n_sites)).any(1)]
    if len(outside):
        a, b = outside[0]
        raise ValueError(
            f"adjacency and n_sites differ: edge ({a}, {b}) is outside the {n_sites} sites "
            f"(0 to {n_sites - 1})"
        )
    loops = pairs[pairs[:, 0] == pairs[:, 1]]
    if len(loops):
        raise ValueError(
            f"adjacency: a site cannot be its own neighbour, but site {loops[0, 0]} is "
            f"({counted(len(loops), 'self-loop')})"
        )
    edges = np.unique(np.sort(pairs, 1), axis=0).astype(np.int64).reshape(-1, 2)
    return Graph(int(n_sites), edges, names)


@lru_cache(maxsize=16)
def partition(graph: Graph, k: int, seed: int = 0) -> np.ndarray:
    """(V,) labels 0 .. k - 1 of connected regions of similar size.

    Regions start from sites that are far apart and grow by one neighbour at a time, the smallest region
    first. Then they pass border sites to smaller neighbours as long as they stay connected.
    """
    rng = generator(seed)

    def hops(site: int) -> np.ndarray:
        return np.nan_to_num(graph.hops_from(site), posinf=graph.n_sites)

    starts = [int(np.argmax(hops(int(rng.integers(graph.n_sites)))))]
    nearest = hops(starts[0])
    while len(starts) < k:
        starts.append(int(rng.choice(np.flatnonzero(nearest == nearest.max()))))
        nearest = np.minimum(nearest, hops(starts[-1]))
    label = np.full(graph.n_sites, -1)
    label[starts] = np.arange(k)
    neighbours = np.split(graph.matrix.indices, graph.matrix.indptr[1:-1])
    _grow(label, k, neighbours)
    _balance(label, k, graph.edges, neighbours)
    label.setflags(write=False)
    return label


def _grow(label: np.ndarray, k: int, neighbours: list[np.ndarray]) -> None:
    """Assign the sites labelled -1, in place."""
    sizes = np.bincount(label[label >= 0], minlength=k)
    while (label < 0).any():
        for part in np.argsort(sizes, kind="stable"):
            members = np.flatnonzero(label == part)
            rim = [j for i in members for j in neighbours[i] if label[j] < 0]
            if rim:
                candidates, links = np.unique(rim, return_counts=True)
                site = candidates[np.argmax(links)]  # the most enclosed: regions stay compact
                break
        else:  # a component of the graph without a start
            site, part = np.flatnonzero(label < 0)[0], np.argmin(sizes)
        label[site] = part
        sizes[part] += 1


def _balance(label: np.ndarray, k: int, edges: np.ndarray, neighbours: list[np.ndarray]) -> None:
    """Move border sites to a smaller adjacent region, in place, the largest difference first."""
    sizes = np.bincount(label, minlength=k)
    ends = np.concatenate([edges, edges[:, ::-1]])
    for _ in range(2 * len(label)):
        gain = sizes[label[ends[:, 0]]] - sizes[label[ends[:, 1]]]
        for move in np.argsort(-gain, kind="stable")[: np.count_nonzero(gain > 1)]:
            site, other = ends[move]
            if _stays_connected(np.flatnonzero(label == label[site]), site, neighbours):
                sizes[label[site]] -= 1
                sizes[label[other]] += 1
                label[site] = label[other]
                break
        else:
            return


def _stays_connected(members: np.ndarray, without: int, neighbours: list[np.ndarray]) -> bool:
    """Whether a region is not empty and stays connected without a site."""
    left = set(members.tolist()) - {int(without)}
    if not left:
        return False
    reached, pending = set(), [next(iter(left))]
    while pending:
        site = pending.pop()
        if site not in reached:
            reached.add(site)
            pending += [int(j) for j in neighbours[site] if int(j) in left]
    return reached == left
