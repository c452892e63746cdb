"""Attributes of tokens by name, as users of CRFsuite have them, in compressed rows.

    {"word": "oslo", "title": True, "length": 4.0, "shape": ["X", "x"], "next": {"word": "is"}}

has the attributes `word:oslo`, `title`, `length` (4.0), `shape:X`, `shape:x` and `next:word:is`. Values
that are not given are 1. A value of zero is kept: the attribute occurs there, see `LinearChainCRF`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse

from fitonce.core.numerics import squares_overflow
from fitonce.core.wording import counted

_GROUPS = (list, tuple, set, frozenset)
_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)


def are_attributes(parts: list[Any]) -> bool:
    """Whether tokens of these sequences have attributes by name: the first that says something has."""
    for token in chain.from_iterable(map(tokens_of, parts)):
        if isinstance(token, Mapping):
            return True
        if isinstance(token, _GROUPS) and token:
            return isinstance(next(iter(token)), str)
        if not isinstance(token, _GROUPS):
            return False
    return False


def tokens_of(part: Any) -> Sequence[Any]:
    """The tokens of a sequence, which may be an `ItemSequence` of pycrfsuite."""
    if type(part).__name__ == "ItemSequence":
        return part.items()
    return part if isinstance(part, (list, tuple)) else []


def attribute_rows(
    parts: list[Any], known: tuple[str, ...] | None
) -> tuple[sparse.csr_array, tuple[str, ...]]:
    """The tokens of all sequences in compressed rows (sites, Q), and the names of the Q columns.

    Args:
        parts: a list with the tokens of each sequence.
        known: names of all columns, others are ignored; None: those that occur, in order.
    """
    number = {} if known is None else {name: place for place, name in enumerate(known)}
    columns: list[int] = []
    values: list[float] = []
    ends = [0]
    for sequence, part in enumerate(parts):
        for token, item in enumerate(tokens_of(part)):
            try:
                for name, value in _named(item):
                    place = number.get(name)
                    if place is None:
                        if known is not None:
                            continue
                        place = number[name] = len(number)
                    columns.append(place)
                    values.append(value)
            except TypeError as error:
                raise ValueError(
                    f"attributes of sequence {sequence}, token {token} must be a dict of names and "
                    f"numbers, text or lists of text, or a list of text, got {error}"
                ) from None
            ends.append(len(columns))
    if not number:
        raise ValueError("tokens must have at least one attribute, got none in all sequences")
    found = sparse.csr_array(
        (np.array(values, float), np.array(columns, np.int32), np.array(ends, np.int32)),
        shape=(len(ends) - 1, len(number)),
    )
    found.sum_duplicates()
    return found, tuple(number)


def _named(item: Any) -> Iterator[tuple[str, float]]:
    """Names and values of the attributes of one token, or of a group in it."""
    if isinstance(item, Mapping):
        for name, value in item.items():
            if isinstance(value, str):
                yield f"{name}:{value}", 1.0
            elif isinstance(value, _NUMBERS):
                yield str(name), float(value)
            else:
                for inner, number in _named(value):
                    yield f"{name}:{inner}", number
    elif isinstance(item, _GROUPS):
        for name in sorted(item) if isinstance(item, (set, frozenset)) else item:
            if not isinstance(name, str):
                raise TypeError(f"{type(name).__name__} among them")
            yield name, 1.0
    else:
        raise TypeError(type(item).__name__)


def joined_rows(parts: list[Any]) -> sparse.csr_array:
    """Sparse matrices (T_n, Q) of all sequences as one (sites, Q)."""
    for number, part in enumerate(parts):
        shape = getattr(part, "shape", ())
        if not sparse.issparse(part):
            raise ValueError(
                f"features must all be sparse matrices, or none, got {type(part).__name__} "
                f"in sequence {number}"
            )
        if len(shape) != 2 or 0 in shape:
            raise ValueError(
                f"features of sequence {number} must have shape (tokens, features), got {shape}"
            )
    widths = sorted({part.shape[1] for part in parts})
    if len(widths) > 1:
        raise ValueError(f"every token must have the same number of features, got {widths}")
    found = sparse.csr_array(sparse.vstack(parts, format="csr"), dtype=float)
    found.indices, found.indptr = found.indices.astype(np.int32), found.indptr.astype(np.int32)
    found.sum_duplicates()
    return found


def check_values(rows: sparse.csr_array, lengths: np.ndarray, names: tuple[str, ...] | None) -> None:
    """Raise where a number in compressed rows is not finite or too large or small to be squared."""
    numbers = rows.data
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if wrong.size == 0 and not squares_overflow(numbers):
        return
    if wrong.size == 0:
        raise ValueError(
            f"features must be zero or between 1e-100 and 1e100 in size, got "
            f"{np.abs(numbers).max():.1e}; use other units"
        )
    site = int(np.searchsorted(rows.indptr, wrong[0], side="right")) - 1
    sequence = int(np.searchsorted(np.cumsum(lengths), site, side="right"))
    column = int(rows.indices[wrong[0]])
    name = f"feature {column}" if names is None else f"attribute '{names[column]}'"
    raise ValueError(
        f"features must be finite, got {numbers[wrong[0]]} in sequence {sequence}, "
        f"token {site - int(lengths[:sequence].sum())}, {name} "
        f"({counted(wrong.size, 'such number')} in all)"
    )
