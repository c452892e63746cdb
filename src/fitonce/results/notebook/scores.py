"""Cards of cross-validation, of comparisons and choices, and of forecasts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fitonce.results.doubts import advice_on_better, beyond_interval, is_unchecked
from fitonce.results.fold_names import name_of_fold, named_folds
from fitonce.results.notebook.card import (
    Mark,
    Picture,
    Table,
    card,
    figure,
    more_rows,
    of_frame,
)
from fitonce.results.notebook.picture import bars, future, future_angles, interval, scale_of
from fitonce.results.printed import trust
from fitonce.results.report.along import along
from fitonce.results.report.markup import join

_LARGEST = 3  # places that are named
_MOST_MODELS = 12
_STEPS = 6  # of a forecast, in the table
_SEEN = 100  # steps before a forecast, in the picture


def of_result(cv: Any) -> str:
    """Cross-validation."""
    spread = f" ± {cv.se:.4f}" if np.isfinite(cv.se) else " (no standard error)"
    low, high = cv.interval()
    without = beyond_interval(cv)
    ends = f", 95 %: {low:.4f} to {high:.4f}{f', {without}' if without else ''}"
    ends = ends if np.isfinite(low) and np.isfinite(high) else ""
    scale = scale_of([cv.estimate, cv.control, low, high], 8, 212)
    drawn = interval(
        scale, low, cv.estimate, high, cv.control, "estimate with its 95 % interval; cross: control"
    )
    rows = [
        ["estimate", join([f"{cv.estimate:.4f}{spread}", drawn])],
        ["control", f"{cv.control:.4f}, parameters not adjusted (the cross)"],
        ["folds", cv.left_out],
        ["trust", "; ".join(trust(cv))],
    ]
    return card(
        "Cross-validation",
        _verdict_of(cv),
        "; ".join([*cv.doubts, f"held-out loss {cv.estimate:.4f}{spread}{ends}"]),
        table=Table(["", ""], rows),
        picture=_losses(cv),
        notes=[*_warnings(cv), cv.about_optima],
        printed=repr(cv),
    )


def _verdict_of(cv: Any) -> Mark:
    """The worst of the fit and the folds."""
    if cv.doubts:
        return Mark("bad", "caution")
    if is_unchecked(cv):
        return Mark("unchecked")
    return Mark("fair" if (cv.folds["verdict"] == "fair").any() else "good")


def _warnings(cv: Any) -> list[str]:
    found = [] if cv.fit.ok else [f"the fit: {cv.fit.status}"]
    if cv.better_theta is not None:
        found.append(f"for a better optimum: {advice_on_better(cv)}")
    if cv.n_failed or cv.n_unfinished or (cv.folds["verdict"] == "bad").any():
        found.append(f"folds: {cv.treatment}")
    return found


def _losses(cv: Any) -> Picture | None:
    """The loss at each place, with the places that have most of it."""
    fitted = cv.summary
    found = along(cv, fitted)
    if len(found.loss) < 2 or not np.isfinite(found.loss).any():
        return None
    kind = "step" if found.kind == "site" and fitted.edges is None else found.kind
    named = named_folds(cv)
    drawn, size = bars(found.loss, f"held-out loss by {kind}")
    several = f"; a bar is the largest of {size:,} neighbours" if size > 1 else ""
    return Picture(drawn, f"Held-out loss by {kind}{several}. {_largest(found, fitted, named)}")


def _largest(found: Any, fitted: Any, named: dict[int, str]) -> str:
    """The places with the largest losses, by name."""
    losses = np.where(np.isfinite(found.loss), found.loss, -np.inf)
    order = np.argsort(-losses, kind="stable")[:_LARGEST]
    largest = [
        f"{_place(found, fitted, named, int(k))} ({figure(losses[k])})"
        for k in order
        if losses[k] > -np.inf
    ]
    return f"Largest: {', '.join(largest)}."


def _place(found: Any, fitted: Any, named: dict[int, str], number: int) -> str:
    """A site, step, sequence or fold by its name, or its number where it has none."""
    if found.kind == "fold":
        return name_of_fold(named, number)
    return fitted.names.sequences[number] if found.kind == "sequence" else fitted.name_of(number)


def of_comparison(comparison: Any) -> str:
    """Models on the same folds."""
    frame = comparison.table
    columns = ["difference", "difference_se", "p_worse", "nats", "weight", "worst", "note"]
    table = _ranked(frame, [name for name in columns if name != "note" or frame["note"].any()])
    return card(
        "Comparison",
        _verdict_of_models(frame, comparison.doubts),
        comparison.sentence,
        table=table,
        notes=[
            _on(comparison.left_out),
            more_rows(_MOST_MODELS, len(frame), "comparison.table"),
            *comparison.cautions,
        ],
        printed=repr(comparison),
    )


def of_selection(selection: Any) -> str:
    """The choice of a model."""
    frame = selection.table
    chosen = {selection.best: "best", selection.simplest: "chosen"}
    if selection.undecided:
        chosen = {selection.best: "best so far"}
    elif selection.best == selection.simplest:
        chosen = {selection.best: "best, chosen"}
    frame = frame.assign(choice=[chosen.get(str(name), "") for name in frame.index])
    at_zero = ["at_zero"] if frame["at_zero"].any() else []
    table = _ranked(
        frame, ["choice", "parameters", *at_zero, "difference", "difference_se", "nats", "worst"]
    )
    return card(
        "Choice of a model",
        _verdict_of_models(selection.table, selection.doubts),
        selection.sentence,
        table=table,
        notes=[
            _on(selection.comparison.left_out),
            more_rows(_MOST_MODELS, len(frame), "selection.table"),
            *selection.skipped_words,
        ],
        printed=repr(selection),
    )


def _on(left_out: str) -> str:
    return f"On {left_out}. Dot and line: estimate and one standard error; cross: control, not adjusted."


def _verdict_of_models(frame: pd.DataFrame, doubts: list[str]) -> Mark:
    worst = set(frame["worst"])
    if "bad" in worst or (frame["failed"] > 0).any() or doubts:
        return Mark("fair", "with doubts")
    level = next((level for level in ("unchecked", "fair") if level in worst), "good")
    return Mark(level, f"folds {level}")


def _ranked(frame: pd.DataFrame, columns: list[str]) -> Table:
    """A row for each model, with a picture of its estimate on a scale that all share."""
    shown = frame.head(_MOST_MODELS)
    low, high = shown["estimate"] - shown["se"], shown["estimate"] + shown["se"]
    scale = scale_of([*shown["estimate"], *shown["control"], *low, *high], 8, 152)
    drawn = [
        interval(scale, a, centre, b, control, f"{name}: {figure(centre)}")
        for name, a, centre, b, control in zip(
            shown.index, low, shown["estimate"], high, shown["control"], strict=True
        )
    ]
    table = of_frame(shown, ["estimate", "se", *columns], "model")
    rows = [[row[0], picture, *row[1:]] for row, picture in zip(table.rows, drawn, strict=True)]
    return Table([table.header[0], "held-out loss", *table.header[1:]], rows)


def of_forecast(forecast: Any) -> str:
    """The steps after a sequence."""
    frame = forecast.to_dataframe()
    names = ["step", *(["channel"] if len(forecast.channels) > 1 else []), "mean", "lower", "upper"]
    table = of_frame(frame.head(_STEPS), names, _dates(forecast))
    low, high = (end[:, 0] for end in forecast.interval())
    seen, mean = forecast.observed[-_SEEN:, 0], forecast.mean[:, 0]
    drawing = future_angles if forecast.circular[0] else future
    drawn = drawing(seen, mean, low, high, "forecast")
    level = f"{100 * forecast.level:g} %"
    what = f" of {forecast.channels[0]}" if len(forecast.channels) > 1 else ""
    return card(
        "Forecast",
        None,
        f"{forecast.what}, {forecast.how}, parameters taken as known",
        table=table,
        picture=Picture(
            drawn,
            f"The last steps{what}, the mean of those ahead, and their {level} interval.",
        ),
        notes=[
            *forecast.about_arcs,
            more_rows(min(_STEPS, len(frame)), len(frame), "forecast.to_dataframe()"),
        ],
    )


def _dates(forecast: Any) -> str:
    """The heading of the index of the steps; empty without one."""
    return "" if forecast.index is None else str(forecast.index.name or "time")
