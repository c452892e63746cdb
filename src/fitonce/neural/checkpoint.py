"""Checkpoints: arrays and plain values in one file, written completely or not at all."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fitonce.core.arguments import naming, read_path
from fitonce.core.writing import UnwrittenError, is_file

VERSION = 1
# What NumPy, zipfile and json raise on files that are truncated, changed or of another kind.
_DAMAGE = (zipfile.BadZipFile, ValueError, LookupError, EOFError, OSError, TypeError, RuntimeError)


def leaves(tree: Any) -> list[np.ndarray]:
    """The arrays of a pytree, in order."""
    return [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(tree)]


def with_leaves(tree: Any, arrays: list[np.ndarray]) -> Any:
    """A pytree of the same structure with these arrays."""
    old, structure = jax.tree_util.tree_flatten(tree)
    if [np.shape(a) for a in old] != [np.shape(a) for a in arrays]:
        raise ValueError("the checkpoint is of a network of another shape")
    return jax.tree_util.tree_unflatten(structure, [jax.device_put(array) for array in arrays])


def write_checkpoint(
    path: str | os.PathLike[str], tagger: dict[str, Any], training: dict[str, Any]
) -> None:
    """Write a tagger and the state of its training. An existing file becomes `.previous`."""
    check(path)
    path = Path(path)
    arrays: dict[str, np.ndarray] = {}
    plain = {
        "version": VERSION,
        "tagger": _without_arrays(tagger, "tagger", arrays),
        "training": _without_arrays(training, "training", arrays),
    }
    text = np.frombuffer(json.dumps(plain).encode(), np.uint8)
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as out:
            np.savez(out, allow_pickle=False, **{"plain": text, **arrays})
            out.flush()
            os.fsync(out.fileno())
        if path.exists():  # a copy, so that there is a complete checkpoint at every moment
            shutil.copyfile(path, _previous(path))
        os.replace(partial, path)
    except OSError as error:
        raise UnwrittenError(path, error) from error
    finally:
        partial.unlink(missing_ok=True)


def check(path: str | os.PathLike[str], name: str = "path") -> None:
    """Raise unless a file can be written there, before any work that would be lost."""
    path = read_path(name, path)
    with naming(name):
        if path.is_dir():
            raise ValueError(f"a checkpoint must be a file, but {path} is a directory")
        if not path.parent.is_dir():
            raise ValueError(f"a checkpoint needs an existing directory, found none at {path.parent}")
        path.exists()  # a name that is too long


def read_checkpoint(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tagger and the state of its training from a file of `write_checkpoint`."""
    path = read_path("path", path)
    if not is_file(path):
        raise ValueError(f"path: expected a checkpoint, found none at {path!s:.200}{_other(path)}")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        plain = json.loads(arrays["plain"].tobytes().decode())
        version = plain["version"]
        tagger, training = plain["tagger"], plain["training"]
    except PermissionError:
        raise ValueError(f"{path.name} cannot be read: permission denied") from None
    except _DAMAGE:
        raise ValueError(
            f"{path.name} is not a complete checkpoint: it is truncated, damaged or another kind of file"
            f"{_other(path)}"
        ) from None
    if version != VERSION:
        raise ValueError(f"{path.name} is a checkpoint of version {version}, expected {VERSION}")
    return _with_arrays(tagger, "tagger", arrays), _with_arrays(training, "training", arrays)


def _other(path: Path) -> str:
    before = _previous(path)
    return f"; the previous one is {before.name}" if is_file(before) else ""


def _previous(path: Path) -> Path:
    return path.with_name(path.name + ".previous")


def _without_arrays(
    values: dict[str, Any], prefix: str, arrays: dict[str, np.ndarray]
) -> dict[str, Any]:
    """The plain values; arrays, and lists of them, go into `arrays`."""
    plain: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            arrays[f"{prefix}/{name}"] = value
        elif isinstance(value, list) and value and isinstance(value[0], np.ndarray):
            arrays.update({f"{prefix}/{name}/{k:04d}": item for k, item in enumerate(value)})
        else:
            plain[name] = value
    return plain


def _with_arrays(plain: dict[str, Any], prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Inverse of `_without_arrays`."""
    values = dict(plain)
    for key in sorted(arrays):
        parts = key.split("/")
        if parts[0] == prefix and len(parts) == 2:
            values[parts[1]] = arrays[key]
        elif parts[0] == prefix:
            values.setdefault(parts[1], []).append(arrays[key])
    return values
