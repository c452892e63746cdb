"""Kinds of folds by name, for the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitonce.core.wording import counted
from fitonce.folds.given import points, structures
from fitonce.folds.record import Folds
from fitonce.folds.space import buffered, regions, spatial_kfold
from fitonce.folds.time import blocks, future, iid, kfold

PERCENT = 10.0
_MANY, _FUTURES, _K = 200, 20, 10  # default numbers of folds
# Folds that score everything once, to choose between models. Shorter stretches take less of a rare state
# away with them; with fewer than three steps, how states follow each other is not asked for.
_STRETCHES, _STEPS, _REGIONS = 60, 3, 20


@dataclass(frozen=True)
class FoldOptions:
    """Options of some kinds of folds; None: the default of the kind."""

    percent: float | None = None
    n: int | None = None
    k: int | None = None
    hops: int | None = None
    horizon: int | None = None
    buffer: str | None = None
    contiguous: bool = False
    seed: int = 0

    @property
    def share(self) -> float:
        """What a fold leaves out, in percent."""
        return PERCENT if self.percent is None else self.percent

    @property
    def parts(self) -> int:
        return _K if self.k is None else self.k


@dataclass(frozen=True)
class FoldKind:
    """A kind of folds.

    Attributes:
        title: what a fold leaves out, in one line.
        make: folds from a model, its data and options.
        options: names of the options that it takes, besides the seed.
    """

    title: str
    make: Callable[[Any, Any, FoldOptions], Folds]
    options: tuple[str, ...] = ()


def covering(kind: str, model: Any, data: Any, seed: int = 0) -> Folds:
    """Folds of a kind that score everything once, to choose between models: 60 stretches or 20 regions,
    or as many as small data allow; each sequence where a fold is one."""
    observed = int(np.count_nonzero(data.weights))
    if kind == "sequences":
        return structures(data)
    if observed < 2:
        raise ValueError(f"leaving data out needs at least two observed sites, got {observed}")
    many = min(_STRETCHES, observed // _STEPS) if kind == "kfold" else 0
    few = max(many, min(_REGIONS, observed // 2), 2)
    return FOLD_KINDS[kind].make(model, data, FoldOptions(k=few, seed=seed))


def _futures(data: Any, given: FoldOptions) -> Folds:
    """`n` folds that leave out increasing numbers of last steps, from the horizon to the percentage."""
    if not 0 < given.share < 100:
        raise ValueError(f"--percent must be between 0 and 100, got {given.share:g}")
    longest = int(np.max(data.lengths))
    most = max(int(longest * given.share / 100), 1)
    least = max(given.horizon or 1, 1)
    if least > most:
        raise ValueError(
            f"--percent {given.share:g} leaves out up to {most:,} of {counted(longest, 'step')}, fewer "
            f"than --horizon {least}; give a higher percentage, or a shorter horizon"
        )
    count = min(most - least + 1, _FUTURES if given.n is None else given.n)
    steps = np.unique(np.linspace(least, most, max(count, 1)).astype(int))
    return future(data, steps=[int(step) for step in steps], horizon=given.horizon)


def _sequences(data: Any, given: FoldOptions) -> Folds:
    if given.n is not None and given.k is not None:
        raise ValueError(
            "--n leaves single sequences out, --k puts all of them into k folds; give one of them"
        )
    if given.contiguous and given.k is None:
        raise ValueError("--contiguous puts runs of sequences into k folds; give their number, --k")
    return structures(data, k=given.k, n=given.n, blocks=given.contiguous, seed=given.seed)


def _near(hops: int | None, buffer: str | None) -> dict[str, Any]:
    """What is near a site: --buffer has hops, too."""
    if buffer is None or not buffer.strip().isdigit():
        return {"hops": hops, "within": buffer}
    if hops is not None:
        raise ValueError("--hops and --buffer both say what is left out around a site; give one of them")
    return {"hops": int(buffer)}


def _regions(model: Any, data: Any, given: FoldOptions) -> Folds:
    if given.hops is not None and given.percent is not None:
        raise ValueError("--percent and --hops both set the size of a region; give one of them")
    sized = given.hops is not None or given.percent is not None
    named = None if sized else getattr(getattr(data, "names", None), "regions", None)
    percent = given.share if given.hops is None and named is None else None
    return regions(
        model, hops=given.hops, percent=percent, labels=named, n=given.n, seed=given.seed, data=data,
        buffer=given.buffer or 0,
    )  # fmt: skip


FOLD_KINDS: dict[str, FoldKind] = {
    "blocks": FoldKind(
        "a stretch of time",
        lambda _, data, o: blocks(data, o.share, _MANY if o.n is None else o.n, o.seed),
        ("percent", "n"),
    ),
    "iid": FoldKind(
        "points at random",
        lambda _, data, o: iid(data, o.share, _MANY if o.n is None else o.n, o.seed),
        ("percent", "n"),
    ),
    "points": FoldKind("a single point", lambda _, data, o: points(data)),
    "kfold": FoldKind(
        "one of k stretches", lambda _, data, o: kfold(data, o.parts, seed=o.seed), ("k",)
    ),
    "future": FoldKind(
        "the last steps", lambda _, data, o: _futures(data, o), ("percent", "n", "horizon")
    ),
    "sequences": FoldKind(
        "a whole sequence, or one of k parts of them with --k",
        lambda _, data, o: _sequences(data, o),
        ("n", "k", "contiguous"),
    ),
    "regions": FoldKind("a region of a graph", _regions, ("percent", "n", "hops", "buffer")),
    "spatial-kfold": FoldKind(
        "one of k regions of a graph",
        lambda model, data, o: spatial_kfold(model, o.parts, seed=o.seed, data=data),
        ("k",),
    ),
    "buffered": FoldKind(
        "a site with its neighbours; only the site is scored",
        lambda model, data, o: buffered(model, data=data, **_near(o.hops, o.buffer)),
        ("hops", "buffer"),
    ),
}
