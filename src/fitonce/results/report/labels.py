"""The section on held-out labels: scores, what is taken for what, and labels that look wrong."""

from __future__ import annotations

import math
import shlex
from dataclasses import replace

import pandas as pd

from fitonce.core.wording import chance, counted
from fitonce.data.places import Names
from fitonce.results.labels.suspects import Suspects
from fitonce.results.report.markup import Markup, advice, details, join, number, paragraph, table, tag
from fitonce.results.summary import FitSummary, Result

_LISTED = 16
_ABOUT = (
    "Which label was given where which was predicted, with the words whose label is least probable. "
    "Confusions of two types are first: labels that somebody exchanged would be among them."
)
_SUSPECTS = 25
_WORDS = 6  # of a sentence, in its name


def in_words(fitted: FitSummary, result: Result) -> FitSummary:
    """With sentences named by their first words, and tokens by their words."""
    found = result.labels
    if found is None or found.words is None or fitted.places is not None:
        return fitted
    ends = fitted.lengths.cumsum()
    starts = ends - fitted.lengths
    sentences = tuple(
        f"{place}: {' '.join(found.words[start : min(start + _WORDS, end)])}"
        + (" …" if end > start + _WORDS else "")
        for place, (start, end) in enumerate(zip(starts, ends, strict=True))
    )
    return replace(fitted, places=Names(sentences, found.words))


def labels_section(result: Result) -> Markup:
    """Scores with standard errors, kinds of error, and the most suspicious labels."""
    scores, tokens = result.label_scores(), result.heldout_labels()
    kind = "entities" if (scores.table["of"] == "entities").any() else "tags"
    rows = scores.table[scores.table["of"].isin(("tokens", kind))]
    shown = [
        paragraph(
            f"{counted(len(tokens), 'label')} were held out and predicted without them. Control: the "
            "same labels predicted by the full fit, which has seen them."
        ),
        _scores(rows),
        *(paragraph(note[:1].upper() + note[1:] + ".", class_="small") for note in scores.notes),
    ]
    tags = scores.table[scores.table["of"] == "tags"]
    if kind == "entities" and len(tags):
        shown.append(details("Scores of all tags", _scores(tags)))
    found = result.suspects(_SUSPECTS)
    return join([*shown, *_kinds(found.kinds), *_suspects(found)] if len(found) else shown)


def _scores(rows: pd.DataFrame) -> Markup:
    """One line for each score of an entity or tag."""
    header = ("of", "score", "value", "se", "control", "number")
    named = rows["name"].where(rows["name"] != "all", "all " + rows["of"])
    cells = zip(
        named, rows["score"], _numbers(rows["value"]), _numbers(rows["se"]), _numbers(rows["control"]),
        rows["support"].astype(int), strict=True,
    )  # fmt: skip
    return table(header, cells, "Scores of held-out labels")


def _numbers(values: pd.Series) -> list[str]:
    return [number(value, 3) for value in values.astype(float)]


def _kinds(kinds: pd.DataFrame) -> list[Markup]:
    """What is taken for what, with words to look at."""
    rows = list(
        zip(
            kinds["label"], kinds["rather"], kinds["count"].astype(int),
            [chance(math.exp(-loss)) for loss in kinds["loss"]], kinds["words"], strict=True,
        )
    )  # fmt: skip
    header = ("label", "predicted", "labels", "least probability", "least probable")
    title = "Kinds of error"
    shown = [tag("h3", title), paragraph(_ABOUT), table(header, rows[:_LISTED], title)]
    if len(rows) > _LISTED:
        shown.append(details("Other kinds", table(header, rows[_LISTED:], "Other kinds of error")))
    return shown


def _suspects(found: Suspects) -> list[Markup]:
    rows = [
        (row["sentence"], row["label"], chance(row["chance"]), row["rather"],
         chance(row["rather_chance"]), f"{row['sequence']}, token {row['time']}")
        for row in found.table.to_dict("records")
    ]  # fmt: skip
    header = ("in its sentence", "label", "its probability", "rather", "its probability", "sentence")
    said = (
        f"Of {counted(found.n_labels, 'label')}, {found.n_disagree:,} were predicted otherwise. The "
        "least probable:"
    )
    first = found.kinds.iloc[0]
    one = f"label={first['label']!r}, rather={first['rather']!r}"
    flags = f"--label {shlex.quote(first['label'])} --rather {shlex.quote(first['rather'])}"
    more = paragraph(
        "More, in Python: ", advice("cv.suspects(100)"), ", of one kind: ",
        advice(f"cv.suspects({one})"), "; on the command line ", tag("code", "--suspects 100"), " and ",
        tag("code", flags), ".", class_="small",
    )  # fmt: skip
    title = "Labels that look wrong"
    return [tag("h3", title), paragraph(said), table(header, rows, title), more]
