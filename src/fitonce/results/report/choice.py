"""The section on model selection: the candidates and their losses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.wording import counted
from fitonce.results.report.markup import Markup, join, number, paragraph, table, tag

_COLUMNS = ("estimate", "se", "difference", "difference_se", "nats", "p", "control", "aic", "bic")
_ROW, _LEFT, _WIDE = 26, 150, 430


def choice_section(models: pd.DataFrame, sentence: str) -> Markup:
    """A table of models, in the order in which they were tried, and a chart of their losses."""
    header = (
        "model", "parameters", "loss", "se", "difference", "paired se", "nats", "p", "control", "AIC",
        "BIC", "worst", "fit",
    )  # fmt: skip
    rows = [
        (str(name), int(row["parameters"]), *(float(row[c]) for c in _COLUMNS), row["worst"], row["fit"])
        for name, row in models.iterrows()
    ]
    key = (
        "Dot and thin bar: loss and its standard error. Thick bar: paired standard error of the "
        "difference from the best model (dashed line). Diamond: control. Nats: the difference over all "
        "data; p: its probability by chance."
    )
    return join(
        [
            paragraph(tag("strong", sentence[:1].upper() + sentence[1:] + ".")),
            table(header, rows, "Models"),
            _picture(models),
            paragraph(key, class_="small"),
        ]
    )


def _picture(models: pd.DataFrame) -> Markup:
    low, high = _span(models)

    def across(value: float) -> float:
        return _LEFT + _WIDE * (value - low) / (high - low)

    best = across(float(models["estimate"].min()))
    tall = _ROW * len(models)
    drawn = [tag("line", x1=f"{best:.1f}", x2=f"{best:.1f}", y1=0, y2=tall, class_="best")]
    for place, (name, row) in enumerate(models.iterrows()):
        drawn += _line(str(name), row, _ROW * (place + 0.5), across)
    drawn += [
        tag("text", number(value, 4), x=f"{across(value):.1f}", y=tall + 16, text_anchor=anchor)
        for value, anchor in ((low, "start"), (high, "end"))
    ]
    label = f"Held-out losses of {counted(len(models), 'model')}"
    shape = f"0 0 600 {tall + 22}"
    return tag("svg", *drawn, viewBox=shape, role="img", aria_label=label, class_="interval choice")


def _line(name: str, row: Any, y: float, across: Any) -> list[Markup]:
    def bar(se: float, kind: str) -> list[Markup]:
        if not math.isfinite(se):
            return []
        ends = (across(row["estimate"] - se), across(row["estimate"] + se))
        return [tag("line", x1=f"{ends[0]:.1f}", x2=f"{ends[1]:.1f}", y1=y, y2=y, class_=kind)]

    control = across(row["control"])
    diamond = tag("path", d=f"M{control:.1f} {y - 5}l5 5l-5 5l-5 -5z", class_="control")
    return [
        tag("text", name[:22], x=_LEFT - 12, y=y + 4, text_anchor="end"),
        *bar(row["se"], "thin"),
        *bar(row["difference_se"], "se"),
        tag("circle", cx=f"{across(row['estimate']):.1f}", cy=y, r=5, class_="estimate"),
        *([diamond] if math.isfinite(control) else []),
    ]


def _span(models: pd.DataFrame) -> tuple[float, float]:
    widest = models[["se", "difference_se"]].max(axis=1).fillna(0.0)
    loss = models["estimate"]
    ends = pd.concat([loss - widest, loss + widest, models["control"]])
    ends = ends[np.isfinite(ends)]
    low, high = (float(ends.min()), float(ends.max())) if len(ends) else (0.0, 1.0)
    return (low, high) if high > low else (low - 1.0, high + 1.0)
