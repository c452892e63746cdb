"""What is in the folder of a journal, which of it is damaged, and the removal of that."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd

from fitonce.core.arguments import read_path, require, require_flag
from fitonce.core.writing import abandoned, drafts
from fitonce.crossval.journal import ENTRIES, DamagedError, unpacked

WHOLE, DAMAGED, DRAFT, OTHER = "whole", "damaged", "abandoned draft", "not of a journal"


def check_journal(folder: str | os.PathLike[str], *, clean: bool = False) -> pd.DataFrame:
    """Read every entry of a journal and hold it against its checksum.

    Args:
        folder: that was given as `journal=`.
        clean: whether to remove damaged entries, and drafts that a run left when it was killed. The next
            run computes again what they held.

    Returns:
        One row per file: `size` in bytes, `written` (a time), and `state`: "whole", "damaged",
        "abandoned draft", or "not of a journal", which is never removed.
    """
    require_flag("clean", clean)
    try:
        found = read_path("folder", folder, "the folder of a journal").is_dir()
    except OSError:  # a name that is too long
        found = False
    require(found, "folder", "the folder of a journal", folder)
    path = Path(folder)
    left = set(abandoned(path, ENTRIES))
    written = set(drafts(path, ENTRIES)) - left  # by another process
    rows = {}
    for file in sorted(set(path.iterdir()) - written):
        state = DRAFT if file in left else _state(file)
        if state is None:  # another process has just renamed it
            continue
        about = file.lstat()
        when = pd.Timestamp(about.st_mtime, unit="s").floor("s")
        rows[file.name] = {"size": about.st_size, "written": when, "state": state}
        if clean and state in (DAMAGED, DRAFT) and not file.is_dir():
            file.unlink(missing_ok=True)
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["size", "written", "state"])
    return table.rename_axis("file")


def _state(file: Path) -> str | None:
    if file.suffix != ".entry":
        return OTHER
    try:
        unpacked(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, DamagedError):
        return DAMAGED
    return WHOLE
