"""The door of every argument: its name, what it must be, and what came.

Each function checks one kind of argument and gives it back as what it stands for, or refuses it in one
sentence. What came is shown in short, whatever it is: numbers of a thousand digits, large tables,
objects whose own text fails.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fitonce.core.numerics import as_numbers, is_count, is_number

_LONGEST = 80  # characters of what came


def shown(value: Any) -> str:
    """What came, in one short line."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 200:
        return f"an integer of {int(value.bit_length() * math.log10(2)) + 1:,} digits"
    if isinstance(value, os.PathLike) and not isinstance(value, (str, bytes)):
        value = os.fspath(value)
    kind = type(value).__name__
    if isinstance(value, np.ndarray) and value.size > 8:
        return f"an array of shape {value.shape}"
    if hasattr(value, "columns") and hasattr(value, "shape"):
        return f"a {kind} of shape {value.shape}"
    try:
        text = " ".join(repr(value).split())
    except Exception:  # text of the user's own object, or of a list with a long number in it
        return f"a {kind}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({kind})"


def refusal(name: str, expected: str, came: Any) -> ValueError:
    """The error for an argument that is not what it must be."""
    return ValueError(f"{name} must be {expected}, got {shown(came)}")


def require(holds: Any, name: str, expected: str, came: Any) -> None:
    """Raise unless the argument is what it must be."""
    if not holds:
        raise refusal(name, expected, came)


@contextmanager
def naming(name: str) -> Iterator[None]:
    """What is refused inside names the argument that it came with."""
    try:
        yield
    except (ValueError, OSError) as error:
        text = str(error)
        own = isinstance(error, ValueError) and type(error).__module__.startswith("fitonce.")
        kind = type(error) if own else ValueError  # such as MemoryLimitError, which callers tell apart
        raise kind(f"{name}: {text if len(text) <= 400 else text[:400] + '...'}") from None


def require_number(
    name: str,
    value: Any,
    *,
    above: float = -math.inf,
    least: float = -math.inf,
    below: float = math.inf,
    most: float = math.inf,
    optional: bool = False,
) -> None:
    """Raise unless the argument is a finite number within these bounds."""
    if value is None and optional:
        return
    if is_number(value) and above < value < below and least <= value <= most:
        return
    raise refusal(name, _bounded(above, least, below, most) + " or None" * optional, value)


def _bounded(above: float, least: float, below: float, most: float) -> str:
    if (above, below, most) == (0, math.inf, math.inf):
        return "a positive number"
    if (least, below, most) == (0, math.inf, math.inf):
        return "a non-negative number"
    if math.isfinite(above) and math.isfinite(below):
        return f"a number between {above:g} and {below:g}"
    if math.isfinite(least) and (math.isfinite(below) or math.isfinite(most)):
        end = f"to {most:g}" if math.isfinite(most) else f"to below {below:g}"
        return f"a number from {least:g} {end}"
    words = {"above": above, "of at least": least, "below": below, "of at most": most}
    bounds = [f"{word} {bound:g}" for word, bound in words.items() if math.isfinite(bound)]
    return f"a number {' and '.join(bounds)}" if bounds else "a finite number"


def require_count(
    name: str, value: Any, least: int = 1, most: float = math.inf, *, optional: bool = False
) -> None:
    """Raise unless the argument is an integer within these bounds."""
    if (value is None and optional) or is_count(value, least, most):
        return
    bounds = f"of at least {least}" if math.isinf(most) else f"between {least} and {most:g}"
    raise refusal(name, f"an integer {bounds}" + " or None" * optional, value)


def require_level(level: Any) -> None:
    """Raise unless this is the probability of an interval; 90 is taken for the percentage that it is."""
    if is_number(level) and 0 < level < 1:
        return
    instead = f" ({level / 100:g}, not {level:g})" if is_number(level) and 50 <= level < 100 else ""
    raise refusal("level", f"a probability between 0 and 1{instead}", level)


def require_flag(name: str, value: Any, *, optional: bool = False) -> None:
    """Raise unless the argument is true or false."""
    fine = isinstance(value, (bool, np.bool_)) or (value is None and optional)
    require(fine, name, "true, false or None" if optional else "true or false", value)


def require_choice(name: str, value: Any, options: Collection[Any], *, optional: bool = False) -> None:
    """Raise unless the argument is one of these texts."""
    if (value is None and optional) or (isinstance(value, str) and value in options):
        return
    listed = tuple(options)
    raise refusal(name, f"one of {listed}" + " or None" * optional, value)


def require_text(name: str, value: Any, *, optional: bool = False) -> None:
    """Raise unless the argument is text."""
    fine = isinstance(value, str) or (value is None and optional)
    require(fine, name, "text or None" if optional else "text", value)


def read_names(name: str, value: Any, of: str = "names") -> tuple[str, ...]:
    """A list of names, none of them twice, as a tuple."""
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, dict)):
        found = tuple(value)
        if all(isinstance(one, str) for one in found):
            if len(set(found)) < len(found):
                raise ValueError(f"{name} must differ, got {shown(list(found))}")
            return found
    raise refusal(name, f"a list of {of}", value)


def require_pair(name: str, value: Any, expected: str = "two positive numbers") -> None:
    """Raise unless the argument is two positive numbers."""
    listed = isinstance(value, (tuple, list, np.ndarray)) and len(value) == 2
    require(listed and all(is_number(one) and one > 0 for one in value), name, expected, value)


def read_array(name: str, value: Any, expected: str = "an array of finite numbers") -> np.ndarray:
    """An array of finite numbers."""
    found = None if isinstance(value, (str, bytes)) else as_numbers(value)
    if found is None:
        raise refusal(name, expected, value)
    return found


def read_bools(name: str, value: Any, expected: str, *dimensions: int) -> np.ndarray:
    """An array of bools, or of zeros and ones, with one of these numbers of axes."""
    try:
        found = np.asarray(value)
    except (TypeError, ValueError):  # ragged
        found = np.empty(0, object)
    binary = found.dtype.kind in "biuf" and bool(np.isin(found, (0, 1)).all())
    require(binary and found.ndim in dimensions, name, expected, value)
    return found.astype(bool)


def require_function(name: str, value: Any, of: str = "", *, optional: bool = False) -> None:
    """Raise unless the argument can be called; `of` what, in words."""
    fine = callable(value) or (value is None and optional)
    require(fine, name, f"a function{of and f' of {of}'}" + " or None" * optional, value)


def generator(seed: Any) -> np.random.Generator:
    """Random numbers from a `seed=` that a user gave; None: others every time."""
    fine = seed is None or is_count(seed, 0, 2**128 - 1)
    require(fine, "seed", "a non-negative integer below 2**128 or None", seed)
    return np.random.default_rng(seed)


def read_path(name: str, value: Any, expected: str = "the path of a file") -> Path:
    """The path of a file, or of a folder."""
    fine = isinstance(value, (str, os.PathLike)) and not isinstance(os.fspath(value), bytes)
    path = os.fspath(value) if fine else ""
    require(path and "\0" not in path, name, expected, value)
    return Path(path)
