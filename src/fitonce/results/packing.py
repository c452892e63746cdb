"""Tables and arrays as JSON, without pickle."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

_MOST_BYTES = 2**31  # of one array: a header that claims more is not believed


def pack_number(value: float) -> float | None:
    """JSON has no nan: None."""
    value = float(value)
    return value if np.isfinite(value) else None


def to_number(value: Any) -> float:
    """Back; nan for None."""
    if value is None:
        return float("nan")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"expected a number, got {value!r}"[:80])
    return float(value)


def to_word(value: Any) -> str:
    """Words, or a sentence that says what was found."""
    if not isinstance(value, str):
        raise ValueError(f"expected words, got {value!r}"[:80])
    return value


def pack_table(table: pd.DataFrame) -> dict[str, Any]:
    """Columns of numbers as arrays, others as words."""
    return {str(name): _column(table[name]) for name in table.columns}


def _column(column: pd.Series) -> Any:
    if column.dtype.kind in "biuf":
        return pack_array(column.to_numpy())
    return [str(word) for word in column]


def to_table(found: dict[str, Any]) -> pd.DataFrame:
    """Back."""
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
    packed = zlib.compress(values.tobytes(), 6)
    return {
        "dtype": values.dtype.str,
        "shape": list(values.shape),
        "zlib": base64.b64encode(packed).decode("ascii"),
    }


def pack_words(words: Sequence[str]) -> str:
    """Many words in little room: JSON, compressed, in base64."""
    packed = zlib.compress(json.dumps(list(words)).encode("utf-8"), 6)
    return base64.b64encode(packed).decode("ascii")


def to_words(found: Any) -> tuple[str, ...]:
    """Back."""
    packed = base64.b64decode(to_word(found), validate=True)
    unpacked = zlib.decompressobj().decompress(packed, _MOST_BYTES)
    return tuple(to_word(word) for word in json.loads(unpacked.decode("utf-8")))


def to_array(found: dict[str, Any]) -> np.ndarray:
    """Back."""
    dtype = np.dtype(to_word(found["dtype"]))
    if dtype.kind not in "biuf" or not dtype.isnative:
        raise ValueError(f"an array of {dtype} is not one of numbers")
    shape = [int(size) for size in found["shape"]]
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if min(shape, default=0) < 0 or size > _MOST_BYTES:
        raise ValueError(f"an array claims the shape {tuple(shape)}")
    packed = base64.b64decode(to_word(found["zlib"]), validate=True)
    unpacked = zlib.decompressobj().decompress(packed, size + 1)
    if len(unpacked) != size:
        raise ValueError(f"an array of shape {tuple(shape)} is not complete")
    return np.frombuffer(unpacked, dtype).reshape(shape).copy()
