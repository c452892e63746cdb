"""Cards of fits, and of what is derived from one: optima, influence, audits, bootstrap, plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.wording import counted, duration, memory
from fitonce.results.notebook.card import Mark, Picture, Table, card, figure, more_rows, of_frame
from fitonce.results.notebook.labels import by_kind
from fitonce.results.notebook.picture import NAMED, bars, histogram, interval, moves, network, scale_of
from fitonce.results.report.layout import positions
from fitonce.results.report.markup import Markup
from fitonce.results.summary import parameters_in_words

_MOST_COLUMNS, _MOST_ROWS, _MOST_STATES = 9, 12, 20
_MOST_SITES = 500  # of a graph that is drawn; a layout of more takes seconds
_LARGEST = 5


def of_fit(
    fit: Any,
    states: pd.DataFrame | None = None,
    transition: np.ndarray | None = None,
    classes: np.ndarray | None = None,
) -> str:
    """A fit.

    Args:
        fit: a `Fit`.
        states: the table of its hidden states, if it has some.
        transition: (K, K) by which they follow each other in time.
        classes: (sites,) the most probable class of each site of a graph.
    """
    fine = fit.status.ok
    level = "bad" if not fine else "fair" if fit.optima.disagree else "good"
    table, more = _states(states) if states is not None else _parameters(fit.summary.parameters)
    return card(
        f"Fit of {fit.model}",
        Mark(level, fit.status.outcome.value),
        f"{parameters_in_words(fit)}, objective {fit.value:,.4f}, "
        f"log-likelihood {fit.log_likelihood:,.4f}",
        table=table,
        picture=_drawn_fit(fit, transition, classes),
        notes=[
            fit.status.message,
            fit.optima.sentence if fit.optima.starts > 1 else "",
            fit.summary.about_few,
            more,
            "values with standard errors: fit.to_dataframe()" if states is not None else "",
        ],
        printed=repr(fit),
    )


def _drawn_fit(fit: Any, transition: Any, classes: np.ndarray | None) -> Picture | None:
    """Transitions of states, or where the classes are."""
    if transition is not None and len(transition) <= _MOST_STATES:
        names = [str(k) for k in range(len(transition))]
        drawn = moves(transition, names, "transition probabilities")
        return Picture(drawn, "Transition probabilities, from row to column.")
    if classes is not None and len(classes) <= _MOST_SITES:
        places = positions(len(classes), fit.edges)
        drawn = network(places, fit.edges, classes, "the most probable class of each site")
        keys = ", ".join(f"{k} {name}" for k, name in zip(range(classes.max() + 1), NAMED, strict=False))
        return Picture(
            drawn, f"The most probable class of each site: {keys}. A layout of neighbours, not a map."
        )
    return None


def _states(states: pd.DataFrame) -> tuple[Table, str]:
    """The first columns of the table of states."""
    columns = list(states.columns[:_MOST_COLUMNS])
    shown = states.head(_MOST_STATES)
    table = of_frame(shown, columns, str(states.index.name or "state"))
    rest = len(states.columns) - len(columns)
    hidden = [counted(rest, "more column")] if rest else []
    hidden += [counted(len(states) - len(shown), "more state")] if len(shown) < len(states) else []
    return table, f"{' and '.join(hidden)}: fit.states()" if hidden else ""


def _parameters(frame: pd.DataFrame) -> tuple[Table, str]:
    """The parameters; where there are many, those largest in their standard errors."""
    shown = frame
    if len(frame) > _MOST_ROWS:
        ratio = (
            (frame["value"] / frame["se"]).abs() if frame["se"].notna().any() else frame["value"].abs()
        )
        shown = frame.loc[ratio.sort_values(ascending=False, kind="stable").index[:_MOST_ROWS]]
    ends = [shown["value"] - shown["se"], shown["value"] + shown["se"]]
    scale = scale_of([0.0, *shown["value"], *ends[0], *ends[1]], 8, 152)
    pictures = [
        interval(scale, low, value, high, label=f"{name}: {figure(value)}")
        for name, low, value, high in zip(shown["name"], ends[0], shown["value"], ends[1], strict=True)
    ]
    rows = [
        [str(name), value, se, drawn]
        for name, value, se, drawn in zip(
            shown["name"], shown["value"], shown["se"], pictures, strict=True
        )
    ]
    many = "the largest, in standard errors, " if len(shown) < len(frame) else ""
    note = more_rows(len(shown), len(frame), "fit.to_dataframe()")
    return Table(["parameter", "value", "se", "value and se"], rows), f"{many}{note}"


def of_optima(optima: Any) -> str:
    """The optima that starts reached."""
    frame = optima.to_dataframe().head(_MOST_ROWS)
    level = "unchecked" if optima.starts < 2 else "fair" if optima.disagree else "good"
    words = {"unchecked": "not looked for", "fair": "several", "good": "one"}
    return card(
        "Optima",
        Mark(level, words[level]),
        optima.sentence,
        table=of_frame(frame, list(frame.columns), "optimum"),
        notes=[more_rows(len(frame), len(optima), "optima.to_dataframe()")],
    )


def of_influence(found: Any) -> str:
    """Which points move a fit."""
    top = found.top(_LARGEST)
    several = found.table["sequence"].iloc[-1] > 0
    site = found.fit.objective.traits.site
    where = ["place"] if "place" in top else [*(["sequence"] if several else []), site]
    shown = found.shown(_LARGEST, where).rename(columns={"moves_most": "moves most"})
    table = of_frame(shown, list(shown.columns))
    first = ", ".join(str(top[name].iloc[0]) for name in where)
    named = first if where == ["place"] else f"{' and '.join(where)} {first}"
    return card(
        "Influence",
        _verdict_of(found.fit, found.damping),
        f"of {counted(len(found.table), 'point')}, {named} moves the fit most",
        table=table,
        picture=_along(found.table, "displacement", site),
        notes=[*found.cautions, more_rows(len(top), len(found.table), "influence.table")],
        printed=repr(found),
    )


def of_audit(audit: Any) -> str:
    """Which labels the rest of the data disagrees with."""
    top = audit.top(_LARGEST)
    columns = ["sequence", "time", "word", "label", "rather", "chance", "loss", "displacement"]
    words = bool((top["word"].astype(str) != "").any()) if "word" in top else False
    other = int((audit.tokens["label"] != audit.tokens["rather"]).sum())
    return card(
        "Audit of labels",
        _verdict_of(audit.fit, audit.damping),
        f"for {other:,} of {counted(len(audit.tokens), 'label')} another tag is more probable, "
        "given all other labels",
        table=of_frame(top, [name for name in columns if name != "word" or words]),
        picture=_along(audit.tokens, "loss", "token"),
        notes=[
            *audit.notes,
            more_rows(len(top), len(audit.tokens), "print(audit.report()), in their sentences"),
            by_kind(audit.kinds, "audit.kinds"),
        ],
        printed=repr(audit),
    )


def _along(frame: pd.DataFrame, column: str, site: str) -> Picture | None:
    """A column by site."""
    if len(frame) < 2:
        return None
    values = np.full(int(frame["site"].max()) + 1, np.nan)
    values[frame["site"].to_numpy()] = frame[column].to_numpy()
    drawn, size = bars(values, f"{column} by {site}")
    several = f"; a bar is the largest of {size:,} neighbours" if size > 1 else ""
    return Picture(drawn, f"{column.capitalize()} by {site}{several}.")


def _verdict_of(fit: Any, damping: float) -> Mark:
    """First-order results are as good as the point that they are made at."""
    if not fit.ok:
        return Mark("bad", f"fit {fit.status.outcome.value}")
    return Mark("fair", "H damped") if damping else Mark("good", "at a certified minimum")


def _caveats(found: Any) -> list[str]:
    notes = [] if found.fit.ok else [f"the fit: {found.fit.status}"]
    if found.damping:
        notes.append(f"H damped by {found.damping:g}")
    if not found.fit.objective.traits.convex:
        notes.append("local: at the optimum of the fit; others were not looked for")
    return notes


def of_bootstrap(found: Any, level: str, trust: str) -> str:
    """Standard errors by reweighting; `level` and `trust` judge its draws."""
    frame = found.table.head(_MOST_ROWS)
    rows = [
        [str(row["name"]), row["value"], row["se"], row["low"], row["high"],
         _drawn(found.draws[:, k], row), row["control"]]
        for k, row in enumerate(frame.to_dict("records"))
    ]  # fmt: skip
    header = ["quantity", "value", "se", "low", "high", "draws", "se by H alone"]
    how = f"blocks of {found.block}" if found.block else found.kind
    failed = counted(found.n_failed, "draw") + " without a usable number, left out"
    return card(
        "Bootstrap",
        Mark("bad" if not found.fit.ok else level),
        f"{len(found.draws):,} draws, {how}, {100 * found.level:g} % intervals",
        table=Table(header, rows),
        notes=[
            "Grey: the draws; line: their interval; orange: the value at the fit.",
            trust,
            failed if found.n_failed else "",
            *_caveats(found),
            more_rows(len(frame), len(found.table), "bootstrap.table"),
        ],
        printed=repr(found),
    )


def _drawn(draws: np.ndarray, row: dict[str, Any]) -> Markup:
    return histogram(draws, row["low"], row["value"], row["high"], f"draws of {row['name']}")


def of_plan(plan: Any, allowed: Sequence[bool]) -> str:
    """Time and memory of every call; `allowed`: whether it may take that."""
    rows = [
        [row.call, duration(row.seconds), memory(row.bytes), "" if fits else "more than is allowed"]
        for row, fits in zip(plan.rows, allowed, strict=True)
    ]
    over = len(rows) - sum(allowed)
    level = Mark("fair", f"{counted(over, 'call')} too large") if over else Mark("good", "fits")
    size = "a junction tree" if plan.parameters is None else counted(plan.parameters, "parameter")
    return card(
        "Plan",
        level if rows else None,
        f"{size}, {counted(plan.sequences, 'sequence')}, {counted(plan.sites, 'site')}, "
        f"{memory(plan.limit)} allowed",
        table=Table(["call", "time", "memory", ""], rows) if rows else None,
        notes=[plan.folds],
        printed=repr(plan),
    )
