"""Files: tables and arrays as JSON without pickle, and writing that never leaves half a file."""

from __future__ import annotations

import io
import os
import secrets
from pathlib import Path
from typing import Any


def write_text(path: str | os.PathLike[str], text: str, *, force: bool = False) -> Path:
    """Write a whole file or none of it; one that is there stays unless `force`."""
    return write_bytes(path, text.encode("utf-8"), force=force)


def write_figure(
    path: str | os.PathLike[str], figure: Any, *, force: bool = False, dpi: int = 150
) -> Path:
    """The same for a figure of matplotlib; the ending says as what."""
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=dpi, format=Path(path).suffix.lower().removeprefix("."))
    return write_bytes(path, drawn.getvalue(), force=force)


def write_bytes(path: str | os.PathLike[str], content: bytes, *, force: bool = False) -> Path:
    """The same for bytes."""
    path = Path(path)
    check_free(path, force)
    beside = path.parent / f".{path.name}.{secrets.token_hex(4)}"
    try:
        with open(beside, "xb") as file:
            file.write(content)
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return path


def check_free(path: str | os.PathLike[str], force: bool = False) -> None:
    """That a file could be written here: said before the work, not after it."""
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"expected a file to write, got the folder {path}")
    if not path.parent.is_dir():
        raise ValueError(f"the folder {path.parent} does not exist")
    if path.exists() and not force:
        raise ValueError(f"{path} exists; pass force=True (--force) to replace it")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"the folder {path.parent} may not be written to")
