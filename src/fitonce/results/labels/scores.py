"""Accuracy, precision, recall and F1 of held-out labels, by tag and by entity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fitonce.core.wording import counted, share_in_words
from fitonce.results.labels.entities import are_chunks, entities
from fitonce.results.labels.heldout import HeldoutLabels
from fitonce.results.labels.ratios import ratios

_SCORES = ("precision", "recall", "f1")


class Score(NamedTuple):
    """A score of held-out labels, its standard error, and the same at the full fit's parameters."""

    value: float
    se: float
    control: float


_PLURALS = {"sequence": "sequences", "group of sequences": "groups of sequences"}


@dataclass(frozen=True, eq=False)
class LabelScores:
    """How well left-out labels are predicted without them.

    Attributes:
        table: one row per score: `of` ("tokens", "entities" or "tags"), `name` ("all", a type of
            entities or a tag), `score` ("accuracy", "precision", "recall" or "f1"), `value`, `se`,
            `control` (the same tokens predicted at the full fit's parameters, which have seen their
            labels), `support` (how many there are among the given labels), `predicted` (how many
            were predicted) and `sequences` (how many sequences, or units, have any of either).
        left_out: description of the folds.
        notes: what the scores do not count, in sentences.
        unit: what standard errors take as independent: a "sequence", or a "group of sequences".

    Entities are counted as by seqeval: right if their type, first and last token are. Standard errors
    are those of sums over sequences, which are independent; they are nan where everything is right or
    wrong, or where there is nothing to count.
    """

    table: pd.DataFrame
    left_out: str
    notes: tuple[str, ...] = field(default=())
    unit: str = "sequence"

    def to_dataframe(self) -> pd.DataFrame:
        """The table."""
        return self.table.copy()

    def score(self, score: str = "f1", of: str = "entities", name: str = "all") -> Score:
        """One score with its se and control, such as `scores.score("recall", "tags", "B-PER")`."""
        rows = self.table
        found = rows[(rows["score"] == score) & (rows["of"] == of) & (rows["name"] == name)]
        if found.empty:
            known = " ".join(f"({', '.join(row)})" for row in rows[["score", "of", "name"]].to_numpy())
            raise ValueError(f"there is no score ({score}, {of}, {name}); there are {known:.600}")
        row = found.iloc[0]
        return Score(float(row["value"]), float(row["se"]), float(row["control"]))

    @property
    def accuracy(self) -> Score:
        """Of tokens."""
        return self.score("accuracy", "tokens")

    @property
    def entity_f1(self) -> Score:
        """Of all entities together; raises where tags are not those of entities."""
        return self.score()

    def _repr_html_(self) -> str:
        from fitonce.results.notebook.labels import of_scores  # only notebooks need it

        return of_scores(self)

    def __repr__(self) -> str:
        first = self.table[self.table["name"] == "all"]
        tokens = first.iloc[0]
        lines = [
            f"Held-out labels: {self.left_out}",
            f"  {counted(int(tokens['support']), 'token')} of "
            f"{counted(int(tokens['sequences']), self.unit, _PLURALS[self.unit])}; control: at the "
            "parameters of the full fit, which have seen these labels",
        ]
        for row in first.to_dict("records"):
            what = row["score"] if row["of"] == "tokens" else f"entity {_shown_name(row['score'])}"
            lines.append(f"  {what:17} {_with_se(row)}   control {share_in_words(row['control'])}")
        rest = self.table[self.table["name"] != "all"]
        if len(rest):
            shown = _wide(rest).to_string(index=False, justify="right")
            lines += ["", *("  " + line for line in shown.split("\n"))]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


def _shown_name(score: str) -> str:
    return "F1" if score == "f1" else score


def _with_se(row: Mapping[Any, Any]) -> str:
    if not np.isfinite(row["value"]):
        return "none"
    return f"{share_in_words(row['value'])} " + (
        f"+- {row['se']:.3f}" if np.isfinite(row["se"]) else "(no se) "
    )


def _wide(table: pd.DataFrame) -> pd.DataFrame:
    """One row per type or tag, to read."""
    rows = []
    for (_, name), part in table.groupby(["of", "name"], sort=False):
        by_score = {row["score"]: row for row in part.to_dict("records")}
        last = by_score["f1"]
        rows.append(
            {
                "entity" if last["of"] == "entities" else "tag": name,
                **{_shown_name(score): _with_se(by_score[score]) for score in _SCORES},
                "control F1": "" if np.isnan(last["control"]) else share_in_words(last["control"]),
                "given": f"{last['support']:,}",
                "predicted": f"{last['predicted']:,}",
            }
        )
    found = pd.DataFrame(rows)
    names = [column for column in ("entity", "tag") if column in found]
    label = found[names].bfill(axis=1).iloc[:, 0]
    kind = np.where(found[names[0]].notna(), names[0], names[-1])
    shown = [f"{k} {n}" for k, n in zip(kind, label, strict=True)]
    width = max(map(len, shown))
    return pd.concat(
        [pd.Series([f"{name:{width}}" for name in shown], name=""), found.drop(columns=names)], axis=1
    )


class _Counts(NamedTuple):
    """By sequence and kind of thing, (N, M) each: how many are right, were predicted, are given."""

    right: np.ndarray
    predicted: np.ndarray
    given: np.ndarray

    def sums(self) -> _Counts:
        return _Counts(*(part.sum(1, keepdims=True) for part in self))


def label_scores(found: HeldoutLabels, left_out: str) -> LabelScores:
    """Scores of held-out labels."""
    known = found.codes["label"].to_numpy() >= 0
    place = np.unique(found.unit[known], return_inverse=True)[1]
    columns = ("label", "predicted", "control")
    label, predicted, control = (found.codes[name].to_numpy()[known] for name in columns)
    own, at_fit = (_by_tag(found, place, label, said) for said in (predicted, control))
    parts = [_accuracy(own, at_fit)]
    notes = []
    if are_chunks(found.tags) and found.whole:
        kinds, own_entities, fit_entities, partly = _by_entity(found)
        if kinds:
            parts.append(_rows("entities", ["all"], own_entities.sums(), fit_entities.sums()))
            parts.append(_rows("entities", kinds, own_entities, fit_entities))
        if partly:
            notes.append(f"entities without {counted(partly, 'sequence')} that lack a label")
    elif are_chunks(found.tags):
        notes.append("entities need whole sequences left out: --folds sequences (fo.folds.structures)")
    if found.whole and not found.together and _several_in_a_fold(found):
        notes.append(
            "sequences were drawn at random; where neighbours belong together, as sentences of a text, "
            "leave out runs of them: --contiguous (blocks=True)"
        )
    parts.append(_rows("tags", list(found.tags), own, at_fit))
    unit = "group of sequences" if found.together else "sequence"
    return LabelScores(pd.concat(parts, ignore_index=True), left_out, tuple(notes), unit)


def _several_in_a_fold(found: HeldoutLabels) -> bool:
    """Whether some fold left several sequences out."""
    pairs = np.unique(np.stack([found.codes["fold"].to_numpy(), found.sequence]), axis=1)
    return bool((np.bincount(pairs[0]) > 1).any()) if pairs.size else False


def _by_tag(found: HeldoutLabels, place: np.ndarray, label: np.ndarray, said: np.ndarray) -> _Counts:
    shape = (int(place.max(initial=-1)) + 1, len(found.tags))
    right, predicted, given = (np.zeros(shape) for _ in range(3))
    np.add.at(right, (place[label == said], label[label == said]), 1.0)
    np.add.at(predicted, (place, said), 1.0)
    np.add.at(given, (place, label), 1.0)
    return _Counts(right, predicted, given)


def _by_entity(found: HeldoutLabels) -> tuple[list[str], _Counts, _Counts, int]:
    """Types; counts by sequence of what was predicted without it, and at the full fit; and how many
    sequences lack a label, where entities cannot be counted."""
    names = np.array([*found.tags, ""], object)
    codes, sequence = found.codes, found.sequence
    rows = np.lexsort((codes["site"], sequence, codes["fold"]))
    where = np.stack([codes["fold"].to_numpy()[rows], sequence[rows]])
    starts = np.flatnonzero(np.any(np.diff(where, axis=1, prepend=-1), axis=0))
    texts = {name: names[codes[name].to_numpy()[rows]] for name in ("label", "predicted", "control")}
    spans, owner, partly = [], [], set()
    for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
        number = int(where[1, start])
        if "" in texts["label"][start:stop]:
            partly.add(number)
            continue
        spans.append({name: entities(text[start:stop]) for name, text in texts.items()})
        owner.append(int(where[0, start]) if found.together else number)
    kinds = sorted({entity.kind for each in spans for part in each.values() for entity in part})
    column = {kind: k for k, kind in enumerate(kinds)}
    place = np.unique(owner, return_inverse=True)[1] if owner else np.zeros(0, int)
    shape = (int(place.max(initial=-1)) + 1, len(kinds))
    both = []
    for name in ("predicted", "control"):
        counts = _Counts(*(np.zeros(shape) for _ in range(3)))
        for row, each in zip(place, spans, strict=True):
            given, said = set(each["label"]), set(each[name])
            for array, these in zip(counts, (given & said, said, given), strict=True):
                for entity in these:
                    array[row, column[entity.kind]] += 1.0
        both.append(counts)
    return kinds, both[0], both[1], len(partly)


def _accuracy(own: _Counts, at_fit: _Counts) -> pd.DataFrame:
    of_all = own.sums()
    value, se = ratios(of_all.right, of_all.given)
    control = ratios(at_fit.sums().right, of_all.given)[0]
    return _table("tokens", ["all"], "accuracy", value, se, control, of_all)


def _rows(of: str, names: list[str], own: _Counts, at_fit: _Counts) -> pd.DataFrame:
    """Precision, recall and F1 of each name."""
    found = []
    for score in _SCORES:
        value, se = ratios(*_ratio(score, own))
        found.append(_table(of, names, score, value, se, ratios(*_ratio(score, at_fit))[0], own))
    order = np.arange(len(found) * len(names)).reshape(len(found), len(names)).T.ravel()
    return pd.concat(found, ignore_index=True).iloc[order]


def _ratio(score: str, counts: _Counts) -> tuple[np.ndarray, np.ndarray]:
    if score == "f1":
        return 2.0 * counts.right, counts.predicted + counts.given
    return counts.right, counts.predicted if score == "precision" else counts.given


def _table(
    of: str,
    names: list[str],
    score: str,
    value: np.ndarray,
    se: np.ndarray,
    control: np.ndarray,
    counts: _Counts,
) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "of": of,
            "name": names,
            "score": score,
            "value": value,
            "se": se,
            "control": control,
            "support": counts.given.sum(0).astype(int),
            "predicted": counts.predicted.sum(0).astype(int),
            "sequences": ((counts.given + counts.predicted) > 0).sum(0),
        }
    )
