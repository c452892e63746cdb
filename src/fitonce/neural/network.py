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

from fitonce.core.arguments import require
from fitonce.core.memory import require_fits
from fitonce.core.numerics import Array, is_count, is_number
from fitonce.engines import chain

# Weights, gradients and two moments of Adam, in single precision, at the least.
_BYTES = {"hidden": lambda n: 2 * 4 * 4 * 4 * n * n}


@dataclass(frozen=True)
class Settings:
    """Sizes of the network and of its training.

    Args:
        hidden: units of an LSTM in each direction.
        layers: bidirectional layers.
        char_width, char_filters: of the characters' vectors, and of the CNN over three of them.
        word_width: of learned word vectors, where none are given.
        dropout: the share of units that are dropped, with one mask for all steps of a sentence.
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
        for name in ("hidden", "layers", "char_width", "char_filters", "word_width", "batch"):
            require(is_count(value := getattr(self, name)), name, "an integer of at least 1", value)
            require_fits(name, value, _BYTES.get(name, lambda n: 4096 * n), "the network")
        require(
            is_number(self.dropout) and 0 <= self.dropout < 1,
            "dropout",
            "at least 0 and less than 1",
            self.dropout,
        )
        require(
            is_number(self.learning_rate) and self.learning_rate > 0,
            "learning_rate",
            "positive",
            self.learning_rate,
        )


@lru_cache
def adam(learning_rate: float) -> Any:
    """The same optimiser for the same rate, so that programs compiled with it are reused."""
    return optax.adam(learning_rate)


class Batch(NamedTuple):
    """Sentences as numbers.

    Attributes:
        words: (B, T) rows of the word vectors; row 0 is for unknown words.
        chars: (B, T, L) characters, 0 at padding.
        lengths: (B,).
        tags: (B, T); any at padding.
        counted: (B,) 1, or 0 for padding sentences.
    """

    words: Array
    chars: Array
    lengths: Array
    tags: Array
    counted: Array


def _uniform(key: Array, bound: float, *shape: int) -> Array:
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


class Lstm(eqx.Module):
    """One direction of one layer."""

    into: Array  # (I, 4 H)
    onward: Array  # (H, 4 H)
    bias: Array  # (4 H,)

    def __init__(self, inputs: int, hidden: int, key: Array) -> None:
        one, two = jax.random.split(key)
        bound = 1.0 / np.sqrt(hidden)
        self.into = _uniform(one, bound, inputs, 4 * hidden)
        self.onward = _uniform(two, bound, hidden, 4 * hidden)
        # The second quarter belongs to the forget gate, which is initially open.
        self.bias = jnp.zeros(4 * hidden).at[hidden : 2 * hidden].set(1.0)

    def __call__(self, inputs: Array, valid: Array, reverse: bool) -> Array:
        """(B, T, H) outputs from inputs (B, T, I); states do not change where not `valid` (B, T)."""
        projected = jnp.swapaxes(inputs @ self.into + self.bias, 0, 1)
        zero = jnp.zeros((inputs.shape[0], self.onward.shape[0]), inputs.dtype)

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
        self.chars = scale * _uniform(keys[1], 1.0, n_chars, settings.char_width)
        bound = 1.0 / np.sqrt(3 * settings.char_width)
        self.filters = _uniform(keys[2], bound, 3, settings.char_width, settings.char_filters)
        self.filter_bias = jnp.zeros(settings.char_filters)
        sizes = [width + settings.char_filters] + [2 * settings.hidden] * (settings.layers - 1)
        self.ahead = [Lstm(s, settings.hidden, k) for s, k in zip(sizes, keys[4::2], strict=True)]
        self.behind = [Lstm(s, settings.hidden, k) for s, k in zip(sizes, keys[5::2], strict=True)]
        self.weights = _uniform(keys[3], 1.0 / np.sqrt(2 * settings.hidden), 2 * settings.hidden, tags)
        self.bias = jnp.zeros(tags)
        self.transition, self.start, self.end = jnp.zeros((tags, tags)), jnp.zeros(tags), jnp.zeros(tags)

    def scores(self, batch: Batch, vectors: Array, dropout: float, key: Array | None) -> Array:
        """(B, T, K) scores of tags; without a key there is no dropout."""
        table = vectors if self.learned is None else self.learned
        masks = len(self.ahead) + 2
        keys = [None] * masks if key is None else list(jax.random.split(key, masks))
        chars = _dropped(self.chars[batch.chars], dropout, keys[-1], (0, 1, 3))
        chars = jnp.where((batch.chars > 0)[..., None], chars, 0.0)
        hidden = jnp.concatenate([table[batch.words], self._spelling(chars, batch.chars > 0)], -1)
        valid = jnp.arange(hidden.shape[1])[None] < batch.lengths[:, None]
        for layer, (ahead, behind) in enumerate(zip(self.ahead, self.behind, strict=True)):
            hidden = _dropped(hidden, dropout, keys[layer], (0, 2))
            hidden = jnp.concatenate([ahead(hidden, valid, False), behind(hidden, valid, True)], -1)
        hidden = _dropped(hidden, dropout, keys[len(self.ahead)], (0, 2))
        return hidden @ self.weights + self.bias

    def _spelling(self, chars: Array, real: Array) -> Array:
        """(B, T, filters) the maximum over a word of each filter on three successive characters."""
        padded = jnp.pad(chars, ((0, 0), (0, 0), (2, 2), (0, 0)))
        size = padded.shape[2] - 2
        responses = self.filter_bias + sum(
            padded[:, :, shift : shift + size] @ self.filters[shift] for shift in range(3)
        )
        # A filter may extend beyond either end of a word by two characters.
        inside = jnp.arange(size)[None, None] < jnp.sum(real, -1, keepdims=True) + 2
        return jnp.max(jnp.where(inside[..., None], responses, -jnp.inf), 2)

    def losses(self, batch: Batch, vectors: Array, dropout: float, key: Array | None) -> Array:
        """(B,) -log p(tags | words)."""
        scores = self.scores(batch, vectors, dropout, key)
        return crf_losses((self.transition, self.start, self.end), scores, batch.tags, batch.lengths)


PARTS = ("transition", "start", "end")  # of a CRF layer


def crf_losses(layer: tuple[Array, Array, Array], scores: Array, tags: Array, lengths: Array) -> Array:
    """(B,) -log p(tags | scores (B, T, K)) of a CRF layer: its `PARTS`."""
    transition, start, end = layer
    unary = scores.at[:, 0].add(start)
    unary = unary.at[jnp.arange(scores.shape[0]), lengths - 1].add(end)
    valid = jnp.arange(scores.shape[1])[None] < lengths[:, None]
    own = jnp.take_along_axis(unary, tags[..., None], 2)[..., 0]
    moves = transition[tags[:, :-1], tags[:, 1:]]
    score = jnp.sum(jnp.where(valid, own, 0.0), 1) + jnp.sum(jnp.where(valid[:, 1:], moves, 0.0), 1)
    return chain.log_partition(unary, transition, lengths, "scan") - score


def _dropped(values: Array, share: float, key: Array | None, axes: tuple[int, ...]) -> Array:
    """Variational dropout: a mask over `axes` that is constant along the others."""
    if key is None or share == 0:
        return values
    shape = tuple(size if axis in axes else 1 for axis, size in enumerate(values.shape))
    return values * jax.random.bernoulli(key, 1.0 - share, shape) / (1.0 - share)
