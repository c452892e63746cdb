"""Every public function and its parameters, what they may be given, and what must never come of it.

A door is a public function, a model, or a method of a result that takes arguments. They are found by
their signatures: a new one is walked without being listed, and says so where it needs a value that the
tables below do not have.
"""

from __future__ import annotations

import functools
import inspect
import re
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import crfsuite_cases
import dynamax_cases
import fitonce as fo
import hmmlearn_cases
from canonical import COUNTS, SEQUENCES, poisson_fit
from fitonce import neural
from watching import watched

SOURCE = str(Path(fo.__file__).parent)
HUGE = 10**400
NOWHERE = "/nowhere/at all"
COLUMN = np.asarray(COUNTS, float).reshape(-1, 1)

HOSTILE: dict[str, Any] = {
    "None": None,
    "True": True,
    "zero": 0,
    "minus one": -1,
    "a half too much": 2.5,
    "nan": np.nan,
    "inf": np.inf,
    "minus inf": -np.inf,
    "2**62": 2**62,
    "10**9": 10**9,
    "400 digits": HUGE,
    "5000 digits": 10**5000,
    "minus 400 digits": -HUGE,
    "tiny": 1e-320,
    "vast": 1e308,
    "complex": 1 + 2j,
    "a number as text": "2",
    "no text": "",
    "text": "nonsense",
    "a zero byte": "a\0b",
    "long text": "x" * 5000,
    "bytes": b"2",
    "an empty list": [],
    "an empty dict": {},
    "a set": {1, 2},
    "a list of text": ["a", "b"],
    "a list of None": [None],
    "ragged": [[1.0], [1.0, 2.0]],
    "a pair": (1.0, 2.0),
    "a pair of text": ("1", "2"),
    "a pair with nan": (1.0, np.nan),
    "a list of 400 digits": [HUGE, 1],
    "an empty array": np.array([]),
    "one number in an array": np.array([2]),
    "an array": np.array([1.0, 2.0]),
    "a matrix": np.ones((2, 2)),
    "a cube": np.ones((2, 2, 2)),
    "an array of nan": np.full(3, np.nan),
    "an array of text": np.array(["a", "b"]),
    "an array of objects": np.array([object(), None]),
    "a date": np.datetime64("2024-01-01"),
    "no date": pd.NaT,
    "a table": pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}),
    "an empty table": pd.DataFrame(),
    "an object": object(),
    "a class": int,
    "a function": lambda: 0,
    "a generator": (k for k in ()),
}
NEVER = (  # no scalar is any of these
    "nan", "inf", "minus inf", "minus 400 digits", "complex", "bytes", "an empty dict",
    "a list of None", "an array of nan", "an object", "a table",
)  # fmt: skip


# Scalars by default that may be more than that.
LOOSE = {
    "initial_concentration", "transition_concentration", "concentration", "fixed_variance", "variance",
    "mean_centre", "component", "noise", "emission", "n_states", "beta", "loss", "trials",
}  # fmt: skip
# Parameters that are functions of the user's own, whose errors are theirs.
CALLED = ("log_density", "log_prior", "heldout", "factors", "loss", "folds", "told", "stop", "statistic")
# Parameters that may be right by themselves while another one does not suit them.
DATA = ("data", "emissions", "graph", "features", "labels", "x", "time", "what", "X", "y", "index_sets")


@cache
def labels():
    rng = np.random.default_rng(0)
    features = [rng.normal(size=(n, 2)) for n in (4, 3, 5, 4)]
    return fo.labelled(features, [["ab"[int(row[0] > 0)] for row in part] for part in features])


@cache
def crf_fit():
    return fo.fit(fo.models.LinearChainCRF(scale=1.0), labels())


@cache
def control():
    return fo.cross_validate(poisson_fit(), fo.folds.kfold(COUNTS, 4), method="none")


def mean_density(params, data, weights):
    return -0.5 * (weights * (data - params["m"]) ** 2).sum()


def _grid():
    return [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5)]


# What each parameter is given where it is not the one that is tried, by name.
USUAL: dict[str, Callable[[], Any]] = {
    "n_states": lambda: 2,
    "emission": lambda: "poisson",
    "n_categories": lambda: 3,
    "regressors": lambda: ("u",),
    "order": lambda: 1,
    "noise": lambda: fo.models.Gaussian("tied"),
    "parts": lambda: {"a": "poisson"},
    "adjacency": _grid,
    "steps_per_day": lambda: 6,
    "log_density": lambda: mean_density,
    "init": lambda: {"m": np.array(0.0)},
    "scopes": _grid,
    "factors": lambda: lambda params: [np.zeros((2, 2))] * 6,
    "fit": poisson_fit,
    "other": poisson_fit,
    "results": lambda: [control(), control()],
    "folds": lambda: fo.folds.kfold(COUNTS, 4),
    "model": lambda: fo.models.PoissonHMM(2),
    "data": lambda: COUNTS,
    "params": lambda: poisson_fit().params,
    "candidates": lambda: {"one": fo.models.PoissonHMM(1)},
    "features": lambda: [np.array([[0.1, 1.0]]), np.array([[0.2, 0.3], [1.0, 2.0]])],
    "labels": lambda: [["a"], ["b", "a"]],
    "sentences": lambda: [["a", "B2"], ["c"]],
    "index_sets": lambda: [[0, 1], [5]],
    "splitter": lambda: _splitter(),
    "percent": lambda: 10.0,
    "n": lambda: 3,
    "k": lambda: 3,
    "steps": lambda: 2,
    "graph": lambda: fo.graph(_grid()),
    "time": lambda: np.arange(12.0),
    "x": lambda: np.arange(12.0),
    "period": lambda: 4.0,
    "what": lambda: pd.Series([1.0, 2.0]),
    "by": lambda: "rate",
    "theta": lambda: poisson_fit().theta,
    "fold": lambda: 0,
    "site": lambda: 1,
    "which": lambda: [0],
    "base": lambda: np.ones(60),
    "a": lambda: "one",
    "b": lambda: "two",
    "names": lambda: (),
    "path": lambda: NOWHERE,
    "folder": lambda: tempfile.mkdtemp(),
}  # fmt: skip


def _splitter():
    from sklearn.model_selection import KFold

    return KFold(3)


@cache
def _figure():
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    return ax, ax.get_subplotspec()


def _axes():
    """The same axes, without what was put beside them; to clear them takes longer than most calls."""
    ax, place = _figure()
    if not ax.has_data():
        return ax
    for other in [each for each in ax.figure.axes if each is not ax]:
        other.remove()
    ax.clear()
    ax.set_subplotspec(place)
    return ax


@cache
def _tagged():
    return fo.read_conll(_conll())


@cache
def _tagger():
    tiny = neural.Settings(2, 1, 2, 2, 2, batch=2)
    return neural.train(_tagged(), _tagged(), settings=tiny, epochs=1, progress=False)


@cache
def _tagger_file():
    path = Path(tempfile.mkdtemp()) / "tagger.npz"
    _tagger().save(path)
    return path


def _made_and_fitted(of):
    """An estimator looks at its arguments when it is fitted, as scikit-learn asks."""

    @functools.wraps(of.__init__)
    def made(**given):
        return of(**({"restarts": 1, "optima": 0} | given)).fit(COLUMN)

    return made


@cache
def counts_in_time() -> fo.Fit:
    model = fo.models.Structural(observations="poisson")
    fit = fo.fit_at(model, COUNTS, {"level": 0.1})
    fit.smoothed(COUNTS)  # compiles what other data take
    return fit


def _hmmlearn():
    return hmmlearn_cases.stored("PoissonHMM")[0]


@cache
def _crfsuite():
    return crfsuite_cases.stored("usual", Path(tempfile.mkdtemp()))[0]


@cache
def _dynamax():
    return dynamax_cases.stored("PoissonHMM")


def _map():
    def square(k):
        corners = [[k, 0], [k + 1, 0], [k + 1, 1], [k, 1], [k, 0]]
        shape = {"type": "Polygon", "coordinates": [corners]}
        return {"type": "Feature", "geometry": shape, "properties": {"n": 3 + k, "name": f"s{k}"}}

    return {"type": "FeatureCollection", "features": [square(k) for k in range(4)]}


def _new_file():
    return Path(tempfile.mkdtemp()) / "new.html"


@cache
def _saved():
    return poisson_fit().save(Path(tempfile.mkdtemp()) / "fit.json")


@cache
def _conll():
    path = Path(tempfile.mkdtemp()) / "words.txt"
    path.write_text("a O\nb O\n\nc O\n")
    return path


@cache
def comparison():
    return fo.compare({"one": control(), "two": control()})


@cache
def influences():
    return fo.influence(poisson_fit())


@cache
def audit():
    return fo.influence(crf_fit())


# What a door is given besides, or instead: arguments by the name of the door.
OWN: dict[str, dict[str, Callable[[], Any]]] = {
    "cross_validate": {"method": lambda: "onestep", "progress": lambda: False},
    "cross_validate.max_gradients": {"method": lambda: "exact", "optima": lambda: 0},
    "cross_validate.max_seconds": {"method": lambda: "exact", "optima": lambda: 0},
    "cross_validate.optima": {"method": lambda: "exact", "max_gradients": lambda: 10},
    "fit": {"restarts": lambda: 1, "optima": lambda: 0, "init": lambda: poisson_fit().params},
    "fit.restarts": {"optima": lambda: 0},
    "bootstrap": {"n": lambda: 5},
    "select": {"restarts": lambda: 1, "optima": lambda: 0, "folds": lambda: fo.folds.kfold(COUNTS, 3)},
    "loo": {"refine": lambda: False},
    "plan": {"data": lambda: COUNTS},
    "load": {"path": _saved},
    "read_conll": {"path": _conll},
    "read_tagged": {"path": _conll, "format": lambda: "conll"},
    "Comparison.to_html": {"path": _new_file},
    "Fit.save": {"path": _new_file},
    "CVResult.save": {"path": _new_file},
    "CVResult.to_html": {"path": _new_file},
    "predict": {"fit": crf_fit},
    "marginals": {"fit": crf_fit},
    "plot_map": {"what": lambda: np.arange(6.0), "where": _grid, "ax": _axes},
    "from_hmmlearn": {
        "model": _hmmlearn,
        "X": lambda: hmmlearn_cases.data("PoissonHMM"),
        "lengths": lambda: hmmlearn_cases.LENGTHS,
    },
    "from_crfsuite": {
        "model": _crfsuite,
        "X": lambda: crfsuite_cases.data()[0],
        "y": lambda: crfsuite_cases.data()[1],
    },
    "from_dynamax": {
        "model": lambda: _dynamax()[0],
        "params": lambda: _dynamax()[1],
        "props": lambda: _dynamax()[2],
        "emissions": lambda: dynamax_cases.data("PoissonHMM")[0],
    },
    "folds.structures": {"data": lambda: SEQUENCES},
    "folds.regions": {"n": lambda: 2, "hops": lambda: 1},
    "folds.regions.percent": {"n": lambda: 2},
    "models.StateSpace": {
        "build": lambda: lambda params: dict.fromkeys(("design", "transition", "state_cov"), np.eye(1)),
        "init": lambda: {"level": 1.0},
    },
    "models.CustomField": {"emission": lambda: lambda params, x: x[:, None] * np.ones(2)},
    "read_map": {"path": _map, "counts": lambda: "n"},
    "folds.future": {"start": lambda: 30},
    "folds.future.steps": {"start": lambda: None},
    "datasets.load": {"name": lambda: "dodgers"},
    "datasets.load_map": {"name": lambda: "sids2"},
    "datasets.simulate_events": {"weeks": lambda: 1, "steps_per_day": lambda: 24},
    "neural.train": {
        "training": _tagged,
        "validation": _tagged,
        "settings": lambda: neural.Settings(2, 1, 2, 2, 2, batch=2),
        "epochs": lambda: 1,
        "progress": lambda: False,
    },
    "neural.train.epochs": {  # a rate at which the loss soon rises
        "settings": lambda: neural.Settings(2, 1, 2, 2, 2, batch=2, learning_rate=1.0),
        "patience": lambda: 1,
    },
    "neural.load": {"path": _tagger_file},
    "neural.train_crf_layer": {
        "data": lambda: _tagger().labelled(_tagged()),
        "start": lambda: _tagger().crf,
        "epochs": lambda: 1,
        "progress": lambda: False,
    },
    "Tagger.save": {"path": _new_file},
    "Tagger.labelled": {"data": _tagged},
}
# The result whose methods are walked.
RESULTS: dict[str, Callable[[], Any]] = {
    "Fit": poisson_fit,
    "CVResult": control,
    "Comparison": comparison,
    "Influence": influences,
    "LabelAudit": audit,
    "Folds": lambda: fo.folds.kfold(COUNTS, 4),
    "Graph": lambda: fo.graph(_grid()),
    "Tagger": _tagger,
}
OF_OTHERS: dict[str, Callable[[], Any]] = dict.fromkeys(
    ("Fit.laplace_error", "Fit.components", "Fit.smoothed"), counts_in_time
)
INNER = {  # called by the library, or only where a result has labels
    "CVResult.suspects",
    "Fit.memory_of",
    "Influence.shown",
    "CVResult.require_same_folds",
    "Folds.rebased",
    "Folds.weights_of",
    "schemes.named_scheme",
    "schemes.resolve_scheme",
    "datasets.fetch",  # asks the network
}


class Door(NamedTuple):
    """A public callable; `of`: what makes the result that it is a method of."""

    name: str
    call: Callable[..., Any]
    of: Callable[[], Any] | None = None

    def parameters(self) -> list[inspect.Parameter]:
        return _parameters(self.call)

    def arguments(self, tried: str) -> dict[str, Any]:
        """What is given beside the parameter that is tried."""
        own = OWN.get(self.name, {}) | OWN.get(f"{self.name}.{tried}", {})
        given = {}
        for parameter in self.parameters():
            name = parameter.name
            if name == tried:
                continue
            if name in own:
                given[name] = own[name]()
            elif parameter.default is inspect.Parameter.empty:
                if name not in USUAL:
                    raise LookupError(
                        f"{self.name} needs '{name}': add a value to USUAL or OWN in tests/doors.py"
                    )
                given[name] = USUAL[name]()
        return given

    def names_for(self, tried: str) -> set[str]:
        """What a refusal must name: the parameter, or where that is data, what does not suit them."""
        return {p.name for p in self.parameters()} if tried in DATA else {tried}

    def open(self, arguments: dict[str, Any]) -> Any:
        return self.call(**arguments) if self.of is None else self.call(self.of(), **arguments)


@cache
def _parameters(call: Callable[..., Any]) -> list[inspect.Parameter]:
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found = [p for p in inspect.signature(call).parameters.values() if p.kind in named]
    return [p for p in found if p.name != "self"]


def doors() -> Iterator[Door]:
    """All of them: functions and models of `fo` and of its modules, and methods of results. Classes that
    need arguments are what functions return: records, which nobody makes; emissions' base class has
    none. Estimators are made and fitted; the data of their methods are scikit-learn's to check."""
    modules = {name: getattr(fo, name) for name in fo.__all__ if inspect.ismodule(getattr(fo, name))}
    for module, prefix in ((fo, ""), (neural, "neural."), *((m, f"{n}.") for n, m in modules.items())):
        for name, found in _public(module):
            if prefix + name in INNER:
                continue
            if inspect.isclass(found) and hasattr(found, "fit"):
                yield Door(prefix + name, _made_and_fitted(found))
            elif inspect.isfunction(found) or (
                inspect.isclass(found) and (prefix == "models." or _needs_nothing(found))
            ):
                yield Door(prefix + name, found)
    for name, made in RESULTS.items():
        kind = next(getattr(home, name) for home in (fo, neural) if hasattr(home, name))
        for method, found in inspect.getmembers(kind, inspect.isfunction):
            full = f"{name}.{method}"
            door = Door(full, found, OF_OTHERS.get(full, made))
            if not method.startswith("_") and door.name not in INNER and door.parameters():
                yield door


def _public(module: Any) -> list[tuple[str, Any]]:
    """What a module offers: what it lists, or what it defines."""
    names = getattr(module, "__all__", None)
    if names is not None:
        return [(name, getattr(module, name)) for name in names]
    return [
        (name, found)
        for name, found in vars(module).items()
        if not name.startswith("_") and getattr(found, "__module__", None) == module.__name__
    ]


def _needs_nothing(found: type) -> bool:
    try:
        parameters = inspect.signature(found).parameters.values()
    except ValueError:  # an error
        return False
    return "__post_init__" in vars(found) and all(p.default is not p.empty for p in parameters)


def fault(door: Door, name: str, value: Any) -> str | None:
    """What is wrong with how a value is answered; None: nothing. `accepted` where it was taken."""
    if callable(value) and name in CALLED:
        return "accepted"
    if value is None and any(p.name == name and p.default is None for p in door.parameters()):
        return "accepted"  # as wherever it is not given
    arguments = door.arguments(name) | {name: value}
    try:
        with watched(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of doors that will be closed
            warnings.filterwarnings("ignore", "The groups parameter is ignored")  # by KFold
            door.open(arguments)
    except (ValueError, TypeError) as error:
        last = _last(error)
        if not last.startswith(SOURCE):
            return f"{type(error).__name__} of {Path(last).name}: {str(error)[:100]}"
        if not any(re.search(rf"\b{word}\b", str(error)) for word in door.names_for(name)):
            return f"does not name it: {str(error)[:160]}"
        if len(str(error)) > 500:
            return f"{len(str(error))} characters: {str(error)[:60]}"
        return None
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {Path(last.filename).name}:{last.lineno}: {str(error)[:100]}"
    return "accepted"


def _last(error: BaseException) -> str:
    """The file that raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else trace.tb_frame.f_code.co_filename


def is_scalar(door: Door, parameter: inspect.Parameter) -> bool:
    """Whether a parameter is a number, text or a choice, by its default."""
    return type(parameter.default) in (bool, int, float, str) and parameter.name not in LOOSE
