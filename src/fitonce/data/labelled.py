"""Labelled sequences: features of each token and its label, for models of labels given features.

Sites are tokens, numbered through all sequences in order. A site whose label is unknown has weight zero
in the full fit; its features are used all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from fitonce.core.arguments import require
from fitonce.core.deferred import after_loading, jax
from fitonce.core.numerics import squares_overflow
from fitonce.core.wording import counted, span
from fitonce.data.attributes import (
    are_attributes,
    attribute_rows,
    check_values,
    joined_rows,
    tokens_of,
)
from fitonce.data.columns import are_names, in_order_of_first, order_of
from fitonce.data.parts import from_arrow, require_called_once
from fitonce.data.sequences import Collection

UNKNOWN = -1


@dataclass(frozen=True, eq=False)
class Labelled(Collection):
    """Sequences of tokens with features and labels, concatenated.

    Attributes:
        features: (sites, Q) floats, an array or compressed rows (`scipy.sparse.csr_array`).
        labels: (sites,) indices of tags, -1 where unknown.
        lengths: (N,) integers.
        tags: K names.
        words: (sites,) the tokens, for reports; None if not given.
        attributes: Q names of features, those of attributes or of columns of tables; None if not given.
    """

    features: Any
    labels: np.ndarray
    lengths: np.ndarray
    tags: tuple[str, ...]
    words: tuple[str, ...] | None = None
    attributes: tuple[str, ...] | None = None

    @property
    def is_sparse(self) -> bool:
        """Whether features are in compressed rows."""
        return sparse.issparse(self.features)

    @property
    def weights(self) -> np.ndarray:
        """(sites,): 1 where the label is known."""
        return (np.asarray(self.labels) != UNKNOWN).astype(float)

    def words_of(self, sequence: int) -> list[str]:
        """The tokens of one sequence; their numbers if no words were given."""
        start, length = self.offsets[sequence], self.lengths[sequence]
        if self.words is None:
            return [f"({step})" for step in range(length)]
        return list(self.words[start : start + length])

    def with_attributes(self, wanted: tuple[str, ...]) -> Labelled:
        """The same with its features in the order of these, by name; features without names are left."""
        if self.attributes is None:
            return self
        try:
            order = order_of(wanted, self.attributes, "features")
        except ValueError as error:
            hint = "; read the data with fo.labelled(..., attributes=) of the training data"
            raise ValueError(f"{error}{hint if self.is_sparse else ''}") from None
        if order is None:
            return self
        return replace(self, features=self.features[:, order], attributes=wanted)

    def __repr__(self) -> str:
        unknown = int((self.weights == 0).sum())
        return (
            f"Labelled({counted(self.n_sequences, 'sequence')} of {span(self.lengths, 'token')}, "
            f"{counted(self.features.shape[1], 'feature')}, {counted(len(self.tags), 'tag')}, "
            f"{unknown:,} of {self.n_sites:,} labels unknown)"
        )


# So that a user's own loss can take the data inside a compiled program, which does not need the words.
after_loading(
    lambda: jax.tree_util.register_pytree_node(
        Labelled,
        lambda data: ((data.features, data.labels, data.lengths), data.tags),
        lambda tags, arrays: Labelled(*arrays, tags),
    )
)


def labelled(
    features: Any,
    labels: Any,
    *,
    tags: Sequence[Any] | None = None,
    words: Any = None,
    attributes: Sequence[str] | None = None,
) -> Labelled:
    """Read features and labels as sequences.

    Args:
        features: a list with an array or a table (T_n, Q) for each sequence, or an array (N, T, Q);
            columns of tables are put in the order of the first, by name. Sparse: a list with a SciPy
            sparse matrix (T_n, Q) for each sequence or, as CRFsuite has them, a list of T_n dicts of
            attributes ({"word": "Oslo", "title": True, "length": 4.0}) or of lists of text.
        labels: a list with T_n labels for each sequence: text or integers. None, NaN, "" or the number
            -1 mean that a label is unknown.
        tags: all possible labels, in order; None: those that occur, sorted. Pass the tags of the
            training data when reading more data for the same model.
        words: a list with T_n words for each sequence, for reports.
        attributes: of dicts and lists: names of all columns, others are ignored; None: those that occur.
            Pass those of the training data (`data.attributes`) when reading more for the same model.
    """
    rows, lengths, names_of_columns = _rows(_listed(features, "features"), attributes)
    flat = _flat(labels, lengths, "labels")
    texts = [None if _is_unknown(label) else _text(label) for label in flat]
    occurring = {text for text in texts if text is not None}
    if not occurring:
        raise ValueError("labels must hold at least one known label, got none")
    names = _names(tags, occurring)
    number: dict[str | None, int] = {None: UNKNOWN} | {name: k for k, name in enumerate(names)}
    for site, text in enumerate(texts):
        if text not in number:
            sequence = int(np.searchsorted(np.cumsum(lengths), site, side="right"))
            token = site - int(lengths[:sequence].sum())
            raise ValueError(
                f"the label of sequence {sequence}, token {token} is '{text}', which is not one of "
                f"the {len(names)} tags {', '.join(names):.200}; label it as one of these or as None "
                "(unknown), or fit a model that has it"
            )
    codes = np.array([number[text] for text in texts])
    tokens = None if words is None else tuple(map(str, _flat(words, lengths, "words")))
    return Labelled(rows, codes, lengths, names, tokens, names_of_columns)


def _rows(
    parts: list[Any], attributes: Sequence[str] | None
) -> tuple[Any, np.ndarray, tuple[str, ...] | None]:
    """Features of all sites (sites, Q), lengths (N,) and names of columns, where they have names."""
    if not parts:
        raise ValueError("features must hold at least one sequence, got none")
    by_name = are_attributes(parts)
    parts = from_arrow(parts)
    require_called_once(parts, "features")
    parts, columns = in_order_of_first(parts, "features")
    if attributes is not None and not by_name:
        raise ValueError("attributes= is for features that are dicts or lists of text, got numbers")
    if by_name:
        lengths = np.array([len(tokens_of(part)) for part in parts])
        _refuse_empty(lengths)
        rows, names = attribute_rows(parts, None if attributes is None else tuple(attributes))
        check_values(rows, lengths, names)
        return rows, lengths, names
    if any(map(sparse.issparse, parts)):
        rows, lengths = joined_rows(parts), np.array([part.shape[0] for part in parts])
        check_values(rows, lengths, None)
        return rows, lengths, None
    arrays = [_matrix(part, number) for number, part in enumerate(parts)]
    widths = sorted({part.shape[1] for part in arrays})
    if len(widths) > 1:
        raise ValueError(f"every token must have the same number of features, got {widths}")
    called = columns if are_names(columns) else None
    return np.concatenate(arrays), np.array([len(part) for part in arrays]), called


def _refuse_empty(lengths: np.ndarray) -> None:
    for number in np.flatnonzero(lengths == 0):
        raise ValueError(f"sequence {number} is empty; leave empty sequences out of features and labels")


def _listed(items: Any, what: str) -> list[Any]:
    if isinstance(items, (str, bytes)) or not hasattr(items, "__len__"):
        raise ValueError(f"{what} must be a list with an entry per sequence, got {type(items).__name__}")
    flat = isinstance(items, np.ndarray) and items.ndim == 2 and what == "features"
    if isinstance(items, pd.DataFrame) or flat:
        raise ValueError(f"{what} must be a list with an entry per sequence, got a single table")
    return list(items)


def _matrix(part: Any, number: int) -> np.ndarray:
    try:
        array = np.asarray(part, float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"features of sequence {number} must be numbers, got {type(part).__name__}"
        ) from None
    if array.ndim > 0 and len(array) == 0:
        raise ValueError(f"sequence {number} is empty; leave empty sequences out of features and labels")
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(
            f"features of sequence {number} must have shape (tokens, features), got {array.shape}"
        )
    if not np.isfinite(array).all():
        token, feature = np.argwhere(~np.isfinite(array))[0]
        raise ValueError(
            f"features must be finite, got {array[token, feature]} in sequence {number}, token {token}, "
            f"feature {feature}; an unknown feature needs a value, such as 0"
        )
    if squares_overflow(array):
        raise ValueError(
            f"features must be zero or between 1e-100 and 1e100 in size, got {np.abs(array).max():.1e} "
            f"in sequence {number}; use other units"
        )
    return array


def _flat(items: Any, lengths: np.ndarray, what: str) -> list[Any]:
    rows = _listed(items, what)
    if len(rows) != len(lengths):
        raise ValueError(
            f"{what} must have one entry for each of {len(lengths)} sequences, got {len(rows)}"
        )
    for number, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        if isinstance(row, str) or np.ndim(np.asarray(row, object)) != 1 or len(row) != length:
            shown = f"'{row:.40}'" if isinstance(row, str) else f"{np.shape(np.asarray(row, object))}"
            raise ValueError(
                f"{what} of sequence {number} must be a list of {length}, one per token, got {shown}"
            )
    return [item for row in rows for item in row]


def _text(label: Any) -> str:
    """The name of a tag. 1.0 is the tag 1: NaN turns integers into floats."""
    whole = isinstance(label, (float, np.floating)) and float(label).is_integer()
    return str(int(label)) if whole else str(label)


def _is_unknown(label: Any) -> bool:
    if isinstance(label, str):
        return label == ""
    return bool(pd.isna(label)) or label == UNKNOWN


def _names(tags: Sequence[Any] | None, occurring: set[str]) -> tuple[str, ...]:
    if tags is None:
        whole = all(name.lstrip("-").isdigit() for name in occurring)
        return tuple(sorted(occurring, key=int if whole else None))
    listed = isinstance(tags, Iterable) and not isinstance(tags, (str, bytes))
    require(listed, "tags", "a list of different names", tags)
    try:
        names = tuple(map(_text, tags))
    except ValueError:  # an integer of thousands of digits
        names = ()
    fine = len(set(names)) == len(names) and names
    require(fine, "tags", "a list of different names", tags)
    return names
