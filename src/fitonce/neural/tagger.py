"""A trained tagger: scores of sentences, saving and loading."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import numpy as np

from fitonce.core.arguments import require
from fitonce.core.numerics import Array
from fitonce.core.wording import counted
from fitonce.data.labelled import Labelled, labelled
from fitonce.data.tagged import Tagged
from fitonce.data.word_features import sentences_of
from fitonce.neural import checkpoint
from fitonce.neural.encoding import Encoding, batches, encode
from fitonce.neural.network import PARTS, Batch, Network, Settings

_NAMES = ("words", "chars", "tags")  # of an encoding


@dataclass(frozen=True, eq=False)
class Tagger:
    """A network with the encoding of its inputs and tags.

    Attributes:
        settings, encoding, network: its parts.
        vectors: (words + 1, Q) word vectors that are given and not learned.
        history: for each epoch, `epoch`, `training` and `validation` losses per sentence, `seconds`.
    """

    settings: Settings
    encoding: Encoding
    network: Network = field(repr=False)
    vectors: np.ndarray = field(repr=False)
    history: list[dict[str, float]] = field(repr=False)

    @property
    def tags(self) -> tuple[str, ...]:
        return self.encoding.tags

    @property
    def crf(self) -> dict[str, np.ndarray]:
        """The CRF layer, as parameters of `LinearChainCRF("scores")`."""
        return {name: np.asarray(getattr(self.network, name), float) for name in PARTS}

    def scores(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Scores (T_n, K) of every tag at every word, from all layers below the CRF."""
        encoded = encode(self.encoding, list(sentences_of(sentences)), None)
        scores: list[np.ndarray] = [np.zeros(0)] * len(encoded.words)
        vectors = jax.device_put(self.vectors)
        for members, batch in batches(encoded, self.settings.batch):
            values = np.asarray(_scores(self.network, batch, vectors))
            for member, row in zip(members, values, strict=False):
                scores[member] = row[: len(encoded.words[member])].astype(float)
        return scores

    def labelled(self, data: Tagged) -> Labelled:
        """Tagged sentences with these scores as features, for `LinearChainCRF("scores")`."""
        require(isinstance(data, Tagged), "data", "tagged sentences from fo.read_conll", data)
        return labelled(self.scores(data.words), data.tags, tags=self.tags, words=data.words)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to one file, without pickle; an existing one is kept as `.previous`."""
        checkpoint.write_checkpoint(path, contents(self), {})

    def __repr__(self) -> str:
        return (
            f"Tagger({counted(len(self.tags), 'tag')}, {counted(len(self.history), 'epoch')}, "
            f"validation loss {min(row['validation'] for row in self.history):.3f} per sentence)"
        )


@eqx.filter_jit
def _scores(network: Network, batch: Batch, vectors: Array) -> Array:
    return network.scores(batch, vectors, 0.0, None)


def load(path: str | os.PathLike[str]) -> Tagger:
    """A tagger from a file that `save` or `train(checkpoint=)` wrote."""
    return from_contents(checkpoint.read_checkpoint(path)[0])


def contents(tagger: Tagger) -> dict[str, Any]:
    """A tagger as arrays and plain values, for a file."""
    return {
        "settings": tagger.settings.__dict__,
        **{name: list(getattr(tagger.encoding, name)) for name in _NAMES},
        "history": tagger.history,
        "vectors": tagger.vectors,
        "network": checkpoint.leaves(tagger.network),
    }


def from_contents(values: dict[str, Any]) -> Tagger:
    """Inverse of `contents`."""
    settings, vectors = Settings(**values["settings"]), values["vectors"]
    encoding = Encoding(*(tuple(values[name]) for name in _NAMES))
    network = checkpoint.with_leaves(new_network(settings, encoding, vectors), values["network"])
    return Tagger(settings, encoding, network, vectors, values["history"])


def new_network(settings: Settings, encoding: Encoding, vectors: np.ndarray, seed: int = 0) -> Network:
    """A network of the right shapes with random parameters."""
    given = vectors.shape[1] if len(vectors) > 1 else None
    shapes = (len(encoding.words) + 1, len(encoding.chars) + 2, given, len(encoding.tags))
    return Network(settings, *shapes, jax.random.PRNGKey(seed))
