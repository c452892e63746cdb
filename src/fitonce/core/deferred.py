"""JAX, networkx and pooch, imported when first used: chains with built-in emissions on a CPU need none
of the first two, and pooch only fetches data sets.

Other modules write `from fitonce.core.deferred import jax, jnp` and use these as the modules they
stand for, which is what type checkers see. What would need JAX while a module is imported has a stand-in
here: `jit` compiles at the first call, `pytree` registers a class once JAX is there.

A compiled program takes some 3 MB and a few of the memory maps that a process may have, and JAX keeps
it, with the model that it was made for, as long as its function lives. After `MOST_PROGRAMS` of ours it
is told to forget all: a process that meets ever new shapes compiles some again, or reads them from disk,
and does not grow. What is freed goes back to the system, where the C library can be told to: by itself
it keeps the holes.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from fitonce.core import lapack, watch
from fitonce.core.compile_cache import use_unless_set

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    import networkx as nx
    import pooch
    from jax import lax

__all__ = [
    "after_loading", "custom_jvp", "float64", "jax", "jit", "jnp", "lax", "loaded", "nx", "pooch",
    "pytree",
]  # fmt: skip

_Class = TypeVar("_Class", bound=type)
_Function = TypeVar("_Function", bound=Callable[..., Any])
_SUBMODULES = ("jax.numpy", "jax.scipy.linalg", "jax.scipy.special", "jax.monitoring")
_lock = threading.RLock()
_afterwards: list[Callable[[], Any]] = []  # what waits for JAX
MOST_PROGRAMS = 128
_programs = WeakKeyDictionary[Any, int]()  # of each function, how many shapes it is compiled for
_local = threading.local()  # .scopes: the calls of this thread that wait for float64


def loaded() -> bool:
    """Whether JAX is there already, be it by us or by the user."""
    return "jax.numpy" in sys.modules


@functools.cache
def _load() -> ModuleType:
    with _lock:
        module = importlib.import_module("jax")
        for name in _SUBMODULES:
            importlib.import_module(name)
        while _afterwards:
            _afterwards.pop()()
        return module


class _Deferred(ModuleType):
    """A module that is imported when one of its names is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # an inspection, which is no use
            raise AttributeError(name)
        return getattr(importlib.import_module(self.__name__), name)


class _OfJax(_Deferred):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        _load()
        scopes = getattr(_local, "scopes", None)
        if scopes:
            scopes[0]()
        return getattr(sys.modules[self.__name__], name)


if not TYPE_CHECKING:
    jax, jnp, lax = _OfJax("jax"), _OfJax("jax.numpy"), _OfJax("jax.lax")
    nx, pooch = _Deferred("networkx"), _Deferred("pooch")


def after_loading(action: Callable[[], Any]) -> None:
    """Do this when JAX is imported; at once if it has been."""
    with _lock:
        if loaded():
            action()
        else:
            _afterwards.append(action)


def jit(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """`jax.jit(function, **options)`, made at the first call."""

    @functools.cache
    def compiled(whole: bool) -> Any:
        use_unless_set()
        return jax.jit(lapack.safe(function) if whole else function, **options)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        # Inside another program it is a part: the whole is read, once it has its derivatives.
        whole = not lapack.is_traced((args, kwargs))
        program = compiled(whole)
        found = program(*args, **kwargs)
        if whole:
            watch.wait_for(found)
        if program._cache_size() != _programs.get(program, 0):
            _bound(program)
        return found

    return call


def _bound(program: Any) -> None:
    """Count a function's programs, and forget all where there are too many."""
    with _lock:
        _programs[program] = program._cache_size()
        if sum(_programs.values()) > MOST_PROGRAMS:
            _programs.clear()
            jax.clear_caches()  # what was traced on the way as well, which no function knows of
            gc.collect()  # programs hold each other in circles
            _release()


def _release() -> None:
    """Give free memory back to the system."""
    with suppress(AttributeError, OSError, TypeError):  # of other C libraries than glibc
        ctypes.CDLL(None).malloc_trim(0)


class custom_jvp:  # noqa: N801 - named after what it stands for
    """`jax.custom_jvp(function, **options)` with the rule given by `defjvp`, made at the first call."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        self.function, self.options = function, options

    def defjvp(self, rule: _Function) -> _Function:
        self.rule = rule
        return rule

    @functools.cached_property
    def _made(self) -> Any:
        made = jax.custom_jvp(self.function, **self.options)
        made.defjvp(self.rule)
        return made

    def __call__(self, *args: Any) -> Any:
        return self._made(*args)


def pytree(kind: _Class, **fields: Any) -> _Class:
    """`jax.tree_util.register_dataclass(kind, **fields)`, as soon as there is a JAX."""
    after_loading(lambda: jax.tree_util.register_dataclass(kind, **fields))
    return kind


@contextmanager
def float64() -> Iterator[None]:
    """A scope with JAX in float64, also where JAX is imported inside it; the caller's configuration is
    as it was afterwards."""
    with ExitStack() as stack:
        if loaded():
            stack.enter_context(jax.enable_x64(True))
            yield
            return
        scopes = _local.__dict__.setdefault("scopes", [])

        def enter() -> None:
            scopes.clear()  # the outermost, which is asked, is enough
            stack.enter_context(jax.enable_x64(True))

        scopes.append(enter)
        try:
            yield
        finally:
            if enter in scopes:
                scopes.remove(enter)
