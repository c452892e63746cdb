"""Compiled programs kept on disk, so that a second run of the same command starts faster.

JAX does the work; this chooses the folder, at the first program that is compiled and only where the user
has chosen none. FITONCE_CACHE names another folder, or is "off". The loops of `core.native` have a cache
of their own.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

_OFF = ("off", "0", "no", "none", "false")
_MIN_SECONDS = 0.1  # programs that compile faster are not kept


def use() -> Path | None:
    """Keep compiled programs from now on. Returns the folder, None if this is off or not writable."""
    named = os.environ.get("FITONCE_CACHE", "")
    if named.lower() in _OFF:
        return None
    try:
        folder = Path(named) if named else _usual_folder()
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except (OSError, RuntimeError):  # no home, or one that cannot be written
        return None
    if not writable:  # slower, not broken
        return None
    import jax  # here: `core.deferred` imports this module

    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", _MIN_SECONDS)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return folder


def _usual_folder() -> Path:
    import platformdirs

    return Path(platformdirs.user_cache_dir("fitonce")) / "compiled"


@functools.cache
def use_unless_set() -> None:
    """At the first program: keep it, unless the user has a cache, or has set FITONCE_CACHE to off."""
    import jax

    if not jax.config.jax_compilation_cache_dir:  # type: ignore[attr-defined]
        use()


def turn_off() -> None:
    """Keep no compiled programs, in worker processes neither."""
    os.environ["FITONCE_CACHE"] = "off"
