"""Folds of whole sequences and of single points, and folds given by the user."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.arguments import generator, refusal, require, require_choice, require_flag, shown
from fitonce.core.numerics import is_count, is_number
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
        groups = shape.aligned(groups, "sequences", "groups")
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
    sets = [_in_order(item, shape, "sites", fold) for fold, item in enumerate(sets)]
    return make_folds("sites", sets, shape, "given index sets", given="index_sets")


def _in_order(part: Any, shape: Shape, over: Kind, fold: int) -> Any:
    """A mask with an index in the order of the data; anything else as it is."""
    if not (isinstance(part, pd.Series) and pd.api.types.is_bool_dtype(part.dtype)):
        return part
    if part.isna().any():
        raise ValueError(f"the mask of fold {fold} must be True or False everywhere, got a missing one")
    return shape.aligned(part, over, f"the mask of fold {fold}").to_numpy(bool)


def from_splitter(
    splitter: Any,
    data: Any,
    *,
    over: Kind = "sites",
    y: Any = None,
    groups: Any = None,
    lengths: Any = None,
) -> Folds:
    """Folds of a splitter: score its test set, leave out all that it does not train on.

    For `TimeSeriesSplit` this leaves out the whole future and scores the next stretch of it. Such
    folds, and runs of sites, are along time.

    Args:
        splitter: a splitter of scikit-learn, sktime or skforecast (`TimeSeriesFold(refit=True)`); pairs
            of train and test indices; or an integer k, for k runs of neighbours.
        data: the data, or the number of sites or sequences. Splitters of sktime and skforecast see the
            dates of its index.
        over: what is split, "sites" or "sequences".
        y, groups: of the splitter, if it takes them; a Series by its index.
        lengths: of the sequences, where `data` is one array or table with the rows of all of them.
    """
    require_choice("over", over, ("sites", "sequences"))
    shape = shape_of(data, over, lengths)
    everything = np.arange(len(shape.base))
    if is_number(splitter):
        wanted = f"an integer between 2 and the number of {over} ({len(everything)})"
        require(is_count(splitter, 2, len(everything)), "splitter", wanted, splitter)
        runs = np.array_split(everything, splitter)
        label = f"{splitter}-fold over runs of {over}"
        made = make_folds(over, runs, shape, label, given="splitter")
        return replace(made, along_time=over == "sites")
    if callable(getattr(splitter, "split", None)) and not isinstance(splitter, (str, bytes)):
        y, groups = shape.aligned(y, over, "y"), shape.aligned(groups, over, "groups")
        splits, label = _splits(splitter, shape, over, y, groups), " ".join(str(splitter).split())
    elif isinstance(splitter, Iterable) and not isinstance(splitter, (str, bytes, Mapping)):
        splits, label = list(splitter), "given pairs"
    else:
        expected = "a splitter with a method split, an integer, or pairs of train and test indices"
        raise refusal("splitter", expected, splitter)
    pairs = [_pair(one, fold, shape, over) for fold, one in enumerate(splits)]
    dropped = [np.setdiff1d(everything, train) for train, _ in pairs]
    scored = [test for _, test in pairs]
    made = make_folds(over, dropped, shape, label, scored, given="splitter")
    # Every fold trains on what comes before, as in time.
    forward = all(train.max(initial=-1) < test.min(initial=len(everything)) for train, test in pairs)
    return replace(made, along_time=over == "sites" and forward)


def _splits(splitter: Any, shape: Shape, over: Kind, y: Any, groups: Any) -> list[Any]:
    """What the splitter makes of the data, called with what its method takes."""
    kinds = {name: one.kind for name, one in inspect.signature(splitter.split).parameters.items()}
    known: dict[str, Any] = {"y": y, "groups": groups}
    arguments: list[Any] = [np.arange(len(shape.base)), y, groups]  # as splitters of scikit-learn
    if "groups" in kinds or inspect.Parameter.VAR_POSITIONAL in kinds.values():
        known = {}
    else:  # of sktime and skforecast: data alone, as a table with their index
        arguments = [_table(shape, over)]
        known = {name: value for name, value in known.items() if value is not None}
        for name in known:
            if name not in list(kinds)[1:]:
                raise ValueError(f"{name} must be None: {shown(splitter)} does not split by {name}")
    try:
        return list(splitter.split(*arguments, **known))
    except Exception as error:  # whatever the code of others raises
        raise ValueError(
            f"splitter {shown(splitter)} does not split data of {len(shape.base)} {over} with this y "
            f"and groups: {type(error).__name__}: {error}"[:400]
        ) from error


def _table(shape: Shape, over: Kind) -> pd.DataFrame:
    """The numbers of sites or sequences; of sites with the index of the data, sequence by sequence."""
    numbers = {over: np.arange(len(shape.base))}
    if over == "sequences":
        return pd.DataFrame(numbers)
    own = shape.indices or tuple(pd.RangeIndex(length) for length in shape.lengths)
    if len(own) == 1:
        return pd.DataFrame(numbers, own[0])
    parts = [pd.Series(0, index) for index in own]
    return pd.DataFrame(numbers, pd.concat(parts, keys=range(len(own))).index)


def _pair(given: Any, fold: int, shape: Shape, over: Kind) -> tuple[np.ndarray, np.ndarray]:
    """Indices to train on and to score, of a pair or of a fold of skforecast, which is
    [number, train, window, test, test after the gap, whether it is fitted]."""
    parts = list(given) if isinstance(given, Iterable) else []
    if len(parts) == 6 and isinstance(parts[-1], (bool, np.bool_)):
        if not parts[-1]:
            raise ValueError(
                f"splitter: fold {fold} is predicted by the fit of an earlier fold, and folds here have "
                "their own. Use TimeSeriesFold(refit=True) with an initial_train_size"
            )
        bounds = (part or (0, 0) for part in (parts[1], parts[4]))
        parts = [part if isinstance(part, range) else range(*part) for part in bounds]
    if len(parts) != 2:
        raise ValueError(
            f"splitter must give pairs of train and test indices, got {shown(given)} for fold {fold}"
        )
    count = len(shape.base)
    train, test = (_indices(_in_order(part, shape, over, fold), fold, count) for part in parts)
    outside = train[(train < 0) | (train >= count)]
    if outside.size:
        raise ValueError(
            f"splitter: fold {fold} trains on index {outside[0]}, outside the {count} {over} "
            f"(0 to {count - 1})"
        )
    return train, test


def _indices(part: Any, fold: int, count: int) -> np.ndarray:
    """Indices, given as such or as a mask."""
    try:
        found = np.asarray(part)
    except ValueError:  # ragged
        found = np.zeros((1, 1))
    if found.dtype == bool and found.shape == (count,):
        return np.flatnonzero(found)
    if found.ndim != 1 or (found.size and not np.issubdtype(found.dtype, np.integer)):
        raise ValueError(
            f"splitter: train and test of fold {fold} must be lists of indices or masks of "
            f"{count}, got {shown(part)}"
        )
    return found.astype(np.int64)
