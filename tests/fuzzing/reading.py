"""Recipes as arguments of the library, and what these arguments say, read by code of the tests alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

import fitonce as fo


def as_given(data: Any, form: str) -> tuple[Any, Any]:
    """Sequences in one of the forms that the library takes, and lengths; as they are where they do not
    have such a form."""
    try:
        widths = {len(row) for part in data for row in part}
        if not data or len(widths) != 1 or 0 in map(len, data) or any(map(_is_text, data)):
            return data, None
        return _in_form(data, form)
    except (TypeError, ValueError, OverflowError):
        return data, None


def _is_text(part: Any) -> bool:
    return isinstance(part, (str, bytes, dict))


def _in_form(data: Any, form: str) -> tuple[Any, Any]:
    kind = {"float32": np.float32, "objects": object}.get(form)
    with np.errstate(over="ignore"):
        arrays = [np.array(part, kind) for part in data]
    if form == "one array" and len(arrays) == 1:
        return (arrays[0][:, 0] if arrays[0].shape[1] == 1 else arrays[0]), None
    if form == "one array" and len({len(part) for part in arrays}) == 1:
        return np.stack(arrays), None
    if form == "lists":
        return data, None
    if form in ("tables", "named tables"):
        columns = [f"\u6e29\u5ea6 {c}" for c in range(arrays[0].shape[1])]
        tables = [pd.DataFrame(part, columns=columns) for part in data]
        if form == "named tables":
            return {f"=cmd <b>{n}": table for n, table in enumerate(tables)}, None
        return (tables[0] if len(tables) == 1 else tables), None
    if form == "lengths":
        return np.concatenate(arrays), [len(part) for part in arrays]
    return arrays, None


def own_reading(given: Any, lengths: Any) -> list[np.ndarray] | None:
    """An array (T, C) for each sequence, nan where missing; None: these are no numbers."""
    if lengths is not None:
        given = np.split(given, np.cumsum(lengths)[:-1])
    try:
        parts = [_matrix(part) for part in _parts(given)]
    except (TypeError, ValueError, OverflowError):
        return None
    same = len({part.shape[1] for part in parts}) == 1
    seen = any((~np.isnan(part)).any() for part in parts)
    return parts if same and seen else None


def _parts(given: Any) -> list[Any]:
    if isinstance(given, dict):
        return [given[name] for name in given]
    if isinstance(given, pd.DataFrame):
        return [given]
    if isinstance(given, np.ndarray):
        return list(given) if given.ndim == 3 else [given]
    return [given] if given and not any(map(_is_nested, given)) else list(given)


def _is_nested(item: Any) -> bool:
    return isinstance(item, (list, tuple, np.ndarray, pd.DataFrame))


def _matrix(part: Any) -> np.ndarray:
    rows = part.to_numpy().tolist() if isinstance(part, pd.DataFrame) else part
    rows = rows.tolist() if isinstance(rows, np.ndarray) else rows
    nested = [row if isinstance(row, (list, tuple)) else [row] for row in rows]
    found = np.array([[math.nan if one is None else float(one) for one in row] for row in nested], float)
    if found.ndim != 2 or found.size == 0 or np.isinf(found).any():
        raise ValueError
    return found


def make_folds(recipe: Any, data: Any, graph: Any = None, **more: Any) -> fo.Folds:
    """Those of a recipe, of data or on a graph."""
    make, options = getattr(fo.folds, recipe["kind"]), dict(recipe["options"])
    if recipe["kind"] == "sites":
        return make(options["index_sets"], data, **more)
    if recipe["kind"] in ("regions", "spatial_kfold", "buffered"):
        return make(graph, data=data, **options)
    return make(data, **options, **more)


def check_folds(folds: fo.Folds, recipe: Any, observed: np.ndarray, lengths: np.ndarray) -> None:
    """What folds leave out and score must be what they were made for; `observed` (sites,) bools."""
    kind, options = recipe["kind"], recipe["options"]
    seen = np.flatnonzero(observed)
    for out, scored in zip(folds.dropped, folds.scored, strict=True):
        assert len(scored), "folds: nothing is scored"
        assert set(scored) <= set(out), "folds: scored sites are not left out"
        assert observed[scored].all(), "folds: a missing site is scored"
        assert (np.diff(out) > 0).all(), "folds: indices are not sorted, or twice"
    if kind in ("points", "kfold", "spatial_kfold", "structures"):
        counted = np.sort(np.concatenate(folds.scored))
        assert np.array_equal(counted, seen), "folds: not every observation is scored once"
    if kind == "points":
        assert len(folds) == len(seen), "folds: points are not single"
    if kind == "sites":
        wanted = [np.unique(np.arange(len(observed))[np.asarray(one)]) for one in options["index_sets"]]
        same = all(map(np.array_equal, folds.dropped, wanted))
        assert same, "folds: other sites than those given"
    if kind == "future" and "start" in options:
        time = np.concatenate([np.arange(n) for n in lengths])
        wanted = np.flatnonzero(time >= options["start"])
        assert np.array_equal(folds.dropped[0], wanted), "folds: not the future"
    if kind == "iid":
        share = math.floor(options["percent"] * len(seen) / 100 + 1e-9)
        assert all(len(out) == share for out in folds.dropped), "folds: not the share"
