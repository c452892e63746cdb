"""Results in a file: one JSON document with a version, read back by every command. No pickle.

Columns of tables are typed arrays, compressed, in base64; the rest can be read by eye. A file is
written beside its place and then moved there, so that no half of one is ever found.
"""

from __future__ import annotations

import binascii
import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fitonce.archive import (
    pack_array,
    pack_number,
    pack_table,
    to_array,
    to_number,
    to_table,
    to_word,
    write_text,
)
from fitonce.portrait import Portrait, portrait, versions
from fitonce.status import Outcome, Status

FORMAT, VERSION = "fitonce result", 1
_NUMBERS = (
    "estimate", "se", "control", "error", "tolerance", "damping", "seconds", "refits_seconds",
)  # fmt: skip
_WORDS = ("method", "scheme", "loss", "left_out", "fingerprint")


def write(
    result: Any, path: str | os.PathLike[str], force: bool, about: Mapping[str, Any] | None
) -> Path:
    """Write a `CVResult` to one file."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "about": {"versions": versions(), **result.about, **(about or {})},
        **{name: getattr(result, name) for name in _WORDS},
        **{name: pack_number(getattr(result, name)) for name in _NUMBERS},
        "folds": pack_table(result.folds),
        "pointwise": pack_table(result.pointwise),
        "theta": pack_array(result.theta),
        "fit": _of_portrait(portrait(result.fit)),
    }
    text = json.dumps(document, allow_nan=False, indent=1)
    return write_text(path, text, force=force)


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The fields of a `CVResult`. Its `fit` is a portrait."""
    path = Path(path)
    document = _document(path)
    try:
        return _fields(document)
    except (KeyError, TypeError, ValueError, AttributeError, zlib.error, binascii.Error) as error:
        raise ValueError(f"{path.name} is a damaged result: {_reason(error)}") from None


def _document(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"expected a saved result, found no file at {path}")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ValueError(f"{path.name} must be a saved result (JSON), which it is not") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"{path.name} must be a saved result, but does not say '{FORMAT}'")
    if document.get("version") != VERSION:
        raise ValueError(
            f"{path.name} has version {document.get('version')!r} of the format, "
            f"this fitonce reads {VERSION}"
        )
    return document


def _fields(document: dict[str, Any]) -> dict[str, Any]:
    words: Any = {name: to_word(document[name]) for name in _WORDS}
    numbers: Any = {name: to_number(document[name]) for name in _NUMBERS}
    folds, pointwise = to_table(document["folds"]), to_table(document["pointwise"])
    folds.index.name = "fold"
    theta = to_array(document["theta"])
    needed = {"loss", "control", "ok", "verdict", "status", "error", "rung", "away"}
    if not needed <= set(folds.columns):
        raise ValueError(f"folds lack {sorted(needed - set(folds.columns))}")
    if not {"fold", "sequence", "site", "loss", "control", "cluster"} <= set(pointwise.columns):
        raise ValueError("pointwise lacks columns")
    if theta.ndim != 2 or len(theta) != len(folds):
        raise ValueError(f"theta has shape {theta.shape} for {len(folds)} folds")
    return {
        **words,
        **numbers,
        "folds": folds,
        "pointwise": pointwise,
        "theta": theta,
        "fit": _to_portrait(document["fit"]),
        "about": dict(document["about"]),
    }


def _of_portrait(shown: Portrait) -> dict[str, Any]:
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
    }


def _to_portrait(found: dict[str, Any]) -> Portrait:
    return Portrait(
        model=to_word(found["model"]),
        data=to_word(found["data"]),
        status=Status(Outcome(found["outcome"]), to_word(found["message"])),
        parameters=to_table(found["parameters"]),
        log_likelihood=to_number(found["log_likelihood"]),
        lengths=to_array(found["lengths"]),
        values=to_array(found["values"]),
        channels=tuple(map(str, found["channels"])),
        edges=None if found["edges"] is None else to_array(found["edges"]),
        seconds=to_number(found["seconds"]),
    )


def _reason(error: Exception) -> str:
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error)
