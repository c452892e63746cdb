"""Sentences with a tag for each word, from files with one word per line (CoNLL columns)."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass

from fitonce.core.wording import counted
from fitonce.core.writing import existing

_DOCUMENT = "-DOCSTART-"
_NUMBER = re.compile(r"\d+([-.]\d+)?")  # the index of a word or of a range of words, as in CoNLL-U


@dataclass(frozen=True)
class Tagged:
    """Sentences and their tags.

    Attributes:
        words: a list of words for each sentence.
        tags: a list of tags for each sentence, in the IOB2 scheme if they were chunks.
    """

    words: list[list[str]]
    tags: list[list[str]]

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, chosen: slice) -> Tagged:
        """A slice of the sentences."""
        if not isinstance(chosen, slice):
            raise TypeError(f"Tagged takes a slice such as [:100], got {chosen!r}")
        return Tagged(self.words[chosen], self.tags[chosen])

    @property
    def tag_names(self) -> tuple[str, ...]:
        """All tags that occur: O first, then by name."""
        tags = {tag for sentence in self.tags for tag in sentence}
        return tuple(sorted(tags, key=lambda tag: (tag != "O", tag[2:], tag)))

    def __repr__(self) -> str:
        words = counted(sum(map(len, self.words)), "word")
        tags = counted(len(self.tag_names), "tag")
        return f"Tagged({counted(len(self), 'sentence')}, {words}, {tags})"


def read_conll(
    path: str | os.PathLike[str], *, word: int | None = None, tag: int = -1, scheme: str = "auto"
) -> Tagged:
    """Read a file of columns with one word per line and an empty line between sentences.

    `-DOCSTART-` lines and comments (lines that begin with # and have other columns than the rest) are
    skipped.

    Args:
        path: the file, in UTF-8.
        word: the column of the words; None: the first, or the second if the first numbers the words.
        tag: the column of the tags; -1: the last.
        scheme: "iob1" (B- only between adjacent entities of one type, as in CoNLL-2003), "iob2", or
            "auto": IOB1 if an entity begins with I-. Tags are returned in IOB2.
    """
    if scheme not in ("auto", "iob1", "iob2"):
        raise ValueError(f"scheme must be 'auto', 'iob1' or 'iob2', got {scheme!r}")
    path = existing(path, "a file of words and tags")
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} must be UTF-8 text, but byte {error.start} is not") from None
    sentences = _sentences(lines, path.name)
    if not sentences:
        raise ValueError(f"{path.name} holds no sentences: expected lines of a word and a tag")
    if word is None:
        several = all(len(columns) > 2 for columns in sentences[0])
        word = int(several and all(map(_is_numbered, sentences[:100])))
    try:
        words = [[columns[word] for columns in sentence] for sentence in sentences]
        tags = [[columns[tag] for columns in sentence] for sentence in sentences]
    except IndexError:
        width = len(sentences[0][0])
        raise ValueError(
            f"{path.name} has lines of {width} columns, too few for word={word}, tag={tag}"
        ) from None
    return Tagged(words, tags if scheme == "iob2" else list(map(to_iob2, tags)))


def to_iob2(tags: list[str]) -> list[str]:
    """IOB1 tags as IOB2: every entity begins with B-."""
    converted, before = [], "O"
    for tag in tags:
        continues = before[:2] in ("B-", "I-") and before[2:] == tag[2:]
        converted.append("B-" + tag[2:] if tag.startswith("I-") and not continues else tag)
        before = tag
    return converted


def _sentences(lines: list[str], name: str) -> list[list[list[str]]]:
    sentences: list[list[list[str]]] = [[]]
    usual = _usual_shape(lines)
    for number, line in enumerate(lines, 1):
        columns = _columns(line)
        if not any(columns):
            sentences.append([])
        elif columns[0] == _DOCUMENT or (line.startswith("#") and _shape(line) != usual):
            continue
        elif len(columns) < 2 or not columns[-1]:
            raise ValueError(f"{name}, line {number}: expected a word and a tag, got {line!r:.60}")
        elif len(columns) != usual[1]:
            raise ValueError(
                f"{name}, line {number}: expected {usual[1]} columns as in most lines, got {line!r:.60}"
            )
        else:
            sentences[-1].append(columns)
    return [sentence for sentence in sentences if sentence]


def _columns(line: str) -> list[str]:
    return [column.strip() for column in (line.split("\t") if "\t" in line else line.split())]


def _shape(line: str) -> tuple[bool, int]:
    """Whether tabs separate the columns, and how many columns there are."""
    return "\t" in line, len(_columns(line))


def _usual_shape(lines: list[str]) -> tuple[bool, int]:
    """The shape of most lines that do not begin with #, which tells the word # from a comment."""
    words = [line for line in lines if any(_columns(line)) and not line.startswith(("#", _DOCUMENT))]
    shapes = Counter(map(_shape, words or [line for line in lines if "\t" in line]))
    return shapes.most_common(1)[0][0] if shapes else (False, 0)


def _is_numbered(sentence: list[list[str]]) -> bool:
    """Whether the first column counts the words, from 0 or 1, perhaps with ranges of words between."""
    first = [columns[0] for columns in sentence]
    counts = [int(text) for text in first if text.isdigit()]
    consecutive = counts in (list(range(len(counts))), list(range(1, len(counts) + 1)))
    return consecutive and bool(counts) and all(_NUMBER.fullmatch(text) for text in first)
