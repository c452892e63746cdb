"""Further training of the CRF layer on frozen scores: its parameters after each epoch."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fitonce.core.arguments import read_array, require_count, require_flag, require_number
from fitonce.core.memory import require_fits
from fitonce.core.numerics import Array, in_float64
from fitonce.core.progress import bar
from fitonce.data.labelled import UNKNOWN, Labelled
from fitonce.neural.network import PARTS, adam, crf_losses
from fitonce.objectives.labels.buckets import bucketed

_EPOCH = 1000  # bytes of an epoch beside its transitions


class Epoch(NamedTuple):
    """The CRF layer after an epoch.

    Attributes:
        epoch: 0 before the first.
        params: parameters of `LinearChainCRF("scores")`, for `fo.fit_at`.
        loss: mean training loss per sentence during the epoch.
        seconds: since training began.
    """

    epoch: int
    params: dict[str, np.ndarray]
    loss: float
    seconds: float


@in_float64
def train_crf_layer(
    data: Labelled,
    start: dict[str, Any],
    *,
    epochs: int = 60,
    learning_rate: float = 1e-3,
    batch: int = 31,
    scale: float | None = 3.0,
    seed: int = 0,
    progress: bool | None = None,
) -> list[Epoch]:
    """Train transitions, start and end scores by Adam on frozen scores.

    Args:
        data: `Tagger.labelled(...)`, all labels known.
        start: parameters to begin with, such as `Tagger.crf`.
        epochs, learning_rate, batch: of the training.
        scale: of the Gaussian prior, as in the `LinearChainCRF` to be fitted; None: no prior.
        seed: of the order of batches.
        progress: a progress bar; None: on a terminal and in notebooks.

    Returns: the layer before training and after each epoch.
    """
    if not isinstance(data, Labelled):
        raise ValueError(f"data must come from Tagger.labelled, got {type(data).__name__}")
    if unknown := int((data.labels == UNKNOWN).sum()):
        raise ValueError(f"all labels must be known to train the CRF layer, got {unknown:,} unknown")
    if data.features.shape[1] != len(data.tags):
        raise ValueError(
            f"the features must be scores of {len(data.tags)} tags, got {data.features.shape[1]} columns"
        )
    for name, value in (("epochs", epochs), ("batch", batch)):
        require_count(name, value)
    require_fits("epochs", epochs, lambda n: (_EPOCH + 8 * len(data.tags) ** 2) * n, "their layers")
    require_fits("batch", batch, lambda n: 64 * n * len(data.tags) ** 2, "its sentences")
    require_count("seed", seed, 0, 2**32 - 1)
    require_flag("progress", progress, optional=True)
    require_number("learning_rate", learning_rate, above=0)
    require_number("scale", scale, above=1e-150, below=1e150, optional=True)  # its square is used
    layer = tuple(jax.device_put(value) for value in _checked(start, len(data.tags)))
    optimise = adam(learning_rate)
    optimiser = optimise.init(layer)
    precision = 0.0 if scale is None else 1.0 / (scale**2 * data.n_sequences)
    buckets = bucketed(data.lengths)
    grids = [
        tuple(jax.device_put(a) for a in (b.grid(data.features), b.grid(data.labels), b.lengths))
        for b in buckets
    ]
    history = [Epoch(0, _named(layer), float("nan"), 0.0)]
    started = time.perf_counter()
    with bar(epochs, "epochs of the CRF layer", progress) as advance:
        for epoch in range(1, epochs + 1):
            rng = np.random.default_rng((seed, epoch))
            total = 0.0
            for number, rows in _batches([len(b.members) for b in buckets], batch, rng):
                counted = jax.device_put((np.arange(batch) < len(rows)).astype(float))
                chosen = jax.device_put(np.resize(rows, batch))
                arrays = (chosen, counted, precision, grids[number])
                layer, optimiser, loss = _update(optimise, layer, optimiser, *arrays)
                total += float(loss) * len(rows)
            seconds = time.perf_counter() - started
            history.append(Epoch(epoch, _named(layer), total / data.n_sequences, seconds))
            advance(1)
    return history


def _checked(start: Any, tags: int) -> list[np.ndarray]:
    given = start if isinstance(start, dict) else {}
    parts = [read_array(f"start: {name}", given[name]) for name in PARTS if name in given]
    right = [part.shape for part in parts] == [(tags, tags), (tags,), (tags,)]
    if not (right and all(np.isfinite(part).all() for part in parts)):
        needed = ", ".join(PARTS)
        raise ValueError(f"start must hold finite {needed} for {tags} tags, such as Tagger.crf")
    return parts


def _named(layer: tuple[Array, ...]) -> dict[str, np.ndarray]:
    return {name: np.asarray(part) for name, part in zip(PARTS, layer, strict=True)}


def _batches(sizes: list[int], batch: int, rng: np.random.Generator) -> list[tuple[int, np.ndarray]]:
    """The bucket of each batch and its rows there, in random order."""
    ordered = []
    for number, size in enumerate(sizes):
        order = rng.permutation(size)
        ordered += [(number, order[k : k + batch]) for k in range(0, size, batch)]
    return [ordered[k] for k in rng.permutation(len(ordered))]


@partial(jax.jit, static_argnums=0)
def _update(
    optimise: Any, layer: Any, optimiser: Any, rows: Array, counted: Array, precision: Array, grids: Any
) -> tuple[Any, Any, Array]:
    def mean(parts: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        losses = crf_losses(parts, *(grid[rows] for grid in grids))
        loss = jnp.sum(losses * counted) / jnp.sum(counted)
        squares = jnp.stack([jnp.sum(part**2) for part in parts])
        return loss + 0.5 * precision * jnp.sum(squares), loss

    slopes, loss = jax.grad(mean, has_aux=True)(layer)
    steps, optimiser = optimise.update(slopes, optimiser)
    return optax.apply_updates(layer, steps), optimiser, loss
