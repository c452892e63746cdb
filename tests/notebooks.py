"""Notebooks: run in a fresh kernel, and their stored outputs compared with those of the run.

`python tests/notebooks.py FILE ...` runs notebooks and stores what they show.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from documents import differences

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.ipynb"))
_SECONDS = 300  # for a cell, on a busy machine


def executed(notebook, folder=ROOT):
    """A copy of a notebook with the outputs of a fresh kernel, without lines of progress."""
    copy = nbformat.from_dict(notebook)
    client = NotebookClient(
        copy,
        timeout=_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Jupyter itself; a kernel has its own
        client.execute()
    return tidied(copy)


def tidied(notebook):
    """Without what differs from run to run: lines of progress, times of cells, versions of Python."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [out for out in cell.outputs if not is_progress(out)]
    notebook.metadata = {"kernelspec": notebook.metadata.get("kernelspec", {}),
                         "language_info": {"name": "python"}}  # fmt: skip
    return notebook


def is_progress(output):
    """Whether an output is the line of progress of a cell."""
    return output.get("metadata", {}).get("fitonce") == "progress"


def texts(cell):
    """What a cell shows as text, output by output."""
    found = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        found.append(output.get("text") or data.get("text/plain", ""))
    return found


def outdated(stored, fresh):
    """Lines of stored text that a fresh run does not print, times apart, by cell."""
    wrong = {}
    for number, (old, new) in enumerate(zip(stored.cells, fresh.cells, strict=True)):
        old_texts, new_texts = texts(old), texts(new)
        lines = [f"{len(old_texts)} outputs are stored, {len(new_texts)} came"]
        if len(old_texts) == len(new_texts):
            pairs = zip(old_texts, new_texts, strict=True)
            lines = [line for a, b in pairs for line in differences(a, b)]
        if lines:
            wrong[number] = lines
    return wrong


def read(path):
    return nbformat.read(path, as_version=4)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        nbformat.write(executed(read(name)), name)
        print(f"{name}: {len(read(name).cells)} cells, {Path(name).stat().st_size / 1024:.0f} KiB")
