"""A trained tagger: tags and scores of sentences, in a file and back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from fitonce.core.numerics import Array
from fitonce.data.conll import Tagged
from fitonce.data.labelled import Labelled, labelled
from fitonce.neural import checkpoint
from fitonce.neural.encoding import Encoding, batches, encode
from fitonce.neural.network import Batch, Network, Settings


@dataclass(frozen=True, eq=False)
class Tagger:
    """A network and what its numbers mean.

    Attributes:
        settings, encoding, network: what it is made of.
        vectors: (words + 1, Q) that are given and not learned.
        history: of each epoch, `epoch`, `training` and `validation` losses per sentence, `seconds`.
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
        layer = self.network
        found = {"transition": layer.transition, "start": layer.start, "end": layer.end}
        return {name: np.asarray(value, float) for name, value in found.items()}

    def scores(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Scores (T_n, K) of every tag at every word, from all layers below the CRF."""
        encoded = encode(self.encoding, sentences, None)
        found: list[np.ndarray] = [np.zeros(0)] * len(encoded.words)
        vectors = jnp.asarray(self.vectors)
        for members, batch in batches(encoded, self.settings.batch):
            values = np.asarray(_scores(self.network, batch, vectors))
            for member, row in zip(members, values, strict=False):
                found[member] = row[: len(encoded.words[member])].astype(float)
        return found

    def labelled(self, data: Tagged) -> Labelled:
        """Tagged sentences with these scores as features, for `LinearChainCRF("scores")`."""
        return labelled(self.scores(data.words), data.tags, tags=self.tags, words=data.words)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Into one file, without pickle; what was there before is kept as `.previous`."""
        checkpoint.write_checkpoint(path, contents(self), {})

    def __repr__(self) -> str:
        return (
            f"Tagger({len(self.tags)} tags, {len(self.history)} epochs, "
            f"validation loss {min(row['validation'] for row in self.history):.3f} a sentence)"
        )


@eqx.filter_jit
def _scores(network: Network, batch: Batch, vectors: Array) -> Array:
    return network.scores(batch, vectors, 0.0, None)


def load(path: str | os.PathLike[str]) -> Tagger:
    """A tagger from a file that `save` or `train(checkpoint=)` wrote."""
    return from_contents(checkpoint.read_checkpoint(path)[0])


def contents(tagger: Tagger) -> dict[str, Any]:
    """What a file must hold: arrays, and words and numbers."""
    leaves = checkpoint.leaves(tagger.network)
    encoding = tagger.encoding
    return {
        "settings": tagger.settings.__dict__,
        "words": list(encoding.words),
        "chars": list(encoding.chars),
        "tags": list(encoding.tags),
        "history": tagger.history,
        "vectors": tagger.vectors,
        "network": leaves,
    }


def from_contents(found: dict[str, Any]) -> Tagger:
    """The tagger again."""
    settings = Settings(**found["settings"])
    encoding = Encoding(*(tuple(found[name]) for name in ("words", "chars", "tags")))
    empty = empty_network(settings, encoding, found["vectors"])
    network = checkpoint.with_leaves(empty, found["network"])
    return Tagger(settings, encoding, network, found["vectors"], found["history"])


def empty_network(settings: Settings, encoding: Encoding, vectors: np.ndarray, seed: int = 0) -> Network:
    """A network of the right shapes, its numbers drawn by `seed`."""
    given = vectors.shape[1] if len(vectors) > 1 else None
    shapes = (encoding.n_words, encoding.n_chars, given, len(encoding.tags))
    return Network(settings, *shapes, jax.random.PRNGKey(seed))
