"""Folds: which weights go to zero.

Every maker takes the data (or just its length) and returns `Folds`; `sites` and `from_splitter` take
what makes the folds before it, and folds on graphs take the graph. A fold leaves out sites (points of
sequences or of a graph) or whole sequences; what it leaves out is scored unless it was missing.
"""

from fitonce.folds.given import from_splitter, points, sites, structures
from fitonce.folds.record import Folds
from fitonce.folds.space import buffered, regions, spatial_kfold
from fitonce.folds.time import blocks, followed_by, future, iid, kfold

__all__ = [
    "Folds",
    "blocks",
    "buffered",
    "followed_by",
    "from_splitter",
    "future",
    "iid",
    "kfold",
    "points",
    "regions",
    "sites",
    "spatial_kfold",
    "structures",
]
