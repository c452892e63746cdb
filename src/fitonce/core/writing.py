"""Files: checked for existence, written whole or not at all, not overwritten unless asked.

They are drafted beside their place and renamed. A draft is locked while it is written: one that is not
is of a process that was killed, and is removed by the next that writes there.
"""

from __future__ import annotations

import glob
import importlib
import io
import os
import secrets
import shutil
import time
from pathlib import Path
from typing import Any

from fitonce.core.arguments import read_path, require_flag, shown

_OLD = 24 * 3600.0  # seconds: where files cannot be locked, older drafts are taken for abandoned
_TRIES = 3  # of a draft that another process has removed before it was locked


def write_text(path: str | os.PathLike[str], text: str, *, force: bool = False) -> Path:
    """Write a text file; an existing one is replaced only with `force`."""
    return write_bytes(path, text.encode("utf-8"), force=force)


def write_figure(
    path: str | os.PathLike[str], figure: Any, *, force: bool = False, dpi: int = 150
) -> Path:
    """Write a matplotlib figure, in the format of the file's extension."""
    image = io.BytesIO()
    figure.savefig(image, dpi=dpi, format=Path(path).suffix.lower().removeprefix("."))
    return write_bytes(path, image.getvalue(), force=force)


def write_bytes(path: str | os.PathLike[str], content: bytes, *, force: bool = False) -> Path:
    """Write a file through a temporary one beside it, so that a crash leaves no partial file.

    Links are followed. Devices and pipes are written to: only regular files are replaced.
    """
    path = read_path("path", path)
    check_free(path, force)
    target = path.resolve()
    try:
        if _is_stream(target):
            target.write_bytes(content)
            return path
        for draft in abandoned(target.parent, glob.escape(target.name)):
            draft.unlink(missing_ok=True)
        put_whole(target, content)
    except OSError as error:
        raise UnwrittenError(path, error) from error
    return path


def put_whole(target: Path, content: bytes, *, durable: bool = True) -> None:
    """Put content in the place of a file. `durable`: it is on the disk afterwards, not on its way."""
    for left in reversed(range(_TRIES)):
        draft = target.parent / f".{target.name}.{secrets.token_hex(4)}.part"
        try:
            with open(draft, "xb") as file:
                _lock(file)
                file.write(content)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
                if target.exists():
                    shutil.copymode(target, draft)
                os.replace(draft, target)
            return
        except FileNotFoundError:
            if not (left and target.parent.is_dir()):
                raise
        finally:
            draft.unlink(missing_ok=True)


def drafts(folder: Path, names: str) -> list[Path]:
    """Drafts of the files in a folder whose names match a pattern."""
    return list(folder.glob(f".{names}.{'[0-9a-f]' * 8}.part"))


def abandoned(folder: Path, names: str) -> list[Path]:
    """Those that a process was writing when it was killed."""
    return [draft for draft in drafts(folder, names) if _is_abandoned(draft)]


def _is_abandoned(draft: Path) -> bool:
    try:
        with open(draft, "rb") as file:
            if _lock(file, wait=False):
                return True
            return time.time() - os.fstat(file.fileno()).st_mtime > _OLD
    except OSError:  # its writer is there, or has just finished it
        return False


def _lock(file: Any, wait: bool = True) -> bool:
    """Lock a file until it is closed; False where files cannot be locked."""
    try:
        fcntl: Any = importlib.import_module("fcntl")
    except ImportError:  # not on this system
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except OSError:  # not on this file system
        return False
    return True


class UnwrittenError(OSError):
    """A file could not be written; `path` says which."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"{path} could not be written: {error.strerror or error}")
        self.path = path


def _is_stream(path: Path) -> bool:
    """Whether it is a device or a pipe, such as /dev/null."""
    return path.is_char_device() or path.is_fifo()


def existing(path: str | os.PathLike[str], what: str) -> Path:
    """The path of a file, which must exist; `what` describes it in the message."""
    path = read_path("path", path)
    if not is_file(path):
        raise ValueError(f"expected the path of {what}, found none at {path!s:.200}")
    return path


def is_file(path: Path) -> bool:
    """Whether there is a file; a name that is too long has none."""
    try:
        return path.is_file()
    except OSError:
        return False


def check_free(path: str | os.PathLike[str], force: bool = False) -> None:
    """Raise unless a file can be written here: called before the work, not after it."""
    path = read_path("path", path)
    require_flag("force", force)
    try:
        target = path.resolve(strict=False)
        taken = target.exists()
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, names too long, null bytes
        why = str(error).split(":")[0]
        raise ValueError(f"path: {shown(str(path))} cannot be the path of a file: {why}") from None
    if target.is_symlink():  # which resolve leaves only where links go in a circle
        raise ValueError(f"{str(path)!r} cannot be the path of a file: its links lead in a circle")
    if target.is_dir():
        raise ValueError(f"path: expected a file to write, got the folder {path}")
    if _is_stream(target):
        return
    folder = target.parent if path.is_symlink() else path.parent
    if not folder.is_dir():
        raise ValueError(f"the folder {folder} does not exist (path {path})")
    if taken and not target.is_file():
        raise ValueError(f"expected a regular file, a device or a pipe to write, got {path}")
    if taken and not force:
        raise ValueError(f"the path {path} exists; pass force=True (--force) to replace it")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"the folder {folder} is not writable")
