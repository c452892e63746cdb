"""Arrays inside a page: typed arrays as base64, in JSON that cannot end the script it stands in."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np

_DANGEROUS = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def floats(values: Any) -> dict[str, str]:
    """Seven digits, which is more than a screen shows. nan stays nan: the bytes are not JSON."""
    with np.errstate(over="ignore"):  # beyond single precision is infinite, which is not drawn
        return {"f": _base64(np.asarray(values, "<f4"))}


def integers(values: Any) -> dict[str, str]:
    """Four bytes each."""
    return {"i": _base64(np.asarray(values, "<i4"))}


def _base64(values: np.ndarray) -> str:
    return base64.b64encode(values.tobytes()).decode("ascii")


def script_json(content: Any) -> str:
    """JSON for a script element. Numbers that JSON does not know become null."""
    written = json.dumps(_finite(content), separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for character, escaped in _DANGEROUS.items():
        written = written.replace(character, escaped)
    return written


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {str(key): _finite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_finite(value) for value in content]
    if isinstance(content, (float, np.floating)):
        return float(content) if math.isfinite(content) else None
    if isinstance(content, np.integer):
        return int(content)
    return content
