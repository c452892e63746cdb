"""The paper's timing table: 1,000 folds of 10 % of 5,000, 10,000 and all 50,400 steps, beside its hours.

Each method has a process of its own. Process: from its start to the result, imports, reading, making
folds and compilation included, less the fit; first call: `cross_validate` alone, which compiles; warm:
the same call again. As in the paper, no time includes the fit (which compiles H and J on its way). Time of
the processor hardly depends on what else runs. TIMING_FOLDS=100 measures fewer folds, scaled to 1,000;
TIMING_RESUME=1 keeps the rows of a run that was cut short.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from typing import Any

import fitonce as fo
from reproduce import draw, published, traffic
from reproduce.record import Record, read_all

FOLDS, PERCENT = 1000, 10
SIZES = (5_000, 10_000, 50_400)
METHODS = ("none", "ij", "onestep", "auto", "newton", "exact")
MOST = int(os.environ.get("TIMING_FOLDS", FOLDS))
COLUMNS = [
    "folds", "steps", "method", "paper", "1,000 folds", "paper / ours", "processor", "process", "first call", "warm",
    "measured", "peak", "estimate",
]  # fmt: skip
DIFFERS = [
    f"Machine: the paper's is a {published.TRAFFIC_MACHINE.text}; ours is named above, with its "
    "load before the run (at 0 nothing ran beside it).",
    f"Definition: for the Newton step and exact CV the paper runs {published.TRAFFIC_SCALED.text}; we "
    "run the folds in the column 'measured', all of them unless TIMING_FOLDS says otherwise.",
    "Definition: our times have each fold's losses, control and error estimate in them. Our exact "
    "refits start at the full fit and go on to a certified minimum; the paper does not say where its "
    "own start.",
    *traffic.DIFFERS[:-1],
]
Rows = dict[tuple[str, str, str], list[str]]  # cells by kind of folds, steps, method


def main() -> None:
    record = Record(
        "traffic-timing",
        "Time-varying Poisson process: time",
        ["fig:dodgers_withinseq", "tab:dodgers_timing"],
        differs=list(DIFFERS),
    )
    rows = _kept(record) if os.environ.get("TIMING_RESUME") == "1" else {}
    record.beside("steps", published.TRAFFIC_STEPS, f"{SIZES[-1]:,}")
    table = record.table(
        f"Time of cross-validation on {FOLDS:,} folds of {PERCENT} %, warm, scaled from the folds "
        "measured; checks included. Processor: its time, all cores together, which other work hardly "
        "changes. Process, first call and warm are of the folds measured",
        COLUMNS,
    )
    for steps in SIZES:
        for kind in traffic.MAKERS:
            with record.waiting(f"{steps:,} steps, {kind}"):
                for method in METHODS:
                    key = (kind, f"{steps:,}", method)
                    if key not in rows:
                        rows[key] = _cells(kind, steps, method, _fresh(kind, steps, method))
                    table.add(*rows[key])
        _draw(record, rows)
    record.say(f"Load at the end: {os.getloadavg()[0]:.1f}, this run's own two cores among it.")
    record.write()


def _kept(record: Record) -> Rows:
    """Rows of a run that was cut short, told from the new ones by the machine line."""
    earlier = read_all().get(record.name)
    if earlier is None:
        return {}
    record.machine = f"{earlier.machine}; resumed: {record.machine}"
    return {(row[0], row[1], row[2]): row for row in earlier.tables[0].rows}


def _cells(kind: str, steps: int, method: str, row: dict[str, float]) -> list[str]:
    whole = row["warm"] * FOLDS / row["folds"]
    paper = published.TIMES.get((kind, steps, method))
    ratio = "" if paper is None else f"{published.seconds(paper) / whole:,.0f}"
    return [
        kind, f"{steps:,}", method, paper.text if paper else "", f"{whole:.1f} s", ratio,
        f"{row['processor'] * FOLDS / row['folds']:.1f} s", f"{row['process']:.1f} s", f"{row['first']:.1f} s", f"{row['warm']:.1f} s",
        f"{row['folds']:,.0f}", f"{row['peak_gib']:.1f} GiB", f"{row['estimate']:.4f}",
    ]  # fmt: skip


def _draw(record: Record, rows: Rows) -> None:
    """The sizes that are there."""
    caption = f"Time of {FOLDS:,} folds against the length of the series; crosses are the paper's."
    sizes = sorted({int(steps.replace(",", "")) for _, steps, _ in rows})
    sizes = [steps for steps in sizes if all((k, f"{steps:,}", "exact") in rows for k in traffic.MAKERS)]
    record.figure(_panels(rows, sizes), "traffic-timing.png", caption)


def _panels(rows: Rows, sizes: list[int]) -> Any:
    figure, axes = draw.panels(1, len(traffic.MAKERS), 4.4, 3.6)
    colours = {"none": "0.6", "ij": "#c0392b", "auto": "#2c6fbb", "newton": "#7b3294", "exact": "black"}
    for axis, kind in zip(axes.flat, traffic.MAKERS, strict=True):
        for method, colour in colours.items():
            ours = [rows[kind, f"{steps:,}", method] for steps in sizes]
            seconds = [float(cells[COLUMNS.index("1,000 folds")].split()[0]) for cells in ours]
            axis.plot(sizes, seconds, "o-", ms=4, color=colour, label=draw.label(method))
            if (kind, sizes[0], method) in published.TIMES:
                paper = [published.seconds(published.TIMES[kind, steps, method]) for steps in sizes]
                axis.plot(sizes, paper, "x--", ms=5, color=colour, label=f"{method}, paper")
        axis.set(xscale="log", yscale="log", title=kind, xlabel="steps", ylabel="seconds, 1,000 folds")
        axis.set_xticks(sizes, [f"{steps:,}" for steps in sizes])
        axis.minorticks_off()
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8)
    return figure


def _fresh(kind: str, steps: int, method: str) -> dict[str, float]:
    command = [
        sys.executable,
        "-m",
        "reproduce.traffic_timing",
        kind,
        str(steps),
        method,
        str(time.time()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def measure(kind: str, steps: int, method: str, born: float) -> dict[str, float]:
    """Cold and warm seconds of one method, in this process, and its peak memory."""
    series = traffic.load(steps)
    fit = traffic.fit(series, restarts=1)
    folds = traffic.MAKERS[kind](series, percent=PERCENT, n=MOST, seed=0)
    start = time.perf_counter()
    fo.cross_validate(fit, folds, method=method, optima=0)
    first = time.perf_counter() - start
    process = time.time() - born - fit.seconds
    start, used = time.perf_counter(), time.process_time()
    result = fo.cross_validate(fit, folds, method=method, optima=0)
    warm = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "folds": MOST,
        "process": process,
        "first": first,
        "warm": warm,
        "processor": time.process_time() - used,
        "peak_gib": peak,
        "estimate": result.estimate,
    }


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4]))))
