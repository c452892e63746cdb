"""docs/paper.md, from the records alone: `python -m reproduce page`."""

from __future__ import annotations

from pathlib import Path

from reproduce import PAPER
from reproduce.published import PLACES
from reproduce.record import Record, Table, read_all

PAGE = Path(__file__).parents[1] / "docs" / "paper.md"
ANSWERS = {
    "traffic-accuracy": ["tab:dodgers"],
    "traffic-scatter": ["fig:dodgers_withinseq"],
    "traffic-timing": ["fig:dodgers_withinseq", "tab:dodgers_timing"],
    "newton-ij": ["app:fig_NS_v_IJ"],
    "neural-crf": ["fig:crf", "supp:crf_v_time"],
    "philadelphia": ["fig:crime_tracts"],
    "mocap-sequences": ["fig:supp_mocap"],
    "mocap-within": ["fig:appendix_withinseq", "fig:appendix_LFO"],
    "mocap6": [],
}
"""Which command answers which table or figure of the paper, run or not."""
HEAD = """# The paper, run again

<!-- Written by `python -m reproduce page` from reproduce/records; edits here are lost. -->

The tables and figures of Ghosh et al., "Approximate Cross-Validation for Structured Models" (NeurIPS
2020), on the data that we may use. `make reproduce` runs them all and writes this page; `python -m
reproduce NAME` runs one. {absent} No number below was typed by hand: ours are what the named command measured on
the named machine, the paper's are looked up in its source.

`ij` is the paper's approximation, `none` the control: the same folds, the same inference, parameters not
adjusted at all. An approximation is worth its name where it is nearer to the exact refits than `none`
is. `onestep`, `newton`, `auto` and `exact` are explained in [methods](methods.md).
"""


def main() -> None:
    PAGE.write_text(text(read_all()), encoding="utf-8")
    print(f"page: {PAGE.relative_to(PAGE.parents[1])}")


def text(records: dict[str, Record]) -> str:
    """The whole page."""
    absent = [f"`{name}`" for name in PAPER if name not in records]
    partly = [f"`{name}`" for name in PAPER if name in records and not _whole(records[name])]
    told = f"Not run yet: {', '.join(absent)}." if absent else "All of them have been run."
    told += f" In part, as the section says: {', '.join(partly)}." if partly else ""
    parts = [HEAD.format(absent=told), _overview(records)]
    parts += [section(records[name]) if name in records else _missing(name) for name in PAPER]
    return "\n".join(parts).rstrip() + "\n"


def _whole(record: Record) -> bool:
    """Whether a run had ended, with all of its models."""
    return not any("Not measured yet" in line or "had not ended" in line for line in record.lines)


def _overview(records: dict[str, Record]) -> str:
    """Which command answers what, in the paper's order."""
    rows = []
    for label, place in PLACES.items():
        names = [name for name in PAPER if label in ANSWERS[name]]
        if not names:
            continue
        links = [
            f"[{records[name].title}](#{anchor(name)})" if name in records else f"`{name}`, not run"
            for name in names
        ]
        rows.append([f"{place}, `{label}`", "; ".join(links)])
    return grid(["in the paper", "here"], rows)


def section(record: Record) -> str:
    """One record."""
    parts = [f'<a id="{anchor(record.name)}"></a>\n', f"## {record.title}\n"]
    places = ", ".join(f"{PLACES[label]} (`{label}`)" for label in record.answers)
    answered = f"The paper's {places}. " if places else "Not in the paper, but of its kind. "
    parts.append(f"{answered}`{record.command}`, measured on: {record.machine}.\n")
    if record.settings:
        rows = [
            [what, paper, f"{PLACES[label]}, `{label}`", ours]
            for what, paper, label, ours in record.settings
        ]
        parts.append(grid(["", "paper", "where", "ours"], rows))
    if record.lines:
        parts.append("".join(f"* {line}\n" for line in record.lines))
    parts += [_table(table) for table in record.tables]
    parts += [f"![{caption}](paper/{file})\n\n*{caption}*\n" for file, caption in record.figures]
    parts.append("What differs from the paper:\n")
    parts.append("".join(f"* {line}\n" for line in record.differs))
    return "\n".join(parts)


def anchor(name: str) -> str:
    return f"run-{name}"


def _missing(name: str) -> str:
    places = ", ".join(f"{PLACES[label]} (`{label}`)" for label in ANSWERS[name])
    answered = f"The paper's {places}. " if places else ""
    return (
        f"## {name}: not run yet\n\n{answered}"
        f"`python -m reproduce {name}` measures it and makes this section.\n"
    )


def _table(table: Table) -> str:
    return f"{table.caption}:\n\n{grid(table.columns, table.rows)}"


def grid(columns: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)
