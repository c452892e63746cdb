"""The section on model selection: the candidates and their losses."""

from __future__ import annotations

import pandas as pd

from fitonce.core.wording import counted
from fitonce.results.report.markup import Markup, join, paragraph, table, tag
from fitonce.results.report.ranges import Row, ranges

_COLUMNS = {
    "parameters": "parameters", "estimate": "loss", "se": "se", "difference": "difference",
    "difference_se": "paired se", "nats": "nats", "p": "p", "weight": "weight", "control": "control",
    "aic": "AIC", "bic": "BIC", "worst": "worst verdict", "fit": "fit", "note": "note",
}  # fmt: skip
_KEY = (
    "Dot and thin bar: loss and its standard error. Thick bar: paired standard error of the difference "
    "from the best model (dashed line). Diamond: control. Nats: the difference over all data; p: its "
    "probability by chance"
)


def choice_section(models: pd.DataFrame, sentence: str) -> Markup:
    """A table of models, in the order given, and a chart of their losses."""
    shown = [name for name in _COLUMNS if name in models and not _empty(models[name])]
    known = models[shown].astype(object).where(models[shown].notna(), "")  # the best has no difference
    rows = [(str(name), *row) for name, row in zip(models.index, known.to_numpy(), strict=True)]
    weight = (
        "; weight: in the mixture of the models that would have predicted best"
        if "weight" in shown
        else ""
    )
    return join(
        [
            paragraph(tag("strong", sentence[:1].upper() + sentence[1:] + ".")),
            _picture(models),
            table(("model", *(_COLUMNS[name] for name in shown)), rows, "Models"),
            paragraph(f"{_KEY}{weight}.", class_="small"),
        ]
    )


def _empty(column: pd.Series) -> bool:
    return bool(column.isna().all() or (column.astype(str) == "").all())


def _picture(models: pd.DataFrame) -> Markup:
    columns = (models[name].astype(float) for name in ("estimate", "se", "difference_se", "control"))
    rows = [Row(str(name), *row) for name, *row in zip(models.index, *columns, strict=True)]
    label = f"Held-out losses of {counted(len(models), 'model')}"
    return ranges(rows, label, float(models["estimate"].min()))
