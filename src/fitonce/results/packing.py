"""Numbers, words, arrays and tables as JSON has them, compressed where they are many."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.arguments import shown

_DTYPE = re.compile(r"[<>|=][biuf][0-9]{1,2}")
_MOST_BYTES = 2**31  # of one array; a header that claims more is rejected


def pack_number(value: float) -> float | None:
    """The number for JSON, which has no nan: None."""
    value = float(value)
    return value if np.isfinite(value) else None


def to_number(value: Any) -> float:
    """Inverse of `pack_number`."""
    if value is None:
        return float("nan")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"expected a number, got {shown(value)}"[:80])
    return float(value)


def to_word(value: Any) -> str:
    """The value if it is a string."""
    if not isinstance(value, str):
        raise ValueError(f"expected a string, got {shown(value)}"[:80])
    return value


def pack_table(table: pd.DataFrame) -> dict[str, Any]:
    """Numeric columns as arrays, others as lists of strings."""
    return {
        str(name): pack_array(column.to_numpy()) if column.dtype.kind in "biuf" else [*map(str, column)]
        for name, column in table.items()
    }


def to_table(found: dict[str, Any]) -> pd.DataFrame:
    """Inverse of `pack_table`."""
    columns = {
        name: [to_word(word) for word in column] if isinstance(column, list) else to_array(column)
        for name, column in found.items()
    }
    if len({len(column) for column in columns.values()}) > 1:
        raise ValueError("columns of a table differ in length")
    return pd.DataFrame(columns)


def pack_array(values: np.ndarray) -> dict[str, Any]:
    """Little-endian, compressed, in base64."""
    values = np.ascontiguousarray(values)
    values = values.astype(values.dtype.newbyteorder("<"))
    header = {"dtype": values.dtype.str, "shape": list(values.shape)}
    return {**header, "zlib": _compressed(values.tobytes())}


def _compressed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 6)).decode("ascii")


def pack_words(words: Sequence[str]) -> str:
    """Many strings in little space: JSON, compressed, in base64."""
    return _compressed(json.dumps(list(words)).encode("utf-8"))


def to_words(found: Any) -> tuple[str, ...]:
    """Inverse of `pack_words`."""
    packed = base64.b64decode(to_word(found), validate=True)
    unpacked = zlib.decompressobj().decompress(packed, _MOST_BYTES)
    return tuple(to_word(word) for word in json.loads(unpacked.decode("utf-8")))


def to_array(found: dict[str, Any]) -> np.ndarray:
    """Inverse of `pack_array`."""
    name = to_word(found["dtype"])
    if not _DTYPE.fullmatch(name):  # of others NumPy makes records, dates, or a SyntaxError
        raise ValueError(f"expected an array of numbers, got {shown(name)}")
    dtype = np.dtype(name)
    if dtype.kind not in "biuf" or not dtype.isnative:
        raise ValueError(f"expected an array of numbers, got {dtype}")
    shape = [int(size) for size in found["shape"]]
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if min(shape, default=0) < 0 or size > _MOST_BYTES:
        raise ValueError(f"an array claims the shape {tuple(shape)}")
    packed = base64.b64decode(to_word(found["zlib"]), validate=True)
    unpacked = zlib.decompressobj().decompress(packed, size + 1)
    if len(unpacked) != size:
        raise ValueError(f"an array of shape {tuple(shape)} is incomplete")
    return np.frombuffer(unpacked, dtype).reshape(shape).copy()
