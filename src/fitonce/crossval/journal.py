"""A journal of finished work: a long run stores its results on disk, and another run resumes from them.

Entries are named by a digest of the request: the objective, the operation and its inputs, including the
code of the user's own functions (see `identity`). A repeated run makes the same requests in the same
order, so that it reads what is there instead of computing it, however the first one ended. An entry is
written completely or not at all, and carries a checksum: a damaged one is computed again.
"""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from fitonce.core.arguments import read_path, refusal
from fitonce.core.wording import counted
from fitonce.core.writing import abandoned, put_whole
from fitonce.crossval.identity import UncoveredError, digest
from fitonce.objectives.base import Objective

_HEAD = b"fitonce journal 1\n"  # a version of the form, followed by a checksum and the arrays
ENTRIES = "*.entry"
_CHECKSUM = 16  # bytes


@dataclass(frozen=True, eq=False)
class Journal:
    """A folder of results, created if it does not exist.

    Attributes:
        folder: its path.
        base: a digest of the objective, part of the name of every entry.
        counts: how many entries were "found" in it, "written" to it, found "damaged", or could not be
            stored ("unwritten").
    """

    folder: Path
    base: bytes
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("found", "written", "damaged", "unwritten"), 0)
    )

    @classmethod
    def of(cls, folder: str | os.PathLike[str], objective: Objective) -> Journal | None:
        """The journal of an objective in a folder, which may hold those of others; None, with a warning,
        where an edited model could not be distinguished from this one."""
        path = journal_folder(folder)
        for draft in abandoned(path, ENTRIES):
            draft.unlink(missing_ok=True)
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
        path = self.folder / f"{name}.entry"
        try:
            arrays = unpacked(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, DamagedError):
            arrays = ()
        if not arrays or any(array.shape[:1] != (rows,) for array in arrays):
            self.counts["damaged"] += 1
            return None
        self.counts["found"] += 1
        return arrays

    def write(self, name: str, arrays: tuple[np.ndarray, ...]) -> None:
        """Store a result under a name."""
        try:
            put_whole(self.folder / f"{name}.entry", packed(arrays), durable=False)
            self.counts["written"] += 1
        except OSError as error:  # the result is worth more than its copy on the disk
            if not self.counts["unwritten"]:
                text = f"journal: {self.folder} cannot be written: {error.strerror or error}"
                warnings.warn(f"{text}; the run goes on without it", UserWarning, stacklevel=2)
            self.counts["unwritten"] += 1

    def __str__(self) -> str:
        counts = self.counts
        computed = counts["written"] + counts["unwritten"]
        text = f"{counted(counts['found'], 'piece')} found, {computed:,} computed"
        if counts["damaged"]:
            text += f", {counts['damaged']:,} of them as the entries were damaged"
        return text + (f", {counts['unwritten']:,} could not be stored" if counts["unwritten"] else "")


def journal_folder(folder: str | os.PathLike[str]) -> Path:
    """The folder of a journal, made if there is none. Raises unless it can be written to."""
    path = read_path("journal", folder, "the path of a folder")
    try:
        other = path.exists() and not path.is_dir()
    except OSError:  # a name that is too long
        raise refusal("journal", "the path of a folder", folder) from None
    if other:
        raise ValueError(f"journal must be a folder, but {path} is a file")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"journal must be a folder that can be created: {error}") from None
    if not os.access(path, os.W_OK):
        raise ValueError(f"journal must be a writable folder, got {path}")
    return path


class DamagedError(ValueError):
    """An entry is not what was written."""


def packed(arrays: tuple[np.ndarray, ...]) -> bytes:
    """The content of an entry."""
    buffer = io.BytesIO()
    np.savez(buffer, *arrays)
    content = buffer.getvalue()
    return _HEAD + _checksum(content) + content


def unpacked(entry: bytes) -> tuple[np.ndarray, ...]:
    """Inverse of `packed`."""
    head, content = entry[: len(_HEAD) + _CHECKSUM], entry[len(_HEAD) + _CHECKSUM :]
    if head != _HEAD + _checksum(content):
        raise DamagedError("the checksum differs from that of the content")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return tuple(arrays[f"arr_{number}"] for number in range(len(arrays.files)))


def _checksum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_CHECKSUM).digest()


def _warn(what: str, error: UncoveredError) -> None:
    text = f"journal: results are not stored; {what} could be edited without being noticed: {error}"
    warnings.warn(text, UserWarning, stacklevel=4)
