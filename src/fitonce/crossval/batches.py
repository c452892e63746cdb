"""Fold work in chunks of one shape, on every core: a thousand folds run one compiled program."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fitonce.core.chunks import chunks
from fitonce.core.parallel import Parallel, Workers
from fitonce.core.progress import bar
from fitonce.crossval.journal import Journal
from fitonce.folds import Folds
from fitonce.objectives.base import Objective

_CHUNK_BYTES = 2**28  # of potentials, marginals and messages that a chunk of folds may need
_CHUNK_BYTES_DEVICE = 2**35  # on an accelerator, which starves on small chunks
_RESIDENT_BYTES = 2**33  # a small part of what an accelerator has
_LARGEST_CHUNK = 256
_LARGEST_CHUNK_DEVICE = 2048
_MOST_THREADS = 8  # each holds a chunk in memory
_FEW = 16  # folds of a chunk: below, another compilation costs more than padding
_DIFFERENCE = 1e-5  # standard errors: both rounding and curvature of the gradient are small there
Work = Callable[..., tuple[np.ndarray, ...]]


def chunk_size(bytes_per_fold: int, n_folds: int) -> int:
    """How many folds run together, by memory."""
    host = jax.default_backend() == "cpu"
    most, room = (_LARGEST_CHUNK, _CHUNK_BYTES) if host else (_LARGEST_CHUNK_DEVICE, _CHUNK_BYTES_DEVICE)
    return int(np.clip(room // bytes_per_fold, 1, min(most, n_folds)))


def _cores() -> int:
    """Cores that this process may use: a container or a batch system may allow fewer than there are."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


@dataclass(frozen=True, eq=False)
class Batches:
    """An objective at the weights of many folds.

    Attributes:
        objective: F along the scheme of the folds.
        weights_of: fold numbers (n,) to weights (n, P).
        kept: (folds,) each fold's weight as a share of the weight of all data.
        turnover: (folds,) sum of the squared changes of the weights, over the weight kept: (1 - s) / s
            for a fold that keeps the share s; D parameters move by about sqrt(D turnover) standard
            errors.
        size: of a chunk.
        given: whether that is a user's, which nothing exceeds.
        progress: whether to show bars.
        most_rows, deadline: a budget, of gradients in all and of `time.perf_counter`.
        parallel: where chunks run, see `fitonce.core.parallel`.
        journal: where finished chunks are written, and read from.
        stop: a function that says whether to end now, as if the budget had.
        gradients_used, hessians_used, products_used: (folds,) counts of what was evaluated; a Hessian is
            D gradients, a product with one about two.
    """

    objective: Objective
    weights_of: Callable[[np.ndarray], np.ndarray]
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
    def of_folds(
        cls,
        objective: Objective,
        folds: Folds,
        size: int,
        progress: bool | None = None,
        budget: tuple[float, float] = (np.inf, np.inf),
    ) -> Batches:
        """Of folds, whose weights are made as they are needed; `budget` is most_rows and deadline."""
        kept = folds.kept
        turnover = (1.0 - kept) / kept
        return cls(objective, folds.weights_of, kept, turnover, size, progress, *budget)

    @classmethod
    def of(cls, objective: Objective, weights: np.ndarray, size: int | None = None) -> Batches:
        """Of weights (F, P) at hand."""
        total = objective.base.sum()
        kept = weights.sum(1) / total
        turnover = ((weights - objective.base) ** 2).sum(1) / weights.sum(1)
        return cls(objective, lambda folds: weights[folds], kept, turnover, size or len(weights))

    def spent(self) -> bool:
        """Whether the budget is. Asked between rounds: what is begun is ended."""
        rows = self.gradients_used.sum() + self.hessians_used.sum() * self.objective.space.size
        rows += 2 * self.products_used.sum()
        stopped = self.stop is not None and self.stop()
        return bool(stopped or rows >= self.most_rows or time.perf_counter() >= self.deadline)

    @property
    def n_folds(self) -> int:
        return len(self.kept)

    def __post_init__(self) -> None:
        object.__setattr__(self, "gradients_used", np.zeros(self.n_folds, int))
        object.__setattr__(self, "hessians_used", np.zeros(self.n_folds, int))
        object.__setattr__(self, "products_used", np.zeros(self.n_folds, int))

    def values_and_gradients(
        self, thetas: np.ndarray, which: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """F (n,) and its gradients (n, D) at thetas (n, D), each with the weights of its fold."""
        np.add.at(self.gradients_used, which, 1)
        return self._values_and_gradients(thetas, which)

    def _values_and_gradients(
        self, thetas: np.ndarray, which: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        objective = self.objective
        values, gradients = self.map(
            lambda weights, _, t: objective.values_and_gradients(t, weights),
            "fold gradients",
            which,
            thetas,
        )
        return values, gradients

    def products(self, thetas: np.ndarray, directions: np.ndarray, which: np.ndarray) -> np.ndarray:
        """(n, D) the Hessians of folds `which` at thetas (n, D), times directions (n, D)."""
        np.add.at(self.products_used, which, 1)
        objective = self.objective
        return self.map(
            lambda weights, _, t, d: objective.products(t, d, weights),
            "fold products",
            which,
            thetas,
            directions,
            per_fold=2.0,
        )[0]

    def hessians(
        self, thetas: np.ndarray, gradients: np.ndarray, scale: np.ndarray, which: np.ndarray
    ) -> np.ndarray:
        """(n, D, D) by differences of gradients, good to about five digits.

        D more rows of a program that is compiled already: measured at 2.5 times less work on a CPU than
        pushing D tangents through it. `objective.hessians` has the rest of the digits, and is used where
        it has a closed form.

        Args:
            thetas, gradients: (n, D), the gradients at the thetas.
            scale: (D,) a standard error of each parameter, in which steps are measured.
            which: (n,) folds.
        """
        np.add.at(self.hessians_used, which, 1)
        if self.objective.traits.closed_form_hessian:
            exact = lambda weights, _, t: (self.objective.hessians(t, weights),)  # noqa: E731
            return self.map(exact, "fold Hessians", which, thetas)[0]
        count, size = thetas.shape
        steps = _DIFFERENCE * scale
        moved = (thetas[:, None] + np.diag(steps)).reshape(count * size, size)
        _, rows = self._values_and_gradients(moved, np.repeat(which, size))
        hessians = (rows.reshape(count, size, size) - gradients[:, None]) / steps[:, None]
        return 0.5 * (hessians + np.swapaxes(hessians, 1, 2))

    @cached_property
    def _can_reside(self) -> bool:
        """Whether all weights stay on the accelerator, which waits for transfers more than it works."""
        room = self.n_folds * len(self.objective.base) * 8
        return jax.default_backend() != "cpu" and room <= _RESIDENT_BYTES

    @cached_property
    def _resident(self) -> jax.Array:
        with jax.enable_x64(True):
            return jnp.asarray(self.weights_of(np.arange(self.n_folds)))

    def _resident_weights(self, folds: np.ndarray) -> Any:
        with jax.enable_x64(True):
            return self._resident[folds]

    def map(
        self,
        work: Work,
        what: str,
        which: np.ndarray,
        *arrays: np.ndarray,
        per_fold: float = 1.0,
        knows: Any = (),
    ) -> tuple[np.ndarray, ...]:
        """`work(weights, folds, *rows)` on chunks of the folds `which` and of rows of `arrays`.

        The last chunk is padded by repeating its last row, so that all have one shape (or, where few
        folds are left, a quarter of it). The first time that `what` is done, the first chunk goes alone:
        the others then find a compiled program instead of all making one. Chunks are smaller (or larger)
        where a fold needs the memory of `per_fold` of them. `knows` is what else the work depends on,
        for the journal.
        """
        most = self.size if self.given else min(max(self.size, _LARGEST_CHUNK), self.n_folds)
        size = int(np.clip(self.size / per_fold, 1, most))
        if isinstance(self.parallel, Workers) and not self.given:
            size = min(size, -(-len(which) // (2 * self.parallel.n)))
        while size > _FEW and len(which) <= size // 4:  # few folds are left: pad them to fewer
            size //= 4
        if self.parallel == "devices":  # rows that do not split evenly would not be split
            size = -(-size // len(jax.devices())) * len(jax.devices())
        rows = [numbers for numbers, _ in chunks(len(which), size)]
        resident = self._can_reside and self.parallel is None
        weights_of = self._resident_weights if resident else self.weights_of

        def task(chosen: np.ndarray) -> tuple[Any, ...]:
            folds = which[chosen]
            return (weights_of(folds), folds, *(array[chosen] for array in arrays))

        parts: list[tuple[np.ndarray, ...]] = []
        with bar(len(which), what, self.progress) as advance:
            for part in self._run(work, what, [partial(task, chosen) for chosen in rows], knows):
                advance(min(size, len(which) - size * len(parts)))
                parts.append(part)
        return tuple(np.concatenate(column)[: len(which)] for column in zip(*parts, strict=True))

    def _run(
        self, work: Work, what: str, tasks: Sequence[Callable[[], tuple[Any, ...]]], knows: Any
    ) -> Iterator[Any]:
        """work(*task()) of each task, in order; what the journal holds is not computed, and the rest is
        written to it as it comes."""
        journal = self.journal
        known = None if journal is None else journal.name(what, knows)
        if journal is None or known is None:
            yield from self._compute(work, what, tasks)
            return
        made = [task() for task in tasks]
        names = [str(journal.name(known, inputs)) for inputs in made]
        kept = [journal.look(name, len(inputs[1])) for name, inputs in zip(names, made, strict=True)]
        missing = [partial(tuple, i) for i, found in zip(made, kept, strict=True) if found is None]
        fresh = self._compute(work, what, missing)
        for name, found in zip(names, kept, strict=True):
            if found is None:
                found = next(fresh)
                journal.write(name, found)
            yield found

    def _compute(
        self, work: Work, what: str, tasks: Sequence[Callable[[], tuple[Any, ...]]]
    ) -> Iterator[Any]:
        if isinstance(self.parallel, Workers):
            yield from self.parallel.run(work, [task() for task in tasks])
            return
        # One program on all devices at a time: two could wait for each other.
        threads = 1 if self.parallel == "devices" else min(_cores(), _MOST_THREADS)
        with ThreadPoolExecutor(threads) as pool:
            alone = 0 if what in self._compiled else 1
            self._compiled.add(what)
            yield from (work(*task()) for task in tasks[:alone])
            yield from pool.map(lambda task: work(*task()), tasks[alone:])
