"""Printing results to a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table

from fitonce.analysis.influence import HOW, LOSS, Influence
from fitonce.analysis.label_audit import LabelAudit
from fitonce.cli.labels import Suspicion, largest
from fitonce.results.doubts import about_missed_optima
from fitonce.results.result import CVResult

_WIDEST, _BOX = 10_000, box.SIMPLE_HEAD
_STYLES = {"FOLDS": "bold red", "FIT": "bold red", "estimate": "bold", "control": "dim"}


def show_cv(result: CVResult, quiet: bool) -> None:
    """Print the result as in Python, with colours; `quiet`: in one line."""
    if quiet:
        counts = result.folds["verdict"].value_counts()
        parts = [f"{counts[v]} {v}" for v in ("good", "fair", "bad", "unchecked") if v in counts]
        parts += [f"{result.n_failed} failed"] if result.n_failed else []
        parts += [] if result.fit.ok else [f"fit {result.fit.status.outcome.value}"]
        parts += about_missed_optima(result)
        estimate = f"{result.estimate:.6g} +- {result.se:.3g}"
        print(f"{estimate} (control {result.control:.6g}; {', '.join(parts)})")
        return
    console = Console()
    console.print()
    for line in repr(result).split("\n"):
        console.print(line, style=_style(line), highlight=False, markup=False, soft_wrap=True)


def _style(line: str) -> str | None:
    words = line.split()
    if words and words[0] == "trust":
        return "yellow" if "caution: " in line or "not checked" in line else "green"
    return _STYLES.get(words[0]) if words else None


def show_table(table: pd.DataFrame, title: str = "") -> None:
    """Print a DataFrame with aligned columns."""
    shown = Table(
        title=title or None, title_justify="left", pad_edge=False, collapse_padding=True, box=_BOX
    )
    table = table.reset_index()
    for name in table.columns:
        numeric = table[name].dtype.kind in "biuf"
        shown.add_column(str(name), justify="right" if numeric else "left", no_wrap=True)
    whole = [_is_whole(table[name]) for name in table.columns]
    for row in table.itertuples(index=False):
        cells = zip(row, whole, strict=True)
        shown.add_row(
            *(f"{value:,.0f}" if plain and value == value else _cell(value) for value, plain in cells)
        )
    console = Console()
    needed = Console(width=_WIDEST).measure(shown).maximum
    console.width = max(console.width, needed)  # lines may wrap, but no digits are cut off
    console.print(shown, highlight=False, soft_wrap=True)


def _is_whole(column: pd.Series) -> bool:
    """Whether numbers are all whole, such as counts: they are shown without decimals."""
    if column.dtype.kind != "f":
        return False
    known = column.dropna().to_numpy()
    return known.size > 0 and bool(np.isfinite(known).all() and (known == np.round(known)).all())


def _cell(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        number = float(value)
        if not np.isfinite(number):
            return ""
        if number and abs(number) < 1e-3:
            return f"{number:.1e}"
        return f"{number:,.4f}" if abs(number) < 1000 else f"{number:,.1f}"
    return str(value).replace("[", "\\[")


def show_models(table: pd.DataFrame, more: list[str]) -> None:
    """Print models with their losses, differences from the best, and the columns `more`."""
    best = table["estimate"].min()
    differences = []
    for loss, difference, se in table[["estimate", "difference", "difference_se"]].to_numpy():
        spread = f"{se:.2g}" if se >= 0 else "no se"
        differences.append("best" if loss == best else f"{difference:.3g} ({spread})")
    shown = table[["estimate", "se"]].assign(difference=differences, control=table["control"])
    for name in more:
        decimals = {"p": ".2g", "p_worse": ".2f", "weight": ".2f"}.get(name, ",.1f")
        numeric = table[name].dtype.kind == "f"
        shown[name] = [_number(value, decimals) for value in table[name]] if numeric else table[name]
    show_table(shown.rename(columns={"parameters": "D", "at_zero": "at zero"}))
    over_all = "; nats: over all data" if "nats" in more else ""
    over_all += "; found: by so many starts of the fit" if "found" in more else ""
    over_all += "; D: free parameters" if "parameters" in more else ""
    over_all += "; at zero: so many of these" if "at_zero" in more else ""
    print(f"difference: from the best (paired standard error){over_all}")


def _number(value: float, decimals: str) -> str:
    if value != value:
        return ""
    text = format(value, decimals)
    return text.removeprefix("-") if not float(text.replace(",", "")) else text  # no "-0.0"


def show_written(paths: Iterable[Any], quiet: bool = False) -> None:
    """Print the files that were written."""
    for path in () if quiet else paths:
        print(f"wrote {path}")


def show_influence(found: Influence | LabelAudit, count: int, quiet: bool, asked: Suspicion) -> None:
    """Print the most influential points or labels."""
    top = largest(found, count, asked)
    if quiet:
        print(" ".join(str(site) for site in top["site"]))
        return
    if isinstance(found, LabelAudit):
        print(found.report(count, **asked.only))
        return
    shown = found.shown(count, ["sequence", "time"])
    shown.insert(0, "site", top["site"])
    show_table(shown.set_index("site"), "largest influence on the fit")
    print("\n".join([LOSS, HOW, *found.cautions]))
