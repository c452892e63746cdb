"""Potts fields on small graphs against enumeration."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

import fitonce as fo
from fuzzing.chains import MADE
from fuzzing.judges import Field, log_densities
from fuzzing.reading import check_folds, make_folds
from fuzzing.scoring import check_answers, check_losses


def as_graph(recipe: dict[str, Any]) -> Any:
    """The graph in one of the forms that the library reads."""
    sites, edges, form = recipe["sites"], recipe["edges"], recipe["form"]
    if form == "pairs":
        return fo.graph(edges, n_sites=sites)
    if form in ("array", "table"):
        array = np.array(edges, int).reshape(-1, 2)
        return fo.graph(array if form == "array" else pd.DataFrame(array, columns=["i", "j"]), sites)
    if form == "networkx":
        import networkx as nx

        made = nx.Graph()
        made.add_nodes_from(range(sites))
        made.add_edges_from(edges)
        return made
    matrix = np.zeros((sites, sites))
    for i, j in edges:
        matrix[i, j] = matrix[j, i] = 1.0
    return matrix if form == "matrix" else sparse.csr_matrix(matrix)


def _own(recipe: dict[str, Any]) -> tuple[np.ndarray, list[tuple[int, int]]] | None:
    """Values (V,) and edges, each once; None: there are none, or they do not belong together."""
    if recipe["sites"] == 1 and recipe["edges"] == [(0,)]:  # a matrix
        recipe = recipe | {"edges": []}
    try:
        pairs = sorted({(min(i, j), max(i, j)) for i, j in recipe["edges"]})
        x = np.array([math.nan if one is None else float(one) for one in recipe["data"]])
        inside = all(0 <= i < j < recipe["sites"] and i == int(i) and j == int(j) for i, j in pairs)
    except (TypeError, ValueError, OverflowError):
        return None
    fine = inside and x.shape == (recipe["sites"],) and not np.isinf(x).any() and (x == x).any()
    return (x, [(int(i), int(j)) for i, j in pairs]) if fine else None


def judge(recipe: dict[str, Any]) -> None:
    """Raise unless everything about the field of a recipe is right; refusals pass through."""
    own, kind, beta = _own(recipe), recipe["emission"], recipe["beta"]
    graph, data = as_graph(recipe), recipe["data"]
    model = fo.models.PottsMixture(graph, recipe["classes"], MADE[kind](), beta=beta)
    if recipe["fit"] is None:
        fit = fo.fit_at(model, data, drawn(kind, recipe["classes"], recipe["seed"]))
    else:
        fit = fo.fit(model, data, restarts=1, optima=0, progress=False)
    assert own is not None, "accepted: a graph or data that cannot be read"
    x, edges = own

    def at(params: Any) -> list[Field]:
        upright = {name: np.asarray(value)[:, None] for name, value in params.items()}
        return [Field(log_densities(kind, upright, x[:, None]), edges, float(beta))]

    seen = [~np.isnan(x)]
    if not check_answers(fit, at(fit.params), seen, paths=False):
        return
    folds = make_folds(recipe["folds"], data, model.graph)
    check_folds(folds, recipe["folds"], seen[0], np.array([len(x)]))
    method = recipe["fit"] or "none"
    cv = fo.cross_validate(
        fit, folds, method=method, loss=recipe["loss"], optima=0, progress=False, check=False
    )
    check_losses(cv, folds, at, seen)


def drawn(kind: str, classes: int, seed: int) -> dict[str, Any]:
    """Parameters at random."""
    rng = np.random.default_rng(seed)
    if kind == "poisson":
        return {"rate": rng.gamma(2.0, 3.0, classes) + 0.01}
    if kind == "categorical":
        return {"probability": rng.dirichlet(np.ones(4), classes)}
    mean = {"mean": 5.0 * rng.normal(size=classes)}
    return mean if kind == "fixed" else mean | {"variance": rng.gamma(2.0, 10.0, classes) + 0.1}
