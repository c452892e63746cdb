"""Progress bars, shown on a terminal unless asked otherwise; and times in words."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm


def bar(total: int, what: str, progress: bool | None) -> Any:
    """A bar to `update`, shown when `progress` is true, or None on a terminal."""
    shown = sys.stderr.isatty() if progress is None else progress
    return tqdm(total=total, desc=what, disable=not shown, leave=False)


def duration(seconds: float) -> str:
    """A time that people can read."""
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
