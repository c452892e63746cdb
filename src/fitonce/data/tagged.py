"""Sentences with a tag for each word, and data for models of labels made from them."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fitonce.core.arguments import refusal, require, require_choice, require_text
from fitonce.core.numerics import is_count
from fitonce.core.wording import counted
from fitonce.data.labelled import Labelled, labelled
from fitonce.data.word_features import WordVectors, word_attributes, word_features

# Usual names of columns and keys, in lower case.
WORD = ("word", "token", "form", "text", "words", "tokens")
TAG = ("tag", "label", "ner_tag", "ner", "tags", "labels", "ner_tags", "bio", "iob", "entity")
FEATURES = ("words", "shapes", "vectors", "columns")


@dataclass(frozen=True)
class Tagged:
    """Sentences and their tags.

    Attributes:
        words: a list of words for each sentence.
        tags: a list of tags for each sentence, in the IOB2 scheme if they were chunks; None where a tag
            is not known.
        attributes: for each sentence a list with the attributes of each word, from further columns of
            a file or a file of CRFsuite; None: there are none.
        has_words: whether the file had words; else they are numbers in brackets.
    """

    words: list[list[str]]
    tags: list[list[Any]]
    attributes: list[list[Any]] | None = None
    has_words: bool = True

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, chosen: slice) -> Tagged:
        """A slice of the sentences."""
        if not isinstance(chosen, slice):
            raise TypeError(f"Tagged takes a slice such as [:100], got {chosen!r}")
        more = None if self.attributes is None else self.attributes[chosen]
        return Tagged(self.words[chosen], self.tags[chosen], more, self.has_words)

    @property
    def tag_names(self) -> tuple[str, ...]:
        """All tags that occur: O first, then by name."""
        tags = {tag for sentence in self.tags for tag in sentence if tag is not None}
        return tuple(sorted(tags, key=lambda tag: (tag != "O", tag[2:], tag)))

    def labelled(
        self,
        features: str | Sequence[str] | None = None,
        *,
        vectors: WordVectors | None = None,
        like: Labelled | None = None,
    ) -> Labelled:
        """Data for a model of labels.

        Args:
            features: one or several of "words" (`fo.word_attributes`: words, endings and neighbours,
                sparse), "shapes" (`fo.word_features`: capitals, digits, ...), "vectors" (of the words)
                and "columns" (the file's own attributes). None: "columns" where there are any, else
                "shapes"; with vectors, "vectors" too.
            vectors: from `fo.read_vectors`.
            like: data of a fit, whose tags and attributes these get.
        """
        chosen = self._chosen(features, vectors)
        parts: list[Any] = []
        if "words" in chosen:
            parts.append(word_attributes(self.words))
        if "columns" in chosen:
            parts.append(self.attributes)
        dense = None
        if {"shapes", "vectors"} & set(chosen):
            used = vectors if "vectors" in chosen else None
            dense = word_features(self.words, used, shapes="shapes" in chosen)
        tags = self.tag_names if like is None else like.tags
        if not parts:
            return labelled(dense, self.tags, tags=tags, words=self.words)
        if dense is not None:
            parts.append([[_as_attributes(row) for row in rows] for rows in dense])
        made = parts[0] if len(parts) == 1 else _joined(parts)
        known = None if like is None else like.attributes
        return labelled(made, self.tags, tags=tags, words=self.words, attributes=known)

    def _chosen(self, features: str | Sequence[str] | None, vectors: WordVectors | None) -> list[str]:
        if features is None:
            own = self.attributes is not None
            return ["columns" if own else "shapes", *(["vectors"] if vectors is not None else [])]
        chosen = [features] if isinstance(features, str) else list(features)
        for name in chosen:
            if name not in FEATURES:
                raise ValueError(f"features must be among {', '.join(FEATURES)}, got {name!r}")
        if not chosen:
            raise ValueError(f"features must be some of {', '.join(FEATURES)}, got none")
        if "columns" in chosen and self.attributes is None:
            raise ValueError("features 'columns' needs columns beside words and tags, got none")
        if chosen != ["columns"] and not self.has_words:
            raise ValueError(f"features {', '.join(chosen)} need words, but the file has none")
        if "vectors" in chosen and vectors is None:
            raise ValueError("features 'vectors' needs a file of word vectors, got none")
        return chosen + (["vectors"] if vectors is not None and "vectors" not in chosen else [])

    def __repr__(self) -> str:
        words = counted(sum(map(len, self.words)), "word" if self.has_words else "token")
        tags = counted(len(self.tag_names), "tag")
        unknown = sum(tag is None for sentence in self.tags for tag in sentence)
        more = f", {unknown:,} without a tag" if unknown else ""
        return f"Tagged({counted(len(self), 'sentence')}, {words}, {tags}{more})"


def features_of(data: Labelled) -> list[str]:
    """The features of `Tagged.labelled` that data have, as the names of their attributes tell."""
    if data.attributes is None:
        return ["shapes"]
    if any(re.match(r"\d+:", name) for name in data.attributes):
        raise ValueError(
            "features of several kinds cannot be told from a fit; read the file in Python with "
            "fo.read_tagged(...).labelled(features, like=fit.data)"
        )
    return ["words" if "before:edge" in data.attributes else "columns"]


def _as_attributes(row: Any) -> dict[str, float]:
    """Numbers of a word as attributes; zeros need none."""
    return {f"number{k}": float(value) for k, value in enumerate(row) if value}


def _joined(parts: list[Any]) -> list[list[dict[str, Any]]]:
    """Attributes of several kinds, each with names of its own."""
    return [
        [{str(kind): each for kind, each in enumerate(of_word)} for of_word in zip(*rows, strict=True)]
        for rows in zip(*parts, strict=True)
    ]


def to_iob2(tags: Sequence[Any]) -> list[Any]:
    """IOB1 tags as IOB2: every entity begins with B-. A tag that is not known is taken for any."""
    converted, before = [], "O"
    for tag in tags:
        continues = before is None or (before[:2] in ("B-", "I-") and before[2:] == (tag or "")[2:])
        inside = tag is not None and tag.startswith("I-")
        converted.append("B-" + tag[2:] if inside and not continues else tag)
        before = tag
    return converted


def check_scheme(scheme: Any) -> None:
    """Raise unless it is one of tags."""
    require_choice("scheme", scheme, ("auto", "iob1", "iob2"))


def require_columns(word: Any, tag: Any, sentence: Any, columns: Any) -> None:
    """Raise unless these are names or numbers of columns."""
    for name, value in (("word", word), ("tag", tag)):
        fine = value is None or isinstance(value, str) or is_count(value, -(2**31), 2**31)
        require(fine, name, "the name or the number of a column, or None", value)
    require_text("sentence", sentence, optional=True)
    listed = isinstance(columns, (list, tuple))
    fine = listed and all(isinstance(one, str) or is_count(one, -(2**31), 2**31) for one in columns)
    require(fine, "columns", "a list of columns", columns)


def read_lines(path: Path, encoding: str) -> list[str]:
    """The lines of a text file, without a mark of their order of bytes."""
    try:
        name = codecs.lookup(encoding).name
    except (LookupError, TypeError, ValueError):
        raise refusal("encoding", "one that Python knows", encoding) from None
    try:
        text = path.read_text(encoding="utf-8-sig" if name == "utf-8" else name)
    except UnicodeError as error:
        where = f"byte {error.start}" if isinstance(error, UnicodeDecodeError) else "a byte"
        other = "utf-8" if name != "utf-8" else "utf-16" if _is_utf_16(path) else "latin-1"
        raise ValueError(
            f"{path.name} must be {name.upper()} text, but {where} is not; name its encoding, such as "
            f"{other} (encoding, --encoding)"
        ) from None
    if "\0" in text:
        raise ValueError(f"{path.name} must be {name.upper()} text, but has zero bytes")
    return text.split("\n")


def _is_utf_16(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class TokenColumns(NamedTuple):
    """Which columns of a file are what; see `read_tagged`."""

    word: str | int | None
    tag: str | int | None
    sentence: str | None
    columns: Sequence[str | int]
    encoding: str


def numbered(tags: list[list[Any]]) -> list[list[str]]:
    """Stand-ins for words: the numbers of tokens in brackets."""
    return [[f"({k})" for k in range(len(row))] for row in tags]
