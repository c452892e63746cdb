"""The network: word vectors and a character CNN, two bidirectional LSTMs, scores of tags, a CRF."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from fitonce.core.numerics import Array, is_count, is_number
from fitonce.engines import chain


@dataclass(frozen=True)
class Settings:
    """Sizes of the network and of its training.

    Args:
        hidden: units of an LSTM in each direction.
        layers: bidirectional layers.
        char_width, char_filters: of the characters' vectors, and of the CNN over three of them.
        word_width: of learned word vectors, where none are given.
        dropout: the share of units that are dropped, the same at every step of a sentence.
        batch: sentences in a batch.
        learning_rate: of Adam.
    """

    hidden: int = 50
    layers: int = 2
    char_width: int = 50
    char_filters: int = 30
    word_width: int = 100
    dropout: float = 0.25
    batch: int = 31
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        whole = ("hidden", "layers", "char_width", "char_filters", "word_width", "batch")
        for name in whole:
            value = getattr(self, name)
            if not is_count(value):
                raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
        if not (is_number(self.dropout) and 0 <= self.dropout < 1):
            raise ValueError(f"dropout must be at least 0 and less than 1, got {self.dropout!r}")
        if not (is_number(self.learning_rate) and self.learning_rate > 0):
            raise ValueError(f"learning_rate must be positive, got {self.learning_rate!r}")


@lru_cache
def adam(learning_rate: float) -> Any:
    """One for each rate, so that programs compiled with it are found again."""
    return optax.adam(learning_rate)


class Batch(NamedTuple):
    """Sentences as numbers.

    Attributes:
        words: (B, T) rows of the word vectors; the first row is for words that are not known.
        chars: (B, T, L) characters, 0 at padding.
        lengths: (B,).
        tags: (B, T); any at padding.
        counted: (B,) 1, or 0 for sentences that only fill the batch up.
    """

    words: Array
    chars: Array
    lengths: Array
    tags: Array
    counted: Array


class Lstm(eqx.Module):
    """One direction of one layer."""

    into: Array  # (I, 4 H)
    onward: Array  # (H, 4 H)
    bias: Array  # (4 H,)

    def __init__(self, inputs: int, hidden: int, key: Array) -> None:
        one, two = jax.random.split(key)
        bound = 1.0 / np.sqrt(hidden)
        self.into = jax.random.uniform(one, (inputs, 4 * hidden), minval=-bound, maxval=bound)
        self.onward = jax.random.uniform(two, (hidden, 4 * hidden), minval=-bound, maxval=bound)
        # The second quarter is the forget gate's, which begins open.
        self.bias = jnp.zeros(4 * hidden).at[hidden : 2 * hidden].set(1.0)

    def __call__(self, inputs: Array, valid: Array, reverse: bool) -> Array:
        """(B, T, I) and valid (B, T) to (B, T, H); states stay as they are over padding."""
        projected = jnp.swapaxes(inputs @ self.into + self.bias, 0, 1)
        hidden = self.onward.shape[0]
        zero = jnp.zeros((inputs.shape[0], hidden), inputs.dtype)

        def step(carry, now):  # type: ignore[no-untyped-def]
            out, cell = carry
            gates, keep = now
            enter, forget, new, leave = jnp.split(gates + out @ self.onward, 4, -1)
            next_cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(enter) * jnp.tanh(new)
            next_out = jax.nn.sigmoid(leave) * jnp.tanh(next_cell)
            out = jnp.where(keep[:, None], next_out, out)
            cell = jnp.where(keep[:, None], next_cell, cell)
            return (out, cell), out

        _, outs = jax.lax.scan(step, (zero, zero), (projected, valid.T), reverse=reverse)
        return jnp.swapaxes(outs, 0, 1)


class Network(eqx.Module):
    """Scores of tags, and the CRF over them. Word vectors are not part of it unless learned."""

    learned: Array | None
    chars: Array
    filters: Array
    filter_bias: Array
    ahead: list[Lstm]
    behind: list[Lstm]
    weights: Array
    bias: Array
    transition: Array
    start: Array
    end: Array

    def __init__(
        self, settings: Settings, n_words: int, n_chars: int, given: int | None, tags: int, key: Array
    ) -> None:
        keys = list(jax.random.split(key, 4 + 2 * settings.layers))
        width = settings.word_width if given is None else given
        scale = np.sqrt(3.0 / settings.char_width)
        self.learned = None if given else 0.1 * jax.random.normal(keys[0], (n_words, width))
        self.chars = scale * jax.random.uniform(
            keys[1], (n_chars, settings.char_width), minval=-1.0, maxval=1.0
        )
        bound = 1.0 / np.sqrt(3 * settings.char_width)
        shape = (3, settings.char_width, settings.char_filters)
        self.filters = jax.random.uniform(keys[2], shape, minval=-bound, maxval=bound)
        self.filter_bias = jnp.zeros(settings.char_filters)
        sizes = [width + settings.char_filters] + [2 * settings.hidden] * (settings.layers - 1)
        self.ahead = [Lstm(s, settings.hidden, k) for s, k in zip(sizes, keys[4::2], strict=True)]
        self.behind = [Lstm(s, settings.hidden, k) for s, k in zip(sizes, keys[5::2], strict=True)]
        bound = 1.0 / np.sqrt(2 * settings.hidden)
        self.weights = jax.random.uniform(
            keys[3], (2 * settings.hidden, tags), minval=-bound, maxval=bound
        )
        self.bias = jnp.zeros(tags)
        self.transition, self.start, self.end = jnp.zeros((tags, tags)), jnp.zeros(tags), jnp.zeros(tags)

    def scores(self, batch: Batch, vectors: Array, dropout: float, key: Array | None) -> Array:
        """(B, T, K); without a key nothing is dropped."""
        table = vectors if self.learned is None else self.learned
        masks = len(self.ahead) + 2
        keys = [None] * masks if key is None else list(jax.random.split(key, masks))
        chars = _dropped(self.chars[batch.chars], dropout, keys[-1], (0, 1, 3))
        chars = jnp.where((batch.chars > 0)[..., None], chars, 0.0)
        found = jnp.concatenate([table[batch.words], self._spelling(chars, batch.chars > 0)], -1)
        valid = jnp.arange(found.shape[1])[None] < batch.lengths[:, None]
        for layer, (ahead, behind) in enumerate(zip(self.ahead, self.behind, strict=True)):
            found = _dropped(found, dropout, keys[layer], (0, 2))
            both = (ahead(found, valid, False), behind(found, valid, True))
            found = jnp.concatenate(both, -1)
        found = _dropped(found, dropout, keys[len(self.ahead)], (0, 2))
        return found @ self.weights + self.bias

    def _spelling(self, chars: Array, real: Array) -> Array:
        """(B, T, filters): the strongest answer of each filter to three characters in a row."""
        padded = jnp.pad(chars, ((0, 0), (0, 0), (2, 2), (0, 0)))
        size = padded.shape[2] - 2
        answers = self.filter_bias + sum(
            padded[:, :, shift : shift + size] @ self.filters[shift] for shift in range(3)
        )
        # A filter may reach past either end of a word by two characters.
        inside = jnp.arange(size)[None, None] < jnp.sum(real, -1, keepdims=True) + 2
        return jnp.max(jnp.where(inside[..., None], answers, -jnp.inf), 2)

    def losses(self, batch: Batch, vectors: Array, dropout: float, key: Array | None) -> Array:
        """(B,) -log p(tags | words)."""
        scores = self.scores(batch, vectors, dropout, key)
        return crf_losses((self.transition, self.start, self.end), scores, batch.tags, batch.lengths)


def crf_losses(layer: tuple[Array, Array, Array], scores: Array, tags: Array, lengths: Array) -> Array:
    """(B,) -log p(tags | scores) of a CRF layer: transition, start, end."""
    transition, start, end = layer
    row = jnp.arange(scores.shape[0])
    unary = scores.at[:, 0].add(start)
    unary = unary.at[row, lengths - 1].add(end)
    valid = jnp.arange(scores.shape[1])[None] < lengths[:, None]
    own = jnp.take_along_axis(unary, tags[..., None], 2)[..., 0]
    moves = transition[tags[:, :-1], tags[:, 1:]]
    score = jnp.sum(jnp.where(valid, own, 0.0), 1) + jnp.sum(jnp.where(valid[:, 1:], moves, 0.0), 1)
    return chain.log_partition(unary, transition, lengths, "scan") - score


def _dropped(values: Array, share: float, key: Array | None, axes: tuple[int, ...]) -> Array:
    """Variational dropout: one mask along `axes`, the same along the others."""
    if key is None or share == 0:
        return values
    shape = [size if axis in axes else 1 for axis, size in enumerate(values.shape)]
    return values * jax.random.bernoulli(key, 1.0 - share, tuple(shape)) / (1.0 - share)
