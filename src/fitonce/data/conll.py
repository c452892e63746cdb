"""Sentences with a tag for each word, from files with a word a line (CoNLL columns, IOB1 or IOB2)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
import os
import re


_DOCUMENT = "-DOCSTART-"
_NUMBER = re.compile(r"\d+([-.]\d+)?")  # of a word, or of a range of words, as in CoNLL-U


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
        """Some of the sentences, by a slice."""
        if not isinstance(chosen, slice):
            raise TypeError(f"Tagged takes a slice such as [:100], got {chosen!r}")
        return Tagged(self.words[chosen], self.tags[chosen])

    @property
    def tag_names(self) -> tuple[str, ...]:
        """All tags that occur: O first, then by name."""
        found = {tag for sentence in self.tags for tag in sentence}
        return tuple(sorted(found, key=lambda tag: (tag != "O", tag[2:], tag)))

    def __repr__(self) -> str:
        tokens = sum(map(len, self.words))
        return f"Tagged({len(self):,} sentences, {tokens:,} words, {len(self.tag_names)} tags)"


def read_conll(
    path: str | os.PathLike[str], *, word: int | None = None, tag: int = -1, scheme: str = "auto"
) -> Tagged:
    """Read a file of columns with a word a line and an empty line between sentences.

    Comments (lines that begin with # and have not as many columns as the others) and `-DOCSTART-` lines
    are passed over.

    Args:
        path: of the file, in UTF-8.
        word: the column of the words; None: the first, or the second where the first numbers the words.
        tag: the column of the tags; -1: the last.
        scheme: "iob1" (B- only between neighbouring entities of a kind, as in CoNLL-2003), "iob2", or
            "auto": IOB1 if an entity begins with I-. Tags are returned in IOB2.
    """
    if scheme not in ("auto", "iob1", "iob2"):
        raise ValueError(f"scheme must be 'auto', 'iob1' or 'iob2', got {scheme!r}")
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"expected a file of words and tags, found none at {path}")
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} must be UTF-8 text, but byte {error.start} is not") from None
    sentences = _sentences(lines, path.name)
    if not sentences:
        raise ValueError(f"{path.name} holds no sentences: expected lines of a word and a tag")
    column = _word_column(sentences) if word is None else word
    try:
        words = [[columns[column] for columns in sentence] for sentence in sentences]
        tags = [[columns[tag] for columns in sentence] for sentence in sentences]
    except IndexError:
        width = len(sentences[0][0])
        raise ValueError(
            f"{path.name} has lines of {width} columns, too few for word={column}, tag={tag}"
        ) from None
    if scheme == "iob1" or (scheme == "auto" and any(map(_begins_inside, tags))):
        tags = [to_iob2(sentence) for sentence in tags]
    return Tagged(words, tags)


def to_iob2(tags: list[str]) -> list[str]:
    """IOB1 tags as IOB2: every entity begins with B-."""
    found, before = [], "O"
    for tag in tags:
        goes_on = before[:2] in ("B-", "I-") and before[2:] == tag[2:]
        found.append("B-" + tag[2:] if tag.startswith("I-") and not goes_on else tag)
        before = tag
    return found


def _begins_inside(tags: list[str]) -> bool:
    return to_iob2(tags) != tags


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
    found = line.split("\t") if "\t" in line else line.split()
    return [column.strip() for column in found]


def _shape(line: str) -> tuple[bool, int]:
    """Whether tabs part the columns, and how many there are."""
    return "\t" in line, len(_columns(line))


def _usual_shape(lines: list[str]) -> tuple[bool, int]:
    """Of most lines that do not begin with #: a word # has it too, a comment has not, but by chance."""
    words = [line for line in lines if any(_columns(line)) and not line.startswith(("#", _DOCUMENT))]
    shapes = Counter(map(_shape, words or [line for line in lines if "\t" in line]))
    return shapes.most_common(1)[0][0] if shapes else (False, 0)


def _word_column(sentences: list[list[list[str]]]) -> int:
    """1 where the first column numbers the words of every sentence and is not the only other one."""
    wide = all(len(columns) > 2 for columns in sentences[0])
    return int(wide and all(map(_is_numbered, sentences[:100])))


def _is_numbered(sentence: list[list[str]]) -> bool:
    """Whether the first column counts the words, from 0 or 1, with ranges of words between."""
    first = [columns[0] for columns in sentence]
    counts = [int(text) for text in first if text.isdigit()]
    counted = counts in (list(range(len(counts))), list(range(1, len(counts) + 1)))
    return counted and bool(counts) and all(_NUMBER.fullmatch(text) for text in first)
