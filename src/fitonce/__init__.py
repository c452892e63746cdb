"""Fit once. Cross-validate everywhere.

Cross-validation of models of dependent data, from one fit.

Names are imported when they are first used (`__getattr__` of a module, PEP 562), so that
`import fitonce` takes no time. Type checkers read the imports below instead.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fitonce.core.renamed import stand_in

if TYPE_CHECKING:
    from fitonce import folds, models
    from fitonce.analysis.bootstrap import Bootstrap, bootstrap
    from fitonce.analysis.early_stopping import InexactBound, inexact_bound
    from fitonce.analysis.influence import Influence, influence
    from fitonce.analysis.label_audit import LabelAudit
    from fitonce.analysis.maps import plot_map
    from fitonce.analysis.plan import Plan, plan
    from fitonce.analysis.predict import marginals, predict
    from fitonce.analysis.select import select
    from fitonce.analysis.selection import Selection
    from fitonce.bridges import sklearn
    from fitonce.bridges.crfsuite import from_crfsuite
    from fitonce.bridges.dynamax import from_dynamax
    from fitonce.bridges.hmmlearn import from_hmmlearn
    from fitonce.bridges.statsmodels import from_statsmodels
    from fitonce.core.memory import MemoryLimitError
    from fitonce.core.parallel import Workers
    from fitonce.core.status import Outcome, Status
    from fitonce.crossval.cross_validate import cross_validate
    from fitonce.crossval.journal_check import check_journal
    from fitonce.crossval.loo import loo
    from fitonce.data import basis, datasets
    from fitonce.data.conll import read_conll
    from fitonce.data.gaps import GapsWarning
    from fitonce.data.graph import Graph, graph
    from fitonce.data.labelled import Labelled, labelled
    from fitonce.data.maps import Map, read_map
    from fitonce.data.sequences import Sequences, sequences
    from fitonce.data.tagged import Tagged
    from fitonce.data.tagged_files import read_tagged
    from fitonce.data.word_features import WordVectors, read_vectors, word_attributes, word_features
    from fitonce.fitting.boundary import zero_probabilities
    from fitonce.fitting.curvature import Curvature, curvature
    from fitonce.fitting.fit import Fit, fit, fit_at
    from fitonce.fitting.hessian import IndefiniteError, UnsolvedError
    from fitonce.fitting.loading import load
    from fitonce.fitting.relabelling import align
    from fitonce.folds import Folds
    from fitonce.objectives import schemes
    from fitonce.results.compare import Comparison, compare
    from fitonce.results.result import CVResult

__version__ = "0.2.0"

__all__ = [
    "Bootstrap",
    "CVResult",
    "Comparison",
    "Curvature",
    "Fit",
    "Folds",
    "GapsWarning",
    "Graph",
    "IndefiniteError",
    "InexactBound",
    "Influence",
    "LabelAudit",
    "Labelled",
    "Map",
    "MemoryLimitError",
    "Outcome",
    "Plan",
    "Selection",
    "Sequences",
    "Status",
    "Tagged",
    "UnsolvedError",
    "WordVectors",
    "Workers",
    "align",
    "basis",
    "bootstrap",
    "check_journal",
    "compare",
    "cross_validate",
    "curvature",
    "datasets",
    "fit",
    "fit_at",
    "folds",
    "from_crfsuite",
    "from_dynamax",
    "from_hmmlearn",
    "from_statsmodels",
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
    "read_map",
    "read_tagged",
    "read_vectors",
    "schemes",
    "select",
    "sequences",
    "sklearn",
    "word_attributes",
    "word_features",
    "zero_probabilities",
]

_MODULES = ("basis", "datasets", "folds", "models", "schemes", "sklearn")
# The module of each name, which for `_MODULES` is the name itself.
_WHERE = {
    "Bootstrap": "fitonce.analysis.bootstrap",
    "CVResult": "fitonce.results.result",
    "Comparison": "fitonce.results.compare",
    "Curvature": "fitonce.fitting.curvature",
    "Fit": "fitonce.fitting.fit",
    "Folds": "fitonce.folds",
    "GapsWarning": "fitonce.data.gaps",
    "Graph": "fitonce.data.graph",
    "IndefiniteError": "fitonce.fitting.hessian",
    "InexactBound": "fitonce.analysis.early_stopping",
    "Influence": "fitonce.analysis.influence",
    "LabelAudit": "fitonce.analysis.label_audit",
    "Labelled": "fitonce.data.labelled",
    "Map": "fitonce.data.maps",
    "MemoryLimitError": "fitonce.core.memory",
    "Outcome": "fitonce.core.status",
    "Plan": "fitonce.analysis.plan",
    "Selection": "fitonce.analysis.selection",
    "Sequences": "fitonce.data.sequences",
    "Status": "fitonce.core.status",
    "Tagged": "fitonce.data.tagged",
    "UnsolvedError": "fitonce.fitting.hessian",
    "WordVectors": "fitonce.data.word_features",
    "Workers": "fitonce.core.parallel",
    "align": "fitonce.fitting.relabelling",
    "basis": "fitonce.data.basis",
    "bootstrap": "fitonce.analysis.bootstrap",
    "check_journal": "fitonce.crossval.journal_check",
    "compare": "fitonce.results.compare",
    "cross_validate": "fitonce.crossval.cross_validate",
    "curvature": "fitonce.fitting.curvature",
    "datasets": "fitonce.data.datasets",
    "fit": "fitonce.fitting.fit",
    "fit_at": "fitonce.fitting.fit",
    "folds": "fitonce.folds",
    "from_crfsuite": "fitonce.bridges.crfsuite",
    "from_dynamax": "fitonce.bridges.dynamax",
    "from_hmmlearn": "fitonce.bridges.hmmlearn",
    "from_statsmodels": "fitonce.bridges.statsmodels",
    "graph": "fitonce.data.graph",
    "inexact_bound": "fitonce.analysis.early_stopping",
    "influence": "fitonce.analysis.influence",
    "labelled": "fitonce.data.labelled",
    "load": "fitonce.fitting.loading",
    "loo": "fitonce.crossval.loo",
    "marginals": "fitonce.analysis.predict",
    "models": "fitonce.models",
    "plan": "fitonce.analysis.plan",
    "plot_map": "fitonce.analysis.maps",
    "predict": "fitonce.analysis.predict",
    "read_conll": "fitonce.data.conll",
    "read_map": "fitonce.data.maps",
    "read_tagged": "fitonce.data.tagged_files",
    "read_vectors": "fitonce.data.word_features",
    "schemes": "fitonce.objectives.schemes",
    "select": "fitonce.analysis.select",
    "sequences": "fitonce.data.sequences",
    "sklearn": "fitonce.bridges.sklearn",
    "word_attributes": "fitonce.data.word_features",
    "word_features": "fitonce.data.word_features",
    "zero_probabilities": "fitonce.fitting.boundary",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'fitonce' has no attribute '{name}'")
    module = import_module(_WHERE[name])
    found = module if name in _MODULES else getattr(module, name)
    globals()[name] = found  # the next time it is there
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


# Where modules were before 0.2: they work for one more version, with a warning.
weighting = stand_in("fitonce.weighting", "fitonce.objectives.schemes")
stand_in("fitonce.constraints", "fitonce.core.constraints")
stand_in("fitonce.compile_cache", "fitonce.core.compile_cache")
stand_in("fitonce.report", "fitonce.results.report")
