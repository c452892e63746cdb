"""`fo.load`: results and fits from files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fitonce.core.arguments import shown
from fitonce.core.numerics import in_float64
from fitonce.core.parameters import ParameterSpace
from fitonce.core.status import Outcome, Status
from fitonce.data.labelled import Labelled
from fitonce.data.sequences import Headings, sequences_like
from fitonce.fitting import saving
from fitonce.fitting.boundary import with_zeros
from fitonce.fitting.encoding import decoded
from fitonce.fitting.finish import is_formed
from fitonce.fitting.fit import Fit
from fitonce.fitting.hessian import DenseHessian, HessianOperator, ImplicitHessian
from fitonce.fitting.optima import Optima
from fitonce.objectives.base import Objective
from fitonce.objectives.families import objective_of
from fitonce.results import saving as results
from fitonce.results.packing import pack_array, to_array, to_word
from fitonce.results.result import CVResult
from fitonce.results.saving import said_of_damage
from fitonce.results.summary import versions

_READABLE = {results.FORMAT: results.READABLE, saving.FORMAT: (saving.VERSION,)}
_SAME = 1e-8  # relative: values of one objective on two machines


class WithoutModelError(ValueError):
    """A file of a fit whose model is code; `described` says of what kind it is."""

    def __init__(self, message: str, described: str) -> None:
        super().__init__(message)
        self.described = described


class WithoutDataError(ValueError):
    """A file of a fit without its data."""


@in_float64
def load(path: str | os.PathLike[str], *, model: Any = None, data: Any = None) -> Any:
    """Read what `save` wrote: a `CVResult`, or a `Fit`, which cross-validates to the same digits.

    Args:
        path: of the file.
        model: of a fit, where it is your own code, such as a `Custom`: files hold no code.
        data: of a fit that was saved without them.

    The `fit` of a result is a summary, so there is `theta` but no `params`.
    """
    document = results.read_document(path, _READABLE)
    path = Path(path)
    if document["format"] == saving.FORMAT:
        return _fit(document, path, model, data)
    if model is not None or data is not None:
        raise ValueError(f"model and data are for saved fits, but {path.name} is a saved result")
    return CVResult(**results.result_fields(document, path))


def load_fit(path: str | os.PathLike[str]) -> Fit:
    """A saved fit that holds its model and its data."""
    return _fit(results.read_document(path, {saving.FORMAT: (saving.VERSION,)}), Path(path), None, None)


def _fit(document: dict[str, Any], path: Path, model: Any, data: Any) -> Fit:
    with said_of_damage(path, "fit"):
        results.require_unchanged(document)
        described = to_word(document["described"])
        known = decoded(document["model"])
        kept = decoded(document["data"])
        found = _fields(document)
        kernel = document["kernel"]
        columns = {name: decoded(each) for name, each in (document.get("columns") or {}).items()}
    if known is None and model is None:
        raise WithoutModelError(
            f"{path.name} is a fit of your own model, {described}, and files hold no code: pass the "
            "model, fo.load(path, model=...)",
            described,
        )
    if kept is None and data is None:
        raise WithoutDataError(
            f"{path.name} was saved without its data: pass them, fo.load(path, data=...)"
        )
    if model is not None and known is not None and (type(model) is not type(known) or model != known):
        got = model if type(model) is type(known) else shown(model)
        raise ValueError(f"{path.name} is a fit of {described}, got {got} as model=")
    read = kept if data is None else _in_columns(columns, data)
    objective = objective_of(known if model is None else model, read, kernel)
    if "coordinates" not in document:
        document = in_coordinates(objective.space, found, document)
    given = model is not None or data is not None
    _require_same(objective, found, path, given or document["about"].get("versions") != versions())
    if data is not None and document["fingerprint"] not in ("", objective.collection.fingerprint):
        raise ValueError(f"data are not those of the fit in {path.name}")
    theta, gradient = found["theta"], found["gradient"]
    fit = Fit(
        model=objective.model,
        data=objective.data,
        params=objective.space.params_at(theta),
        gradient=gradient,
        objective=objective,
        hessian_operator=_hessian(objective, theta, document["H"]),
        **{name: value for name, value in found.items() if name != "gradient"},
    )
    return fit if "at_zero" in document else with_zeros(fit)  # files of earlier versions do not say it


def _in_columns(columns: dict[str, tuple[str, ...]], data: Any) -> Any:
    """Data in place of those of a fit, with the columns of these, by name."""
    if "channels" in columns:
        return sequences_like(Headings(columns["channels"], columns["covariates"]), data)
    if "attributes" in columns and isinstance(data, Labelled):
        return data.with_attributes(columns["attributes"])
    return data


def _fields(document: dict[str, Any]) -> dict[str, Any]:
    optima = document["optima"]
    theta = to_array(document["theta"])
    pool = Optima(
        to_array(optima["thetas"]),
        to_array(optima["values"]),
        to_array(optima["found"]),
        int(optima["starts"]),
        decoded(optima["unseen"]),
        bool(optima.get("single", False)),
        int(optima.get("lost", 0)),
        float(decoded(optima["below"])) if "below" in optima else float("nan"),
    )
    return {
        "refit_most": float(decoded(document["refit_seconds"])),  # of files that do not say it
        **{name: float(decoded(document[name])) for name in saving.NUMBERS if name in document},
        "at_zero": int(document.get("at_zero", 0)),
        "theta": theta,
        "gradient": to_array(document["gradient"]),
        "names": list(decoded(document["names"])),
        "status": Status(Outcome(document["outcome"]), to_word(document["message"])),
        "values_of_starts": list(decoded(document["values_of_starts"])),
        "optima": pool,
    }


def in_coordinates(
    space: ParameterSpace, found: dict[str, Any], document: dict[str, Any]
) -> dict[str, Any]:
    """The document of a file whose theta has the leaves themselves; what was found in it is changed to
    theta as it is learned."""
    if space.coordinates is None or list(space.names) != found["names"]:
        return document
    old = space.plain

    def turned(theta: np.ndarray) -> np.ndarray:
        return theta if np.isnan(theta).any() else space.to_free(old.params_at(theta))

    found["theta"] = turned(found["theta"])
    matrix, slopes = np.eye(space.size), space.named_slopes(found["theta"]).toarray()
    for name, _, places in space.leaves():
        if name in space.coordinates.names:
            matrix[places] = slopes[places]
    found["gradient"] = found["gradient"] @ matrix
    thetas = np.reshape([turned(theta) for theta in found["optima"].thetas], (-1, space.size))
    found["optima"] = replace(found["optima"], thetas=thetas)
    packed = document["H"]
    return document | {"H": packed and pack_array(matrix.T @ to_array(packed) @ matrix)}


def _require_same(objective: Objective, found: dict[str, Any], path: Path, evaluate: bool) -> None:
    """Raise unless this is the objective of the fit: its parameters, and its value where a model or data
    were given, or another version of a library computes it."""
    names, wanted = list(objective.space.names), found["names"]
    if names != wanted:
        shown = [", ".join(some[:3]) + (", ..." if len(some) > 3 else "") for some in (wanted, names)]
        raise ValueError(
            f"the fit in {path.name} has {len(wanted)} parameters ({shown[0]}), but model and data give "
            f"{len(names)} ({shown[1]})"
        )
    if not evaluate:
        return
    value, expected = objective(found["theta"]), found["value"]
    if np.isfinite(expected) and not abs(value - expected) <= _SAME * (1.0 + abs(expected)):
        raise ValueError(
            f"the objective of the fit in {path.name} is {expected:.6g} at its parameters, but that of "
            f"this model and data {value:.6g}: they are not those of the fit"
        )


def _hessian(objective: Objective, theta: np.ndarray, packed: Any) -> HessianOperator:
    names = list(objective.space.names)
    if packed is not None:
        return DenseHessian(to_array(packed), names)
    if not is_formed(objective):
        return ImplicitHessian(objective, theta)
    form = lambda: objective.hessians(theta[None], objective.base[None])[0]  # noqa: E731
    return DenseHessian(form, names)
