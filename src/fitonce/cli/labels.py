"""Held-out labels on the command line: scores, confusion and suspects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from fitonce.analysis.influence import Influence
from fitonce.analysis.label_audit import LabelAudit
from fitonce.cli.outputs import table_rows
from fitonce.data.labelled import Labelled
from fitonce.results.labels.kinds import require_tag
from fitonce.results.result import CVResult

SHOWN = 10  # suspects, where no number is asked for


@dataclass(frozen=True)
class Suspicion:
    """Which labels are asked for: how many, of which given tag or type, and which predicted one."""

    count: int | None = None
    label: str | None = None
    rather: str | None = None

    @property
    def shown(self) -> int:
        return SHOWN if self.count is None else self.count

    @property
    def only(self) -> dict[str, Any]:
        """Arguments of `suspects`, `top` and `report`."""
        return {"label": self.label, "rather": self.rather}

    def check(self, data: Any) -> None:
        """Raise, before the fit, unless there are labels among which to look."""
        given = {"--suspects": self.count, "--label": self.label, "--rather": self.rather}
        if isinstance(data, Labelled):
            require_tag("--label", self.label, data.tags)
            require_tag("--rather", self.rather, data.tags)
            return
        for name, value in given.items():
            if value is not None:
                raise ValueError(f"{name} is for models of labels (--model crf), got one without labels")


def show_labels(result: CVResult, asked: Suspicion) -> None:
    """Print the scores of held-out labels and the most suspicious of them, where there are any."""
    if result.labels is None:
        return
    print(f"\n{result.label_scores()}")
    if asked.shown:
        print(f"\n{result.suspects(asked.shown, **asked.only)}")


def labels_document(result: CVResult, asked: Suspicion) -> dict[str, Any]:
    """The same for --json, with the confusion; empty where there are no labels."""
    if result.labels is None:
        return {}
    tables = {"label_scores": result.label_scores().table, "confusion": result.confusion().table}
    if asked.shown:
        found = result.suspects(asked.shown, **asked.only)
        tables |= {"suspects": found.table, "suspect_kinds": found.kinds}
    return {name: table_rows(table.set_index(table.columns[0])) for name, table in tables.items()}


def largest(found: Influence | LabelAudit, count: int, asked: Suspicion) -> pd.DataFrame:
    """The rows that influence shows."""
    return found.top(count, **asked.only) if isinstance(found, LabelAudit) else found.top(count)


def kinds_document(found: Influence | LabelAudit) -> dict[str, Any]:
    """Kinds of doubtful labels for --json; empty where there are no labels."""
    if not isinstance(found, LabelAudit):
        return {}
    return {"suspect_kinds": table_rows(found.kinds.set_index("label"))}
