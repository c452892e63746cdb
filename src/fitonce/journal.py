"""A journal of finished work: what a long run has computed is on disk, and another run goes on from it.

Entries are named by a digest of what was asked: the objective, the operation and its inputs. A run that
is repeated asks the same questions in the same order, so that it passes through what is there without
computing it, whatever ended the first one. Entries are written whole or not at all.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import tempfile
import zipfile
from dataclasses import dataclass, field, fields, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cloudpickle
import jax
import numpy as np

from fitonce.objective import Objective


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
    def of(cls, folder: str | os.PathLike[str], objective: Objective) -> Journal:
        """The journal of an objective in a folder, which may hold those of others."""
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise ValueError(f"journal must be a folder, but {path} is a file")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"journal must be a folder that can be made: {error}") from None
        if not os.access(path, os.W_OK):
            raise ValueError(f"journal must be a folder that may be written to, got {path}")
        return cls(path, _digest(_identity(objective)))

    def look(self, what: str, inputs: Any, rows: int) -> tuple[np.ndarray, ...] | None:
        """What is there for these inputs, arrays of so many rows; None where there is nothing, or
        something else."""
        known = _read(self._path(what, inputs))
        if known is not None and not (known and all(part.ndim and len(part) == rows for part in known)):
            known = None
        self.counts["found"] += known is not None
        return known

    def write(self, what: str, inputs: Any, arrays: tuple[np.ndarray, ...]) -> None:
        """Keep the result for these inputs."""
        _write(self._path(what, inputs), arrays)
        self.counts["written"] += 1

    def _path(self, what: str, inputs: Any) -> Path:
        name = hashlib.blake2b(self.base + _digest((what, inputs)), digest_size=16).hexdigest()
        return self.folder / f"{name}.npz"


def _identity(objective: Objective) -> Any:
    """All that an objective's answers depend on."""
    program = objective.program
    arrays = jax.tree_util.tree_leaves((objective.prepared, objective.layout))
    model = program.model
    code = [f.__code__.co_code for f in vars(model).values() if hasattr(f, "__code__")]
    known = (model, repr(program.scheme), program.kernel, program.space.names, code)
    versions = f"fitonce {version('fitonce')}, jax {jax.__version__}"
    return [versions, cloudpickle.dumps(known), *arrays]


def _digest(value: Any) -> bytes:
    state = hashlib.blake2b(digest_size=16)
    for leaf in jax.tree_util.tree_leaves(value):
        if hasattr(leaf, "dtype") and leaf.dtype != object:
            array = np.asarray(leaf)
            state.update(f"{array.dtype}{array.shape}".encode())
            state.update(np.ascontiguousarray(array).tobytes())
        elif is_dataclass(leaf) and not isinstance(leaf, type):  # its fields: caches come and go
            state.update(_digest([getattr(leaf, entry.name) for entry in fields(leaf)]))
        else:
            state.update(leaf if isinstance(leaf, bytes) else pickle.dumps(leaf))
    return state.digest()


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
