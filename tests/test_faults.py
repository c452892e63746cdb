"""Faults at every stage of a command, as `python -m benchmarks faults` prints; readers that leave."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from benchmarks.faults import FAULTS

pytestmark = pytest.mark.late
CELLS = [(name, stage) for name, fault in FAULTS.items() for stage in fault.codes]
# Of the whole matrix, only the stages that are asked for.
SOME = """
import json, sys
from dataclasses import asdict, replace
from benchmarks import faults

asked = json.loads(sys.argv[1])
for name, fault in faults.FAULTS.items():
    codes = {stage: code for stage, code in fault.codes.items() if [name, stage] in asked}
    faults.FAULTS[name] = replace(fault, codes=codes)
for cell in faults.cells():
    print(json.dumps(asdict(cell)))
"""


@pytest.fixture(scope="module")
def found(request):
    """What came of the faults whose tests run; all from one process, which warms up for long."""
    asked = [
        (item.callspec.params["fault"], item.callspec.params["stage"])
        for item in request.session.items
        if item.path == request.path and "found" in item.fixturenames
    ]
    done = subprocess.run(
        [sys.executable, "-c", SOME, json.dumps(asked)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    cells = [json.loads(line) for line in done.stdout.splitlines()]
    return {(cell["fault"], cell["stage"]): cell for cell in cells}


@pytest.mark.parametrize(("fault", "stage"), CELLS)
def test_a_fault_leaves_nothing_half_done_and_costs_no_digit(found, fault, stage):
    cell = found[fault, stage]
    assert cell["problems"] == []
    assert cell["code"] == FAULTS[fault].codes[stage]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readers")
    (folder / "y.csv").write_text("y\n" + "1\n2\n9\n8\n" * 10)
    return folder


QUICK = "y.csv --model poisson-hmm --restarts 1 --optima 0"


@pytest.mark.parametrize(
    "words",
    [
        f"cv {QUICK} --n 4 --force --save out.json",
        f"cv {QUICK} --n 4 --force --save out.json --json",
        f"cv {QUICK} --n 4 --force --save out.json --quiet",
        "models",
        "--help",
        "cv --help",
    ],
)
def test_a_reader_that_leaves_costs_neither_files_nor_the_exit_code(folder, words):
    """As in `fitonce ... | head -0`."""
    (folder / "out.json").unlink(missing_ok=True)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "fitonce", *words.split()],
        cwd=folder, stdout=writer, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    if "--save" in words:
        assert json.loads((folder / "out.json").read_text())["format"] == "fitonce result"
