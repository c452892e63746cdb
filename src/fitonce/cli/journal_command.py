"""The command journal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fitonce.cli.options import JsonOption
from fitonce.cli.outputs import print_json, table_rows
from fitonce.core.wording import counted, memory
from fitonce.crossval.journal_check import DAMAGED, DRAFT, OTHER, check_journal


def journal(
    folder: Annotated[Path, typer.Argument(help="The folder that was given as journal.")],
    clean: Annotated[
        bool, typer.Option("--clean", help="Remove damaged entries and abandoned drafts.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Check the entries of a journal against their checksums. A damaged one is computed again by the
    next run; --clean removes it."""
    found = check_journal(folder, clean=clean)
    if json:
        print_json({"entries": table_rows(found), "cleaned": clean})
        return
    entries = found[~found["state"].isin([DRAFT, OTHER])]
    print(f"{folder}: {counted(len(entries), 'entry', 'entries')}, {memory(entries['size'].sum())}")
    if len(entries):
        print(f"  written from {entries['written'].min()} to {entries['written'].max()} (UTC)")
    for state, kind in ((DAMAGED, "damaged"), (DRAFT, "drafts of runs that were killed")):
        files = found.index[found["state"] == state]
        done = ", removed" if clean and len(files) else ""
        print(f"  {kind}: {len(files)}{done}")
        for name in files[:5]:
            print(f"    {name}")
    others = int((found["state"] == OTHER).sum())
    if others:
        print(f"  other files, which are left alone: {others}")
