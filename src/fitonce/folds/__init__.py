"""Folds: which weights are set to zero.

Every function takes the data (or its length) and returns `Folds`; `sites` and `from_splitter` take the
index sets or the splitter first, and folds on graphs take the graph. With `lengths=` the data are one
array or table with the rows of all sequences, as for `fo.fit`. A fold leaves out sites (points of
sequences or of a graph) or whole sequences, and scores those that were observed.
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
