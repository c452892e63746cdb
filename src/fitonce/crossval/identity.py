"""Digests of values, and of code with everything that it depends on.

A function is more than its byte code: its constants, defaults and closure, the globals that it names and
the functions that it calls. All of that is followed, into the user's own modules and classes, so that a
digest changes when any of it does. Libraries are identified by version, this package by its source. What
cannot be followed is refused, not guessed.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import pickle
import sys
import sysconfig
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib.metadata import packages_distributions, version
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from fitonce.core.deferred import jax, loaded

_PLAIN = (type(None), bool, int, float, complex, str, bytes, Enum)
_NOT_CODE = {"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "_abc_impl"}
_NOT_CODE |= {"__dataclass_fields__", "__dataclass_params__", "__firstlineno__", "__annotate__"}


class UncoveredError(ValueError):
    """A value has no digest that changes whenever the value does."""


def digest(value: Any) -> bytes:
    """16 bytes that are the same for the same value. Raises `UncoveredError` if that is impossible."""
    walk = _Walk()
    try:
        walk.add(value)
    except RecursionError:
        raise UncoveredError(f"{type(value).__name__} refers to itself") from None
    return walk.state.digest()


class _Walk:
    """One pass through a value and everything it refers to."""

    def __init__(self) -> None:
        self.state = hashlib.blake2b(digest_size=16)
        self.seen: dict[int, int] = {}
        self.alive: list[Any] = []  # references to what was seen, so that no id is reused

    def put(self, *words: Any) -> None:
        self.state.update("\0".join(map(str, words)).encode() + b"\1")

    def add(self, value: Any) -> None:
        """Add a value of any kind."""
        if isinstance(value, _PLAIN):
            self.put(type(value).__name__, repr(value))
        elif isinstance(value, (np.ndarray, np.generic)) or (loaded() and isinstance(value, jax.Array)):
            array = np.asarray(value)
            self.put("array", array.dtype, array.shape)
            if array.dtype == object:
                self._all("objects", array.ravel().tolist())
            else:
                self.state.update(np.ascontiguousarray(array).tobytes())
        elif id(value) in self.seen:
            self.put("seen", self.seen[id(value)])
        else:
            self.seen[id(value)] = len(self.seen)
            self.alive.append(value)
            self._new(value)

    def _new(self, value: Any) -> None:
        if isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, ModuleType):
            self.put("module", value.__name__, _library(value.__name__))
        elif isinstance(value, CodeType):
            names = (value.co_names, value.co_varnames, value.co_freevars)
            self.put("code", *names, value.co_flags)
            self.state.update(value.co_code)
            self._all("constants", value.co_consts)
        elif isinstance(value, functools.partial):
            self._all("partial", (value.func, value.args, value.keywords))
        elif isinstance(value, MethodType):
            self._all("method", (value.__func__, value.__self__))
        elif isinstance(value, Mapping):
            self._all("mapping", [part for pair in value.items() for part in pair])
        elif isinstance(value, Set):
            self.put("set", *sorted(digest(item).hex() for item in value))
        elif isinstance(value, (list, tuple)):
            self._all(type(value).__name__, value)
        elif isinstance(value, (property, staticmethod, classmethod)):
            inner = [getattr(value, name, None) for name in ("fget", "fset", "fdel", "__func__")]
            self._all(type(value).__name__, inner)
        else:
            self._instance(value)

    def _all(self, what: str, parts: Sequence[Any]) -> None:
        self.put(what, len(parts))
        for part in parts:
            self.add(part)

    def _is_library(self, kind: str, value: Any) -> bool:
        """Add the name of a function or class, and the version of its library if it has one."""
        known = _library(value.__module__)
        self.put(kind, value.__module__, value.__qualname__, *([] if known is None else [known]))
        return known is not None

    def _function(self, function: FunctionType) -> None:
        if self._is_library("function", function):
            return
        self.add(function.__code__)
        cells = [_content(cell) for cell in function.__closure__ or ()]
        self._all("closure", [function.__defaults__, function.__kwdefaults__, *cells])
        named = _names(function.__code__)
        for one in sorted(named & function.__globals__.keys()):
            self.put("global", one)
            self._named(function.__globals__[one], named)

    def _named(self, value: Any, named: set[str]) -> None:
        """Add a global; of a module of the user's, also the attributes that the code may use."""
        self.add(value)
        if isinstance(value, ModuleType) and _library(value.__name__) is None:
            for name in sorted(named & vars(value).keys()):
                if id(vars(value)[name]) not in self.seen:
                    self.put("attribute", name)
                    self._named(vars(value)[name], named)

    def _class(self, cls: type) -> None:
        if self._is_library("class", cls):
            return
        self._all("bases", cls.__bases__)
        for part in sorted(vars(cls).keys() - _NOT_CODE):
            self.put("part", part)
            self.add(vars(cls)[part])

    def _instance(self, value: Any) -> None:
        """Add an object by its class and its fields, which exclude cached values."""
        self.add(type(value))
        if is_dataclass(value):
            self._all("fields", [getattr(value, entry.name) for entry in fields(value)])
        elif isinstance(getattr(value, "__wrapped__", None), FunctionType):  # a function wrapped by JAX
            self.add(value.__wrapped__)
            self._all("wrapper", [part for part in vars(value).values() if callable(part)])
        elif _library(type(value).__module__) is None and hasattr(value, "__dict__"):
            names = sorted(vars(value))
            self._all("state", [*names, *(vars(value)[name] for name in names)])
            slots = [getattr(value, name, None) for name in getattr(value, "__slots__", ())]
            self._all("slots", slots)
        else:
            self._pickled(value)

    def _pickled(self, value: Any) -> None:
        """Add an object of a library as it is pickled; code that is pickled by name is followed."""
        buffer, code = io.BytesIO(), []

        class Pickler(pickle.Pickler):
            def persistent_id(self, item: Any) -> int | None:
                if isinstance(item, (FunctionType, type, ModuleType)):
                    code.append(item)
                    return len(code)
                return None

        try:
            Pickler(buffer).dump(value)
        except Exception as error:
            name = f"{type(value).__module__}.{type(value).__qualname__}"
            raise UncoveredError(f"{name} cannot be pickled: {error}") from None
        self.state.update(buffer.getvalue())
        self._all("sent", code)


def _names(code: CodeType) -> set[str]:
    """All names of globals and attributes in a function and in those defined inside it."""
    inner = [_names(part) for part in code.co_consts if isinstance(part, CodeType)]
    return set(code.co_names).union(*inner)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty so far
        return None


@functools.cache
def _library(module: str | None) -> str | None:
    """The version of the library that a module belongs to; None for the user's own code."""
    if module is None or module == "__main__":
        return None
    top = module.split(".")[0]
    if top == "fitonce":
        return _own_source()
    file = getattr(sys.modules.get(top), "__file__", None)
    if file is None:
        builtin = top in sys.builtin_module_names or top in sys.stdlib_module_names
        return sys.version if builtin else None
    inside = {name: Path(place).resolve() for name, place in sysconfig.get_paths().items()}
    path = Path(file).resolve()
    if any(path.is_relative_to(inside[name]) for name in ("purelib", "platlib")):
        names = _distributions().get(top, [])
        return ",".join(f"{name} {version(name)}" for name in names) or str(os.stat(file).st_mtime_ns)
    if any(path.is_relative_to(inside[name]) for name in ("stdlib", "platstdlib")):
        return sys.version
    return None


_distributions = functools.cache(packages_distributions)


@functools.cache
def _own_source() -> str:
    """A digest of this package, any part of which may change results."""
    state = hashlib.blake2b(digest_size=16)
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        state.update(path.read_bytes())
    return state.hexdigest()
