"""The section on model selection: the candidates and their losses."""

from __future__ import annotations

import math
import re

import pandas as pd

from fitonce.core.status import Outcome
from fitonce.core.wording import counted
from fitonce.results.report.markup import Markup, join, number, paragraph, table, tag
from fitonce.results.report.ranges import Row, ranges

_COLUMNS = {
    "parameters": "parameters", "at_zero": "at zero", "estimate": "loss", "se": "se",
    "difference": "difference (se)",
    "nats": "nats", "p": "p", "weight": "weight", "control": "control", "aic": "AIC", "bic": "BIC",
    "worst": "worst verdict", "found": "found", "fit": "fit", "note": "note",
}  # fmt: skip
_DIGITS = {"se": 2, "nats": 3, "p": 2, "weight": 2}
_KEY = (
    "Dot and thin bar: loss and its standard error. Thick bar, and in brackets: paired standard error "
    "of the difference from the best model (dashed line). Diamond: control. Nats: the difference over "
    "all data; p: its probability by chance"
)


def choice_section(models: pd.DataFrame, sentence: str) -> Markup:
    """A table of models, in the order given, and a chart of their losses."""
    shown = [name for name in _COLUMNS if name in models and not _empty(models[name])]
    if "at_zero" in shown and not models["at_zero"].any():
        shown.remove("at_zero")
    if "fit" in shown and (models["fit"] == Outcome.STATIONARY.value).all():
        shown.remove("fit")
    columns = [_cells(models, name) for name in shown]
    rows = list(zip(map(str, models.index), *columns, strict=True))
    more = (
        "; weight: in the mixture of the models that would have predicted best"
        if "weight" in shown
        else ""
    )
    if "found" in shown:
        more += "; found: how many starts of the fit ended in its optimum"
    picture = _picture(models)
    more += "; arrow: beyond the right end" if 'class="beyond"' in picture else ""
    return join(
        [
            paragraph(tag("strong", sentence[:1].upper() + sentence[1:] + ".")),
            picture,
            table(("model", *(_COLUMNS[name] for name in shown)), rows, "Models"),
            paragraph(f"{_KEY}{more}.", class_="small"),
        ]
    )


def title_of(models: pd.DataFrame, fitted: str) -> str:
    """Of the page of a choice; `fitted`: the chosen model."""
    of_states = all(re.fullmatch(r"\d+ states?", str(name)) for name in models.index)
    if of_states and len(models) > 1:
        return f"How many states? Chosen: {fitted}"
    return f"Choice among {counted(len(models), 'model')}: {fitted}"


def _cells(models: pd.DataFrame, name: str) -> list[str]:
    """A column in words; the best has no difference."""
    column = models[name]
    if name == "difference":
        se = models["difference_se"] if "difference_se" in models else column * math.nan
        return [_difference(*pair) for pair in zip(column.astype(float), se.astype(float), strict=True)]
    if column.dtype.kind == "f":
        digits = _DIGITS.get(name, 4)
        return ["" if math.isnan(value) else number(value, digits) for value in column]
    return [f"{value:,}" if column.dtype.kind in "iu" else str(value) for value in column]


def _difference(value: float, se: float) -> str:
    if not abs(value) > 0:  # nan too
        return "best" if value == 0 else ""
    return (
        f"{number(value, 3)} ({number(se, 2)})" if math.isfinite(se) else f"{number(value, 3)} (no se)"
    )


def _empty(column: pd.Series) -> bool:
    return bool(column.isna().all() or (column.astype(str) == "").all())


def _picture(models: pd.DataFrame) -> Markup:
    columns = (models[name].astype(float) for name in ("estimate", "se", "difference_se", "control"))
    rows = [Row(str(name), *row) for name, *row in zip(models.index, *columns, strict=True)]
    label = f"Held-out losses of {counted(len(models), 'model')}"
    return ranges(rows, label, float(models["estimate"].min()))
