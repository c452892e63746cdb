"""The section on held-out labels: scores, what is taken for what, and labels that look wrong."""

from __future__ import annotations

import math
import shlex
from dataclasses import replace

import pandas as pd

from fitonce.core.wording import chance, counted, share_in_words
from fitonce.data.places import Names
from fitonce.results.labels.kinds import GROUPS, groups_in
from fitonce.results.labels.suspects import Suspects
from fitonce.results.report.markup import Markup, advice, details, join, number, paragraph, table, tag
from fitonce.results.summary import FitSummary, Result

_LISTED, _OF_GROUP = 16, 10
_ABOUT = (
    "Which label was given where which was predicted, with the words whose label is least probable. "
    "Labels that somebody exchanged would be among confusions of two types, names that somebody "
    "overlooked among entities where none was given."
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
    header = ("of", "score", "value", "se", "control", "given", "predicted")
    named = rows["name"].where(rows["name"] != "all", "all " + rows["of"])
    cells = zip(
        named, rows["score"], _shares(rows["value"]), _numbers(rows["se"]), _shares(rows["control"]),
        rows["support"].astype(int), rows["predicted"].astype(int), strict=True,
    )  # fmt: skip
    return table(header, cells, "Scores of held-out labels")


def _numbers(values: pd.Series) -> list[str]:
    return [number(value, 3) for value in values.astype(float)]


def _shares(values: pd.Series) -> list[str]:
    """Scores, of which none is 1 that is not."""
    return [number(value, 3) if value != value else share_in_words(value) for value in values]


def _kinds(kinds: pd.DataFrame) -> list[Markup]:
    """What is taken for what, with words to look at, group by group."""
    title, groups = "Kinds of error", groups_in(kinds)
    most = _OF_GROUP if len(groups) > 1 else _LISTED
    shown = [tag("h3", title), paragraph(_ABOUT if len(groups) > 1 else _ABOUT.split(". ")[0] + ".")]
    for name, some in groups:
        said = f"Predicted: {GROUPS[name]}"
        shown.append(paragraph(tag("strong", said)) if len(groups) > 1 else Markup(""))
        shown.append(_kinds_table(some.head(most), said))
        if len(some) > most:
            shown.append(details("Other kinds", _kinds_table(some.iloc[most:], f"{said}, other kinds")))
    return shown


def _kinds_table(kinds: pd.DataFrame, title: str) -> Markup:
    least = [chance(math.exp(-loss)) for loss in kinds["loss"]]
    counts = kinds["count"].astype(int)
    rows = list(zip(kinds["label"], kinds["rather"], counts, least, kinds["words"], strict=True))
    return table(("label", "predicted", "labels", "least probability", "least probable"), rows, title)


def _suspects(found: Suspects) -> list[Markup]:
    rows = [
        (row["sentence"], row["label"], chance(row["chance"]), row["rather"],
         chance(row["rather_chance"]), f"{row['sequence']}, token {row['time']}")
        for row in found.by_sentence().to_dict("records")
    ]  # fmt: skip
    header = ("in its sentence", "label", "its probability", "rather", "its probability", "sentence")
    said = (
        f"Of {counted(found.n_labels, 'label')}, {found.n_disagree:,} were predicted otherwise. The "
        "least probable, by sentence:"
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
    notes = [paragraph(note[:1].upper() + note[1:] + ".") for note in found.notes]
    return [tag("h3", title), *notes, paragraph(said), table(header, rows, title), more]
