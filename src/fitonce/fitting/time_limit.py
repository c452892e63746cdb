"""A search for an optimum that ends when its time is up: starts are asked between their steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


class TimeUpError(ValueError):
    """The time was up before any start of a fit had ended."""


@dataclass
class _Limit:
    is_up: Callable[[], bool]
    owed: bool  # whether one start is to end in any case


_limit: ContextVar[_Limit | None] = ContextVar("time_limit", default=None)


@contextmanager
def until(is_up: Callable[[], bool], *, one_start: bool = False) -> Iterator[None]:
    """Fits within end once `is_up()`: with what they have if a start has ended, else by `TimeUpError`.

    `one_start`: the first start of the first fit ends in any case.
    """
    token = _limit.set(_Limit(is_up, one_start))
    try:
        yield
    finally:
        _limit.reset(token)


def check() -> None:
    """Raise where the time is up."""
    limit = _limit.get()
    if limit is not None and not limit.owed and limit.is_up():
        raise TimeUpError("the time was up before a start of the fit had ended")


def start_ended() -> None:
    """A start has ended: from here on the time counts."""
    limit = _limit.get()
    if limit is not None:
        limit.owed = False
