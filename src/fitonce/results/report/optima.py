"""The section on other optima of the folds, with a picture of two of them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fitonce.core.wording import counted
from fitonce.results.fold_names import name_of_fold
from fitonce.results.report.markup import Markup, join, number, paragraph, tag
from fitonce.results.summary import Result

_WIDE, _TALL, _EDGE = 600, 200, 30
_WHAT = (
    "A model with hidden states has several optima: parameters from which every small step is a step "
    "up. Without its data a fold may be better off in another one than that of the full fit, and a "
    "refit from scratch would find it. The search starts every fold from random parameters, too, and "
    "moves it where that lowers its objective."
)


def optima_section(result: Result, valley: pd.DataFrame | None, named: dict[int, str]) -> Markup:
    """What the search found, and the objective of one fold between two optima; `named`: names of
    folds."""
    moved = int((result.folds["optimum"] != 0).sum())
    said = f"{moved:,} of {counted(len(result.folds), 'fold')} moved."
    shown = [paragraph(_WHAT), paragraph(said)]
    return join(shown if valley is None else [*shown, _picture(valley, result, named)])


def _picture(valley: pd.DataFrame, result: Result, named: dict[int, str]) -> Markup:
    fold = int(valley["fold"].iloc[0])
    name = name_of_fold(named, fold)
    position, above = (valley[name].to_numpy() for name in ("position", "objective"))
    here = np.interp([0.0, 1.0], position, above)
    top = float(max(np.nanmax(np.where(np.abs(position - 0.5) <= 0.5, above, np.nan)), *here)) * 1.25
    low, wide = float(position[0]), float(np.ptp(position))

    def place(x: float, y: float) -> tuple[str, str]:
        across = _EDGE + (_WIDE - 2 * _EDGE) * (x - low) / wide
        up = _TALL - 40 - (_TALL - 60) * min(y, top) / max(top, 1e-300)
        return f"{across:.1f}", f"{up:.1f}"

    finite = [(x, y) for x, y in zip(position, above, strict=True) if np.isfinite(y) and y <= top]
    line = " ".join(",".join(place(x, y)) for x, y in finite)
    drawn = [tag("polyline", points=line, class_="se", fill="none")]
    words = ("continues the full fit", "found by the search")
    for x, y, kind, text in zip((0.0, 1.0), here, ("control", "estimate"), words, strict=True):
        across, up = place(x, y)
        drawn.append(tag("circle", cx=across, cy=up, r=6, class_=kind))
        height = f", {number(y, 3)} nats" if y > 0 else ""
        drawn.append(tag("text", text + height, x=across, y=_TALL - 10, text_anchor="middle"))
    label = f"The objective of {name} between two of its optima, {number(here[0], 3)} nats apart"
    picture = tag(
        "svg", *drawn, viewBox=f"0 0 {_WIDE} {_TALL}", role="img", aria_label=label, class_="interval"
    )
    row = result.folds.loc[fold]
    key = (
        f"The objective of {name} along the line between two of its optima, in nats above the "
        f"lower one. The loss of what it leaves out is {number(row['loss'], 4)} in the lower one, and "
        f"{number(row['loss'] - row['shift'], 4)} in the other."
    )
    return join([picture, paragraph(key, class_="small")])
