"""The commands compare, report, data and reproduce."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from fitonce.cli.display import show_models, show_written
from fitonce.cli.errors import complain, reporting_errors
from fitonce.cli.files import Files
from fitonce.cli.options import ForceOption, JsonOption, PlotOption, QuietOption, ReportOption
from fitonce.cli.outputs import check_outputs, print_json, table_rows
from fitonce.core.writing import write_figure
from fitonce.data.datasets import SOURCES, fetch, here
from fitonce.results.compare import Comparison
from fitonce.results.compare import compare as compare_results
from fitonce.results.result import load_result

data_app = typer.Typer(no_args_is_help=True, help="Data sets by name.", pretty_exceptions_enable=False)
Saved = Annotated[list[Path], typer.Argument(help="Saved results (JSON).", show_default=False)]


def compare(
    files: Saved,
    by: Annotated[str, typer.Option(help="Pair losses by point or by fold.")] = "point",
    report: ReportOption = None,
    plot: PlotOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare saved results on the same folds, with paired standard errors."""
    if len(files) < 2:
        raise ValueError(f"compare takes at least two saved results, got {len(files)}")
    check_outputs([report], plot, force, tuple(files))
    stems = [file.stem for file in files]
    names = stems if len(set(stems)) == len(stems) else [str(file) for file in files]
    if len(set(names)) < len(names):
        raise ValueError(f"compare takes different results, got {names[0]} twice")
    found = compare_results({n: load_result(f) for n, f in zip(names, files, strict=True)}, by=by)
    if quiet and not json:
        print(found.best)
        for doubt in found.doubts:
            complain(doubt)
    elif not json:
        print(f"{found.left_out}; paired by {found.by}")
        show_models(found.table, ["nats", "p_worse", "weight", "worst", "failed"])
        print("\n".join([found.sentence, *found.cautions]))
    written = Files()
    if plot is not None:
        written.add(lambda: write_figure(plot, found.plot().figure, force=force))
    if report is not None:
        line = shlex.join(
            ["fitonce", "compare", *map(str, files), *(["--by", by] if by != "point" else [])]
        )
        line += f" --report {shlex.quote(str(report))}"
        written.add(lambda: found.to_html(report, force=force, command=line))
    if json:
        print_json({**_document(found), "wrote": written.wrote})
    show_written(written.wrote, json or quiet)
    written.finish()


def _document(found: Comparison) -> dict[str, Any]:
    """A comparison for --json."""
    return {
        "best": found.best,
        "sentence": found.sentence,
        "doubts": found.doubts,
        "cautions": found.cautions,
        "models": table_rows(found.table),
    }


def report(
    file: Annotated[Path, typer.Argument(help="A saved result (JSON).", show_default=False)],
    out: Annotated[Path, typer.Argument(help="The HTML file to write.", show_default=False)],
    force: ForceOption = False,
) -> None:
    """Write the HTML report of a saved result."""
    check_outputs([out], None, force, (file,))
    result, written = load_result(file), Files()
    written.add(lambda: result.to_html(out, force=force))
    show_written(written.wrote)
    written.finish()


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="Names; default: all of the paper.")] = None,
) -> None:
    """Reproduce the paper's tables and figures; needs a checkout of the repository."""
    root = Path(__file__).parents[3]
    if not (root / "reproduce" / "__init__.py").is_file():
        raise ValueError("reproduce needs a checkout of the repository, got an installed package")
    sys.path.insert(0, str(root))
    from reproduce import run

    run(list(names or []))


@data_app.command("list")
@reporting_errors
def data_list(json: JsonOption = False) -> None:
    """List the data sets, and which of them are on this machine."""
    rows = [
        {
            "name": name,
            "here": str(here(name) or ""),
            "fetch": source.url is not None,
            "title": source.title,
        }
        for name, source in SOURCES.items()
    ]
    if json:
        print_json(rows)
        return
    for row in rows:
        state = "here" if row["here"] else "to fetch" if row["fetch"] else "not here"
        print(f"{row['name']:18} {state:9} {row['title']}")


@data_app.command("fetch")
@reporting_errors
def data_fetch(name: Annotated[str, typer.Argument(help="A name from `fitonce data list`.")]) -> None:
    """Download a data set and verify its checksum, unless it is already here."""
    print(fetch(name))
