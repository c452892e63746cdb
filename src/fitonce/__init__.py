"""Fit once. Cross-validate everywhere.

Cross-validation of models with dependence in them, from one fit.
"""

from fitonce import datasets, folds, models, weighting
from fitonce.audit import LabelAudit
from fitonce.bootstrap import Bootstrap, bootstrap
from fitonce.compare import Comparison, compare
from fitonce.conll import Tagged, read_conll
from fitonce.crossval import cross_validate
from fitonce.curvature import Curvature, curvature
from fitonce.data import Sequences, sequences
from fitonce.fit import Fit, fit, fit_at
from fitonce.folds import Folds
from fitonce.graph import Graph, graph
from fitonce.hessian import IndefiniteError, UnsolvedError
from fitonce.inexact import InexactBound, inexact_bound
from fitonce.influence import Influence, influence
from fitonce.labelled import Labelled, labelled
from fitonce.loo import loo
from fitonce.maps import plot_map
from fitonce.parallel import Workers
from fitonce.plan import plan
from fitonce.predict import marginals, predict
from fitonce.result import CVResult, load
from fitonce.select import Selection, select
from fitonce.status import Outcome, Status
from fitonce.word_features import WordVectors, read_vectors, word_features

__version__ = "0.1.0"

__all__ = [
    "Bootstrap",
    "CVResult",
    "Comparison",
    "Curvature",
    "Fit",
    "Folds",
    "Graph",
    "IndefiniteError",
    "InexactBound",
    "Influence",
    "LabelAudit",
    "Labelled",
    "Outcome",
    "Selection",
    "Sequences",
    "Status",
    "Tagged",
    "UnsolvedError",
    "WordVectors",
    "Workers",
    "bootstrap",
    "compare",
    "cross_validate",
    "curvature",
    "datasets",
    "fit",
    "fit_at",
    "folds",
    "graph",
    "inexact_bound",
    "influence",
    "labelled",
    "load",
    "loo",
    "marginals",
    "models",
    "plan",
    "plot_map",
    "predict",
    "read_conll",
    "read_vectors",
    "select",
    "sequences",
    "weighting",
    "word_features",
]
