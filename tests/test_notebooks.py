"""Notebooks: the examples run and show what is stored; progress is one line that ends clean."""

from __future__ import annotations

import json

import pytest

nbformat = pytest.importorskip("nbformat", reason="needs nbformat")
pytest.importorskip("nbclient", reason="needs nbclient")
pytest.importorskip("ipykernel", reason="needs ipykernel")

from notebooks import EXAMPLES, executed, is_progress, outdated, read  # noqa: E402

SLOW = """
import time
from fitonce.core import progress
with progress.stage("reading the data", None):
    pass
with progress.stage("Newton <steps>", None):
    time.sleep(1.2)
with progress.bar(20, "folds", None) as advance:
    for _ in range(20):
        time.sleep(0.03)
        advance(1)
"""


def run_cells(*sources):
    """The outputs of cells, with all states of what was shown."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in sources])
    from nbclient import NotebookClient

    client = NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True)
    states = []
    seen = client.process_message

    def process(message, cell, cell_index):
        if message["msg_type"] in ("display_data", "update_display_data"):
            states.append(message["content"]["data"]["text/plain"])
        return seen(message, cell, cell_index)

    client.process_message = process
    client.execute()
    return [cell.outputs for cell in notebook.cells], states


@pytest.fixture(scope="module")
def shown():
    quick = SLOW.replace("1.2", "0.01").replace("0.03", "0.001")
    broken = (
        "with progress.stage('other optima', True):\n    time.sleep(0.2)\n    raise KeyboardInterrupt"
    )
    silent = SLOW.replace("None", "False")
    return run_cells(SLOW, quick, broken, silent)


@pytest.mark.late
def test_progress_in_a_notebook_is_one_line_that_ends_with_a_summary(shown):
    (slow, _, _, _), states = shown
    (line,) = slow
    assert is_progress(line)
    said = line["data"]["text/plain"]
    assert said.startswith("done: Newton <steps> 1.")
    assert "; folds 0." in said
    assert any(state.startswith("Newton <steps> 1") and " of 20, about" in state for state in states)
    assert "&lt;steps&gt;" in line["data"]["text/html"]
    assert "<progress" not in line["data"]["text/html"]
    assert "\\u001b" not in json.dumps(slow)
    assert not any(name.startswith("application/") for name in line["data"])


@pytest.mark.late
def test_quick_work_and_work_without_progress_leave_nothing(shown):
    (_, quick, _, silent), _ = shown
    assert quick == []
    assert silent == []


@pytest.mark.late
def test_work_that_is_stopped_says_so(shown):
    (_, _, (line, error), _), _ = shown
    assert line["data"]["text/plain"].startswith("stopped: other optima 0.")
    assert error["output_type"] == "error"


def test_there_is_a_notebook_for_each_family():
    assert [path.stem for path in EXAMPLES] == ["chain", "labels", "map"]


@pytest.mark.late
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_is_stored(path):
    if path.stem == "map":
        pytest.importorskip("pyogrio", reason="needs pyogrio")
    stored = read(path)
    assert not outdated(stored, executed(stored))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_stored_outputs_are_clean_and_small(path):
    stored = read(path)
    outputs = [out for cell in stored.cells for out in cell.get("outputs", [])]
    assert not [out for out in outputs if out["output_type"] == "error" or out.get("name") == "stderr"]
    assert not [out for out in outputs if is_progress(out)]
    cards = [out["data"]["text/html"] for out in outputs if "text/html" in out.get("data", {})]
    assert sum('class="fitonce"' in html for html in cards) >= 3
    written = path.read_text()
    assert "\\u001b" not in written
    assert "/home/" not in written
    assert len(written) < 200_000
    assert [cell.execution_count for cell in stored.cells if cell.cell_type == "code"] == [
        *range(1, 1 + sum(cell.cell_type == "code" for cell in stored.cells))
    ]


def test_stored_text_that_is_old_is_found():
    cell = nbformat.v4.new_code_cell("1")
    cell.outputs = [nbformat.v4.new_output("execute_result", {"text/plain": "loss 3.21, 2 s"})]
    stored = nbformat.v4.new_notebook(cells=[cell])
    fresh = nbformat.from_dict(stored)
    fresh.cells[0].outputs[0].data["text/plain"] = "loss 3.21, 7.5 s"
    assert not outdated(stored, fresh)
    fresh.cells[0].outputs[0].data["text/plain"] = "loss 3.27, 2 s"
    assert "3.27" in outdated(stored, fresh)[0][0]
    fresh.cells[0].outputs = []
    assert outdated(stored, fresh)[0] == ["1 outputs are stored, 0 came"]
