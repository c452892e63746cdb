"""Results on a terminal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table

from fitonce.analysis.influence import Influence
from fitonce.analysis.label_audit import LabelAudit
from fitonce.results.result import CVResult
from fitonce.results.summary import moves_most

_WIDEST = 10_000
_STYLES = {"FOLDS": "bold red", "FIT": "bold red", "estimate": "bold", "control": "dim"}


def show_cv(result: CVResult, quiet: bool) -> None:
    """The result as it prints in Python, with colours; or one line."""
    if quiet:
        counts = result.folds["verdict"].value_counts()
        told = [f"{counts[v]} {v}" for v in ("good", "fair", "bad", "unchecked") if v in counts]
        told += [f"{result.n_failed} failed"] if result.n_failed else []
        told += [] if result.fit.ok else [f"fit {result.fit.status.outcome.value}"]
        line = f"{result.estimate:.6g} +- {result.se:.3g} (control {result.control:.6g}; "
        print(line + ", ".join(told) + ")")
        return
    console = Console()
    console.print()
    for line in repr(result).split("\n"):
        style = _style(line)
        console.print(line, style=style, highlight=False, markup=False, soft_wrap=True)


def _style(line: str) -> str | None:
    words = line.split()
    if words and words[0] == "trust":
        return "yellow" if " bad" in line or "not checked" in line else "green"
    return _STYLES.get(words[0]) if words else None


def show_table(table: pd.DataFrame, title: str = "") -> None:
    """A DataFrame with aligned columns."""
    shown = Table(
        title=title or None,
        title_justify="left",
        pad_edge=False,
        collapse_padding=True,
        box=box.SIMPLE_HEAD,
    )
    table = table.reset_index()
    for name in table.columns:
        numeric = table[name].dtype.kind in "biuf"
        shown.add_column(str(name), justify="right" if numeric else "left", no_wrap=True)
    for row in table.itertuples(index=False):
        shown.add_row(*(_cell(value) for value in row))
    console = Console()
    needed = Console(width=_WIDEST).measure(shown).maximum
    console.width = max(console.width, needed)  # lines may wrap, but no digit is cut off
    console.print(shown, highlight=False, soft_wrap=True)


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
    """Models with their losses, how far each is behind the best, and columns `more`."""
    best = table["estimate"].min()
    behind = ["best" if row["estimate"] == best else _behind(row) for _, row in table.iterrows()]
    shown = table[["estimate", "se"]].assign(behind=behind, control=table["control"])
    for name in more:
        short = table[name].dtype.kind == "f"
        shown[name] = [f"{value:,.1f}" for value in table[name]] if short else table[name]
    show_table(shown.rename(columns={"parameters": "D"}))
    print("behind: how much more than the best it loses, with the paired standard error")


def _behind(row: Any) -> str:
    spread = f"{row['difference_se']:.2g}" if row["difference_se"] >= 0 else "no se"
    return f"{row['difference']:.3g} ({spread})"


def show_influence(found: Influence | LabelAudit, count: int, quiet: bool) -> None:
    """The most influential points, or labels."""
    top = found.top(count)
    if quiet:
        print(" ".join(str(site) for site in top["site"]))
        return
    if isinstance(found, Influence):
        where = ["place"] if "place" in top else ["sequence", "time"]
        shown = top[["site", *where, "value", "loss", "displacement"]]
        top = shown.assign(moves_most=moves_most(top[found.names]))
    show_table(top.set_index(top.columns[0]), "largest influence on the fit")
