"""Old names that work for one more version, and say where the new ones are."""

from __future__ import annotations

import importlib
import sys
import warnings
from types import ModuleType
from typing import Any


def deprecated(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn the caller's caller that `old` is now called `new`."""
    warnings.warn(
        f"{old} is now {new}; the old name goes with the next version",
        DeprecationWarning,
        stacklevel=stacklevel,
    )


class _Moved(ModuleType):
    """Stands where a module was, and gives what the new one has."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__(old, f"Deprecated: see `{new}`.")
        self._new = new

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        deprecated(self.__name__, self._new)
        return getattr(importlib.import_module(self._new), name)


def stand_in(old: str, new: str) -> ModuleType:
    """A module that was `old`, importable under that name: nothing is read before it is used."""
    return sys.modules.setdefault(old, _Moved(old, new))
