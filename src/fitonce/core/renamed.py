"""Old names that work for one more version, with a warning that gives the new ones."""

from __future__ import annotations

import importlib
import sys
import warnings
from types import ModuleType
from typing import Any


def deprecated(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn the caller's caller that `old` is now called `new`."""
    message = f"{old} is now {new}; the old name will be removed in the next version"
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel)


class _Moved(ModuleType):
    """Takes the place of a module that moved, and forwards to the new one."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__(old, f"Deprecated: see `{new}`.")
        self._new = new

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        deprecated(self.__name__, self._new)
        return getattr(importlib.import_module(self._new), name)


def stand_in(old: str, new: str) -> ModuleType:
    """Make `old` importable as a module that forwards to `new`, which is imported at first use."""
    return sys.modules.setdefault(old, _Moved(old, new))
