"""Folds of whole sequences and of single points, and folds given by the user."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.arguments import generator, refusal, require_choice, require_flag, shown
from fitonce.core.numerics import is_count
from fitonce.core.wording import counted
from fitonce.folds.record import Folds, Kind, Shape, check_k, make_folds, shape_of


def structures(
    data: Any,
    *,
    k: int | None = None,
    groups: Sequence[Any] | None = None,
    n: int | None = None,
    blocks: bool = False,
    seed: int = 0,
    lengths: Any = None,
) -> Folds:
    """Leave whole sequences out: one at a time, in `k` folds, or by group.

    Neighbours in a file are often of one text, patient or day. Where new data will be of others, leave
    out what belongs together: by `groups`, or by runs of neighbours with `blocks`.

    Args:
        data: the data, or the number of sequences.
        k: put the sequences, shuffled by `seed`, into k folds whose numbers of sequences differ by one
            at most. Sequences in which nothing was observed are in none of them.
        groups: one label per sequence; each distinct label is a fold, and one unit of standard errors.
        blocks: with `k`: folds are runs of neighbouring sequences, and units of standard errors, instead
            of sequences drawn at random.
        n: leave out only this many sequences, drawn by `seed`, one at a time.
        seed: of the random draws.
        lengths: of the sequences, where `data` is one array or table with the rows of all of them.
    """
    shape = shape_of(data, "sequences", lengths)
    rng = generator(seed)
    count = len(shape.base)
    if sum(option is not None for option in (k, groups, n)) > 1:
        raise ValueError("structures takes one of k, groups and n, got more")
    if count < 2:
        raise ValueError(f"data: leaving sequences out needs at least 2 sequences, got {count}")
    require_flag("blocks", blocks)
    if blocks and k is None:
        raise ValueError("blocks=True puts runs of sequences into k folds, got no k")
    if k is not None:
        return _kfold(k, shape, None if blocks else seed)
    if groups is not None:
        try:
            labels = np.asarray(groups)
        except ValueError:  # ragged
            labels = np.zeros(())
        if labels.shape != (count,):
            raise ValueError(
                f"groups must have one label for each of {count} sequences, got shape {labels.shape}"
            )
        unlabelled = np.flatnonzero(pd.isna(labels))
        if unlabelled.size:
            raise ValueError(f"groups must label every sequence, but sequence {unlabelled[0]} has none")
        sets = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        made = make_folds("sequences", sets, shape, "leave-one-group-of-sequences-out")
        return replace(made, together=True)
    observed = np.flatnonzero(shape.base)
    chosen, label = observed, "leave-one-sequence-out"
    if len(observed) < count:
        label += f" except {count - len(observed)} with nothing to score"
    if n is not None:
        if not is_count(n, 1, len(observed)):
            raise refusal("n", f"an integer between 1 and {len(observed)}", n)
        chosen = np.sort(rng.choice(observed, n, replace=False))
        label = f"{counted(n, 'single sequence')} (seed {seed})"
    return make_folds("sequences", list(chosen[:, None]), shape, label)


def _kfold(k: int, shape: Shape, seed: int | None) -> Folds:
    """Whole sequences in k folds, shuffled by a seed or in runs; those with nothing to score stay in the
    data."""
    observed = np.flatnonzero(shape.base)
    check_k(k, len(observed), "sequences")
    if seed is None:
        runs = np.array_split(observed, k)
        made = make_folds("sequences", runs, shape, f"{k}-fold over runs of sequences")
        return replace(made, together=True)
    order = observed[generator(seed).permutation(len(observed))]
    label = f"{k}-fold over sequences (seed {seed})"
    return make_folds("sequences", np.array_split(order, k), shape, label)


def points(data: Any, *, lengths: Any = None) -> Folds:
    """Leave-one-out: each observed site on its own."""
    shape = shape_of(data, lengths=lengths)
    observed = np.flatnonzero(shape.base)
    if len(observed) < 2:
        raise ValueError(f"data: leaving one out needs at least 2 observed sites, got {len(observed)}")
    single = tuple(observed[:, None])  # valid by construction: not checked one by one
    return Folds("sites", single, single, shape.base, "leave-one-out", shape.made_for)


def sites(index_sets: Iterable[Any], data: Any, *, lengths: Any = None) -> Folds:
    """Your own folds: a collection of site indices for each."""
    if not isinstance(index_sets, Iterable):
        raise ValueError(
            "index_sets must be a list of index sets and then the data, got "
            f"{type(index_sets).__name__} first"
        )
    sets = [sorted(item) if isinstance(item, (set, frozenset)) else item for item in index_sets]
    if sets and not any(isinstance(item, Iterable) for item in sets):
        raise ValueError(
            "sites takes a list of index sets, one per fold, got a single list of indices as index_sets"
        )
    if not sets:
        raise ValueError("index_sets: there must be at least one fold, got none")
    shape = shape_of(data, lengths=lengths)
    return make_folds("sites", sets, shape, "given index sets", given="index_sets")


def from_splitter(
    splitter: Any,
    data: Any,
    *,
    over: Kind = "sites",
    y: Any = None,
    groups: Any = None,
    lengths: Any = None,
) -> Folds:
    """Folds of a scikit-learn splitter: score its test set, leave out all that it does not train on.

    For `TimeSeriesSplit` this leaves out the whole future and scores the next stretch of it.
    """
    if not hasattr(splitter, "split") or isinstance(splitter, (str, bytes)):
        raise ValueError(f"splitter must have a split method, got {type(splitter).__name__}")
    require_choice("over", over, ("sites", "sequences"))
    shape = shape_of(data, over, lengths)
    everything = np.arange(len(shape.base))
    try:
        splits = list(splitter.split(everything, y, groups))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"splitter {shown(splitter)} does not split data of {len(everything)} {over} with this y "
            f"and groups: {error}"[:400]
        ) from None
    dropped = [np.setdiff1d(everything, train) for train, _ in splits]
    scored = [test for _, test in splits]
    return make_folds(over, dropped, shape, f"{splitter}", scored, given="splitter")
