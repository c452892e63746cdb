"""Progress bars: shown on a terminal unless asked otherwise, and only for work that takes a while."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TypeVar

from tqdm import tqdm

_Item = TypeVar("_Item")


def track(
    items: Iterable[_Item], what: str, progress: bool | None, total: int | None = None
) -> Iterable[_Item]:
    """`items`, with a bar when `progress` is true, or None on a terminal."""
    shown = sys.stderr.isatty() if progress is None else progress
    return tqdm(
        items, desc=what, total=total, disable=not shown, delay=0 if progress else 1, leave=False
    )
