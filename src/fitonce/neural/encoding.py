"""Words as numbers, and batches of sentences of similar length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from fitonce.data.conll import Tagged
from fitonce.data.word_features import WordVectors
from fitonce.neural.network import Batch

_LENGTHS = (8, 16, 32, 64)  # to which sentences are padded; each is a program to compile
_CHARS = 20  # of a word that are read
_SEEN = 2  # times that a word must occur to have a learned vector


@dataclass(frozen=True)
class Encoding:
    """Numbers of words, characters and tags.

    Attributes:
        words: those that have a vector; number 0 is for all others.
        chars: that have a number; 0 is padding and 1 for all others.
        tags: K names.
    """

    words: tuple[str, ...]
    chars: tuple[str, ...]
    tags: tuple[str, ...]

    def __post_init__(self) -> None:
        word = {name: k + 1 for k, name in enumerate(self.words)}
        char = {name: k + 2 for k, name in enumerate(self.chars)}
        tag = {name: k for k, name in enumerate(self.tags)}
        object.__setattr__(self, "_numbers", (word, char, tag))

    @property
    def n_words(self) -> int:
        return len(self.words) + 1

    @property
    def n_chars(self) -> int:
        return len(self.chars) + 2

    def word(self, text: str) -> int:
        words: dict[str, int] = self.__dict__["_numbers"][0]
        return words.get(text, words.get(text.lower(), 0))

    def spelling(self, text: str) -> list[int]:
        chars: dict[str, int] = self.__dict__["_numbers"][1]
        return [chars.get(char, 1) for char in text[:_CHARS]]

    def tag(self, name: str, sentence: int, place: int) -> int:
        tags: dict[str, int] = self.__dict__["_numbers"][2]
        if name not in tags:
            raise ValueError(
                f"the tag of sentence {sentence}, word {place} is '{name}', which is not one of the "
                f"{len(self.tags)} tags of the training data: {', '.join(self.tags)}"
            )
        return tags[name]


def encoding_of(training: Tagged, vectors: WordVectors | None) -> tuple[Encoding, np.ndarray]:
    """Numbers for the training data's words, and the vectors (words + 1, Q) of those that are given."""
    counts = Counter(word for sentence in training.words for word in sentence)
    chars = sorted({char for word in counts for char in word})
    tags = training.tag_names
    if vectors is not None:
        table = np.concatenate([np.zeros((1, vectors.width)), vectors.vectors])
        return Encoding(vectors.words, tuple(chars), tags), table.astype(np.float32)
    often = Counter[str]()
    for word, count in counts.items():
        often[word.lower()] += count
    words = tuple(sorted(word for word, count in often.items() if count >= _SEEN))
    return Encoding(words, tuple(chars), tags), np.zeros((1, 1), np.float32)


@dataclass(frozen=True, eq=False)
class Encoded:
    """Sentences as lists of numbers."""

    words: list[np.ndarray]
    chars: list[np.ndarray]
    tags: list[np.ndarray]


def encode(
    encoding: Encoding, sentences: Sequence[Sequence[str]], tags: Sequence[Sequence[str]] | None
) -> Encoded:
    """Numbers of sentences; tags None: those of an untagged text."""
    if len(sentences) == 0:
        raise ValueError("there must be at least one sentence, got none")
    words, chars, numbers = [], [], []
    for k, sentence in enumerate(sentences):
        if isinstance(sentence, str) or len(sentence) == 0:
            what = "a text" if isinstance(sentence, str) else "nothing"
            raise ValueError(f"sentence {k} must be a list of at least one word, got {what}")
        words.append(np.array([encoding.word(word) for word in sentence]))
        spelt = np.zeros((len(sentence), _CHARS), np.int32)
        for row, word in zip(spelt, sentence, strict=True):
            found = encoding.spelling(word)
            row[: len(found)] = found
        chars.append(spelt)
        named = [] if tags is None else [encoding.tag(tag, k, t) for t, tag in enumerate(tags[k])]
        numbers.append(np.array(named, int) if tags is not None else np.zeros(len(sentence), int))
        if len(numbers[-1]) != len(sentence):
            raise ValueError(
                f"sentence {k} has {len(sentence)} words but {len(numbers[-1])} tags; it needs one each"
            )
    return Encoded(words, chars, numbers)


def batches(
    encoded: Encoded, size: int, rng: np.random.Generator | None = None
) -> Iterator[tuple[np.ndarray, Batch]]:
    """Batches of sentences of similar length, and their numbers; shuffled when `rng` is given."""
    lengths = np.array([len(words) for words in encoded.words])
    longest = int(lengths.max())
    steps = np.array([*(s for s in _LENGTHS if s < longest), longest])
    shelf = np.searchsorted(steps, lengths)
    groups = []
    for number in range(len(steps)):
        members = np.flatnonzero(shelf == number)
        members = members if rng is None else rng.permutation(members)
        groups += [(members[k : k + size], int(steps[number])) for k in range(0, len(members), size)]
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
