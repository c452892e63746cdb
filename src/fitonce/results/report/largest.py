"""The few sites, steps or sequences that carry most of the loss, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fitonce.core.wording import counted
from fitonce.results.report.along import Along
from fitonce.results.report.markup import Markup, advice, datum, join, number, paragraph, table
from fitonce.results.report.oddest import Odd
from fitonce.results.summary import Result

_LISTED = 10
_ALONE = 0.1  # share of the total that makes one place worth a sentence


class Shares:
    """What each place contributes to the estimate, a mean over folds of means over their points.

    Attributes:
        parts: (places,) sums of losses, each divided by the number of points of its fold.
        weights: (places,) the same sums of ones.
    """

    def __init__(self, result: Result, place: np.ndarray, count: int) -> None:
        rows = result.pointwise
        fold, loss = rows["fold"].to_numpy(), rows["loss"].to_numpy(float)
        used = result.folds["ok"].to_numpy(bool)[fold] & np.isfinite(loss)
        size = np.bincount(fold, minlength=len(result.folds))
        if result.loss == "joint":  # one row for each fold
            loss = result.folds["loss"].to_numpy(float)[fold]
        each = 1.0 / size[fold[used]]
        self.parts = np.bincount(place[used], loss[used] * each, count)
        self.weights = np.bincount(place[used], each, count)

    def without(self, place: int) -> float:
        """The estimate from all other places."""
        rest = self.weights.sum() - self.weights[place]
        return float((self.parts.sum() - self.parts[place]) / rest) if rest > 1e-12 else float("nan")


def _distrusted(result: Result, place: np.ndarray, count: int) -> list[str]:
    """For each place how many of the folds that score it are bad, as in "1 of 3"; empty: none."""
    fold = result.pointwise["fold"].to_numpy()
    used = result.folds["ok"].to_numpy(bool)[fold]
    bad = used & (result.folds["verdict"] == "bad").to_numpy()[fold]
    number, of = (np.bincount(place[which], minlength=count) for which in (bad, used))
    return [f"{a:,} of {b:,}" if a else "" for a, b in zip(number, of, strict=True)]


def _of_folds(result: Result) -> tuple[np.ndarray, np.ndarray]:
    """(folds,) losses and controls per point, as the estimate averages them; nan without a number."""
    ok = result.folds["ok"].to_numpy(bool)
    loss, control = (result.folds[name].to_numpy(float) for name in ("loss", "control"))
    return np.where(ok, loss, np.nan), np.where(ok, control, np.nan)


def shares_of(losses: np.ndarray) -> np.ndarray | None:
    """(places,) mean losses as shares of their sum, nan kept; None where one is below zero."""
    known = losses[np.isfinite(losses)]
    return losses / known.sum() if (known >= 0).all() and known.sum() > 0 else None


def largest_section(
    found: Along, result: Result, odd: Odd, name: Callable[[int], str], noun: str
) -> Markup:
    """The largest mean losses, with their shares of the total; `name` of a place, `noun` for one."""
    shares = Shares(result, found.place, len(found.loss))
    losses, control, of = found.loss, found.control, "mean loss"
    if found.kind == "fold":  # a joint loss is averaged per point
        losses, control, of = *_of_folds(result), "loss per point"
    known = np.flatnonzero(np.isfinite(losses))
    if len(known) < 2:
        return paragraph(f"Only one {noun} was scored.")
    total = shares_of(losses)
    order = known[np.argsort(-losses[known], kind="stable")]
    top = [int(place) for place in order[:_LISTED]]
    columns: dict[str, list[Any]] = {noun: [name(place) for place in top]}
    if np.isfinite(found.values[top]).any():
        columns[found.channel] = [_value(found.values[place]) for place in top]
    for channel, values in found.further.items():
        columns[channel] = [_value(values[place]) for place in top]
    if odd.expected:
        columns["expected"] = [odd.expected.get(place, "") for place in top]
        columns["p"] = [odd.p.get(place, "") for place in top]
    columns[of] = [float(losses[place]) for place in top]
    columns["control"] = [float(control[place]) for place in top]
    if total is not None:
        columns["share of the total"] = [_percent(total[place]) for place in top]
        columns["together"] = [_percent(share) for share in np.cumsum(total[top])]
    columns["estimate without it"] = [shares.without(place) for place in top]
    distrusted = _distrusted(result, found.place, len(losses))
    if any(distrusted[place] for place in top):
        columns["bad folds"] = [distrusted[place] for place in top]
    rows = list(zip(*columns.values(), strict=True))
    every = "cv.site_losses()" if odd.expected else 'cv.to_dataframe("pointwise")'
    more = join(["All of them, in Python: ", advice(every), "."])
    return join(
        [
            *map(paragraph, _sentences(total, order, name, noun)),
            table(tuple(columns), rows, f"Largest losses by {noun}"),
            odd.section(name, found.channel, noun),
            paragraph(more, class_="small"),
        ]
    )


def _sentences(
    total: np.ndarray | None, order: np.ndarray, name: Callable[[int], str], noun: str
) -> list[str]:
    things = counted(len(order), noun)
    if total is None:
        return [
            f"The largest of {things}. Some losses are below zero (densities above one), so that there "
            "are no shares of the total."
        ]
    sums = np.cumsum(total[order])
    half = int(np.searchsorted(sums, 0.5 - 1e-12)) + 1
    first = float(total[order[0]])
    verb = "carries" if half == 1 else "carry"
    said = [f"{half:,} of {things} {verb} half of the total loss."]
    if first >= _ALONE and first * len(order) >= 3:
        said.insert(
            0,
            f"One {noun} carries {_percent(first)} of the total loss: {name(int(order[0]))}. Spread "
            f"evenly, each would carry {_percent(1 / len(order))}.",
        )
    return said


def _percent(share: float) -> str:
    return f"{number(100 * share, 2 if share < 0.0995 else 3 if share > 0.995 else 2)} %"


def _value(value: float) -> str:
    return datum(value) if np.isfinite(value) else "missing"
