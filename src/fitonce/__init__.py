"""Fit once. Cross-validate everywhere.

Cross-validation of models of dependent data, from one fit.
"""

from fitonce import folds, models
from fitonce.analysis.bootstrap import Bootstrap, bootstrap
from fitonce.analysis.early_stopping import InexactBound, inexact_bound
from fitonce.analysis.influence import Influence, influence
from fitonce.analysis.label_audit import LabelAudit
from fitonce.analysis.maps import plot_map
from fitonce.analysis.predict import marginals, predict
from fitonce.analysis.select import Selection, select
from fitonce.core.parallel import Workers
from fitonce.core.renamed import stand_in
from fitonce.core.status import Outcome, Status
from fitonce.crossval.cross_validate import cross_validate
from fitonce.crossval.loo import loo
from fitonce.data import datasets
from fitonce.data.conll import Tagged, read_conll
from fitonce.data.graph import Graph, graph
from fitonce.data.labelled import Labelled, labelled
from fitonce.data.sequences import Sequences, sequences
from fitonce.data.word_features import WordVectors, read_vectors, word_features
from fitonce.fitting.curvature import Curvature, curvature
from fitonce.fitting.fit import Fit, fit, fit_at
from fitonce.fitting.hessian import IndefiniteError, UnsolvedError
from fitonce.fitting.plan import plan
from fitonce.folds import Folds
from fitonce.objectives import schemes
from fitonce.results.compare import Comparison, compare
from fitonce.results.result import CVResult, load

__version__ = "0.2.0"

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
    "schemes",
    "select",
    "sequences",
    "word_features",
]

# Where modules were before 0.2: they work for one more version, with a warning.
weighting = stand_in("fitonce.weighting", "fitonce.objectives.schemes")
stand_in("fitonce.constraints", "fitonce.core.constraints")
stand_in("fitonce.compile_cache", "fitonce.core.compile_cache")
stand_in("fitonce.report", "fitonce.results.report")
