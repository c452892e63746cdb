"""Losses by position: the mean loss at each scored place, and the sites that each fold left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fitonce.data.places import Names
from fitonce.results.report.points import floats, integers
from fitonce.results.summary import FitSummary, Result

_MOST_RUNS = 100_000  # stretches left out by folds; more make the file too large
_LISTED = 3  # places of a fold that are named


@dataclass(frozen=True, eq=False)
class Along:
    """Mean losses over the folds that score a place.

    Attributes:
        kind: what a place is: a "site", a "sequence" or, for a joint loss, a "fold".
        loss, control: (places,) means; nan where no fold gives a number.
        times: (places,) number of folds that score it.
        lengths: (N,) number of sites of each sequence; one entry for other places.
        values: (places,) the data; nan where missing or not numeric.
        channel, shown: the name of `values`, and their description.
        skipped: number of losses in no mean: not finite, or of a fold without a usable number.
        runs: the sites left out by each fold; None where places are not sites.
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
    """Stretches of sites: `folds[k]` leaves out `start[i]` to `stop[i]` (exclusive) for i from
    `offsets[k]` to `offsets[k + 1]` (exclusive)."""

    folds: np.ndarray
    offsets: np.ndarray
    start: np.ndarray
    stop: np.ndarray


def along(result: Result, fitted: FitSummary) -> Along:
    """Average the pointwise losses by place."""
    rows = result.pointwise
    fold, site = rows["fold"].to_numpy(), rows["site"].to_numpy()
    sequence = rows["sequence"].to_numpy()
    if len(rows) and (site >= 0).all():
        kind, place, lengths = "site", site, fitted.lengths
    elif len(rows) and (sequence >= 0).all():
        kind, place, lengths = "sequence", sequence, np.array([len(fitted.lengths)])
    else:
        kind, place, lengths = "fold", fold, np.array([len(result.folds)])
    count, channels = int(lengths.sum()), fitted.channels
    several = len(channels) > 1  # only the first is drawn
    loss, control = rows["loss"].to_numpy(), rows["control"].to_numpy()
    used = result.folds["ok"].to_numpy(bool)[fold] & np.isfinite(loss)
    return Along(
        kind=kind,
        loss=_means(place, loss, used, count),
        control=_means(place, control, used & np.isfinite(control), count),
        times=np.bincount(place[used], minlength=count),
        lengths=lengths,
        values=fitted.values if kind == "site" else np.full(count, np.nan),  # noqa: PD011 - an array
        skipped=int((~used).sum()),
        runs=_runs(fold, site, lengths) if kind == "site" else None,
        channel=channels[0] if several else "data",
        shown=f"data: {channels[0]}, the first of {len(channels)} channels" if several else "data",
    )


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
    rank = np.cumsum(scored)  # sites that are never scored, such as missing ones, do not split a block
    cut = (np.diff(fold) != 0) | (np.diff(rank[site]) > 1) | (np.diff(sequence[site]) != 0)
    first = np.concatenate([[0], np.flatnonzero(cut) + 1])
    last = np.concatenate([first[1:], [len(site)]]) - 1
    return _within_budget(fold[first], site[first], site[last] + 1)


def _within_budget(owner: np.ndarray, start: np.ndarray, stop: np.ndarray) -> Runs:
    """All folds, or an evenly spaced selection that keeps the file small."""
    folds = np.unique(owner)
    room = max(1, int(_MOST_RUNS * len(folds) / max(len(owner), 1)))
    if room < len(folds):
        folds = folds[np.linspace(0, len(folds) - 1, room).round().astype(int)]
        kept = np.isin(owner, folds)
        owner, start, stop = owner[kept], start[kept], stop[kept]
    offsets = np.concatenate([np.searchsorted(owner, folds), [len(owner)]])
    return Runs(folds, offsets, start, stop)


def packed(found: Along, result: Result) -> dict[str, Any]:
    """The data of the chart."""
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
        folds = result.folds.iloc[found.runs.folds]
        names, codes = np.unique(folds["verdict"].to_numpy(str), return_inverse=True)
        content["runs"] = {
            **{name: integers(values) for name, values in vars(found.runs).items()},
            "loss": floats(folds["loss"]),
            "ok": integers(folds["ok"]),
            "verdict": integers(codes),
            "verdicts": [str(name) for name in names],
        }
    return content


def sequence_names(fitted: FitSummary) -> tuple[str, ...]:
    """The names of the sequences."""
    if fitted.places is not None:
        return fitted.places.sequences
    return tuple(f"sequence {number}" for number in range(len(fitted.lengths)))


def spans(result: Result, fitted: FitSummary) -> pd.Series:
    """The places that each fold scored, in words: the first and the last in time, or else a few sites or
    sequences; empty for a joint loss, which has no places."""
    rows, names = result.pointwise, fitted.places
    if names is None:
        numbers = range(0 if fitted.edges is None else fitted.lengths.sum())
        names = Names(sequence_names(fitted), tuple(f"site {number}" for number in numbers) or None)
    if fitted.edges is None and (rows["site"] >= 0).all():
        return _stretches(rows, names)
    within = rows.groupby("fold")
    shown = within.head(_LISTED)
    words = pd.Series(_words(names, shown), index=shown["fold"].to_numpy())
    rest = (within.size() - _LISTED).map(lambda count: f" and {count} more" if count > 0 else "")
    return words.groupby(level=0).agg(", ".join) + rest


def _stretches(rows: pd.DataFrame, names: Names) -> pd.Series:
    """The first to the last place, with the number of points where fewer than half are scored."""
    sites = rows.groupby("fold")["site"]
    first, last = (_words(names, rows.loc[which]) for which in (sites.idxmin(), sites.idxmax()))
    count, wide = sites.size(), sites.max() - sites.min() + 1
    scattered = count < 0.5 * wide  # not all: missing sites are not scored
    spans = [
        one if one == two else f"{n:,} points from {one} to {two}" if apart else f"{one} to {two}"
        for one, two, n, apart in zip(first, last, count, scattered, strict=True)
    ]
    return pd.Series(spans, index=count.index)


def _words(names: Names, rows: pd.DataFrame) -> list[str]:
    return names.places(*(rows[name].to_numpy() for name in ("sequence", "time", "site")))
