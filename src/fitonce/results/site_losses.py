"""Losses site by site: which sites a model does not predict, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fitonce.core.wording import counted
from fitonce.results.heldout_values import COLUMNS, two_sided

if TYPE_CHECKING:
    from fitonce.results.result import CVResult

_NAMED = 5  # sites in a sentence
_CHANCE = 0.05  # that any of the sites is beyond it though the model is right
_MOST = 0.5  # of the loss: how few sites carry this much


def table_of(cv: CVResult) -> pd.DataFrame:
    """See `CVResult.site_losses`."""
    used = (cv.pointwise["site"] >= 0).to_numpy() & cv.folds["ok"].to_numpy(bool)[
        cv.pointwise["fold"].to_numpy()
    ]
    rows = cv.pointwise[used]
    if rows.empty:
        raise ValueError("a joint loss belongs to folds, not to sites; use loss='pointwise'")
    found = rows.groupby("site").agg(
        sequence=("sequence", "first"), time=("time", "first"), loss=("loss", "mean"),
        control=("control", "mean"), folds=("loss", "size"),
    ).reset_index()  # fmt: skip
    shown = cv.summary
    where = [found[name].to_numpy() for name in ("sequence", "time", "site")]
    called = shown.names.places(*where)
    found.insert(0, "place", called)
    found.insert(4, "value", np.asarray(shown.values)[found["site"].to_numpy()])
    if cv.predicted is not None and len(cv.predicted.rows) == len(cv.pointwise):
        predicted = cv.predicted.rows[used].groupby(rows["site"].to_numpy()).mean()
        found = _with_predictions(found, predicted)
    whole = found["loss"].sum()
    found["share"] = found["loss"] / whole if whole > 0 else np.nan
    return found.sort_values("loss", ascending=False, kind="stable", ignore_index=True)


def _with_predictions(found: pd.DataFrame, predicted: pd.DataFrame) -> pd.DataFrame:
    """With what was expected of each site, and how far out its value lies."""
    expected, below, above = (predicted[name].loc[found["site"]].to_numpy(float) for name in COLUMNS)
    value = found["value"].to_numpy(float)
    found.insert(5, "expected", expected)
    found.insert(6, "direction", np.select([value > expected, value < expected], ["more", "less"], ""))
    found.insert(7, "p", two_sided(below, above))
    return found


def oddest(table: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The rows of sites of which something is known, the smallest p first, and how many of them have one
    that is rare among so many where the model is right."""
    if "p" not in table:
        return table.head(0), 0
    known = table[table["p"].notna()].sort_values("p", kind="stable")
    return known, int((known["p"] < chance_level(len(known))).sum())


def chance_level(sites: int) -> float:
    """The p that hardly any of so many sites is below where the model is right."""
    return _CHANCE / max(sites, 1)


def odd_sentence(table: pd.DataFrame) -> str:
    """Which sites are furthest from what was expected of them; empty where nothing is known."""
    known, beyond = oddest(table)
    if known.empty:
        return ""
    top = ", ".join(
        f"{row['place']} ({row['value']:.6g}, {row['expected']:.3g} expected, p {tiny(row['p'])})"
        for row in known.head(_NAMED).to_dict(orient="records")
    )
    return f"{top}; {beyond_chance(beyond, len(known))}"


def beyond_chance(beyond: int, sites: int) -> str:
    """ "1 of 100 sites is beyond chance (p below 0.0005)"."""
    of = f"{beyond:,} of" if beyond else "none of"
    verb, level = "is" if beyond == 1 else "are", f"p below {chance_level(sites):.2g}"
    return f"{of} {counted(sites, 'site')} {verb} beyond chance ({level})"


def tiny(p: float) -> str:
    """A probability with two digits; the smallest have none left."""
    return "< 1e-300" if p < 1e-300 else f"{p:.2g}"


def largest_of(table: pd.DataFrame) -> str:
    """Which sites have the largest losses."""
    return ", ".join(f"{row.place} ({row.loss:.3g})" for row in table.head(_NAMED).itertuples())


def sentence_of(table: pd.DataFrame) -> str:
    """Which sites have the largest losses, and how few of them carry half of all losses."""
    top = largest_of(table)
    parts = table["share"].to_numpy()
    if not (np.isfinite(parts).all() and (parts >= 0).all()):
        return top
    few = int(np.searchsorted(np.cumsum(parts), _MOST)) + 1
    carry = (
        f"{few:,} of {counted(len(parts), 'site')} {'carries' if few == 1 else 'carry'} half of the loss"
    )
    return f"{top}; {carry}"
