"""Which losses of a result are independent: what its standard error rests on.

A model of time or of a graph says so itself. The points of a `Custom` have neither, so that their order
means nothing: they are exchangeable, unless its folds are made on a graph or are stretches of time.
`clusters=` comes before all of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from fitonce.core.arguments import refusal, shown
from fitonce.data.alignment import aligned
from fitonce.data.graph import Graph, of_pairs
from fitonce.fitting.fit import Fit
from fitonce.folds import Folds
from fitonce.folds.record import shape_of
from fitonce.objectives.abilities import HasLabels
from fitonce.objectives.base import Objective

JointPlaces = Literal["middle", "fold", "none"]


class Dependence(NamedTuple):
    """What is independent of what.

    Attributes:
        units: "points", "clusters" or "regions" where the model itself does not say; else empty.
        along_time: whether `parts` are steps in time, each like its neighbours.
        graph: the neighbours of points, of which regions are made; None: `parts` are independent.
        parts: (P,) what each point, or sequence, belongs to.
        joint: where joint losses are, see `joint_places`.
    """

    units: str
    along_time: bool
    graph: Graph | None
    parts: np.ndarray
    joint: JointPlaces


def dependence_of(objective: Objective, folds: Folds, clusters: np.ndarray | None = None) -> Dependence:
    """Of the losses of an objective on folds; `clusters` (P,) are those of the user."""
    joint = joint_places(objective, folds)
    if clusters is not None:
        return Dependence("clusters", False, None, clusters, "fold")
    parts, by_folds = np.asarray(objective.clusters), objective.traits.exchangeable
    if by_folds and folds.graph is not None:
        return Dependence("regions", False, folds.graph, parts, joint)
    if by_folds:
        return Dependence("" if folds.along_time else "points", folds.along_time, None, parts, joint)
    edges = objective.edges
    graph = None if edges is None else of_pairs(edges, len(objective.base))
    return Dependence("", objective.along_time, graph, parts, joint)


def joint_places(objective: Objective, folds: Folds) -> JointPlaces:
    """Where joint losses are: at the middle of a fold, if folds are stretches of observed steps along
    time; else each is its fold, one observation, if folds do not overlap; else nowhere, and their mean
    has no standard error."""
    number = np.cumsum(objective.base > 0) if folds.kind == "sites" else np.arange(folds.size)
    together = all(np.ptp(number[part]) < len(part) for part in folds.scored)
    traits = objective.traits
    steps = folds.kind == "sites" and traits.site == "time" and not isinstance(objective, HasLabels)
    steps = steps and (folds.along_time or not traits.exchangeable)
    if together and steps:  # also of many sequences, one after another
        return "middle"
    return "none" if overlap(folds) else "fold"


def overlap(folds: Folds) -> bool:
    """Whether anything is scored in two folds."""
    return folds.n_scored < len(folds.all_scored)


def read_clusters(clusters: Any, fit: Fit, folds: Folds, joint: bool) -> np.ndarray | None:
    """(P,) numbers of the clusters that a user gave, of points or of whole sequences; `joint`: each fold
    has one loss, so that it must lie within a cluster."""
    if clusters is None:
        return None
    labels = _labels(clusters, fit, folds)
    things = "point" if folds.kind == "sites" else "sequence"
    if labels.shape != (folds.size,):
        raise ValueError(
            f"clusters must have one label for each {things}, shape ({folds.size},), got {labels.shape}"
        )
    unlabelled = np.flatnonzero(pd.isna(labels))
    if unlabelled.size:
        raise ValueError(f"clusters must label every {things}, but {things} {unlabelled[0]} has none")
    numbers = pd.factorize(labels)[0]
    if len(np.unique(numbers[folds.all_scored])) < 2:
        raise ValueError("clusters must tell at least two clusters apart among what is scored, got one")
    if joint and any(np.ptp(numbers[part]) for part in folds.scored):
        raise ValueError(
            "clusters with loss='joint' need folds that each lie within one cluster, got folds across "
            "clusters; use loss='pointwise'"
        )
    return numbers


def _labels(clusters: Any, fit: Fit, folds: Folds) -> np.ndarray:
    """As given, in the order of the data where both have names."""
    data = fit.data
    if isinstance(clusters, str):
        columns = list(data) if isinstance(data, (pd.DataFrame, Mapping)) else []
        if clusters not in columns:
            have = f"one of {shown(columns)}" if columns else "labels, as the data have no columns"
            raise refusal("clusters", have, clusters)
        clusters = np.asarray(data[clusters])
    if isinstance(clusters, pd.DataFrame):
        raise refusal("clusters", "one label for each point, such as a column of this table", clusters)
    if isinstance(clusters, pd.Series):
        rows = _rows_of(data) if folds.kind == "sites" else None
        if rows is not None:
            clusters = aligned(clusters, rows, "clusters")
        else:
            shape = shape_of(fit.objective.collection, folds.kind)
            clusters = shape.aligned(clusters, folds.kind, "clusters")
    try:
        found = np.asarray(clusters)
    except ValueError:  # ragged
        found = np.zeros(())
    return found.astype(object) if found.dtype.kind in "OUS" else found


def _rows_of(data: Any) -> pd.Index | None:
    """The index of the data of a `Custom`, whose points say nothing else."""
    own = [data, *(data.values() if isinstance(data, Mapping) else ())]
    return next((one.index for one in own if isinstance(one, (pd.DataFrame, pd.Series))), None)
