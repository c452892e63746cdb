"""Training a tagger: Adam, early stopping by the validation loss, checkpoints."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from fitonce.core.arguments import refusal, require, require_count, require_flag
from fitonce.core.memory import require_fits
from fitonce.core.numerics import Array
from fitonce.core.progress import bar
from fitonce.data.tagged import Tagged
from fitonce.data.word_features import WordVectors
from fitonce.neural import checkpoint as files
from fitonce.neural.encoding import Encoded, batches, encode, encoding_of
from fitonce.neural.network import Batch, Network, Settings, adam
from fitonce.neural.tagger import Tagger, contents, from_contents, new_network

_ROW = 600  # bytes of an epoch's losses


class _State(NamedTuple):
    """The state of training: the current and the best network, and the optimiser."""

    network: Network
    best: Network
    optimiser: Any


def train(
    training: Tagged,
    validation: Tagged,
    *,
    vectors: WordVectors | None = None,
    settings: Settings | None = None,
    epochs: int = 50,
    patience: int = 3,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: bool | None = None,
) -> Tagger:
    """Train a bidirectional LSTM under a CRF to tag words.

    Args:
        training, validation: from `fo.read_conll`.
        vectors: of words, such as GloVe's, which stay fixed; None: learned.
        settings: sizes, dropout, batch and learning rate.
        epochs: at most.
        patience: epochs without a lower validation loss after which to stop.
        seed: of the initial parameters, the order of batches and dropout.
        checkpoint: a file, written after each epoch.
        resume: continue from `checkpoint` if it exists; the result is that of an uninterrupted run.
        progress: a progress bar; None: on a terminal and in notebooks.
    """
    settings = Settings() if settings is None else settings
    require(isinstance(settings, Settings), "settings", "fitonce.neural.Settings or None", settings)
    if not (vectors is None or isinstance(vectors, WordVectors)):
        raise refusal("vectors", "word vectors from fo.read_vectors, or None", vectors)
    for name, data in (("training", training), ("validation", validation)):
        if not isinstance(data, Tagged) or len(data) == 0:
            raise ValueError(f"{name} must be tagged sentences from fo.read_conll, and not empty")
    for name, value in (("epochs", epochs), ("patience", patience)):
        require_count(name, value)
    require_fits("epochs", epochs, lambda n: _ROW * n, "the losses of all epochs")
    require_count("seed", seed, 0, 2**32 - 1)
    require_flag("resume", resume)
    require_flag("progress", progress, optional=True)
    if resume and checkpoint is None:
        raise ValueError("resume=True needs checkpoint=, the file to continue from")
    if checkpoint is not None:
        files.check(checkpoint, "checkpoint")
    encoding, table = encoding_of(training, vectors)
    encoded = encode(encoding, training.words, training.tags)
    checked = encode(encoding, validation.words, validation.tags)
    network = new_network(settings, encoding, table, seed)
    optimise = adam(settings.learning_rate)
    state = _State(network, network, optimise.init(eqx.filter(network, eqx.is_array)))
    tagger = Tagger(settings, encoding, network, table, [])
    digest = _digest(training, validation, table, seed)
    if resume and checkpoint is not None and Path(checkpoint).exists():
        tagger, state = _resumed(checkpoint, tagger, state, digest)
    history, given = list(tagger.history), jax.device_put(table)
    with bar(epochs, "epochs", progress) as advance:
        advance(len(history))
        for epoch in range(len(history), epochs):
            before = [row["validation"] for row in history]
            if before and epoch - 1 - int(np.argmin(before)) >= patience:
                break
            started = time.perf_counter()
            state, loss = _epoch(state, optimise, encoded, given, settings, (seed, epoch))
            held = _loss(state.network, checked, given, settings.batch)
            if not np.isfinite(loss + held):
                raise ValueError("the loss is no longer finite; use a smaller learning_rate")
            if not before or held < min(before):
                state = state._replace(best=state.network)
            seconds = time.perf_counter() - started
            row = {"epoch": epoch + 1, "training": loss, "validation": held, "seconds": seconds}
            history.append(row)
            tagger = Tagger(settings, encoding, state.best, table, history)
            if checkpoint is not None:
                arrays = {"now": files.leaves(state.network), "optimiser": files.leaves(state.optimiser)}
                files.write_checkpoint(checkpoint, contents(tagger), {"digest": digest, **arrays})
            advance(1)
    return tagger


def _digest(training: Tagged, validation: Tagged, table: np.ndarray, seed: int) -> str:
    """A digest of everything that a run depends on, except its settings."""
    texts = (training.words, training.tags, validation.words, validation.tags, seed)
    return hashlib.sha256(json.dumps(texts).encode() + table.tobytes()).hexdigest()


def _resumed(
    path: str | os.PathLike[str], fresh: Tagger, state: _State, digest: str
) -> tuple[Tagger, _State]:
    values, training = files.read_checkpoint(path)
    tagger = from_contents(values)
    if "now" not in training:
        raise ValueError(f"{Path(path).name} is a saved tagger, not a checkpoint of its training")
    if tagger.settings != fresh.settings or training.get("digest") != digest:
        raise ValueError(
            f"{Path(path).name} is of another network, other data or another seed; use another "
            "checkpoint= or resume=False"
        )
    network = files.with_leaves(state.network, training["now"])
    optimiser = files.with_leaves(state.optimiser, training["optimiser"])
    return tagger, _State(network, tagger.network, optimiser)


def _epoch(
    state: _State,
    optimise: Any,
    encoded: Encoded,
    vectors: Array,
    settings: Settings,
    numbers: tuple[int, int],
) -> tuple[_State, float]:
    """One pass over the data; its order and dropout depend only on seed and epoch."""
    network, optimiser = state.network, state.optimiser
    rng = np.random.default_rng(numbers)
    key = jax.random.fold_in(jax.random.PRNGKey(numbers[0]), numbers[1])
    total = 0.0
    for k, (members, batch) in enumerate(batches(encoded, settings.batch, rng)):
        arrays = (batch, vectors, settings.dropout, jax.random.fold_in(key, k))
        network, optimiser, loss = _update(network, optimiser, optimise, *arrays)
        total += float(loss) * len(members)
    return state._replace(network=network, optimiser=optimiser), total / len(encoded.words)


@eqx.filter_jit
def _update(
    network: Network,
    optimiser: Any,
    optimise: Any,
    batch: Batch,
    vectors: Array,
    dropout: float,
    key: Array,
) -> tuple[Network, Any, Array]:
    def mean(net: Network) -> Array:
        losses = net.losses(batch, vectors, dropout, key)
        return jnp.sum(losses * batch.counted) / jnp.sum(batch.counted)

    loss, slopes = eqx.filter_value_and_grad(mean)(network)
    steps, optimiser = optimise.update(slopes, optimiser)
    return eqx.apply_updates(network, steps), optimiser, loss


@eqx.filter_jit
def _sum_of_losses(network: Network, batch: Batch, vectors: Array) -> Array:
    return jnp.sum(network.losses(batch, vectors, 0.0, None) * batch.counted)


def _loss(network: Network, encoded: Encoded, vectors: Array, size: int) -> float:
    """The mean loss per sentence, without dropout."""
    sums = [float(_sum_of_losses(network, batch, vectors)) for _, batch in batches(encoded, size)]
    return sum(sums) / len(encoded.words)
