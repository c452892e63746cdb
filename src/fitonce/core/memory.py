"""How much memory a call may take: one limit, what it holds, and what is left for a piece of work.

A verb is a `limits_memory` function. Inside it, whatever has the length of the result is declared by
`hold`, and work that can be cut asks `room` how large a piece may be. Both refuse, in one sentence with
what would be needed, where the limit does not allow it. Outside of a verb nothing is limited.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from fitonce.core import deferred
from fitonce.core.arguments import require, shown
from fitonce.core.numerics import is_number
from fitonce.core.wording import memory

_Function = TypeVar("_Function", bound=Callable[..., Any])
_UNITS = {"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_WRITTEN = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[0-9]+)?)\s*([a-z]*)\s*", re.IGNORECASE)
IMPORTS = 56 * 2**20  # loops that are read from disk, tables of results, small arrays
JAX = 120 * 2**20  # the import of JAX
PROGRAMS = 180 * 2**20  # what JAX holds to compile, and what a family compiles
WORKER = 420 * 2**20  # a worker process with all of these


def machine_memory() -> float:
    """Bytes of memory that this machine has."""
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def checked_limit(memory_limit: Any) -> float:
    """A `memory_limit=` in bytes, given as a number or as text such as "2GB"; None: half of this
    machine's memory."""
    if memory_limit is None:
        return 0.5 * machine_memory()
    value: Any = _read(memory_limit) if isinstance(memory_limit, str) else memory_limit
    require(
        is_number(value) and value > 0,
        "memory_limit",
        "a positive number of bytes, text such as '2GB', or None",
        memory_limit,
    )
    return float(value)


def _read(text: str) -> float | None:
    found = _WRITTEN.fullmatch(text)
    unit = _UNITS.get(found.group(2).upper()) if found else None
    return None if found is None or unit is None else float(found.group(1)) * unit


class MemoryLimitError(ValueError):
    """A call needs more memory than it may take."""


@dataclass
class _Allowance:
    """Of one call: its limit, and the bytes of it that are held."""

    limit: float
    held: float = 0.0


_current: ContextVar[_Allowance | None] = ContextVar("memory", default=None)


def limits_memory(verb: _Function) -> _Function:
    """`verb` with its argument `memory_limit` as the limit of all work inside it."""

    @functools.wraps(verb)
    def call(*args: Any, memory_limit: Any = None, **kwargs: Any) -> Any:
        with limited(memory_limit):
            return verb(*args, memory_limit=memory_limit, **kwargs)

    return call  # type: ignore[return-value]


@contextmanager
def limited(memory_limit: Any) -> Iterator[None]:
    """A scope with this limit; without one inside another scope, with what that has left."""
    outer = _current.get()
    if memory_limit is None and outer is not None:
        with _allowing(_Allowance(outer.limit, outer.held)):
            yield
        return
    with _allowing(_Allowance(checked_limit(memory_limit))):
        hold(IMPORTS, "libraries and loops that a first call loads")
        yield


@contextmanager
def _allowing(allowance: _Allowance) -> Iterator[None]:
    token = _current.set(allowance)
    try:
        yield
    finally:
        _current.reset(token)


def left() -> float:
    """Bytes of the limit that nothing holds; infinite outside of a verb."""
    allowance = _current.get()
    return float("inf") if allowance is None else allowance.limit - allowance.held


def hold(size: float, what: str) -> None:
    """Declare bytes that are held until the verb ends; `what` they are, in words."""
    allowance = _current.get()
    if allowance is None:
        return
    if allowance.held + size > allowance.limit:
        raise _refusal(allowance, size, what)
    allowance.held += size


def hold_programs() -> None:
    """Declare what programs of JAX take, and JAX itself where it is not imported yet."""
    hold(PROGRAMS + (0 if deferred.loaded() else JAX), "compiled programs")


def room(usual: float, least: float, what: str) -> float:
    """Bytes for a piece of work that usually takes `usual`, and of which one part takes `least`."""
    allowance = _current.get()
    if allowance is None:
        return max(usual, least)
    free = allowance.limit - allowance.held
    if least > free:
        raise _refusal(allowance, least, what)
    return max(min(usual, free), least)


def require_fits(name: str, size: int, bytes_of: Callable[[int], int], what: str) -> None:
    """Raise where an argument asks for more than memory holds, before anything of that size is made.

    Args:
        name, size: of the argument, an integer.
        bytes_of: of a size, growing with it, in integers, which have no largest.
        what: takes them, in words.
    """
    allowance = _current.get()
    free = int(checked_limit(None) if allowance is None else allowance.limit - allowance.held)
    needed = bytes_of(int(size))
    if needed <= free:
        return
    low, high = 0, 1
    while bytes_of(high) <= free:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bytes_of(middle) <= free else (low, middle)
    if allowance is not None and needed < 2**100:
        raise MemoryLimitError(f"{name} must be at most {low:,}: {_refusal(allowance, needed, what)}")
    took = memory(needed) if needed < 2**100 else "more than any machine has"
    raise MemoryLimitError(
        f"{name} must be at most {low:,} to fit in {memory(free)} of memory, got {shown(size)}: {what} "
        f"would take {took}"
    )


def _refusal(allowance: _Allowance, size: float, what: str) -> MemoryLimitError:
    needed, has = allowance.held + size, machine_memory()
    raised = "raise memory_limit=, or ask for less"
    if needed > has:
        raised = f"this machine has {memory(has)} in all, so ask for less"
    return MemoryLimitError(
        f"this needs {memory(needed)}, {memory(size)} of it for {what}, and memory_limit is "
        f"{memory(allowance.limit)}; {raised} (fo.plan says what each method needs)"
    )


def shared(work: _Function, threads: int) -> _Function:
    """`work` for one of several threads: each may take its share of what is left."""
    allowance = _current.get()
    if allowance is None:
        return work
    free = (allowance.limit - allowance.held) / threads

    @functools.wraps(work)
    def part(*args: Any, **kwargs: Any) -> Any:
        with _allowing(_Allowance(allowance.limit, allowance.limit - free)):
            return work(*args, **kwargs)

    return part  # type: ignore[return-value]
