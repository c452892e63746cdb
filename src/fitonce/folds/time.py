"""Folds of points within sequences: random points, blocks, the future, k-fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fitonce.core.arguments import generator, refusal, require, require_count, require_flag
from fitonce.core.numerics import as_numbers
from fitonce.core.wording import counted
from fitonce.data.graph import Graph
from fitonce.folds.record import Folds, at_least_one, check_k, make_folds, shape_of, share_of

_MAX_REDRAWS = 1000


def iid(data: Any, percent: float, n: int, seed: int = 0, *, lengths: Any = None) -> Folds:
    """`n` folds of `percent` % of the observed sites, drawn at random without replacement."""
    shape = shape_of(data, lengths=lengths)
    rng = generator(seed)
    observed = np.flatnonzero(shape.base)
    count = share_of(percent, len(observed), "observed sites")
    sets = [rng.choice(observed, count, replace=False) for _ in range(at_least_one(n, count))]
    return make_folds("sites", sets, shape, f"{percent:g} % of points at random (seed {seed})")


def blocks(data: Any, percent: float, n: int, seed: int = 0, *, lengths: Any = None) -> Folds:
    """`n` contiguous blocks of floor(percent * T / 100) steps, each at a uniformly drawn position.

    With several sequences a block stays within one, drawn in proportion to its number of positions.
    A block of missing sites only is drawn again: there would be nothing to score.
    (The paper's index set has one element more than its stated share; ours has exactly the share.)
    """
    shape = shape_of(data, lengths=lengths)
    rng = generator(seed)
    several = len(shape.lengths) > 1
    instead = "; leave whole sequences out instead (folds.structures, --folds sequences)"
    widths = [
        share_of(percent, length, f"steps of sequence {number}", instead if several else "")
        for number, length in enumerate(shape.lengths)
    ]
    places = np.array([length - width + 1 for length, width in zip(shape.lengths, widths, strict=True)])
    sets = []
    for fold in range(at_least_one(n, max(widths))):
        for _ in range(_MAX_REDRAWS):
            which = rng.choice(len(places), p=places / places.sum())
            start = shape.offsets[which] + rng.integers(places[which])
            block = np.arange(start, start + widths[which])
            if shape.base[block].any():
                break
        else:
            raise ValueError(f"fold {fold}: {_MAX_REDRAWS} blocks in a row held only missing sites")
        sets.append(block)
    share = f"{percent:g} %{' of one sequence' if several else ''}"
    made = make_folds("sites", sets, shape, f"contiguous blocks of {share} (seed {seed})")
    return replace(made, along_time=True)


def future(
    data: Any,
    start: int | Sequence[int] | None = None,
    *,
    steps: int | Sequence[int] | None = None,
    horizon: int | None = None,
    lengths: Any = None,
) -> Folds:
    """Leave out the end of every sequence: one fold per value of `start`, or of `steps`.

    Args:
        data: the data, or its length.
        start: first step left out, counted from the start of each sequence.
        steps: how many last steps to leave out instead.
        horizon: score only the first `horizon` steps left out; later ones are left out unscored. Every
            fold must leave out a whole horizon of the longest sequence; of others it may leave out fewer
            steps, which are then not scored.
        lengths: of the sequences, where `data` is one array or table with the rows of all of them.
    """
    shape = shape_of(data, lengths=lengths)
    if (start is None) == (steps is None):
        raise ValueError(
            "future takes either start or steps, got " + ("neither" if start is None else "both")
        )
    name, given = ("start", start) if start is not None else ("steps", steps)
    found: Any = np.zeros(0) if as_numbers(given) is None else given
    chosen = np.atleast_1d(found)
    fine = chosen.ndim == 1 and chosen.dtype.kind in "iu" and chosen.size and (chosen >= 0).all()
    require(fine, name, "a non-negative integer or a list of them", given)
    require_count("horizon", horizon, optional=True)
    time = np.arange(len(shape.base)) - np.repeat(shape.offsets, shape.lengths)
    length = np.repeat(shape.lengths, shape.lengths)
    firsts = [value if start is not None else np.maximum(length - value, 0) for value in chosen]
    dropped = [np.flatnonzero(time >= first) for first in firsts]
    if horizon is None:
        scored = dropped
    else:
        horizon = int(horizon)
        _require_whole(horizon, chosen, name, shape.lengths)
        scored = [
            np.flatnonzero((time >= first) & (time - first < horizon) & (length - first >= horizon))
            for first in firsts
        ]
    label = "leave-future-out" + (f", scored {counted(horizon, 'step')} ahead" if horizon else "")
    return replace(make_folds("sites", dropped, shape, label, scored, given=name), along_time=True)


def _require_whole(horizon: int, chosen: np.ndarray, name: str, lengths: np.ndarray) -> None:
    """Raise unless each fold leaves out so many steps of the longest sequence: means over folds that
    score fewer would be of nearer steps."""
    longest = int(lengths.max())
    left = [min(value, longest) if name == "steps" else longest - value for value in chosen.tolist()]
    short = next((fold for fold, steps in enumerate(left) if steps < horizon), None)
    if short is None:
        return
    of = "" if len(lengths) == 1 else " of the longest sequence"
    if horizon >= longest:
        raise refusal("horizon", f"less than the {counted(longest, 'step')}{of or ' of data'}", horizon)
    most = f"at most {longest - horizon}" if name == "start" else f"at least {horizon}"
    steps = counted(max(left[short], 0), "step")
    raise ValueError(
        f"{name}: fold {short} ({name} {chosen[short]}) leaves out {steps}{of}, fewer than the horizon "
        f"of {horizon}; {name} must be {most}"
    )


def kfold(data: Any, k: int, *, blocks: bool = True, seed: int = 0, lengths: Any = None) -> Folds:
    """Every observed site left out once, in `k` folds: contiguous stretches of time, or at random.

    Stretches run through all sites in order, so with several sequences one may span a boundary.
    """
    shape = shape_of(data, lengths=lengths)
    observed = np.flatnonzero(shape.base)
    check_k(k, len(observed), "sites")
    require_flag("blocks", blocks)
    rng = generator(seed)
    order = observed if blocks else rng.permutation(observed)
    label = f"{k}-fold over time, " + ("in blocks" if blocks else f"at random (seed {seed})")
    return replace(make_folds("sites", np.array_split(order, k), shape, label), along_time=bool(blocks))


def followed_by(folds: Folds, data: Any, steps: int, *, lengths: Any = None) -> Folds:
    """The same folds, which also leave out, unscored, the `steps` sites after each one left out.

    In an autoregression of that order a step is a regressor of the steps after it: without those, a step
    that is left out is not used at all.
    """
    if not isinstance(folds, Folds):
        raise ValueError(
            f"followed_by takes folds from fo.folds, then the data, got {type(folds).__name__} first"
        )
    if folds.kind != "sites":
        raise ValueError("followed_by is for folds of steps; after whole sequences there are none")
    if folds.graph is not None or isinstance(data, Graph):
        raise ValueError(
            "followed_by is for steps in time, and sites of a graph have no order; to leave out the "
            "neighbours of a region or a site, too: fo.folds.regions(graph, ..., buffer=1), "
            "fo.folds.buffered(graph, hops=1)"
        )
    require_count("steps", steps, 0)
    steps = min(int(steps), folds.size)
    shape = shape_of(data, lengths=lengths)
    other = folds.lengths is not None and not np.array_equal(folds.lengths, shape.lengths)
    if len(shape.base) != folds.size or other:
        raise ValueError(
            f"folds have {folds.size:,} sites, data has {len(shape.base):,} or other sequence lengths"
        )
    if steps == 0:
        return folds
    ends = np.repeat(np.cumsum(shape.lengths), shape.lengths)  # of the sequence of each site
    sets = []
    for dropped in folds.dropped:
        reach = dropped[:, None] + np.arange(steps + 1)
        sets.append(np.unique(reach[reach < ends[dropped, None]]))
    label = f"{folds.label}, with {counted(steps, 'step')} after each"
    return replace(make_folds("sites", sets, shape, label, folds.scored, given="steps"), along_time=True)
