"""Simple features of words, for linear models of their tags: vectors, shapes and neighbours."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from fitonce.core.numerics import is_count
from pathlib import Path
import numpy as np
import os
import re


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
    """Vectors of words.

    Attributes:
        words: V of them.
        vectors: (V, Q).
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
        """The row of a word, or of its lower case; -1 where there is none."""
        numbers: dict[str, int] = self.__dict__["_number"]
        return numbers.get(word, numbers.get(word.lower(), -1))

    def reduced(self, width: int) -> WordVectors:
        """The same on their first `width` principal axes, scaled to unit variance."""
        if not 1 <= width <= self.width:
            raise ValueError(f"width must be between 1 and {self.width}, got {width}")
        centred = self.vectors - self.vectors.mean(0)
        _, axes = np.linalg.eigh(centred.T @ centred)
        found = centred @ axes[:, ::-1][:, :width]
        spread = found.std(0)
        return WordVectors(self.words, found / np.where(spread > 0, spread, 1.0))


def read_vectors(path: str | os.PathLike[str]) -> WordVectors:
    """Read GloVe's text format (a word and its numbers a line), or an .npz file with arrays `words` and
    `vectors`."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"expected a file of word vectors, found none at {path}")
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as found:
            if not {"words", "vectors"} <= set(found.files):
                raise ValueError(f"{path.name} must hold words and vectors, got {found.files}")
            return WordVectors(tuple(map(str, found["words"])), found["vectors"].astype(float))
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
    sentences: Sequence[Sequence[str]], vectors: WordVectors | None = None, *, window: int = 1
) -> list[np.ndarray]:
    """Features of every word: its shape (capitals, digits, ...) and its vector, and the shapes of up to
    `window` neighbours on either side. An array (T_n, Q) for each sentence.

    Args:
        sentences: lists of words.
        vectors: of words; None: shapes only. A word without one has zeros, and a feature that says so.
        window: how many neighbours' shapes to add.
    """
    if not is_count(window, 0):
        raise ValueError(f"window must be an integer of at least 0, got {window!r}")
    known: dict[str, np.ndarray] = {}
    found = []
    for number, sentence in enumerate(sentences):
        if len(sentence) == 0:
            raise ValueError(f"sentence {number} is empty; leave empty sentences out")
        for word in sentence:
            if word not in known:
                known[word] = np.array([bool(shape(word)) for shape in _SHAPES], float)
        shapes = np.stack([known[word] for word in sentence])
        columns = [shapes, *_neighbours(shapes, int(window))]
        if vectors is not None:
            rows = np.array([vectors.number(word) for word in sentence])
            own = np.where(rows[:, None] >= 0, vectors.vectors[rows], 0.0)
            columns += [own, (rows < 0).astype(float)[:, None]]
        found.append(np.concatenate(columns, 1))
    return found


def _neighbours(shapes: np.ndarray, window: int) -> list[np.ndarray]:
    made = []
    for shift in [s for k in range(1, window + 1) for s in (-k, k)]:
        moved = np.zeros_like(shapes)
        if abs(shift) < len(shapes):
            inside = slice(max(-shift, 0), len(shapes) - max(shift, 0))
            moved[max(shift, 0) : len(shapes) + min(shift, 0)] = shapes[inside]
        made.append(moved)
    return made
