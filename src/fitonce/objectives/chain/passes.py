"""Passes of the native engine over all sequences: what F and its derivatives need of hidden states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fitonce.core.lanes import LANES
from fitonce.core.native import Scratch
from fitonce.engines import native_chain as engine
from fitonce.engines import native_chain_logs as logs_engine
from fitonce.objectives.chain.steps import Potentials, Steps

_SAFE_RANGE = 600.0 / 4  # nats between transitions, so that no divisor or its square underflows
_SAFE_LOG = 600.0  # nats from one: far from an overflow and from an underflow
_SCRATCH = Scratch()


@dataclass(frozen=True, eq=False)
class Posterior:
    """Of a group of folds. Arrays may be those of this thread, and valid until its next pass.

    Attributes:
        values: (F,) weighted log-likelihoods.
        nodes: (T, K, F) p(z_t = k); with increments, their expected states.
        shares: (R, K, F) expected states of the rows, times weights and coefficients.
        firsts, pairs: like `initial` and `moves`: expected first states and transitions, times links.
    """

    values: np.ndarray
    nodes: np.ndarray
    shares: np.ndarray
    firsts: np.ndarray
    pairs: np.ndarray


def posterior(steps: Steps, given: Potentials, *, values: bool = True, nodes: bool = True) -> Posterior:
    """By scaled probabilities where no divisor can underflow, in logarithms for the folds where one can,
    or where a sequence is impossible. Without `values` log-likelihoods of the others are zero, without
    `nodes` these are of any content."""
    with np.errstate(invalid="ignore"):
        ranges = (given.moves.max((1, 2)) - given.moves.min((1, 2))).max(0)
    safe = ranges < _SAFE_RANGE  # false where it is not finite
    if not safe.any() or not (given.links is None or _is_blend(given.links)):
        return _by_logarithms(steps, given)
    found = _scaled(steps, given, values, nodes)
    lost = np.flatnonzero(~(safe & np.isfinite(found.values)))
    if len(lost) == len(safe):
        return _by_logarithms(steps, given)
    for fold in map(int, lost):
        _replace(found, fold, _by_logarithms(steps, given.alone(fold)), nodes)
    return found


def _replace(found: Posterior, fold: int, one: Posterior, nodes: bool) -> None:
    """That of one fold, in place."""
    for name in ("values", "shares", "firsts", "pairs", *(["nodes"] if nodes else [])):
        getattr(found, name)[..., fold] = getattr(one, name)[..., 0]


def _scaled(steps: Steps, given: Potentials, with_values: bool, with_nodes: bool) -> Posterior:
    """Values are not finite where a sequence is impossible."""
    folds, index = given.weights.shape[-1], steps.index
    rows, weights = given.rows, given.weights
    tempered = not _is_blend(weights)
    if tempered:  # a row of its own for each step
        with np.errstate(invalid="ignore"):
            rows = np.where(weights[:, None] == 0, 0.0, weights[:, None] * rows[index])
        index, weights = np.arange(len(index)), np.ones_like(weights)
    emitted, row_peak = _relative("rows", rows, 1)
    first, first_peak = _relative("initial", given.initial, 1)
    move, move_peak = _relative("moves", given.moves, (1, 2))
    lanes, coefficients = _filled("weights", weights), _filled("coefficients", given.coefficients)
    blocks = engine.BLOCK + 1 if len(index) > engine.BLOCK and not (with_nodes or tempered) else None
    nodes = _SCRATCH.take("nodes", (len(lanes), blocks or len(index), *emitted.shape[2:]))
    longest = np.diff(steps.starts).max() // engine.BLOCK + 1
    marks = _SCRATCH.take("marks", (longest, *emitted.shape[2:]))
    inverses, work = _SCRATCH.take("inverses", lanes.shape), _SCRATCH.take("work", (2, *first.shape[2:]))
    shares, firsts, pairs = (
        _SCRATCH.zeros(name, array.shape)
        for name, array in (("shares", emitted), ("firsts", first), ("pairs", move))
    )
    none = np.empty((len(lanes), 0, LANES))
    links = none if given.links is None else _filled("links", given.links)
    sources = none
    if given.increments is not None:
        sources = _filled("sources", steps.differences(given.increments))
    for b in range(len(lanes)):
        chain = (first[b], move[b], links[b], steps.starts, coefficients[b], sources[b])
        found = (nodes[b], marks, shares[b], inverses[b], firsts[b], pairs[b], work)
        engine.scaled_posterior(emitted[b], index, lanes[b], *chain, *found)
    nodes, shares, firsts, pairs, inverses = (
        _of_folds(array, folds) for array in (nodes, shares, firsts, pairs, inverses)
    )
    if with_values:
        peaks = (first_peak, move_peak, row_peak, weights, index)
        values = _likelihoods(steps, given, shares, inverses, *peaks)
    else:  # what is impossible is not a number
        values = np.where(np.isfinite(shares).all((0, 1)), 0.0, -np.inf)
    return Posterior(values, nodes, _by_row(steps, given, nodes) if tempered else shares, firsts, pairs)


def _likelihoods(
    steps: Steps, given: Potentials, shares: Any, inverses: Any,
    first_peak: Any, move_peak: Any, row_peak: Any, weights: Any, index: Any,
) -> np.ndarray:  # fmt: skip
    """(F,) weighted log-likelihoods, from normalisers and what potentials were divided by."""
    if given.links is not None or given.increments is not None or len(move_peak) > 1:
        logs = weights * row_peak[index, 0] - np.log(inverses)
        return _total(steps, given, logs + _peaks(steps, given, first_peak, move_peak))
    # Peaks of emissions count as often as their rows, so that there is no need to go by steps.
    moves = np.diff(steps.starts)[:, None] - 1
    total = np.sum(given.coefficients * (moves * move_peak[0, 0] + first_peak[:, 0]), 0)
    total += np.einsum("rkf,rf->f", shares, row_peak[:, 0])
    if (given.coefficients == 1.0).all():
        return total - _log_product(inverses)
    return total - np.sum(given.coefficients * steps.totals(np.log(inverses)), 0)


def _is_blend(weights: np.ndarray) -> bool:
    """Whether all weights are 0 or 1."""
    return bool(engine.zeros_and_ones(weights.reshape(-1)))


def _log_product(values: np.ndarray) -> np.ndarray:
    """(F,) sums of the logarithms of values (T, F): of products of as many as neither overflow nor
    underflow."""
    total = np.zeros(values.shape[1])
    farthest = np.abs(np.log([values.min(), values.max()])).max()
    while len(values) > 1 and farthest < _SAFE_LOG / 2:  # false where it is not finite
        half = len(values) // 2
        total += np.log(values[2 * half :]).sum(0)  # the last of an odd number
        values, farthest = values[:half] * values[half : 2 * half], 2.0 * farthest
    return total + np.log(values).sum(0)


def _peaks(steps: Steps, given: Potentials, first_peak: np.ndarray, move_peak: np.ndarray) -> np.ndarray:
    """(T, F) what initial distributions and transitions were divided by, to the power of links."""
    found = np.broadcast_to(move_peak[:, 0, 0], given.weights.shape).copy()
    found[steps.starts[:-1]] = first_peak[:, 0]
    return found if given.links is None else given.links * found


def _total(steps: Steps, given: Potentials, logs: np.ndarray) -> np.ndarray:
    """(F,) the log-likelihood, from log p(x_t | x_<t) (T, F); a weight of zero removes even minus
    infinity."""
    if given.increments is None:
        logs, weights = steps.totals(logs), given.coefficients
    else:
        weights = given.increments
    return np.sum(np.where(weights != 0, weights * logs, 0.0), 0)


def _filled(name: str, array: np.ndarray) -> np.ndarray:
    """(B, ..., LANES) of folds (..., F): the last one is repeated until all lanes are filled."""
    folds = array.shape[-1]
    if folds == LANES and array.flags.c_contiguous:
        return array[None]
    found = _SCRATCH.take(name, (-(-folds // LANES), *array.shape[:-1], LANES))
    for block, start in zip(found, range(0, folds, LANES), strict=True):
        here = array[..., start : start + LANES]
        block[..., : here.shape[-1]] = here
        block[..., here.shape[-1] :] = here[..., -1:]
    return found


def _of_folds(blocks: np.ndarray, folds: int) -> np.ndarray:
    """Folds as the last axis again: a view of scratch memory with one block, else a copy."""
    if len(blocks) == 1:
        return blocks[0, ..., :folds]
    return np.moveaxis(blocks, 0, -2).reshape(*blocks.shape[1:-1], -1)[..., :folds]


def _relative(name: str, logs: np.ndarray, axis: int | tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """exp(logs - peak) in all lanes, and the peak along `axis`; zero where nothing is possible."""
    peak = logs.max(axis, keepdims=True)
    peak = np.where(np.isfinite(peak), peak, 0.0)
    folds = logs.shape[-1]
    found = _SCRATCH.take(name, (-(-folds // LANES), *logs.shape[:-1], LANES))
    for block, start in zip(found, range(0, folds, LANES), strict=True):
        here, stop = slice(start, start + LANES), min(folds - start, LANES)
        np.subtract(logs[..., here], peak[..., here], out=block[..., :stop])
        np.exp(block[..., :stop], out=block[..., :stop])
        block[..., stop:] = block[..., stop - 1 : stop]
    return found, peak


def _by_row(steps: Steps, given: Potentials, nodes: np.ndarray) -> np.ndarray:
    """(R, K, F) the shares of rows, from nodes."""
    scale = given.weights * given.coefficients[steps.sequence]
    shares = np.zeros(given.rows.shape)
    np.add.at(shares, steps.index, scale[:, None] * nodes)
    return shares


def _by_logarithms(steps: Steps, given: Potentials) -> Posterior:
    found = []
    for fold in range(given.weights.shape[-1]):
        one = conditionals(steps, given, fold)
        scale = given.coefficients[:, fold]
        if given.increments is None:
            nodes, pairs = one.nodes, np.zeros(one.back.shape)
            pairs[1:] = one.nodes[:-1, :, None] * one.onward[1:]
            with np.errstate(invalid="ignore"):
                value = np.where(scale != 0, scale * one.values, 0.0).sum()
        else:
            value, nodes, pairs = _summed_increments(steps, one, given.increments[:, fold])
        begins, of_step = steps.starts[:-1], scale[steps.sequence]
        links = given.links_of(fold)
        firsts = (scale * links[begins])[:, None] * nodes[begins]
        pairs *= (of_step * links)[:, None, None]
        firsts = firsts if len(given.initial) > 1 else firsts.sum(0)[None]
        pairs = pairs if len(given.moves) > 1 else pairs.sum(0)[None]
        found.append((value, nodes, firsts, pairs))
    values, nodes, firsts, pairs = (np.stack(part, -1) for part in zip(*found, strict=True))
    return Posterior(values, nodes, _by_row(steps, given, nodes), firsts, pairs)


def _summed_increments(steps: Steps, one: Conditionals, weights: np.ndarray) -> tuple[Any, Any, Any]:
    """The value, expected states (T, K) and transitions (T, K, K) for weights (T,) of increments."""
    filtered, prefix = one.filtered()
    before = np.concatenate([[0.0], prefix[:-1]])
    before[steps.starts[:-1]] = 0.0
    with np.errstate(invalid="ignore"):
        value = np.where(weights != 0, weights * (prefix - before), 0.0).sum()
    nodes, pairs = np.empty(filtered.shape), np.empty(one.back.shape)
    sources = steps.differences(weights)
    logs_engine.weighted_counts(filtered, one.back, sources, steps.starts, nodes, pairs)
    return value, nodes, pairs


@dataclass(frozen=True, eq=False)
class Conditionals:
    """Of one fold, see `native_chain_logs.conditionals`; also the messages (T, K) as logarithms."""

    ahead: np.ndarray
    behind: np.ndarray
    nodes: np.ndarray
    back: np.ndarray
    onward: np.ndarray
    values: np.ndarray

    def filtered(self) -> tuple[np.ndarray, np.ndarray]:
        """p(z_t | x_1 .. x_t) (T, K) and log p(x_1 .. x_t) (T,)."""
        peak = self.ahead.max(1, keepdims=True)
        share = np.exp(self.ahead - np.where(np.isfinite(peak), peak, 0.0))
        total = share.sum(1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(total > 0, share / total, 0.0), (np.log(total) + peak)[:, 0]


def conditionals(steps: Steps, given: Potentials, fold: int) -> Conditionals:
    """In logarithms, and so exact whatever the potentials."""
    rows, weights, initial, moves = (
        np.ascontiguousarray(array[..., fold])
        for array in (given.rows, given.weights, given.initial, given.moves)
    )
    count, states = len(steps.index), rows.shape[1]
    ahead, behind, nodes = (np.empty((count, states)) for _ in range(3))
    back, onward = np.empty((count, states, states)), np.empty((count, states, states))
    values = np.empty(len(steps.starts) - 1)
    emission = (rows, steps.index, weights)
    links = given.links_of(fold)
    logs_engine.log_messages(*emission, initial, moves, links, steps.starts, ahead, behind)
    chain = (moves, links, steps.starts)
    logs_engine.conditionals(*emission, *chain, ahead, behind, nodes, back, onward, values)
    return Conditionals(ahead, behind, nodes, back, onward, values)


def losses_by_logarithms(steps: Steps, given: Potentials, fold: int, scored: np.ndarray) -> np.ndarray:
    """(M,) -log p(x_t | kept data) of steps `scored` (M,) that one fold does not keep; states count
    however improbable they are. Infinite where the kept data are impossible."""
    one = conditionals(steps, given, fold)
    states = one.ahead[scored] + one.behind[scored]
    with np.errstate(invalid="ignore"):  # of a fold without parameters
        kept = np.logaddexp.reduce(states, -1)
        both = np.logaddexp.reduce(states + given.rows[steps.index[scored], :, fold], -1)
    return np.where(kept > -np.inf, kept, 0.0) - both
