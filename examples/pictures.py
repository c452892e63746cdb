"""The pictures of docs/examples.md, from the same data and calls as the notebooks beside this file.

    python examples/pictures.py [FOLDER]

They are written to docs/examples, or to FOLDER.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

import fitonce as fo

HERE = Path(__file__).parent


def cells(name: str) -> dict[str, Any]:
    """What the cells of a notebook define, run without their pictures."""
    space: dict[str, Any] = {}
    for cell in json.loads((HERE / f"{name}.ipynb").read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code" and not source.startswith("ax = "):
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(source, name, "exec"), space)
    return space


def save(ax: Any, folder: Path, name: str) -> None:
    ax.figure.savefig(folder / f"{name}.png", dpi=80)
    print(folder / f"{name}.png")


def main(folder: Path) -> None:
    mpl.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    chain = cells("chain")
    save(chain["choice"].plot(), folder, "choice")
    save(chain["cv"].plot(against=chain["exact"]), folder, "agreement")
    save(chain["fit"].plot_transitions(), folder, "transitions")
    save(chain["fit"].forecast(12).plot(), folder, "forecast")
    county = cells("map")
    save(fo.plot_map(county["cv"], county["counties"], label="held-out loss, nats"), folder, "map")
    labels = cells("labels")
    save(labels["audit"].plot(), folder, "audit")
    save(labels["cv"].confusion().plot(), folder, "confusion")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "docs" / "examples")
