"""Fits in files: one JSON document with a version number, as results are. No pickle.

A fit of a model of the user's own, such as one with a function, is saved without the model, which
`fo.load` then asks for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fitonce.core.writing import check_free
from fitonce.data.labelled import Labelled
from fitonce.data.sequences import Collection, Sequences
from fitonce.fitting.encoding import NotPlainError, encoded
from fitonce.results.packing import pack_array
from fitonce.results.saving import require_about, write_document
from fitonce.results.summary import versions

if TYPE_CHECKING:
    from fitonce.fitting.fit import Fit

FORMAT, VERSION = "fitonce fit", 1
NUMBERS = (
    "gradient_norm", "distance", "smallest_eigenvalue", "value", "seconds", "refit_seconds",
    "refit_most",
)  # fmt: skip
_MOST_OF_H = 500  # parameters: a larger H is computed again


def write_fit(
    fit: Fit,
    path: str | os.PathLike[str],
    *,
    with_data: bool,
    force: bool,
    about: Mapping[str, Any] | None,
) -> Path:
    """Write a fit to one file."""
    if not isinstance(with_data, bool):
        raise ValueError(f"data must be True or False, got {type(with_data).__name__}")
    check_free(path, force)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "about": {"versions": versions(), **require_about(about)},
        "described": str(fit.model),
        "model": _model(fit.model),
        "kernel": fit.objective.program.kernel,
        "data": _data(fit.data) if with_data else None,
        "columns": None if with_data else _columns(fit.objective.collection),
        "fingerprint": fit.objective.collection.fingerprint,
        "names": encoded(tuple(fit.names)),
        "outcome": fit.status.outcome.value,
        "message": fit.status.message,
        **{name: encoded(float(getattr(fit, name))) for name in NUMBERS},
        "at_zero": fit.at_zero,
        "coordinates": 2,  # with units and levels: see `ParameterSpace.coordinates`
        "theta": pack_array(fit.theta),
        "gradient": pack_array(fit.gradient),
        "H": _hessian(fit),
        "values_of_starts": encoded(tuple(map(float, fit.values_of_starts))),
        "optima": {
            "thetas": pack_array(fit.optima.thetas),
            "values": pack_array(fit.optima.values),
            "found": pack_array(fit.optima.found),
            "starts": fit.optima.starts,
            "unseen": encoded(float(fit.optima.unseen)),
            "single": fit.optima.single,
            "lost": fit.optima.lost,
            "below": encoded(float(fit.optima.below)),
        },
    }
    return write_document(document, path, force)


def _model(model: Any) -> Any:
    """None where it is the user's own code."""
    try:
        return encoded(model)
    except NotPlainError:
        return None


def _data(data: Any) -> Any:
    try:
        return encoded(data)
    except NotPlainError as error:
        raise ValueError(
            f"the data of this fit cannot be saved, as they hold {error}; pass data=False, and the data "
            "to fo.load"
        ) from None


def _columns(data: Collection) -> Any:
    """What data call their columns, for those that `fo.load` is given in their place."""
    if isinstance(data, Sequences):
        return {"channels": encoded(data.channels), "covariates": encoded(data.covariate_names)}
    known = data.attributes if isinstance(data, Labelled) else None
    return None if known is None else {"attributes": encoded(known)}


def _hessian(fit: Fit) -> Any:
    """H, so that what is computed from it later has the same digits; None where it is large."""
    if not (fit.hessian_operator.dense and len(fit.theta) <= _MOST_OF_H):
        return None
    return pack_array(fit.hessian_operator.matrix())
