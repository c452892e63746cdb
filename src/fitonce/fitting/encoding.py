"""Models and data as plain JSON, and back. No pickle: only classes of this package are made again.

Arrays are compressed; tuples are lists; what JSON lacks is a dict with one key that says what it is:
"array", "list", "dict", "float", "words", "index", or "is", the name of a class, with its fields.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from fitonce.core.arguments import shown
from fitonce.fitting.index_encoding import NotKeptError, decoded_index, encoded_index
from fitonce.results.packing import pack_array, pack_words, to_array, to_word, to_words

_HOMES = ("fitonce.models", "fitonce.data")
_MANY = 20  # strings: so many are compressed


class NotPlainError(ValueError):
    """Something that a file cannot hold: code of the user's own."""


def encoded(value: Any) -> Any:
    """A model, data, or any part of them, as JSON."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (np.bool_, np.number)):
        return encoded(value.item())
    if isinstance(value, (int, float)):
        return value if np.isfinite(value) else {"float": repr(value)}
    if isinstance(value, tuple) and type(value) is tuple:
        if len(value) >= _MANY and all(type(item) is str for item in value):
            return {"words": pack_words(value)}
        return [encoded(item) for item in value]
    if isinstance(value, list):
        return {"list": [encoded(item) for item in value]}
    if type(value) is dict:
        return {"dict": [[encoded(key), encoded(item)] for key, item in value.items()]}
    if isinstance(value, pd.Index):
        return {"index": _index(value)}
    if isinstance(value, (pd.DataFrame, pd.Series)):  # of a `Custom`, which sees the numbers only
        return encoded(value.to_numpy())
    if isinstance(value, np.ndarray) or type(value).__module__.split(".")[0] in ("jax", "jaxlib"):
        array = np.asarray(value)
        if array.dtype.kind in "biuf":
            return {"array": pack_array(array)}
    elif sparse.issparse(value):
        rows: Any = sparse.csr_array(value)  # type: ignore[call-overload]
        parts = (rows.data, rows.indices, rows.indptr, np.array(rows.shape))
        return {"sparse": [encoded(part) for part in parts]}
    elif is_dataclass(value) and type(value).__module__.startswith(_HOMES):
        return {"is": type(value).__name__, **_of_fields(value)}
    raise NotPlainError(f"a {type(value).__name__}")


def _index(index: pd.Index) -> dict[str, Any]:
    try:
        return encoded_index(index)
    except NotKeptError as error:
        raise NotPlainError(str(error)) from None


def _of_fields(value: Any) -> dict[str, Any]:
    """Those that are not as they are by default, so that later versions can add others."""
    return {
        part.name: encoded(getattr(value, part.name))
        for part in fields(value)
        if part.init and not _is_default(part, getattr(value, part.name))
    }


def _is_default(part: Any, value: Any) -> bool:
    plain = value is None or isinstance(value, (bool, int, float, str))
    return plain and type(part.default) is type(value) and part.default == value


def decoded(found: Any) -> Any:
    """Inverse of `encoded`."""
    if isinstance(found, list):
        return tuple(decoded(item) for item in found)
    if not isinstance(found, dict):
        return found
    if "is" in found:
        made = known_class(to_word(found["is"]))
        return made(**{name: decoded(item) for name, item in found.items() if name != "is"})
    if len(found) != 1 or next(iter(found)) not in _READERS:
        raise ValueError(f"it has an entry of unknown kind, {sorted(found)[:3]}")
    ((kind, content),) = found.items()
    return _READERS[kind](content)


def _to_sparse(parts: Any) -> Any:
    values, columns, starts, shape = map(decoded, parts)
    return sparse.csr_array((values, columns, starts), tuple(shape))


def _to_float(text: Any) -> float:
    if text not in ("inf", "-inf", "nan"):
        raise ValueError(f"expected a number, got {shown(text)}")
    return float(text)


@cache
def _classes() -> dict[str, type]:
    """The dataclasses of models and data by name, of which no two have the same."""
    found: dict[str, type] = {}
    for home in _HOMES:
        package = import_module(home)
        for entry in pkgutil.walk_packages(package.__path__, f"{home}."):
            module = import_module(entry.name)
            for value in vars(module).values():
                if isinstance(value, type) and is_dataclass(value) and value.__module__ == entry.name:
                    found[value.__name__] = value
    return found


def known_class(name: str) -> Callable[..., Any]:
    """The class of this name."""
    if name not in _classes():
        raise ValueError(f"it has a '{name}', which this version of fitonce does not know")
    return _classes()[name]


_READERS: dict[str, Callable[[Any], Any]] = {
    "array": to_array,
    "list": lambda items: [decoded(item) for item in items],
    "dict": lambda pairs: {decoded(key): decoded(item) for key, item in pairs},
    "float": _to_float,
    "words": to_words,
    "index": decoded_index,
    "sparse": _to_sparse,
}
