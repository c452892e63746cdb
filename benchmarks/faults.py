"""Faults by stages: `fitonce cv` meets each fault in the midst of each stage, then runs again.

A cell shows the exit code (of a process that a signal ended: minus its number) and "ok" if there was one
sentence and no traceback, no half file, no draft left (but by a kill, which the next run removes), no process
left, and the same digits after resuming as without the fault. `-`: the fault cannot happen there."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from reproduce.cases import machine

from benchmarks import injections, stand
from benchmarks.injections import FILES, STAGES, Act
from benchmarks.stand import Ended

YEARS = 10 * 365.25 * 86400.0
_OUT = {"save": "out.json", "plot": "plot.png", "report": "report.html"}


@dataclass(frozen=True)
class Fault:
    """What happens, and how the command must end: its exit code by stage, and what it says.

    Attributes:
        acts: what happens, one run each.
        codes: allowed exit codes by stage; a stage that is not named cannot meet it.
        says: part of what is said on standard error, with FILE for the file at which it happens.
        calls: before which calls it happens, for faults of files; "write": in their midst.
    """

    acts: list[Act]
    codes: dict[str, int]
    says: dict[str, str] = field(default_factory=dict)
    calls: tuple[str, ...] = ("write",)


@dataclass
class Cell:
    """What came of a fault at a stage."""

    fault: str
    stage: str
    code: int
    said: str
    problems: list[str]

    def __str__(self) -> str:
        return f"{self.code} ok" if not self.problems else f"{self.code} WRONG"


_EVERYWHERE = tuple(STAGES)
_STOPS = dict.fromkeys(_EVERYWHERE, "interrupted") | dict.fromkeys(
    ("folds", "journal"), "stopping after this round with the results so far"
)
_STOPS_AT_ONCE = dict.fromkeys(_EVERYWHERE, "interrupted")
for _name, _whole in (("save", "none"), ("plot", "out.json"), ("report", "out.json")):
    _STOPS[_name] = _STOPS_AT_ONCE[_name] = f"interrupted while files were written; whole are: {_whole}"
_ON_DISK = {"journal": 0, "save": 2, "plot": 2, "report": 2}
_UNWRITTEN = dict.fromkeys(_OUT, "FILE could not be written: {}") | {
    "journal": "fitonce: journal: journal cannot be written: {}; the run goes on without it"
}


def _unwritten(number: int) -> dict[str, str]:
    return {stage: text.format(os.strerror(number)) for stage, text in _UNWRITTEN.items()}


def _codes(code: int) -> dict[str, int]:
    return dict.fromkeys(_EVERYWHERE, code)


_LATER = _EVERYWHERE[1:]
FAULTS = {
    "Ctrl-C": Fault([injections.send(signal.SIGINT)], _codes(130), _STOPS),
    "three Ctrl-C": Fault([injections.send(signal.SIGINT, 3)], _codes(130), _STOPS_AT_ONCE),
    "SIGTERM": Fault([injections.send(signal.SIGTERM)], _codes(-signal.SIGTERM)),
    "SIGKILL": Fault([injections.send(signal.SIGKILL)], _codes(-signal.SIGKILL)),
    "disk full": Fault([injections.fail()], _ON_DISK, _unwritten(errno.ENOSPC), ("open", "write", "replace")),
    "write fails": Fault([injections.fail(errno.EIO)], _ON_DISK, _unwritten(errno.EIO), ("write", "replace")),
    "clock jumps": Fault(
        [injections.jump(seconds) for seconds in (-YEARS, YEARS)], dict.fromkeys(_LATER, 0)
    ),
}  # fmt: skip


def words_of(stage: str) -> list[str]:
    """A command that passes through the stage."""
    words = [*stand.quick(), "--quiet", "--journal", "journal", "--save", "out.json"]
    if stage == "plot":
        words += ["--plot", "plot.png"]
    return [*words, "--report", "report.html"] if stage == "report" else words


def cells(only: tuple[str, ...] = ()) -> Iterator[Cell]:
    """Every fault at every stage, or some of the faults."""
    stand.warm_up(*(words_of(stage) for stage in ("save", "plot", "report")))
    with stand.workplace() as folder:
        stand.ran(stand.command(words_of("save")), folder)
        expected = stand.digits(folder / "out.json")
    for name, fault in FAULTS.items():
        if only and name not in only:
            continue
        for stage in fault.codes:
            yield _cell(name, fault, stage, expected)


def _cell(name: str, fault: Fault, stage: str, expected: Any) -> Cell:
    cell = Cell(name, stage, fault.codes[stage], "", [])
    for act in fault.acts:
        for call in fault.calls:
            with stand.workplace() as folder:
                before = partial(_prepare, stage, act, call, folder)
                done = stand.ran(stand.command(words_of(stage), before), folder)
                again = partial(stand.ran, stand.command(words_of(stage)), folder)
                cell.problems += _problems(fault, stage, done, folder)
                cell.problems += _resumed(again(), folder, expected)
                cell.code, cell.said = done.code, " ".join(done.errors.split())
    return cell


def _prepare(stage: str, act: Act, call: str, folder: Path) -> None:
    tempfile.tempdir = str(folder.parent)  # where a result is kept that cannot be written
    if stage == "import":
        _at_import(act)
    elif call == "write":
        injections.at_stage(stage, act)
    else:
        injections.while_writing(FILES[stage], act, call=call)


def _at_import(act: Act) -> None:
    """Import the command line anew, and act in the midst of that."""
    for name in [name for name in sys.modules if name.startswith("fitonce.cli")]:
        del sys.modules[name]

    class Finder:
        def find_spec(self, name: str, *_: Any) -> None:
            if name == "fitonce.cli.app":
                act()

    sys.meta_path.insert(0, Finder())  # type: ignore[arg-type]


def _problems(fault: Fault, stage: str, done: Ended, folder: Path) -> Iterator[str]:
    """What is not as it must be after the fault."""
    if done.code != fault.codes[stage]:
        yield f"exit code {done.code} for {fault.codes[stage]}: {done.errors[-300:]!r}"
    says = fault.says.get(stage, "").replace("FILE", _OUT.get(stage, ""))
    if says not in " ".join(done.errors.split()):
        yield f"does not say {says!r} but {done.errors!r}"
    for word in ("Traceback", "Fatal", "Exception ignored", "Warning:"):
        if word in done.errors:
            yield f"{word}: {done.errors[-500:]!r}"
    if done.orphans:
        yield f"{done.orphans} processes are left"
    known = {"counts.csv", "journal", *_OUT.values()}
    if done.code >= 0:  # a process that was killed cannot clean up
        left = [path.name for path in folder.rglob("*") if path.suffix == ".part"]
        left += [path.name for path in folder.iterdir() if path.name not in known]
        if left:
            yield f"left {left}"
    if done.code == fault.codes[stage] == 2 and not done.out.strip():
        yield "no numbers were printed"
    yield from _half_files(folder)


def _half_files(folder: Path) -> Iterator[str]:
    ends = {"out.json": b"}", "plot.png": b"IEND\xaeB`\x82", "report.html": b"</html>"}
    for name, end in ends.items():
        path = folder / name
        if path.exists() and not path.read_bytes().rstrip().endswith(end):
            yield f"half of {name}"


def _resumed(done: Ended, folder: Path, expected: Any) -> Iterator[str]:
    """What is not as it must be after the same command, without the fault."""
    if done.code:
        yield f"resuming ends with {done.code}: {done.errors[-300:]!r}"
    found = stand.digits(folder / "out.json")
    if found != expected:
        yield "other digits after resuming"
    if found is not None and not 0.0 <= json.loads((folder / "out.json").read_text())["seconds"] < 1e5:
        yield "an impossible time"
    if any(folder.rglob("*.part")):
        yield "drafts are left after resuming"


def main() -> None:
    """Print the matrix, or with `--json` each cell as a line, as it comes."""
    if sys.argv[1:] == ["--json"]:
        for cell in cells():
            print(json.dumps(asdict(cell)), flush=True)
        return
    print(machine())
    found = {(cell.fault, cell.stage): cell for cell in cells()}
    print(_table(found, str))
    for cell in found.values():
        if cell.said and cell.fault != "SIGKILL":
            print(f"{cell.fault}, {cell.stage}: {cell.said[:160]}")
    wrong = [cell for cell in found.values() if cell.problems]
    for cell in wrong:
        print(f"WRONG {cell.fault}, {cell.stage}: {'; '.join(cell.problems)}")
    if wrong:
        raise SystemExit(f"benchmarks: {len(wrong)} of {len(found)} cells are wrong")


def _table(found: dict[tuple[str, str], Cell], text: Callable[[Cell], str]) -> str:
    rows = [f"{'':14}" + "".join(f"{stage:>10}" for stage in STAGES)]
    for name in FAULTS:
        cells = [found.get((name, stage)) for stage in STAGES]
        rows.append(
            f"{name:14}" + "".join(f"{'-' if cell is None else text(cell):>10}" for cell in cells)
        )
    return "\n".join(rows)


if __name__ == "__main__":
    main()
