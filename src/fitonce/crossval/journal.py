"""A journal of finished work: a long run stores its results on disk, and another run resumes from them.

Entries are named by a digest of the request: the objective, the operation and its inputs, including the
code of the user's own functions (see `identity`). A repeated run makes the same requests in the same
order, so that it reads what is there instead of computing it, however the first one ended. An entry is
written completely or not at all.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
import zipfile
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from fitonce.crossval.identity import UncoveredError, digest
from fitonce.objectives.base import Objective


@dataclass(frozen=True, eq=False)
class Journal:
    """A folder of results, created if it does not exist.

    Attributes:
        folder: its path.
        base: a digest of the objective, part of the name of every entry.
        counts: how many entries were "found" in it and "written" to it.
    """

    folder: Path
    base: bytes
    counts: dict[str, int] = field(default_factory=lambda: {"found": 0, "written": 0})

    @classmethod
    def of(cls, folder: str | os.PathLike[str], objective: Objective) -> Journal | None:
        """The journal of an objective in a folder, which may hold those of others; None, with a warning,
        where an edited model could not be distinguished from this one."""
        if not isinstance(folder, (str, os.PathLike)):
            raise ValueError(f"journal must be the path of a folder, got {folder!r}")
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise ValueError(f"journal must be a folder, but {path} is a file")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"journal must be a folder that can be created: {error}") from None
        if not os.access(path, os.W_OK):
            raise ValueError(f"journal must be a writable folder, got {path}")
        try:
            return cls(path, digest([f"jax {metadata.version('jax')}", *objective.identity()]))
        except UncoveredError as error:
            _warn("the model", error)
            return None

    def name(self, what: str, inputs: Any) -> str | None:
        """The name of the entry for an operation on inputs; None, with a warning, where they have no
        digest."""
        try:
            return hashlib.blake2b(self.base + digest((what, inputs)), digest_size=16).hexdigest()
        except UncoveredError as error:
            _warn(f"something that the {what} depend on", error)
            return None

    def look(self, name: str, rows: int) -> tuple[np.ndarray, ...] | None:
        """The arrays stored under a name; None unless there is a complete entry in which all arrays have
        `rows` rows."""
        path = self.folder / f"{name}.npz"
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as entry:
                arrays = tuple(entry[f"arr_{number}"] for number in range(len(entry.files)))
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
            return None
        if not arrays or any(array.shape[:1] != (rows,) for array in arrays):
            return None
        self.counts["found"] += 1
        return arrays

    def write(self, name: str, arrays: tuple[np.ndarray, ...]) -> None:
        """Store a result under a name."""
        handle, draft = tempfile.mkstemp(dir=self.folder, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, *arrays)
            os.replace(draft, self.folder / f"{name}.npz")
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
        self.counts["written"] += 1


def _warn(what: str, error: UncoveredError) -> None:
    text = f"journal: results are not stored; {what} could be edited without being noticed: {error}"
    warnings.warn(text, UserWarning, stacklevel=4)
