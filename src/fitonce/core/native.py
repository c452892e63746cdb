"""Plain loops compiled to machine code by Numba, and kept on disk for the next process."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from math import prod
from pathlib import Path
from threading import local
from typing import Any

import numba
import numpy as np
from numba.core.event import Listener, register
from numba.core.sigutils import normalize_signature

_LINE = 64  # bytes that a processor reads at once
_MOST_HELD = 2**22  # numbers in an array that is kept


def compiled(function: Callable[..., Any]) -> Any:
    """`function` compiled at its first call, without Python's lock, so that threads run side by side.

    Machine code is kept beside the source or in the user's cache folder, or, where neither can be
    written to, in a folder of this user for temporary files. Numba keeps code of different processors
    apart, and replaces files as a whole, so that processes may share them.
    """
    made: Any = numba.njit(nogil=True, error_model="numpy")(function)
    try:
        made.enable_caching()
    except RuntimeError:  # no folder to write to
        _keep_in(_temporary(), made)
    _forgive(made._cache)
    _watch_compiling()
    return made


def _forgive(kept: Any) -> None:
    """A cache that is full, damaged or shared costs time, nothing else."""
    load, save = kept.load_overload, kept.save_overload

    def load_overload(signature: Any, context: Any) -> Any:
        try:
            found = load(signature, context)
        except Exception:  # whatever comes of reading damaged machine code
            return None
        # Processes that store two signatures at once can leave one under the name of the other.
        mine = found is None or tuple(found.signature.args) == normalize_signature(signature)[0]
        return found if mine else None

    def save_overload(signature: Any, data: Any) -> None:
        try:
            save(signature, data)
        except OSError:
            return
        except Exception:  # the list of what is kept is damaged
            with suppress(Exception):
                kept.flush()
                save(signature, data)

    kept.load_overload, kept.save_overload = load_overload, save_overload


def _keep_in(folder: Path | None, made: Any) -> None:
    """Keep machine code in that folder; without one it is compiled in every process."""
    if folder is None:
        return
    settings: Any = numba.config
    before, settings.CACHE_DIR = settings.CACHE_DIR, str(folder)
    try:
        with suppress(RuntimeError):
            made.enable_caching()
    finally:
        settings.CACHE_DIR = before


@cache
def _temporary() -> Path | None:
    """A folder that only this user can read and write: what is in it is run."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"fitonce-{user}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.stat()
    except OSError:
        return None
    mine = not hasattr(os, "getuid") or (found.st_uid == user and not found.st_mode & 0o077)
    return folder if mine and not folder.is_symlink() else None


class _Compiling(Listener):
    """Says, once, why the first call on a machine takes a while, and how long that was."""

    def __init__(self) -> None:
        self.said = False
        self.seconds = 0.0
        self._begun: list[float] = []  # compilations inside each other

    def on_start(self, event: Any) -> None:
        self._begun.append(time.perf_counter())
        function = event.data["dispatcher"].py_func
        if not self.said and function.__module__.startswith("fitonce."):
            self.said = True
            if sys.stderr.isatty():
                print("fitonce: compiling its loops for this machine, once ...", file=sys.stderr)

    def on_end(self, event: Any) -> None:
        begun = self._begun.pop()
        if not self._begun:
            self.seconds += time.perf_counter() - begun


@cache
def _watch_compiling() -> _Compiling:
    watch = _Compiling()
    register("numba:compile", watch)
    return watch


def seconds_of_compiling() -> float:
    """How long loops were compiled in this process so far."""
    return _watch_compiling().seconds


def inlined(function: Callable[..., Any]) -> Any:
    """A part of compiled functions that becomes part of their machine code."""
    made: Any = numba.njit(nogil=True, error_model="numpy", forceinline=True)(function)
    return made


class Scratch(local):
    """Arrays of each thread that are used again: fresh memory costs more than the loops that fill it."""

    def __init__(self) -> None:
        self._held: dict[str, np.ndarray] = {}

    def take(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """An array of any content, until the next one of this name; aligned for wide instructions."""
        count = prod(shape)
        held = self._held.get(name)
        if held is None or held.size < count:
            raw = np.empty(count + _LINE // 8)
            first = -raw.ctypes.data % _LINE // 8
            held = raw[first : first + count]
            if count <= _MOST_HELD:
                self._held[name] = held
        return held[:count].reshape(shape)

    def zeros(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """The same, with zeros."""
        found = self.take(name, shape)
        found[:] = 0.0
        return found
