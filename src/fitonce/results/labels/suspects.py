"""Labels that look wrong: a model that has not seen them finds them improbable."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from fitonce.core.arguments import require_count
from fitonce.core.wording import chance, counted
from fitonce.results.labels.entities import are_chunks
from fitonce.results.labels.heldout import HeldoutLabels
from fitonce.results.labels.kinds import kinds_of, lines_of, of_tags

_AROUND = 6  # words on either side that are shown
_MUCH = 0.2  # of what was labelled as an entity is predicted as none


def in_sentence(words: Sequence[str], marked: Collection[int]) -> str:
    """A sentence around the `marked` tokens, which are in brackets."""
    begin, end = max(min(marked) - _AROUND, 0), max(marked) + _AROUND + 1
    shown = [f"[{word}]" if k in marked else word for k, word in enumerate(words)][begin:end]
    return ("... " if begin else "") + " ".join(shown) + (" ..." if end < len(words) else "")


@dataclass(frozen=True, eq=False)
class Suspects:
    """Held-out tokens whose given label is least probable, of those for which another tag was predicted.

    Attributes:
        table: one row per token, the least probable label first: `sequence`, `time`, `site`, `fold`,
            `word`, `label`, `chance` (its probability without the fold's data), `rather` (the tag that
            was predicted), `rather_chance`, `loss` (-log `chance`, in nats) and `sentence`, the words
            around it.
        kinds: all of them by kind of error, also those that `table` has no room for: `label`, `rather`,
            `group`, `count`, the largest `loss` and the `words` of the largest; confusions of two types
            of entities first, then entities where none was given, so that a rare one is not lost among
            names that the model has never seen.
        n_labels: how many labels were held out.
        n_disagree: for how many of them another tag was predicted.
        left_out: description of the folds.
        missed: the share of tokens labelled as part of an entity that were predicted as O; nan where
            tags have no entities.
    """

    table: pd.DataFrame
    kinds: pd.DataFrame
    n_labels: int
    n_disagree: int
    left_out: str
    missed: float
    _sentences: dict[int, list[str]] = field(repr=False)

    def to_dataframe(self) -> pd.DataFrame:
        """The table."""
        return self.table.copy()

    def __len__(self) -> int:
        return len(self.table)

    def by_sentence(self) -> pd.DataFrame:
        """The table with the tokens of a sentence together, as they are printed."""
        place = self.table.groupby("sequence", sort=False).ngroup()
        order = np.lexsort((self.table["time"], place))
        return self.table.iloc[order].reset_index(drop=True)

    @property
    def notes(self) -> list[str]:
        """What to keep in mind, and where to look further."""
        found = []
        groups = set(self.kinds["group"])
        if self.missed > _MUCH and "entity missed" in groups:
            found.append(
                f"{100 * self.missed:.0f} % of the tokens labelled as entities are predicted as O, as "
                "names are that the model has not seen: that says little about their labels"
            )
        if "entity dropped" in groups and len(groups) > 1:
            found.append(
                'entities that may have been dropped, by sentence: cv.suspects(label="O"), --label O'
            )
        return found

    def _repr_html_(self) -> str:
        from fitonce.results.notebook.labels import of_suspects  # only notebooks need it

        return of_suspects(self)

    def __repr__(self) -> str:
        if not len(self.table):
            asked = " of the kind asked for" if self.n_disagree else ""
            return f"None of {counted(self.n_labels, 'held-out label')} was predicted otherwise{asked}"
        number = int(self.kinds["count"].sum())
        asked = "" if number == self.n_disagree else f"; {number:,} of the kind asked for"
        lines = [
            f"The {len(self.table)} most suspicious of {counted(self.n_labels, 'held-out label')} "
            f"({self.n_disagree:,} were predicted otherwise{asked}), by sentence:"
        ]
        for place, (which, rows) in enumerate(self.by_sentence().groupby("sequence", sort=False), 1):
            words = self._sentences[int(str(which))]
            text = in_sentence(words, set(rows["time"]))
            lines.append(f"{place:>3}. sequence {which}: {text}")
            lines += [
                f"     [{words[row['time']]}] labelled {row['label']} ({chance(row['chance'])}); "
                f"without it the model says {row['rather']} ({chance(row['rather_chance'])})"
                for row in rows.to_dict("records")
            ]
        lines.append("By kind, given -> predicted, with the words whose label is least probable:")
        return "\n".join([*lines, *lines_of(self.kinds, "suspects.kinds"), *self.notes])


def suspects(
    found: HeldoutLabels, left_out: str, n: int, label: str | None = None, rather: str | None = None
) -> Suspects:
    """The `n` most suspicious, each token once (where several folds score it, the worst), of one given
    tag or type, and of one predicted."""
    require_count("n", n)
    rows = found.table()
    rows = rows[rows["label"] != ""]
    other = rows[rows["label"] != rows["predicted"]]
    ranked = other.sort_values("loss", ascending=False, kind="stable").drop_duplicates("site")
    ranked = ranked.rename(columns={"predicted": "rather", "predicted_chance": "rather_chance"})
    ranked = of_tags(ranked, found.tags, label, rather)
    chosen = ranked.head(int(n))
    sentences = {int(k): found.words_of(int(k)) for k in chosen["sequence"].unique()}
    where = zip(chosen["sequence"], chosen["time"], strict=True)
    chosen = chosen.assign(sentence=[in_sentence(sentences[int(k)], {int(t)}) for k, t in where])
    order = [
        "sequence", "time", "site", "fold", "word", "label", "chance", "rather", "rather_chance", "loss",
        "sentence",
    ]  # fmt: skip
    table = chosen[order].reset_index(drop=True)
    n_labels = int(np.unique(rows["site"]).size)
    kinds = kinds_of(ranked, found.tags)
    n_other, missed = int(other["site"].nunique()), _missed(rows, found.tags)
    return Suspects(table, kinds, n_labels, n_other, left_out, missed, sentences)


def _missed(rows: pd.DataFrame, tags: Sequence[str]) -> float:
    """The share of tokens labelled as part of an entity that were predicted as O."""
    inside = rows[rows["label"] != "O"]
    return float((inside["predicted"] == "O").mean()) if are_chunks(tags) and len(inside) else np.nan
