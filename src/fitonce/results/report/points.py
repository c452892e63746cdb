"""Points of the scatter plot, thinned out where there are many; arrays and JSON for the page."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fitonce.results.fold_names import named_folds
from fitonce.results.summary import Result

_DANGEROUS = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def floats(values: Any) -> dict[str, str]:
    """Single precision, which is enough for a screen; nan is kept, as the bytes are not JSON."""
    with np.errstate(over="ignore"):  # overflow to infinity is not drawn
        return {"f": _base64(np.asarray(values, "<f4"))}


def integers(values: Any) -> dict[str, Any]:
    """Integers in little space: the first, step and number of evenly spaced ones, others in 8, 16 or 32
    bits."""
    whole = np.asarray(values).astype("<i4")
    if len(whole) > 2 and (np.diff(whole, 2) == 0).all():
        return {"r": [int(whole[0]), int(whole[1] - whole[0]), len(whole)]}
    low, high = (int(whole.min()), int(whole.max())) if len(whole) else (0, 0)
    if low >= 0 and high < 2**8:
        return {"b": _base64(whole.astype("u1"))}
    return {"h": _base64(whole.astype("<u2"))} if low >= 0 and high < 2**16 else {"i": _base64(whole)}


def _base64(values: np.ndarray) -> str:
    return base64.b64encode(values.tobytes()).decode("ascii")


def script_json(content: Any) -> str:
    """JSON for a script element. Numbers that are not finite become null."""
    written = json.dumps(_finite(content), separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for character, escaped in _DANGEROUS.items():
        written = written.replace(character, escaped)
    return written


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {str(key): _finite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_finite(value) for value in content]
    if isinstance(content, (float, np.floating)):
        return float(content) if math.isfinite(content) else None
    if isinstance(content, np.integer):
        return int(content)
    return content


def loss_unit(result: Result) -> str:
    """Of the loss, for axes."""
    return "nats" if result.loss in ("pointwise", "joint") else str(result.loss)


MOST_POINTS = 4000
_EXTREMES = 250  # kept of each kind
_COLUMNS = ("fold", "sequence", "time", "site", "approximate", "exact", "control")


@dataclass(frozen=True, eq=False)
class Pairs:
    """Two losses of the same left-out points.

    Attributes:
        table: `fold`, `sequence`, `time`, `site`, `x`, `y`, and `control` where that is a third loss.
        labels: of x and y.
        exact: whether x comes from exact refits.
        unit: of the loss.
        named: whether folds are of one site each, which has a name.
    """

    table: pd.DataFrame
    labels: tuple[str, str]
    exact: bool
    unit: str = "nats"
    named: bool = False

    @property
    def noun(self) -> str:
        """What a dot stands for."""
        if len(self.table) and (self.table["sequence"].to_numpy() < 0).all():
            return "fold (all its points together)"
        whole = len(self.table) and (self.table["site"].to_numpy() < 0).all()
        return "left-out sequence" if whole else "left-out point"

    @property
    def finite(self) -> np.ndarray:
        """(points,) whether both losses are finite."""
        return np.isfinite(self.table["x"].to_numpy()) & np.isfinite(self.table["y"].to_numpy())


def pairs(result: Result, scatter: pd.DataFrame | None, labels: tuple[str, str]) -> Pairs:
    """The approximation against exact refits or, without them, against the control."""
    named = len(named_folds(result)) == len(result.folds)
    if scatter is None:
        renamed = result.pointwise.rename(columns={"loss": "y", "control": "x"})
        return Pairs(renamed, ("control", result.method), False, loss_unit(result), named)
    lacking = [name for name in _COLUMNS if name not in scatter]
    if lacking:
        raise ValueError(f"scatter must have the columns {', '.join(_COLUMNS)}; lacking: {lacking[0]}")
    renamed = scatter.rename(columns={"approximate": "y", "exact": "x"})
    return Pairs(renamed, (labels[1], labels[0]), True, loss_unit(result), named)


def packed(shown: Pairs) -> dict[str, Any]:
    """The data of the chart."""
    table = shown.table.iloc[_chosen(shown)]
    content: dict[str, Any] = {
        name: integers(table[name]) for name in ("fold", "sequence", "time", "site")
    }
    content |= {name: floats(table[name]) for name in ("x", "y")}
    if shown.exact:
        content["control"] = floats(table["control"])
    return content | {
        "named": shown.named,
        "xlabel": shown.labels[0],
        "ylabel": shown.labels[1],
        "unit": shown.unit,
    }


def _chosen(shown: Pairs) -> np.ndarray:
    """Sorted rows: all finite ones, or the extremes of the losses and differences and a sample."""
    rows = np.flatnonzero(shown.finite)
    if len(rows) <= MOST_POINTS:
        return rows
    x, y = shown.table["x"].to_numpy()[rows], shown.table["y"].to_numpy()[rows]
    ends = [_largest(by) for by in (x, -x, y, -y, np.abs(y - x))]
    if shown.exact:
        with np.errstate(invalid="ignore"):
            apart = np.abs(shown.table["control"].to_numpy()[rows] - x)
        ends.append(_largest(np.nan_to_num(apart, posinf=0.0)))
    kept = np.unique(np.concatenate(ends))
    others = np.setdiff1d(np.arange(len(rows)), kept, assume_unique=True)
    drawn = np.random.default_rng(0).choice(others, MOST_POINTS - len(kept), replace=False)
    return rows[np.sort(np.concatenate([kept, drawn]))]


def _largest(by: np.ndarray) -> np.ndarray:
    return np.argpartition(-by, _EXTREMES)[:_EXTREMES]


def summary(shown: Pairs) -> list[tuple[str, float, float]]:
    """Rows of name, mean absolute difference from x, and largest absolute difference."""
    named = [(shown.labels[1], "y"), *([("control", "control")] if shown.exact else [])]
    return [(name, *_differences(shown, column)) for name, column in named]


def _differences(shown: Pairs, column: str) -> tuple[float, float]:
    with np.errstate(invalid="ignore"):
        apart = np.abs(shown.table[column].to_numpy() - shown.table["x"].to_numpy())
    apart = apart[np.isfinite(apart)]
    return (float(apart.mean()), float(apart.max())) if apart.size else (np.nan, np.nan)
