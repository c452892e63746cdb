"""Results in files: one JSON document with a version number. No pickle.

Columns of tables are typed arrays, compressed, in base64; the rest is readable text.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.arguments import read_path, require
from fitonce.core.status import Outcome, Status
from fitonce.core.writing import is_file, write_text
from fitonce.data.geography import Geography
from fitonce.data.places import Names
from fitonce.results.dropped import flat, stretches, to_dropped
from fitonce.results.heldout_values import pack_values, to_values
from fitonce.results.labels.heldout import pack_labels, to_labels
from fitonce.results.missed import with_missed
from fitonce.results.packing import (
    pack_array,
    pack_number,
    pack_table,
    pack_words,
    to_array,
    to_number,
    to_table,
    to_word,
    to_words,
)
from fitonce.results.summary import FitSummary, Starts, versions

FORMAT, VERSION = "fitonce result", 4
READABLE = (2, 3, 4)
# Up to version 2, the rungs of refined folds had the names of methods.
_OLD_RUNGS = {"newton": "refine-own", "exact": "refit"}
_REFINING = ("auto", "exact", "loo")
_NUMBERS = (
    "estimate", "se", "dof", "memory", "control", "error", "tolerance", "damping", "seconds",
    "compiling", "refits_seconds", "refits_most", "n_scored", "better_by", "starts",
)  # fmt: skip
_WORDS = ("method", "scheme", "loss", "left_out", "fingerprint", "optima_search", "units")
_SINCE_4 = {
    "optima_search": "local",
    "dof": 31,
    "memory": None,
    "better_theta": None,
    "n_scored": 0,
}  # what files of earlier versions do not say
_COLUMNS_SINCE_4 = {"optimum": 0, "gain": 0.0, "shift": 0.0, "ways": 1}
_FOLDS = {
    **dict.fromkeys(("loss", "control", "error", "distance", "rate", "move"), "f"),
    **dict.fromkeys(("ok", "away"), "b"),
    **dict.fromkeys(("gain", "shift"), "f"),
    **dict.fromkeys(("gradients", "hessians", "size", "optimum", "ways"), "iu"),
    **dict.fromkeys(("verdict", "rung", "status"), ""),
}  # columns and their numpy kinds; "": strings
_POINTWISE = {
    **dict.fromkeys(("fold", "sequence", "time", "site", "cluster"), "iu"),
    **dict.fromkeys(("loss", "control"), "f"),
}


def write_result(
    result: Any, path: str | os.PathLike[str], force: bool, about: Mapping[str, Any] | None
) -> Path:
    """Write a `CVResult` to one file."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "about": {"versions": versions(), **result.about, **require_about(about)},
        **{name: getattr(result, name) for name in _WORDS},
        **{name: pack_number(getattr(result, name)) for name in _NUMBERS},
        "folds": pack_table(result.folds),
        "pointwise": pack_table(result.pointwise),
        "theta": pack_array(result.theta),
        "better_theta": None if result.better_theta is None else pack_array(result.better_theta),
        "dropped": _of_dropped(result.dropped),
        "fit": _of_summary(result.summary),
        "labels": pack_labels(result.labels),
        "predicted": pack_values(result.predicted),
    }
    return write_document(document, path, force)


def require_about(about: Any) -> Mapping[str, Any]:
    """What a user says of a result, by name."""
    require(
        about is None or isinstance(about, Mapping),
        "about",
        "a dict of strings and finite numbers by name, or None",
        about,
    )
    return about or {}


def write_document(document: dict[str, Any], path: str | os.PathLike[str], force: bool) -> Path:
    """Write a document with its checksum."""
    try:
        document = json.loads(json.dumps(document, allow_nan=False))  # as it will be read back
    except (TypeError, ValueError):
        raise ValueError("about must hold only strings and finite numbers, by name") from None
    document["digest"] = _digest(document)
    return write_text(path, json.dumps(document, allow_nan=False, indent=1), force=force)


def read_result(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The fields of a `CVResult`, with a `FitSummary` as `fit`."""
    return result_fields(read_document(path, {FORMAT: READABLE}), Path(path))


def result_fields(document: dict[str, Any], path: Path) -> dict[str, Any]:
    """The same from the document of a result."""
    with said_of_damage(path, "result"):
        found = _fields(document)
        require_unchanged(document)
        return found


@contextmanager
def said_of_damage(path: Path, what: str) -> Iterator[None]:
    """Whatever goes wrong in reading the contents of a file is said in one sentence."""
    try:
        yield
    except (
        LookupError, TypeError, ValueError, AttributeError, ArithmeticError, SyntaxError, MemoryError,
        NotImplementedError, RecursionError, zlib.error, binascii.Error,
    ) as error:  # fmt: skip
        reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path.name} is a damaged {what}: {reason}") from None


def require_unchanged(document: dict[str, Any]) -> None:
    """Raise unless the checksum is that of the contents."""
    if document["digest"] != _digest({name: document[name] for name in document if name != "digest"}):
        raise ValueError("it was changed after it was written")


def _digest(document: Mapping[str, Any]) -> str:
    """Checksum of the contents of a file, to detect damage."""
    text = json.dumps(document, allow_nan=False, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_document(path: str | os.PathLike[str], readable: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """The document in a file, of one of the formats that are `readable`, with their versions."""
    path = read_path("path", path)
    wanted = " or ".join(f"a saved {name.removeprefix('fitonce ')}" for name in readable)
    if not is_file(path):
        raise ValueError(f"path: expected {wanted}, got no file at {path!s:.200}")
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))  # editors may add a mark
    except (ValueError, RecursionError):  # not JSON, not UTF-8, or a number of 6,000 digits
        raise ValueError(f"{path.name} must be {wanted}, but is not JSON, or was cut short") from None
    found = document.get("format") if isinstance(document, dict) else None
    if not isinstance(found, str) or found not in readable:
        marks = " or ".join(f"'{name}'" for name in readable)
        got = f" (it is marked as {found!r:.40})" if isinstance(found, str) else ""
        raise ValueError(f"{path.name} must be {wanted}, but is not marked as {marks}{got}")
    if document.get("version") not in readable[found]:
        raise ValueError(
            f"{path.name} has format version {document.get('version')!r}, "
            f"this fitonce reads {', '.join(map(str, readable[found]))}"
        )
    return document


def _fields(document: dict[str, Any]) -> dict[str, Any]:
    if document["version"] < 4:
        document = _SINCE_4 | document
    unsaid = {"refits_most": document["refits_seconds"], "better_by": None, "starts": 0, "units": ""}
    document = unsaid | document
    plain: dict[str, Any] = {name: to_word(document[name]) for name in _WORDS}
    plain |= {name: to_number(document[name]) for name in _NUMBERS}
    plain |= {name: int(plain[name]) for name in ("n_scored", "starts")}
    folds, pointwise = to_table(document["folds"]), to_table(document["pointwise"])
    folds.index.name = "fold"
    if document["version"] < 4:
        folds = folds.assign(**{n: v for n, v in _COLUMNS_SINCE_4.items() if n not in folds})
    if document["version"] == 2 and document["method"] in _REFINING:
        folds["rung"] = folds["rung"].replace(_OLD_RUNGS)
    theta = to_array(document["theta"])
    _require(folds, "folds", _FOLDS)
    folds = with_missed(folds)
    _require(pointwise, "pointwise", _POINTWISE)
    if folds.empty or pointwise.empty:
        raise ValueError("it has no folds")
    if not pointwise["fold"].between(0, len(folds) - 1).all():
        raise ValueError("pointwise refers to folds that do not exist")
    if not pointwise["cluster"].between(0, 2**31 - 1).all():
        raise ValueError("pointwise has clusters out of range")
    if theta.ndim != 2 or len(theta) != len(folds):
        raise ValueError(f"theta has shape {theta.shape} for {len(folds)} folds")
    better = None if document["better_theta"] is None else to_array(document["better_theta"])
    if better is not None and better.shape != theta.shape[1:]:
        raise ValueError(f"better_theta has shape {better.shape} for {theta.shape[1]} parameters")
    summary = _to_summary(document["fit"])
    return {
        **plain,
        "folds": folds,
        "pointwise": pointwise,
        "theta": theta,
        "better_theta": better,
        "fit": summary,
        "labels": to_labels(document.get("labels"), summary.lengths),
        "predicted": to_values(document.get("predicted"), len(pointwise)),
        "dropped": _to_dropped(document.get("dropped"), len(folds)),
        "about": dict(document["about"]),
    }


def _require(table: pd.DataFrame, name: str, columns: dict[str, str]) -> None:
    """Raise unless the table has columns of these kinds."""
    for column, kinds in columns.items():
        if column not in table:
            raise ValueError(f"{name} has no column '{column}'")
        kind = table[column].dtype.kind
        if (kind not in kinds) if kinds else kind in "biuf":
            raise ValueError(f"'{column}' of {name} has the wrong type, {table[column].dtype}")


def _of_dropped(dropped: Sequence[np.ndarray] | None) -> list[Any] | None:
    return None if dropped is None else [pack_array(part) for part in stretches(*flat(dropped))]


def _to_dropped(found: Any, folds: int) -> tuple[np.ndarray, ...] | None:
    """None in files of versions that did not write it."""
    if found is None:
        return None
    owner, start, stop = map(to_array, found)
    return to_dropped(owner, start, stop, folds)


def _of_summary(shown: FitSummary) -> dict[str, Any]:
    places: dict[str, Any] | None = None
    if shown.places is not None:
        sites = None if shown.places.sites is None else pack_words(shown.places.sites)
        places = {"sequences": pack_words(shown.places.sequences), "sites": sites}
        if shown.places.geography is not None:
            places["geography"] = _of_geography(shown.places.geography)
    return {
        "model": shown.model,
        "data": shown.data,
        "outcome": shown.status.outcome.value,
        "message": shown.status.message,
        "parameters": pack_table(shown.parameters),
        "log_likelihood": pack_number(shown.log_likelihood),
        "lengths": pack_array(shown.lengths),
        "values": pack_array(shown.values),
        "channels": list(shown.channels),
        "edges": None if shown.edges is None else pack_array(shown.edges),
        "seconds": pack_number(shown.seconds),
        "places": places,
        "unknown_starts": shown.unknown_starts,
        "approximation": shown.approximation,
        "optima": None if shown.optima is None else shown.optima._asdict(),
        "priors": shown.priors,
        "in_states": None if shown.in_states is None else pack_array(shown.in_states),
        "few_in_states": list(shown.few_in_states),
        "further": None if shown.further is None else pack_array(shown.further),
    }


def _of_geography(where: Geography) -> dict[str, Any]:
    """Corners are on a grid that single precision tells apart."""
    arrays = {name: pack_array(getattr(where, name)) for name in ("points", "rings", "shapes")}
    corners = pack_array(where.corners.astype(np.float32))
    return {**arrays, "corners": corners, "degrees": where.degrees, "metres": pack_number(where.metres)}


def _to_geography(found: dict[str, Any], sites: int) -> Geography:
    parts = {name: to_array(found[name]) for name in ("points", "corners", "rings", "shapes")}
    corners, rings, shapes = parts["corners"], parts["rings"], parts["shapes"]
    fits = parts["points"].shape == (sites, 2) and corners.ndim == 2 and corners.shape[1] == 2
    fits = fits and rings.ndim == 1 and shapes.shape == (sites + 1,) and len(rings) > 0
    ends = fits and (rings[0], rings[-1], shapes[0], shapes[-1]) == (0, len(corners), 0, len(rings) - 1)
    if not ends or (np.diff(rings) < 0).any() or (np.diff(shapes) < 0).any():
        raise ValueError("its map does not match its sites")
    parts["corners"] = corners.astype(float)
    return Geography(**parts, degrees=bool(found["degrees"]), metres=to_number(found["metres"]))


def _to_names(found: dict[str, Any] | None, lengths: np.ndarray) -> Names | None:
    if found is None:
        return None
    sites = None if found["sites"] is None else to_words(found["sites"])
    where = found.get("geography")
    geography = None if where is None else _to_geography(where, int(lengths.sum()))
    names = Names(to_words(found["sequences"]), sites, geography)
    if len(names.sequences) != len(lengths) or (sites is not None and len(sites) != lengths.sum()):
        raise ValueError("its names do not match its sequences and sites in number")
    return names


def _to_summary(found: dict[str, Any]) -> FitSummary:
    lengths, values = to_array(found["lengths"]), to_array(found["values"])
    if lengths.ndim != 1 or values.shape != (int(lengths.sum()),):
        raise ValueError(f"values have shape {values.shape} for {int(lengths.sum())} sites")
    edges = None if found["edges"] is None else to_array(found["edges"])
    if edges is not None and (edges.ndim != 2 or edges.shape[1] != 2):
        raise ValueError(f"edges have shape {edges.shape}")
    parameters = to_table(found["parameters"])
    _require(parameters, "parameters", {"name": "", "value": "f", "se": "f"})
    return FitSummary(
        model=to_word(found["model"]),
        data=to_word(found["data"]),
        status=Status(Outcome(found["outcome"]), to_word(found["message"])),
        parameters=parameters,
        log_likelihood=to_number(found["log_likelihood"]),
        lengths=lengths,
        values=values,
        channels=tuple(map(str, found["channels"])),
        edges=edges,
        seconds=to_number(found["seconds"]),
        places=_to_names(found["places"], lengths),
        unknown_starts=to_word(found.get("unknown_starts", "")),
        approximation=to_word(found.get("approximation", "")),
        **_since_0_3(found, len(values)),
    )


def _since_0_3(found: dict[str, Any], sites: int) -> dict[str, Any]:
    """What files of earlier versions do not say."""
    arrays = {name: found.get(name) for name in ("in_states", "further")}
    known = {name: None if packed is None else to_array(packed) for name, packed in arrays.items()}
    states, further = known["in_states"], known["further"]
    if states is not None and states.ndim != 1:
        raise ValueError(f"in_states have shape {states.shape}")
    if further is not None and (further.ndim != 2 or len(further) != sites):
        raise ValueError(f"further values have shape {further.shape} for {sites} sites")
    starts = found.get("optima")
    if starts is not None:
        said = to_word(starts["sentence"])
        single = bool(starts.get("single", False))
        starts = Starts(int(starts["found"]), int(starts["starts"]), said, single)
    priors, few = to_word(found.get("priors", "")), found.get("few_in_states", [])
    return {**known, "priors": priors, "optima": starts, "few_in_states": tuple(map(to_word, few))}
