"""A journal of finished work: what a long run has computed is on disk, and another run goes on from it.

Entries are named by a digest of what was asked: the objective, the operation and its inputs, the code of
the user's own functions included (see `identity`). A run that is repeated asks the same questions in the
same order, so that it passes through what is there without computing it, whatever ended the first one.
Entries are written whole or not at all.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fitonce.crossval.identity import UncoveredError, digest
from fitonce.objectives.base import Objective


@dataclass(frozen=True, eq=False)
class Journal:
    """A folder of results, made if it is not there.

    Attributes:
        folder: where.
        base: of what is asked of it: a digest of the objective.
        counts: how many entries were "found" there and "written" to it.
    """

    folder: Path
    base: bytes
    counts: dict[str, int] = field(default_factory=lambda: {"found": 0, "written": 0})

    @classmethod
    def of(cls, folder: str | os.PathLike[str], objective: Objective) -> Journal | None:
        """The journal of an objective in a folder, which may hold those of others; None, with a warning,
        where nothing tells the model apart from an edited one."""
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise ValueError(f"journal must be a folder, but {path} is a file")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"journal must be a folder that can be made: {error}") from None
        if not os.access(path, os.W_OK):
            raise ValueError(f"journal must be a folder that may be written to, got {path}")
        try:
            return cls(path, digest([f"jax {jax.__version__}", *objective.identity()]))
        except UncoveredError as error:
            _say(f"the model cannot be told apart from an edited one: {error}")
            return None

    def name(self, what: str, inputs: Any) -> str | None:
        """Of the entry for an operation on inputs; None, with a warning, where they have no digest."""
        try:
            return hashlib.blake2b(self.base + digest((what, inputs)), digest_size=16).hexdigest()
        except UncoveredError as error:
            _say(f"{what} depend on something that cannot be told apart from an edited one: {error}")
            return None

    def look(self, name: str, rows: int) -> tuple[np.ndarray, ...] | None:
        """What is there under a name, arrays of so many rows; None where there is nothing, or something
        else."""
        known = _read(self.folder / f"{name}.npz")
        if known is not None and not (known and all(part.ndim and len(part) == rows for part in known)):
            known = None
        self.counts["found"] += known is not None
        return known

    def write(self, name: str, arrays: tuple[np.ndarray, ...]) -> None:
        """Keep a result under a name."""
        _write(self.folder / f"{name}.npz", arrays)
        self.counts["written"] += 1


def _say(why: str) -> None:
    warnings.warn(f"journal: results are not kept; {why}", UserWarning, stacklevel=4)


def _read(path: Path) -> tuple[np.ndarray, ...] | None:
    """The arrays of an entry; None where there is none, or not a whole one."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return tuple(arrays[f"arr_{number}"] for number in range(len(arrays.files)))
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
        return None


def _write(path: Path, arrays: tuple[np.ndarray, ...]) -> None:
    handle, draft = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, *arrays)
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
