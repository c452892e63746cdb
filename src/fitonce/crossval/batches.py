"""Fold work in chunks of one shape, on every core: a thousand folds run one compiled program."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from fitonce.core import memory
from fitonce.core.chunks import SMALL_BYTES, chunks
from fitonce.core.deferred import jax
from fitonce.core.devices import device_bytes, on_cpu
from fitonce.core.parallel import Parallel, Workers, cores
from fitonce.core.progress import bar
from fitonce.crossval.fold_weights import FoldWeights
from fitonce.crossval.journal import Journal
from fitonce.fitting.differences import hessians_by_differences
from fitonce.folds import Folds
from fitonce.objectives.base import Objective

_CHUNK_BYTES = 2**28  # of potentials, marginals and messages in a chunk of folds
_SMALL_BYTES_DEVICE = 2**34  # on an accelerator, of work that takes less time than compiling a program
_LARGEST_CHUNK = 256
_LARGEST_CHUNK_DEVICE = 2048
_MOST_THREADS = 8  # each holds a chunk in memory
_FEW = 16  # folds in a chunk: below, another compilation costs more than padding
Work = Callable[..., tuple[np.ndarray, ...]]
Task = Callable[[], tuple[Any, ...]]


class _Made(Sequence[tuple[Any, ...]]):
    """Arguments of tasks, each made when it is asked for: together they are large."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks

    def __len__(self) -> int:
        return len(self._tasks)

    def __getitem__(self, index: Any) -> Any:
        chosen = self._tasks[index]
        return _Made(chosen) if isinstance(index, slice) else chosen()


def chunk_size(objective: Objective, n_folds: int, workers: int = 1) -> int:
    """How many folds run together, by memory: one chunk on each thread, or fewer threads; or one for
    each worker process."""
    most, usual = _LARGEST_CHUNK, _CHUNK_BYTES
    if not on_cpu():  # small chunks leave it idle; what XLA holds beside a fold is not known
        most, usual = _LARGEST_CHUNK_DEVICE, device_bytes() // 4
    group, least = bytes_of_chunk(objective, 0), bytes_of_chunk(objective, 1)
    threads = max(_threads(least), workers)
    room = memory.room(threads * max(usual, least), workers * least, "folds that run together") / threads
    return int(np.clip((room - group) // (least - group), 1, min(most, n_folds)))


def bytes_of_chunk(objective: Objective, size: int) -> int:
    """Memory of so many folds that are evaluated together, with their weights."""
    grouped = objective.traits.together
    rows = size if grouped == 1 else grouped
    return objective.bytes_per_fold * rows + 8 * len(objective.base) * size


def _threads(chunk: float) -> int:
    """How many chunks of so many bytes run side by side; one fills an accelerator."""
    if not on_cpu():
        return 1
    return int(np.clip(memory.left() / chunk, 1, min(cores(), _MOST_THREADS)))


@dataclass(frozen=True, eq=False)
class Batches:
    """An objective at the weights of many folds.

    Attributes:
        objective: F along the scheme of the folds.
        weights_of: fold numbers (n,) to weights (n, P).
        kept: (F,) each fold's weight as a share of the weight of all data.
        turnover: (F,) sum of the squared changes of the weights, over the weight kept: (1 - s) / s for a
            fold that keeps the share s; D parameters move by about sqrt(D turnover) standard errors.
        size: of a chunk.
        progress: whether to show bars.
        most_rows, deadline: a budget: of gradients in total, and a time of `time.perf_counter`.
        given: whether `size` was set by the user, and is then never exceeded (but for padding of small
            work, see `core.chunks.common_rows`).
        parallel: where chunks run, see `fitonce.core.parallel`.
        journal: where finished chunks are stored and looked up.
        stop: a function that returns whether to stop now, as if the budget had ended.
        gradients_used, hessians_used, products_used: (F,) counts of evaluations; a Hessian costs D
            gradients, a product with one about two.
    """

    objective: Objective
    weights_of: FoldWeights
    kept: np.ndarray
    turnover: np.ndarray
    size: int
    progress: bool | None = None
    most_rows: float = np.inf
    deadline: float = np.inf
    given: bool = False
    parallel: Parallel = None
    journal: Journal | None = None
    stop: Callable[[], bool] | None = None
    gradients_used: np.ndarray = field(init=False)
    hessians_used: np.ndarray = field(init=False)
    products_used: np.ndarray = field(init=False)
    _compiled: set[str] = field(init=False, default_factory=set)

    @classmethod
    def of_folds(cls, objective: Objective, folds: Folds, size: int, **options: Any) -> Batches:
        """From folds, whose weights are made as they are needed; `options` are attributes."""
        kept, made = folds.kept, FoldWeights.of_folds(objective, folds)
        return cls(objective, made, kept, (1.0 - kept) / kept, size, **options)

    @classmethod
    def of(cls, objective: Objective, weights: np.ndarray, size: int | None = None) -> Batches:
        """From weights (F, P), of any type of number."""
        total = np.array([row.sum(dtype=float) for row in weights])
        turnover = np.array([((row - objective.base) ** 2).sum() for row in weights]) / total
        made = FoldWeights.of(objective, len(weights), lambda folds: weights[folds].astype(float))
        return cls(objective, made, total / objective.base.sum(), turnover, size or len(weights))

    def some(self, folds: np.ndarray) -> Batches:
        """Of the folds with these numbers (n,), with what is left of the budget."""
        chosen = self.weights_of.some(folds)
        shares = {"kept": self.kept[folds], "turnover": self.turnover[folds]}
        size = min(self.size, len(folds))
        return replace(self, weights_of=chosen, size=size, most_rows=self._rows_left, **shares)

    def of_all_data(self) -> Batches:
        """One fold that leaves nothing out, with what is left of the budget."""
        objective = self.objective
        everything = lambda which: np.tile(objective.base, (len(which), 1))  # noqa: E731
        return replace(
            self,
            weights_of=FoldWeights.of(objective, 1, everything),
            kept=np.ones(1),
            turnover=np.zeros(1),
            size=1,
            most_rows=self._rows_left,
        )

    def without_budget(self) -> Batches:
        """The same, to repeat what was done before."""
        return replace(self, most_rows=np.inf, deadline=np.inf, stop=None)

    def add_work(self, part: Batches, folds: np.ndarray) -> None:
        """Count what `some` of the folds took."""
        if part is self:
            return
        for name in ("gradients_used", "hessians_used", "products_used"):
            getattr(self, name)[folds] += getattr(part, name)

    @property
    def _rows_left(self) -> float:
        rows = self.gradients_used.sum() + self.hessians_used.sum() * self.objective.space.size
        return self.most_rows - rows - 2 * self.products_used.sum()

    def spent(self) -> bool:
        """Whether the budget is spent. Asked between rounds: a round that was begun is completed."""
        stopped = self.stop is not None and self.stop()
        return bool(stopped or self._rows_left <= 0 or time.perf_counter() >= self.deadline)

    @property
    def work(self) -> np.ndarray:
        """(2, F) gradients, a product with a Hessian counted as two, and Hessians."""
        return np.stack([self.gradients_used + 2 * self.products_used, self.hessians_used])

    @property
    def work_in_gradients(self) -> float:
        """The work of all folds, a Hessian counted as the gradients that take as long."""
        gradients, hessians = self.work.sum(1)
        return float(gradients + self.objective.gradients_per_hessian * hessians)

    @property
    def n_folds(self) -> int:
        return len(self.kept)

    @property
    def every_fold(self) -> np.ndarray:
        """(F,) the numbers of all folds."""
        return np.arange(self.n_folds)

    def __post_init__(self) -> None:
        for name in ("gradients_used", "hessians_used", "products_used"):
            object.__setattr__(self, name, np.zeros(self.n_folds, int))

    def values_and_gradients(
        self, thetas: np.ndarray, which: np.ndarray, *, count: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """F (n,) and its gradients (n, D) at thetas (n, D), each with the weights of its fold."""
        if count:
            np.add.at(self.gradients_used, which, 1)
        objective = self.objective  # so that workers are not sent all of `self`
        work = lambda weights, _, t: objective.values_and_gradients(t, weights)  # noqa: E731
        values, gradients = self.map(work, "fold gradients", which, thetas)
        return values, gradients

    def products(self, thetas: np.ndarray, directions: np.ndarray, which: np.ndarray) -> np.ndarray:
        """(n, D) the Hessians of folds `which` at thetas (n, D), times directions (n, D)."""
        np.add.at(self.products_used, which, 1)
        objective = self.objective
        work = lambda weights, _, t, d: (objective.products(t, d, weights),)  # noqa: E731
        return self.map(work, "fold products", which, thetas, directions, per_fold=2.0)[0]

    def hessians(
        self, thetas: np.ndarray, gradients: np.ndarray, scale: np.ndarray, which: np.ndarray
    ) -> np.ndarray:
        """(n, D, D) by differences of gradients, accurate to four digits or five, or exact where that is
        faster.

        Differences are D more rows of a program that is already compiled: measured at 2.5 times less
        work on a CPU than D tangents through it.

        Args:
            thetas, gradients: (n, D), the gradients at the thetas.
            scale: (D,) a standard error of each parameter, the unit of the differences.
            which: (n,) folds.
        """
        np.add.at(self.hessians_used, which, 1)
        if self.objective.traits.exact_hessians:
            objective = self.objective
            exact = lambda weights, _, t: (objective.hessians(t, weights),)  # noqa: E731
            return self.map(exact, "fold Hessians", which, thetas)[0]
        evaluate = partial(self.values_and_gradients, count=False)
        return hessians_by_differences(evaluate, thetas, gradients, scale, which)

    def map(
        self,
        work: Work,
        what: str,
        which: np.ndarray,
        *arrays: np.ndarray,
        per_fold: float = 1.0,
        depends_on: Any = (),
    ) -> tuple[np.ndarray, ...]:
        """`work(weights, folds, *rows)` on chunks of the folds `which` and of rows of `arrays`.

        The last chunk is padded by repeating its last row, so that all have one shape (or, where few
        folds are left, a quarter of it). The first time that `what` is done, the first chunk runs alone,
        so that the others find a compiled program. `per_fold` scales the memory of a fold, and with it
        the size of chunks. `depends_on` is what else the work depends on, for the journal.
        """
        most = self.size if self.given else min(max(self.size, _LARGEST_CHUNK), self.n_folds)
        size = int(np.clip(self.size / per_fold, 1, most))
        if isinstance(self.parallel, Workers) and not self.given:
            size = min(size, -(-len(which) // (2 * self.parallel.n)))
        if not self.objective.traits.formed:  # so large that padding is most of the work of few folds
            size = min(size, len(which))
        need = size * per_fold * self.objective.bytes_per_fold
        small = SMALL_BYTES if on_cpu() else _SMALL_BYTES_DEVICE
        if not (self.objective.traits.cheap_rows and need <= small):
            while size > _FEW and len(which) <= size // 4:  # few folds are left: less padding
                size //= 4
        if self.parallel == "devices":  # chunks that do not divide evenly are not split over devices
            size = -(-size // len(jax.devices())) * len(jax.devices())
        # Other processes and journals read the weights themselves.
        here = self.parallel is None and self.journal is None
        weights_of = self.weights_of.where_they_run if here else self.weights_of

        def task(rows: np.ndarray) -> tuple[Any, ...]:
            folds = which[rows]
            return (weights_of(folds), folds, *(array[rows] for array in arrays))

        tasks = [partial(task, rows) for rows, _ in chunks(len(which), size)]
        parts: list[tuple[np.ndarray, ...]] = []
        with bar(len(which), what, self.progress) as advance:
            for part in self._run(work, what, tasks, depends_on):
                advance(min(size, len(which) - size * len(parts)))
                parts.append(part)
        return tuple(_joined(column)[: len(which)] for column in zip(*parts, strict=True))

    def _run(self, work: Work, what: str, tasks: Sequence[Task], depends_on: Any) -> Iterator[Any]:
        """work(*task()) of each task, in order; entries of the journal are not computed again, and new
        results are added to it as they come."""
        journal = self.journal
        question = None if journal is None else journal.name(what, depends_on)
        if journal is None or question is None:
            yield from self._compute(work, what, tasks)
            return
        names, entries = [], []
        for given in (task() for task in tasks):  # large, and made again for those that are not there
            names.append(str(journal.name(question, given)))
            entries.append(journal.look(names[-1], len(given[1])))
        missing = [task for task, entry in zip(tasks, entries, strict=True) if entry is None]
        fresh = self._compute(work, what, missing)
        for name, entry in zip(names, entries, strict=True):
            if entry is None:
                entry = next(fresh)
                journal.write(name, entry)
            yield entry

    def _compute(self, work: Work, what: str, tasks: Sequence[Task]) -> Iterator[Any]:
        if isinstance(self.parallel, Workers):
            yield from self.parallel.run(work, _Made(tasks))
            return
        # One program on all devices at a time: two could wait for each other.
        chunk = bytes_of_chunk(self.objective, self.size)
        threads = 1 if self.parallel == "devices" else _threads(chunk)
        work = memory.shared(work, threads)
        with ThreadPoolExecutor(threads) as pool:
            alone = 0 if what in self._compiled else 1
            self._compiled.add(what)
            yield from (work(*task()) for task in tasks[:alone])
            yield from pool.map(lambda task: work(*task()), tasks[alone:])


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of all parts, in an array that may be written to; a single part may be large, and is copied
    only where it may not."""
    if len(parts) > 1:
        return np.concatenate(parts)
    return np.require(parts[0], requirements="W")
