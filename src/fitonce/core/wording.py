"""Numbers in sentences: singular and plural, ranges, durations, sizes in bytes."""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Iterable
from typing import Any

import numpy as np

ONE_START = "the model has no random starts; fo.fit(..., init=) begins elsewhere"


def counted(count: int, thing: str, plural: str | None = None) -> str:
    """ "1 sequence", "1,096 steps"."""
    return f"{count:,} {thing if count == 1 else plural or thing + 's'}"


_LONGEST = 60  # characters of a name in a sentence


def shortened(thing: Any) -> str:
    """A name, cut if it is too long for a sentence."""
    name = str(thing)
    return f"{name[:_LONGEST]}..." if len(name) > _LONGEST else name


def short_name(thing: Any) -> str:
    """A name in a sentence without quotes: an empty one has quotes, to be seen."""
    name = shortened(thing)
    return name if name.strip() else repr(name)


def listed(things: Iterable[Any], most: int = 10, between: str = ", ") -> str:
    """The first of these things: "a, b and 3 more"; names with a comma have quotes, as `split_names`
    takes them."""
    names = [short_name(thing) for thing in things]
    if "," in between:
        names = [f'"{name}"' if "," in name and name[0] != "(" else name for name in names]
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return between.join(names[:most]) + more


def split_names(text: str) -> list[str]:
    """Names separated by commas; one that has a comma itself is in double quotes, as in CSV."""
    if '"' not in text:
        return [name.strip() for name in text.split(",")]
    try:
        row = next(csv.reader(io.StringIO(text), skipinitialspace=True))
    except (csv.Error, StopIteration):
        raise ValueError(
            f"names must be separated by commas as in a line of CSV, got '{text}'"
        ) from None
    return [name.strip() for name in row]


def nearest_names(name: Any, names: Iterable[Any], most: int = 3) -> list[str]:
    """The names that are most like one that is not among them, whatever the case of letters; none where
    none is like it."""
    by_lower: dict[str, str] = {}
    for other in names:
        by_lower.setdefault(str(other).lower(), str(other))
    return [by_lower[found] for found in difflib.get_close_matches(str(name).lower(), by_lower, most)]


def chance(value: float) -> str:
    """A probability: "0.3 %", "41 %"; never 0 or 100 %, unless it is."""
    if 0 < value < 1e-3:
        return f"{100 * value:.1g} %"
    if 0.999 < value < 1:
        return "> 99.9 %"
    return f"{100 * value:.{1 if 0 < value < 0.1 or 0.99 < value < 1 else 0}f} %"


def share_in_words(value: float) -> str:
    """A share with three digits, and 0 or 1 only where it is."""
    if 0.9995 <= value < 1.0:
        return ">.999"
    return "<.001" if 0.0 < value < 0.0005 else f"{value:.3f}"


def span(values: np.ndarray, thing: str = "") -> str:
    """The range of `values`: "12 to 41", or "12" if all are equal; with a thing, "12 to 41 steps"."""
    low, high = int(np.min(values)), int(np.max(values))
    last = counted(high, thing) if thing else f"{high:,}"
    return last if low == high else f"{low:,} to {last}"


def duration(seconds: float) -> str:
    """Seconds in a readable unit: "3.2 s", "5 min", "2.5 h"."""
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def memory(count: float) -> str:
    """Bytes in a readable unit: "1.5 MiB"."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if count >= 100 else f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:,.0f} PiB"
