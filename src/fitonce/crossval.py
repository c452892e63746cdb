"""cross_validate: every fold from one fit."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from fitonce import weighting
from fitonce.curvature import Curvature, curvature
from fitonce.data import Sequences
from fitonce.fit import Fit
from fitonce.folds import Folds
from fitonce.heldout import Loss, heldout_losses
from fitonce.heldout import resolve as resolve_loss
from fitonce.methods import METHODS
from fitonce.models.custom import Custom
from fitonce.progress import bar
from fitonce.result import CVResult, Part, assemble
from fitonce.weighting import Scheme

_CHUNK_BYTES = 2**28  # of potentials, marginals and messages that a chunk of folds may need
_LARGEST_CHUNK = 256
_MOST_THREADS = 8  # each holds a chunk in memory


def cross_validate(
    fit: Fit,
    folds: Folds,
    *,
    method: str = "auto",
    scheme: str | Scheme | None = None,
    loss: Loss = "pointwise",
    chunk: int | None = None,
    progress: bool | None = None,
    damping: float = 0.0,
) -> CVResult:
    """Cross-validate a fitted model on folds, without refitting unless asked to.

    Args:
        fit: from `fo.fit`.
        folds: from `fo.folds`, made for the same data.
        method: "none" (the control), "ij", "onestep", "newton", "exact"; "auto" is "onestep".
        scheme: "A" (keep latent states, the default for points), "B" (drop them too), or a scheme from
            `fo.weighting`; whole sequences always use "structures".
        loss: "pointwise", "joint", or a function `loss(params, data, weights)` that returns one loss per
            droppable thing, of which the left-out ones are read.
        chunk: how many folds run through the compiled program together; None: by memory.
        progress: a progress bar; None: only on a terminal.
        damping: added to the diagonal of H, for a fit at which it is not positive definite.
    """
    started = time.perf_counter()
    name = _method(method)
    loss = resolve_loss(loss)
    folds = _matched(fit, folds)
    if isinstance(fit.model, Custom) and scheme is not None:
        raise ValueError(
            f"a Custom model's own weights are its path, so scheme must be None, got {scheme}"
        )
    curve = curvature(fit, weighting.resolve(scheme, folds.kind), damping=damping)
    if chunk is not None and (not isinstance(chunk, (int, np.integer)) or chunk < 1):
        raise ValueError(f"chunk must be an integer of at least 1, got {chunk}")
    size = chunk or _chunk_size(fit, name)
    if name in ("ij", "onestep"):  # what all folds share is done before they go to threads
        curve.solve(curve.gradient)
    if name == "ij":
        curve.J  # noqa: B018
    work = partial(_chunk, curve, fit, folds, name, loss)
    parts = _run(work, len(folds), min(size, len(folds)), progress)
    return assemble(fit, folds, name, curve, loss, parts, time.perf_counter() - started)


def _method(method: str) -> str:
    if method == "auto":
        return "onestep"
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"method must be 'auto' or one of {list(METHODS)}, got {method!r}")
    return method


def _matched(fit: Fit, folds: Folds) -> Folds:
    """The folds with the data's own missing observations, after checking that they belong to it."""
    if not isinstance(fit, Fit):
        raise ValueError(f"fit must be a Fit from fo.fit, got {type(fit).__name__}")
    if not isinstance(folds, Folds):
        hint = (
            "; wrap a scikit-learn splitter in fo.folds.from_splitter" if hasattr(folds, "split") else ""
        )
        raise ValueError(f"folds must come from fo.folds, got {type(folds).__name__}{hint}")
    if not isinstance(fit.data, Sequences):
        matched = folds.rebased(fit.problem.base)
        if fit.problem.value(fit.theta, matched.weights_of([0])[0]) == fit.problem.value(fit.theta):
            raise ValueError(
                "log_density must depend on weights, but leaving out fold 0 did not change its value"
            )
        return matched
    if folds.lengths is not None and not np.array_equal(folds.lengths, fit.data.lengths):
        raise ValueError(
            f"folds were made for sequences of {_some(folds.lengths)} steps, "
            f"data has {_some(fit.data.lengths)}"
        )
    if folds.kind == "sites":
        return folds.rebased(fit.data.weights)
    return folds.rebased(fit.data.observed.any((1, 2)).astype(float))


def _chunk_size(fit: Fit, method: str) -> int:
    """Folds per chunk, by memory; D times less where a method needs the folds' own Hessians."""
    tangents = len(fit.theta) if method in ("newton", "exact") else 1
    need = fit.model.bytes_per_fold(fit.problem.prepared) * tangents
    return int(np.clip(_CHUNK_BYTES // need, 1, _LARGEST_CHUNK))


def _chunk(curve: Curvature, fit: Fit, folds: Folds, name: str, loss: Loss, chosen: np.ndarray) -> Part:
    """Parameters, losses and control of a chunk of folds; `chosen` may repeat a fold as padding."""
    weights = folds.weights_of(chosen)
    found = METHODS[name](curve, weights)
    width = max(len(indices) for indices in folds.scored)
    scored = np.zeros((len(chosen), width), int)
    counted = np.zeros((len(chosen), width), bool)
    for row, fold in enumerate(chosen):
        indices = folds.scored[fold]
        scored[row, : len(indices)], counted[row, : len(indices)] = indices, True
    measure = partial(
        heldout_losses,
        curve.objective,
        loss,
        weights=weights,
        scored=scored,
        counted=counted,
        data=fit.data,
    )
    losses = measure(thetas=found.thetas)
    same = name == "none"
    control = losses if same else measure(thetas=METHODS["none"](curve, weights).thetas)
    return Part(found.thetas, found.status, losses, control)


def _run(work: Callable[[np.ndarray], Part], total: int, size: int, progress: bool | None) -> list[Part]:
    """Chunks of `size` folds, in order, on every core. The last one is padded by repeating a fold,
    so that all chunks have one shape and share one compiled program."""
    starts = range(0, total, size)
    padded = [np.minimum(np.arange(start, start + size), total - 1) for start in starts]
    with ThreadPoolExecutor(min(os.cpu_count() or 1, _MOST_THREADS)) as pool:
        parts = []
        with bar(total, "folds", progress) as shown:
            for part in _compile_first(work, padded, pool):
                parts.append(part)
                shown.update(min(size, total - shown.n))
    kept = total - (len(padded) - 1) * size
    last = parts[-1]
    parts[-1] = Part(last.thetas[:kept], last.status[:kept], last.losses[:kept], last.control[:kept])
    return parts


def _compile_first(
    work: Callable[[np.ndarray], Part], chunks: list[np.ndarray], pool: ThreadPoolExecutor
) -> Iterator[Part]:
    """The first chunk alone, so that the others find a compiled program instead of all making one."""
    yield work(chunks[0])
    yield from pool.map(work, chunks[1:])


def _some(lengths: np.ndarray) -> str:
    shown = ", ".join(map(str, lengths[:5]))
    return shown if len(lengths) <= 5 else f"{shown}, ... ({len(lengths)} sequences)"
