"""What commands print as JSON and write to files."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.writing import check_free
from fitonce.results.result import CVResult


def check_outputs(paths: list[Path | None], force: bool) -> None:
    """Say before the work what could not be written after it."""
    wanted = [path for path in paths if path is not None]
    for place, path in enumerate(wanted):
        if path.absolute() in [other.absolute() for other in wanted[:place]]:
            raise ValueError(f"each output needs a file of its own, got {path} twice")
        check_free(path, force)


def check_picture(path: Path | None) -> None:
    """That matplotlib knows the ending."""
    from matplotlib.figure import Figure

    known = Figure().canvas.get_supported_filetypes()
    if path is not None and path.suffix.lower().removeprefix(".") not in known:
        raise ValueError(f"--plot must end in .png, .pdf or .svg, got {path.name}")


def command_line() -> str:
    """What was typed, with the program's name for its path."""
    return shlex.join(["fitonce", *sys.argv[1:]])


def as_document(result: CVResult) -> dict[str, Any]:
    """A result as plain numbers and words, for --json."""
    counts = result.folds["verdict"].value_counts()
    named = {
        "estimate": result.estimate, "se": result.se, "control": result.control, "error": result.error,
        "tolerance": result.tolerance, "seconds": result.seconds,
    }  # fmt: skip
    return {
        **{name: _plain(value) for name, value in named.items()},
        "method": result.method,
        "scheme": result.scheme,
        "loss": result.loss,
        "folds": len(result.folds),
        "left_out": result.left_out,
        "verdicts": {str(name): int(count) for name, count in counts.items()},
        "failed": result.n_failed,
        "treatment": result.treatment,
        "fit": {"status": str(result.fit.status), "ok": bool(result.fit.ok)},
    }


def table_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of a table, for --json."""
    return [
        {str(key): _plain(value) for key, value in row.items()}
        for row in table.reset_index().to_dict(orient="records")
    ]


def as_json(document: Any) -> str:
    """What JSON has no word for is null already."""
    return json.dumps(document, indent=1, allow_nan=False)


def print_json(document: Any) -> None:
    """To standard output, where nothing else goes with --json."""
    print(as_json(document))


def _plain(value: Any) -> Any:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    return str(value)
