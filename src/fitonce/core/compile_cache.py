"""Compiled programs kept on disk, so that a second run of the same command starts at once.

JAX does the work; this says where. The command line turns it on; a library does not change global
state by itself, so a script calls `use()`. FITONCE_CACHE names another folder, or is "off".
"""

from __future__ import annotations

import os
from pathlib import Path

import jax
import platformdirs

_OFF = ("off", "0", "no", "none", "false")
_WORTH = 0.1  # seconds of compiling: what is quicker is not kept


def cache_folder() -> Path | None:
    """Where compiled programs are kept; None where that is off."""
    named = os.environ.get("FITONCE_CACHE", "")
    if named.lower() in _OFF:
        return None
    return Path(named) if named else Path(platformdirs.user_cache_dir("fitonce")) / "compiled"


def use() -> Path | None:
    """Keep compiled programs from here on. Returns the folder, None where it is off or not writable."""
    place = cache_folder()
    if place is None:
        return None
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError:  # a read-only home: slower, not broken
        return None
    jax.config.update("jax_compilation_cache_dir", str(place))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", _WORTH)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return place
