"""Fit once. Cross-validate everywhere.

Cross-validation of models with dependence in them, from one fit.
"""

from fitonce import datasets, folds, models, weighting
from fitonce.crossval import cross_validate
from fitonce.curvature import Curvature, IndefiniteError, curvature
from fitonce.data import Sequences, sequences
from fitonce.fit import Fit, fit, fit_at
from fitonce.folds import Folds
from fitonce.result import CVResult
from fitonce.status import Outcome, Status

__version__ = "0.1.0"

__all__ = [
    "CVResult",
    "Curvature",
    "Fit",
    "Folds",
    "IndefiniteError",
    "Outcome",
    "Sequences",
    "Status",
    "cross_validate",
    "curvature",
    "datasets",
    "fit",
    "fit_at",
    "folds",
    "models",
    "sequences",
    "weighting",
]
