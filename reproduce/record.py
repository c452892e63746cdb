"""What a reproduction printed, kept as plain data: docs/paper.md is made of these records alone."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from reproduce.published import Number

FOLDER = Path(__file__).parent / "records"
FIGURES = Path(__file__).parents[1] / "docs" / "paper"
MOST_BYTES = 150_000  # of a figure
CONTROL = "none"


@dataclass
class Table:
    """Rows of strings under columns; printed as they come."""

    caption: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)

    def start(self) -> Table:
        """Print the heads."""
        print(f"\n{self.caption}")
        print(self._line(self.columns), flush=True)
        return self

    def add(self, *cells: object) -> None:
        """Keep a row, and print it."""
        row = [str(cell) for cell in cells]
        if len(row) != len(self.columns):
            raise ValueError(f"expected {len(self.columns)} cells, got {len(row)}")
        self.rows.append(row)
        print(self._line(row), flush=True)

    def _line(self, cells: list[str]) -> str:
        return " ".join(
            f"{cell:>{max(len(head), 12)}}" for cell, head in zip(cells, self.columns, strict=True)
        )


@dataclass
class Record:
    """One section of the page.

    Attributes:
        name: of the command.
        title: of the section.
        answers: labels of the tables and figures of the paper that this one answers.
        machine: what measured it, and how busy that was.
        settings: the paper's settings and sizes beside ours: what, the paper's, its place, ours.
        lines: sentences that were printed.
        tables: what was measured, the paper's numbers in columns of their own.
        differs: what is not as in the paper (data, machine, definition).
        figures: file under docs/paper, and caption.
    """

    name: str
    title: str
    answers: list[str]
    machine: str = ""
    settings: list[list[str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)
    figures: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.machine:
            self.machine = machine()
            print(self.machine, flush=True)

    @property
    def command(self) -> str:
        return f"python -m reproduce {self.name}"

    def say(self, text: str) -> None:
        """Keep a sentence, and print it."""
        self.lines.append(text)
        print(text, flush=True)

    def beside(self, what: str, paper: Number, ours: object) -> None:
        """A setting of the paper and ours."""
        self.settings.append([what, paper.text, paper.label, str(ours)])
        print(f"{what}: paper {paper.text}, ours {ours}", flush=True)

    def table(self, caption: str, columns: list[str]) -> Table:
        """A new table, whose heads are printed."""
        self.tables.append(Table(caption, columns))
        return self.tables[-1].start()

    def figure(self, figure: Any, file: str, caption: str) -> None:
        """Write a figure of matplotlib, small enough to be kept."""
        path = save_png(figure, FIGURES / file)
        self.figures = [kept for kept in self.figures if kept[0] != file] + [[file, caption]]
        print(f"figure: {path.name}", flush=True)

    def has_control(self) -> bool:
        """Whether a table has the control as a column or as a row."""
        cells = [cell for table in self.tables for row in (table.columns, *table.rows) for cell in row]
        return any(cell.split(",")[0].split(" ")[0] == CONTROL for cell in cells)

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """While something long runs, the record on disk says that it has not ended."""
        line = f"{what}: had not ended when this was written."
        self.lines.append(line)
        self.save()
        yield
        self.lines.remove(line)

    def save(self) -> Path:
        """To records/NAME.json, in place of what an earlier run wrote."""
        FOLDER.mkdir(exist_ok=True)
        path = FOLDER / f"{self.name}.json"
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return path

    def write(self) -> Path:
        """The same at the end of a run, with a word on what differs from the paper."""
        for text in self.differs:
            print(f"differs: {text}")
        print(f"record: {self.name}.json", flush=True)
        return self.save()


def read(path: Path) -> Record:
    """A record from its file."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    kept["tables"] = [Table(**table) for table in kept["tables"]]
    return Record(**kept)


def read_all() -> dict[str, Record]:
    """Every record, by name."""
    found = [read(path) for path in sorted(FOLDER.glob("*.json"))]
    return {record.name: record for record in found}


def hardware() -> str:
    """What runs this."""
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores, {platform.machine()}, Python {platform.python_version()}"


def machine() -> str:
    """The same, with the load that was there before."""
    return f"{hardware()}, load {os.getloadavg()[0]:.1f} at the start"


def save_png(figure: Any, path: Path) -> Path:
    """With few colours, at the finest of some resolutions that is small enough."""
    import io

    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    for dpi in (130, 110, 95, 80, 65, 50):
        whole, few = io.BytesIO(), io.BytesIO()
        figure.savefig(whole, dpi=dpi, format="png")
        Image.open(whole).convert("RGB").quantize(256).save(few, format="png", optimize=True)
        if few.tell() < MOST_BYTES:
            break
    path.write_bytes(few.getvalue())
    return path
