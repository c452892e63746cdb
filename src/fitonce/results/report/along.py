"""Losses by position: the mean loss at each scored place, and the sites that each fold left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.wording import counted
from fitonce.data.places import Names
from fitonce.results.dropped import flat, stretches
from fitonce.results.fold_names import places_of_folds
from fitonce.results.report.points import floats, integers, loss_unit
from fitonce.results.summary import FitSummary, Result

_MOST_RUNS = 100_000  # stretches left out by folds; more make the file too large
_LISTED = 3  # places of a fold that are named


@dataclass(frozen=True, eq=False)
class Along:
    """Mean losses over the folds that score a place.

    Attributes:
        kind: what a place is: a "site", a "sequence" or, for a joint loss, a "fold".
        place: (rows,) the place of each row of `pointwise`.
        loss, control: (places,) means; nan where no fold gives a number.
        times: (places,) number of folds that score it.
        lengths: (N,) number of sites of each sequence; one entry for other places.
        values: (places,) the data; nan where missing or not numeric.
        further: other channels, by name.
        channel, shown: the name of `values`, and the label of their axis.
        skipped: number of losses in no mean: not finite, or of a fold without a usable number.
        runs: the sites left out by each fold; None where places are not sites.
        scored: the part of them that is scored, where that is not all, as with a buffer.
    """

    kind: str
    place: np.ndarray
    loss: np.ndarray
    control: np.ndarray
    times: np.ndarray
    lengths: np.ndarray
    values: np.ndarray
    skipped: int
    runs: Runs | None
    channel: str
    shown: str
    scored: Runs | None = None
    further: Mapping[str, np.ndarray] = field(default_factory=dict)


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
    loss, control = rows["loss"].to_numpy(), rows["control"].to_numpy()
    used = result.folds["ok"].to_numpy(bool)[fold] & np.isfinite(loss)
    channel = channel_of(fitted)
    runs, scored = _left_out(result, fold, site, lengths) if kind == "site" else (None, None)
    return Along(
        kind=kind,
        place=place,
        loss=means(place, loss, used, count),
        control=means(place, control, used & np.isfinite(control), count),
        times=np.bincount(place[used], minlength=count),
        lengths=lengths,
        values=fitted.values if kind == "site" else np.full(count, np.nan),  # noqa: PD011 - an array
        skipped=int((~used).sum()),
        runs=runs,
        channel=channel,
        shown=f"{channel}, the first of {counted(len(channels), 'channel')}"
        if len(channels) > 1
        else channel,
        scored=scored,
        further=fitted.further_channels if kind == "site" else {},
    )


def channel_of(fitted: FitSummary) -> str:
    """The name of the data that are drawn, the first channel; "data" for an array without names."""
    first = fitted.channels[0] if fitted.channels else "data"
    return "data" if first == "x0" and len(fitted.channels) == 1 else first


def means(place: np.ndarray, values: np.ndarray, used: np.ndarray, count: int) -> np.ndarray:
    """(count,) means of the `used` values by place; nan where there are none."""
    total = np.bincount(place[used], values[used], count)
    times = np.bincount(place[used], minlength=count)
    return np.divide(total, times, out=np.full(count, np.nan), where=times > 0)


def _left_out(
    result: Result, fold: np.ndarray, site: np.ndarray, lengths: np.ndarray
) -> tuple[Runs, Runs | None]:
    """The stretches that folds leave out, and those that they score, where these are fewer."""
    order = np.lexsort((site, fold))
    fold, site = fold[order], site[order]
    sequence = np.repeat(np.arange(len(lengths)), lengths)
    if result.dropped is None:  # files of earlier versions say only what is scored
        seen = np.zeros(len(sequence), bool)
        seen[site] = True
        rank = np.cumsum(seen)  # sites that are never scored, such as missing ones, do not split a block
        cut = (np.diff(fold) != 0) | (np.diff(rank[site]) > 1) | (np.diff(sequence[site]) != 0)
        first = np.concatenate([[0], np.flatnonzero(cut) + 1])
        last = np.concatenate([first[1:], [len(site)]]) - 1
        return _within_budget(fold[first], site[first], site[last] + 1), None
    owner, index = flat(result.dropped)
    runs = _within_budget(*stretches(owner, index, np.diff(sequence[index]) != 0))
    if not _rims(result, index, site):
        return runs, None
    kept = np.isin(fold, runs.folds)
    found = stretches(fold[kept], site[kept], np.diff(sequence[site[kept]]) != 0)
    return runs, _of_folds(runs.folds, *found)


def _rims(result: Result, index: np.ndarray, site: np.ndarray) -> bool:
    """Whether folds leave out observed sites that they do not score."""
    observed = np.isfinite(result.summary.values)
    observed[site] = True  # in a further channel, or not numeric
    return int(observed[index].sum()) > len(site)


def _within_budget(owner: np.ndarray, start: np.ndarray, stop: np.ndarray) -> Runs:
    """All folds, or an evenly spaced selection that keeps the file small."""
    folds = np.unique(owner)
    room = max(1, int(_MOST_RUNS * len(folds) / max(len(owner), 1)))
    if room < len(folds):
        folds = folds[np.linspace(0, len(folds) - 1, room).round().astype(int)]
        kept = np.isin(owner, folds)
        owner, start, stop = owner[kept], start[kept], stop[kept]
    return _of_folds(folds, owner, start, stop)


def _of_folds(folds: np.ndarray, owner: np.ndarray, start: np.ndarray, stop: np.ndarray) -> Runs:
    offsets = np.concatenate([np.searchsorted(owner, folds), [len(owner)]])
    return Runs(folds, offsets, start, stop)


def packed(found: Along, result: Result) -> dict[str, Any]:
    """The data of the chart."""
    content: dict[str, Any] = {
        "kind": found.kind,
        "unit": loss_unit(result),
        "loss": floats(found.loss),
        "control": floats(found.control),
        "times": integers(found.times),
        "lengths": integers(found.lengths),
    }
    if np.isfinite(found.values).any():
        content |= {"values": _data(found.values), "shown": found.shown, "channel": found.channel}
    if found.runs is not None:
        folds = result.folds.iloc[found.runs.folds]
        names, codes = np.unique(folds["verdict"].to_numpy(str), return_inverse=True)
        content["runs"] = {
            **_packed_runs(found.runs),
            "scored": None if found.scored is None else _packed_runs(found.scored),
            "loss": floats(folds["loss"]),
            "ok": integers(folds["ok"]),
            "verdict": integers(codes),
            "verdicts": [str(name) for name in names],
        }
    return content


def _data(values: np.ndarray) -> dict[str, Any]:
    """Counts take less space than other numbers."""
    counts = (
        np.isfinite(values).all()
        and (values == np.rint(values)).all()
        and (np.abs(values) < 2**31).all()
    )
    return integers(values) if counts else floats(values)


def _packed_runs(runs: Runs) -> dict[str, Any]:
    """Lengths take less space than ends."""
    return {
        "folds": integers(runs.folds),
        "offsets": integers(runs.offsets),
        "start": integers(runs.start),
        "length": integers(runs.stop - runs.start),
    }


def place_name(
    found: Along, fitted: FitSummary, spans: pd.Series, named: dict[int, str], place: int
) -> str:
    """A place in words: the user's names, where there are any; `named`: folds that have a name."""
    if place in named and found.kind == "fold":
        return named[place]
    if found.kind == "fold":
        words = spans.get(place, "")
        return f"fold {place}: {words}" if words else f"fold {place}"
    return fitted.names.sequences[place] if found.kind == "sequence" else fitted.name_of(place)


def spans(result: Result, fitted: FitSummary) -> pd.Series:
    """The places that each fold scored, or left out for a joint loss, in words: the first and the last
    in time, or else a few sites or sequences; empty where that is not known."""
    rows, names = places_of_folds(result, fitted), fitted.names
    if rows is None:
        return pd.Series(dtype=object)
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
