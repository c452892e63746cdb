"""Compiled programs kept on disk, so that a second run of the same command starts faster.

JAX does the work; this chooses the folder. The command line turns it on; a library does not change
global state by itself, so a script calls `use()`. FITONCE_CACHE names another folder, or is "off".
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from fitonce.core.deferred import jax

_OFF = ("off", "0", "no", "none", "false")
_MIN_SECONDS = 0.1  # programs that compile faster are not kept


def use() -> Path | None:
    """Keep compiled programs from now on. Returns the folder, None if this is off or not writable."""
    named = os.environ.get("FITONCE_CACHE", "")
    if named.lower() in _OFF:
        return None
    folder = Path(named) if named else Path(platformdirs.user_cache_dir("fitonce")) / "compiled"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a read-only home: slower, not broken
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", _MIN_SECONDS)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return folder
