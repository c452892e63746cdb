"""Losses along the data: one number for each place that was scored, and what each fold left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fitonce.data.places import Names
from fitonce.results.report.points import floats, integers
from fitonce.results.summary import FitSummary, Result

_MOST_RUNS = 100_000  # stretches that folds left out; more make the file large


@dataclass(frozen=True, eq=False)
class Along:
    """Mean losses over the folds that score a place.

    Attributes:
        kind: what a place is: a "site", a "sequence" or, for a joint loss, a "fold".
        loss, control: (places,) means; nan where no fold gives a number.
        times: (places,) how many folds score it.
        lengths: (N,) sites of each sequence; one entry for other places.
        values: (places,) the data; nan where missing or not a number.
        channel, shown: what `values` are called, and in words.
        skipped: losses that are in no mean: not finite, or of a fold without a usable number.
        runs: what folds left out; None where places are not sites.
    """

    kind: str
    loss: np.ndarray
    control: np.ndarray
    times: np.ndarray
    lengths: np.ndarray
    values: np.ndarray
    skipped: int
    runs: Runs | None
    channel: str
    shown: str


@dataclass(frozen=True, eq=False)
class Runs:
    """Stretches of sites: those of `folds[k]` are `start[i]` to `stop[i]`, not included, for i from
    `offsets[k]` to `offsets[k + 1]`."""

    folds: np.ndarray
    offsets: np.ndarray
    start: np.ndarray
    stop: np.ndarray


def along(result: Result, fitted: FitSummary) -> Along:
    """Gather the pointwise losses by place."""
    rows = result.pointwise
    fold, site = rows["fold"].to_numpy(), rows["site"].to_numpy()
    sequence = rows["sequence"].to_numpy()
    if len(rows) and (site >= 0).all():
        kind, place, lengths = "site", site, fitted.lengths
    elif len(rows) and (sequence >= 0).all():
        kind, place, lengths = "sequence", sequence, np.array([len(fitted.lengths)])
    else:
        kind, place, lengths = "fold", fold, np.array([len(result.folds)])
    count = int(lengths.sum())
    loss, control = rows["loss"].to_numpy(), rows["control"].to_numpy()
    used = result.folds["ok"].to_numpy(bool)[fold] & np.isfinite(loss)
    return Along(
        kind=kind,
        loss=_means(place, loss, used, count),
        control=_means(place, control, used & np.isfinite(control), count),
        times=np.bincount(place[used], minlength=count),
        lengths=lengths,
        values=fitted.values if kind == "site" else np.full(count, np.nan),
        skipped=int((~used).sum()),
        runs=_runs(fold, site, lengths) if kind == "site" else None,
        channel=fitted.channels[0] if len(fitted.channels) > 1 else "data",
        shown=_shown(fitted.channels),
    )


def _shown(channels: tuple[str, ...]) -> str:
    """Of several channels only the first is drawn."""
    if len(channels) < 2:
        return "data"
    return f"data: {channels[0]}, the first of {len(channels)} channels"


def _means(place: np.ndarray, values: np.ndarray, used: np.ndarray, count: int) -> np.ndarray:
    total = np.bincount(place[used], values[used], count)
    times = np.bincount(place[used], minlength=count)
    return np.divide(total, times, out=np.full(count, np.nan), where=times > 0)


def _runs(fold: np.ndarray, site: np.ndarray, lengths: np.ndarray) -> Runs:
    order = np.lexsort((site, fold))
    fold, site = fold[order], site[order]
    sequence = np.repeat(np.arange(len(lengths)), lengths)
    scored = np.zeros(len(sequence), bool)
    scored[site] = True
    rank = np.cumsum(scored)  # sites that nobody scores, such as missing ones, do not cut a block in two
    cut = (np.diff(fold) != 0) | (np.diff(rank[site]) > 1) | (np.diff(sequence[site]) != 0)
    first = np.concatenate([[0], np.flatnonzero(cut) + 1])
    last = np.concatenate([first[1:], [len(site)]]) - 1
    return _within_budget(fold[first], site[first], site[last] + 1)


def _within_budget(owner: np.ndarray, start: np.ndarray, stop: np.ndarray) -> Runs:
    """All folds, or as many as the file has room for, evenly spread."""
    folds = np.unique(owner)
    room = max(1, int(_MOST_RUNS * len(folds) / max(len(owner), 1)))
    if room < len(folds):
        folds = folds[np.linspace(0, len(folds) - 1, room).round().astype(int)]
        kept = np.isin(owner, folds)
        owner, start, stop = owner[kept], start[kept], stop[kept]
    offsets = np.concatenate([np.searchsorted(owner, folds), [len(owner)]])
    return Runs(folds, offsets, start, stop)


def packed(found: Along, result: Result) -> dict[str, Any]:
    """What the page draws."""
    content: dict[str, Any] = {
        "kind": found.kind,
        "loss": floats(found.loss),
        "control": floats(found.control),
        "times": integers(found.times),
        "lengths": integers(found.lengths),
    }
    if np.isfinite(found.values).any():
        content |= {"values": floats(found.values), "shown": found.shown, "channel": found.channel}
    if found.runs is not None:
        content["runs"] = _packed_runs(found.runs, result)
    return content


def _packed_runs(runs: Runs, result: Result) -> dict[str, Any]:
    folds = result.folds.iloc[runs.folds]
    names, codes = np.unique(folds["verdict"].to_numpy(str), return_inverse=True)
    return {
        "folds": integers(runs.folds),
        "offsets": integers(runs.offsets),
        "start": integers(runs.start),
        "stop": integers(runs.stop),
        "loss": floats(folds["loss"]),
        "ok": integers(folds["ok"]),
        "verdict": integers(codes),
        "verdicts": [str(name) for name in names],
    }


_LISTED = 3


def sequence_names(fitted: FitSummary) -> tuple[str, ...]:
    """What sequences are called."""
    if fitted.places is not None:
        return fitted.places.sequences
    return tuple(f"sequence {number}" for number in range(len(fitted.lengths)))


def spans(result: Result, fitted: FitSummary) -> pd.Series:
    """By fold: its first and its last place in time, or else a few of its sites or sequences; empty for
    a joint loss, which has no places."""
    rows = result.pointwise
    names = fitted.places or _numbered(fitted)
    if fitted.edges is None and (rows["site"] >= 0).all():
        return _stretches(rows, names)
    within = rows.groupby("fold")
    shown = within.head(_LISTED)
    words = pd.Series(_words(names, shown), index=shown["fold"].to_numpy())
    more = within.size() - _LISTED
    ends = more.map(lambda count: f" and {count} more" if count > 0 else "")
    return words.groupby(level=0).agg(", ".join) + ends


def _stretches(rows: pd.DataFrame, names: Names) -> pd.Series:
    """Along time: from where to where, and how many where there are others between them."""
    sites = rows.groupby("fold")["site"]
    first, last = (_words(names, rows.loc[which]) for which in (sites.idxmin(), sites.idxmax()))
    count, wide = sites.size(), sites.max() - sites.min() + 1
    scattered = count < 0.5 * wide  # half: missing sites are not scored
    said = [
        one if one == two else f"{n:,} points from {one} to {two}" if apart else f"{one} to {two}"
        for one, two, n, apart in zip(first, last, count, scattered, strict=True)
    ]
    return pd.Series(said, index=count.index)


def _words(names: Names, rows: pd.DataFrame) -> list[str]:
    return names.places(*(rows[name].to_numpy() for name in ("sequence", "time", "site")))


def _numbered(fitted: FitSummary) -> Names:
    on_graph = fitted.edges is not None
    sites = tuple(f"site {number}" for number in range(fitted.lengths.sum())) if on_graph else None
    return Names(sequence_names(fitted), sites)
