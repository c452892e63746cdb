"""Held-out labels on the command line: scores, confusion and suspects."""

from __future__ import annotations

from typing import Any

from fitonce.cli.outputs import table_rows
from fitonce.data.labelled import Labelled
from fitonce.results.result import CVResult

SHOWN = 10  # suspects, where no number is asked for


def check_suspects(suspects: int | None, data: Any) -> None:
    """Raise unless there are labels among which to look."""
    if suspects is not None and not isinstance(data, Labelled):
        raise ValueError("--suspects is for models of labels (--model crf), got one without labels")


def show_labels(result: CVResult, suspects: int | None) -> None:
    """Print the scores of held-out labels and the most suspicious of them, where there are any."""
    if result.labels is None:
        return
    print(f"\n{result.label_scores()}")
    count = SHOWN if suspects is None else suspects
    if count:
        print(f"\n{result.suspects(count)}")


def labels_document(result: CVResult, suspects: int | None) -> dict[str, Any]:
    """The same for --json, with the confusion; empty where there are no labels."""
    if result.labels is None:
        return {}
    count = SHOWN if suspects is None else suspects
    tables = {
        "label_scores": result.label_scores().table,
        "confusion": result.confusion().table,
        **({"suspects": result.suspects(count).table} if count else {}),
    }
    return {name: table_rows(table.set_index(table.columns[0])) for name, table in tables.items()}
