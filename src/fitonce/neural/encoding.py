"""Words, characters and tags as numbers, and batches of sentences of similar length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import jax.numpy as jnp
import numpy as np

from fitonce.data.tagged import Tagged
from fitonce.data.word_features import WordVectors
from fitonce.neural.network import Batch

_LENGTHS = (8, 16, 32, 64)  # to which sentences are padded; each is a program to compile
_CHARS = 20  # of a word that are used
_SEEN = 2  # occurrences that a word needs for a learned vector


@dataclass(frozen=True)
class Encoding:
    """Numbers of words, characters and tags.

    Attributes:
        words: numbered from 1; 0 is for all others.
        chars: numbered from 2; 0 is padding, 1 is for all others.
        tags: K names, numbered from 0.
    """

    words: tuple[str, ...]
    chars: tuple[str, ...]
    tags: tuple[str, ...]

    @cached_property
    def _numbers(self) -> list[dict[str, int]]:
        named = ((self.words, 1), (self.chars, 2), (self.tags, 0))
        return [{name: k for k, name in enumerate(names, first)} for names, first in named]

    def word(self, text: str) -> int:
        words = self._numbers[0]
        return words.get(text, words.get(text.lower(), 0))

    def spelling(self, text: str) -> list[int]:
        return [self._numbers[1].get(char, 1) for char in text[:_CHARS]]

    def tag(self, name: str, sentence: int, place: int) -> int:
        tags = self._numbers[2]
        if name not in tags:
            raise ValueError(
                f"the tag of sentence {sentence}, word {place} is '{name}', which is not one of the "
                f"{len(self.tags)} tags of the training data: {', '.join(self.tags)}"
            )
        return tags[name]


def encoding_of(training: Tagged, vectors: WordVectors | None) -> tuple[Encoding, np.ndarray]:
    """The encoding of the training data, and given word vectors (words + 1, Q); (1, 1) without any."""
    counts = Counter(word for sentence in training.words for word in sentence)
    chars, tags = tuple(sorted({char for word in counts for char in word})), training.tag_names
    if vectors is not None:
        table = np.concatenate([np.zeros((1, vectors.width)), vectors.vectors])
        return Encoding(vectors.words, chars, tags), table.astype(np.float32)
    lowered = Counter(word.lower() for word in counts.elements())
    often = tuple(sorted(word for word, count in lowered.items() if count >= _SEEN))
    return Encoding(often, chars, tags), np.zeros((1, 1), np.float32)


@dataclass(frozen=True, eq=False)
class Encoded:
    """Sentences as numbers: lists of words (T_n,), chars (T_n, L) and tags (T_n,)."""

    words: list[np.ndarray]
    chars: list[np.ndarray]
    tags: list[np.ndarray]


def encode(
    encoding: Encoding, sentences: Sequence[Sequence[str]], tags: Sequence[Sequence[str]] | None
) -> Encoded:
    """Sentences as numbers; without tags, all of these are 0."""
    if len(sentences) == 0:
        raise ValueError("sentences must be at least one, got none")
    encoded = Encoded([], [], [])
    for k, sentence in enumerate(sentences):
        if isinstance(sentence, str) or len(sentence) == 0:
            what = "a text" if isinstance(sentence, str) else "nothing"
            raise ValueError(f"sentence {k} must be a list of at least one word, got {what}")
        given = [0] * len(sentence)
        if tags is not None:
            given = [encoding.tag(tag, k, t) for t, tag in enumerate(tags[k])]
        if len(given) != len(sentence):
            raise ValueError(f"sentence {k} needs {len(sentence)} tags, one per word, got {len(given)}")
        chars = np.zeros((len(sentence), _CHARS), np.int32)
        for row, word in zip(chars, sentence, strict=True):
            spelling = encoding.spelling(word)
            row[: len(spelling)] = spelling
        encoded.words.append(np.array([encoding.word(word) for word in sentence]))
        encoded.chars.append(chars)
        encoded.tags.append(np.array(given, int))
    return encoded


def batches(
    encoded: Encoded, size: int, rng: np.random.Generator | None = None
) -> Iterator[tuple[np.ndarray, Batch]]:
    """The numbers of sentences of similar length, and a batch of them; shuffled when `rng` is given."""
    lengths = np.array([len(words) for words in encoded.words])
    longest = int(lengths.max())
    padded = [*(length for length in _LENGTHS if length < longest), longest]
    bucket = np.searchsorted(padded, lengths)
    groups = []
    for number, length in enumerate(padded):
        members = np.flatnonzero(bucket == number)
        members = members if rng is None else rng.permutation(members)
        groups += [(members[k : k + size], length) for k in range(0, len(members), size)]
    for k in range(len(groups)) if rng is None else rng.permutation(len(groups)):
        members, length = groups[k]
        yield members, _batch(encoded, members, size, length)


def _batch(encoded: Encoded, members: np.ndarray, size: int, length: int) -> Batch:
    words, tags = np.zeros((2, size, length), np.int32)
    chars = np.zeros((size, length, _CHARS), np.int32)
    lengths, counted = np.ones(size, np.int32), np.zeros(size, np.float32)
    for row, member in enumerate(members):
        here = len(encoded.words[member])
        words[row, :here], tags[row, :here] = encoded.words[member], encoded.tags[member]
        chars[row, :here] = encoded.chars[member]
        lengths[row], counted[row] = here, 1.0
    return Batch(*map(jnp.asarray, (words, chars, lengths, tags, counted)))
