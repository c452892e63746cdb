"""Files: checked for existence, written whole or not at all, not overwritten unless asked."""

from __future__ import annotations

import io
import os
import secrets
from pathlib import Path
from typing import Any


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
    """Write a file through a temporary one beside it, so that a crash leaves no partial file."""
    path = Path(path)
    check_free(path, force)
    temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}"
    try:
        with open(temporary, "xb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path


def existing(path: str | os.PathLike[str], what: str) -> Path:
    """The path of a file, which must exist; `what` describes it in the message."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"expected {what}, found none at {path}")
    return path


def check_free(path: str | os.PathLike[str], force: bool = False) -> None:
    """Raise unless a file can be written here: called before the work, not after it."""
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"expected a file to write, got the folder {path}")
    if not path.parent.is_dir():
        raise ValueError(f"the folder {path.parent} does not exist")
    if path.exists() and not force:
        raise ValueError(f"{path} exists; pass force=True (--force) to replace it")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"the folder {path.parent} is not writable")
