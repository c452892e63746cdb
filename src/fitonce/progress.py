"""Progress bars: shown on a terminal unless asked otherwise."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm


def bar(total: int, what: str, progress: bool | None) -> Any:
    """A bar to `update`, shown when `progress` is true, or None on a terminal."""
    shown = sys.stderr.isatty() if progress is None else progress
    return tqdm(total=total, desc=what, disable=not shown, leave=False)
