"""Simple features of words, for linear models of their tags: vectors, shapes and neighbours."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitonce.core.arguments import require, require_count, require_flag
from fitonce.core.memory import require_fits
from fitonce.core.writing import existing

_SHAPES: tuple[Callable[[str], object], ...] = (
    lambda word: word[:1].isupper(),
    lambda word: word.isupper(),
    lambda word: word == word.lower(),
    lambda word: any(char.isdigit() for char in word),
    lambda word: not any(char.isalnum() for char in word),
    lambda word: "-" in word,
    re.compile(r"@.").match,
    re.compile(r"#.").match,
    re.compile(r"http|www\.|.*\.(com|org|net)\b").match,
    lambda word: "'" in word,
)


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Word vectors.

    Attributes:
        words: V words.
        vectors: (V, Q) floats.
    """

    words: tuple[str, ...]
    vectors: np.ndarray

    def __post_init__(self) -> None:
        if self.vectors.shape[:1] != (len(self.words),) or self.vectors.ndim != 2:
            raise ValueError(
                f"there must be a vector for each of {len(self.words)} words, got an array of shape "
                f"{self.vectors.shape}"
            )
        object.__setattr__(self, "_number", {word: k for k, word in enumerate(self.words)})

    def __repr__(self) -> str:
        return f"WordVectors({len(self.words):,} words, {self.width} numbers each)"

    @property
    def width(self) -> int:
        return int(self.vectors.shape[1])

    def number(self, word: str) -> int:
        """The row of a word, or of its lower case; -1 if there is none."""
        numbers: dict[str, int] = self.__dict__["_number"]
        return numbers.get(word, numbers.get(word.lower(), -1))

    def reduced(self, width: int) -> WordVectors:
        """The scores on the first `width` principal components, scaled to unit variance."""
        if not 1 <= width <= self.width:
            raise ValueError(f"width must be between 1 and {self.width}, got {width}")
        centred = self.vectors - self.vectors.mean(0)
        _, axes = np.linalg.eigh(centred.T @ centred)
        scores = centred @ axes[:, ::-1][:, :width]
        spread = scores.std(0)
        return WordVectors(self.words, scores / np.where(spread > 0, spread, 1.0))


def read_vectors(path: str | os.PathLike[str]) -> WordVectors:
    """Read GloVe's text format (a word and its numbers per line), or an .npz file with arrays `words`
    and `vectors`."""
    path = existing(path, "a file of word vectors")
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            if not {"words", "vectors"} <= set(arrays.files):
                raise ValueError(f"{path.name} must hold words and vectors, got {arrays.files}")
            return WordVectors(tuple(map(str, arrays["words"])), arrays["vectors"].astype(float))
    words: list[str] = []
    rows: list[np.ndarray] = []
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            word, *values = line.rstrip().split(" ")
            try:
                row = np.array(values, float)
            except ValueError:
                row = np.zeros(0)
            if row.size == 0 or (rows and len(row) != len(rows[0])):
                raise ValueError(f"{path.name}, line {number}: expected a word and its numbers")
            words.append(word)
            rows.append(row)
    if not words:
        raise ValueError(f"{path.name} holds no word vectors")
    return WordVectors(tuple(words), np.array(rows))


def word_features(
    sentences: Sequence[Sequence[str]],
    vectors: WordVectors | None = None,
    *,
    window: int = 1,
    shapes: bool = True,
) -> list[np.ndarray]:
    """Features of every word, an array (T_n, Q) for each sentence: the word's shape (capitals, digits,
    ...), the shapes of its neighbours, and its vector.

    Args:
        sentences: lists of words.
        vectors: word vectors; None: shapes only. A word without one has zeros and an indicator of that.
        window: how many neighbours on either side.
        shapes: whether there are shapes; else vectors only.
    """
    require_count("window", window, 0)
    require_flag("shapes", shapes)
    fine = vectors is None or isinstance(vectors, WordVectors)
    require(fine, "vectors", "WordVectors of fo.read_vectors or None", vectors)
    if not shapes and vectors is None:
        raise ValueError("shapes=False needs vectors, got none")
    known: dict[str, np.ndarray] = {}
    features = []
    for sentence in sentences_of(sentences):
        size = 8 * len(_SHAPES) * len(sentence)
        require_fits("window", window, lambda n: (2 * n + 1) * size, "the features of a sentence")  # noqa: B023
        for word in sentence:
            if word not in known:
                known[word] = np.array([bool(shape(word)) for shape in _SHAPES], float)
        own_shapes = np.stack([known[word] for word in sentence])
        padded = np.pad(own_shapes, ((window, window), (0, 0)))
        # The next word, the one before, the second next, ...
        shifts = [shift for k in range(1, window + 1) for shift in (k, -k)]
        count = len(sentence)
        columns = [own_shapes, *(padded[window + shift :][:count] for shift in shifts)] if shapes else []
        if vectors is not None:
            rows = np.array([vectors.number(word) for word in sentence])
            own = np.where(rows[:, None] >= 0, vectors.vectors[rows], 0.0)
            columns += [own, (rows < 0).astype(float)[:, None]]
        features.append(np.concatenate(columns, 1))
    return features


def word_attributes(sentences: Sequence[Sequence[str]]) -> list[list[dict[str, Any]]]:
    """Attributes of every word by name, for `fo.labelled`, which keeps them sparse: the word itself, in
    lower case, its beginning and endings, its pattern (`Xxx`, `XX`, `dd`), the words and patterns beside
    it, and whether it is first or last.

    Args:
        sentences: lists of words.
    """
    found = []
    for sentence in sentences_of(sentences):
        own = [_of_word(word) for word in sentence]
        rows = []
        for place, word in enumerate(sentence):
            row = {**own[place], "begins": word[:2].lower(), "ends": [word[-k:].lower() for k in (2, 3)]}
            for side, other in (("before", place - 1), ("after", place + 1)):
                row[side] = own[other] if 0 <= other < len(sentence) else ["edge"]
            rows.append(row)
        found.append(rows)
    return found


def _of_word(word: str) -> dict[str, Any]:
    return {"word": word.lower(), "pattern": _pattern(word)}


def _pattern(word: str) -> str:
    """Capitals as X, small letters as x, digits as d, each at most three times in a row."""
    text = re.sub(r"\d", "d", "".join("X" if c.isupper() else "x" if c.isalpha() else c for c in word))
    return re.sub(r"(.)\1{3,}", r"\1\1\1", text)


def sentences_of(given: Any) -> Iterator[Sequence[str]]:
    """Lists of words, each checked before it is used."""
    listed = isinstance(given, Iterable) and not isinstance(given, (str, bytes))
    require(listed, "sentences", "a list of lists of words", given)
    for number, sentence in enumerate(given):
        words = isinstance(sentence, (list, tuple, np.ndarray))
        fine = words and all(isinstance(word, str) for word in sentence)
        require(fine, f"sentences, number {number},", "a list of words", sentence)
        if len(sentence) == 0:
            raise ValueError(f"sentences: sentence {number} is empty; leave empty sentences out")
        yield sentence
