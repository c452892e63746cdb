"""Label audit: the labels that the rest of the data disagrees with most, and their effect on the fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pandas as pd

from fitonce.core import memory
from fitonce.core.arguments import require_choice, require_count
from fitonce.core.chunks import stretches
from fitonce.core.foretelling import foretell, is_told
from fitonce.core.progress import bar, stage
from fitonce.core.stopwatch import now
from fitonce.core.wording import counted
from fitonce.data.labelled import Labelled
from fitonce.fitting.curvature import Curvature, curvature
from fitonce.fitting.fit import Fit
from fitonce.fitting.footprint import bytes_of_influence, hold_point
from fitonce.objectives.abilities import HasLabels
from fitonce.results import plots
from fitonce.results.labels.kinds import kinds_of, lines_of, of_tags
from fitonce.results.labels.suspects import in_sentence

_LEAST, _MOST = 0.7, 1.5  # times what the first labels say
_FASTER = "cv.suspects() of sentences left out (fitonce cv --folds sequences --k 10) takes less"
_BY = ("loss", "displacement")
_FIRST, _AT_ONCE = 8, 64  # labels, of which progress tells; the first are timed


@dataclass(frozen=True, eq=False)
class LabelAudit:
    """Every label and every sequence, judged by the rest of the data.

    Attributes:
        tokens: one row per known label: `sequence`, `time`, `site`, `word`, `label`; `loss`, its
            held-out surprise -log p(label | all other labels, x) at the parameters without it;
            `control`, the same at the fit's; `rather`, the most probable tag under the fit given all
            other labels, and `chance`, its probability; `displacement`, the drop of twice the log
            posterior of all data at the parameters fitted without the label, which at a stationary fit
            is `loss` minus `control`.
        sequences: one row per labelled sequence: `sequence`, `length`; `loss`, -log p(its labels | x)
            without it; `per_token`; `control`; `displacement`.
        damping: what was added to the diagonal of H.
    """

    tokens: pd.DataFrame
    sequences: pd.DataFrame
    damping: float
    fit: Fit = field(repr=False)

    @property
    def table(self) -> pd.DataFrame:
        """The table of tokens."""
        return self.tokens

    def __len__(self) -> int:
        return len(self.tokens)

    def to_dataframe(self, of: str = "tokens") -> pd.DataFrame:
        """A copy of the table of "tokens" or "sequences"."""
        return self._table(of).copy()

    def _table(self, of: str) -> pd.DataFrame:
        require_choice("of", of, ("tokens", "sequences"))
        return self.tokens if of == "tokens" else self.sequences

    @property
    def kinds(self) -> pd.DataFrame:
        """The labels for which another tag is more probable by kind of error: `label`, `rather`,
        `count`, the largest `loss` and the `words` of the largest."""
        rows = self.tokens[self.tokens["label"] != self.tokens["rather"]]
        return kinds_of(rows, self.fit.data.tags)

    def top(
        self,
        n: int = 25,
        by: str = "loss",
        of: str = "tokens",
        *,
        label: str | None = None,
        rather: str | None = None,
    ) -> pd.DataFrame:
        """The `n` most suspicious tokens or sequences.

        Args:
            n: how many.
            by: "loss" (how surprising), "displacement" (how much they move the fit) or, for sequences,
                "per_token".
            of: "tokens" or "sequences".
            label: only tokens of this given tag ("B-LOC"), or type of entity ("LOC").
            rather: only tokens for which this tag is the most probable.
        """
        require_count("n", n)
        table = self._table(of)
        if of == "tokens":
            table = of_tags(table, self.fit.data.tags, label, rather)
        elif label is not None or rather is not None:
            raise ValueError('label and rather choose among tokens, got of="sequences"')
        allowed = _BY if of == "tokens" else (*_BY, "per_token")
        require_choice("by", by, allowed)
        return table.sort_values(by, ascending=False, kind="stable").head(int(n))

    def report(
        self, n: int = 25, by: str = "loss", *, label: str | None = None, rather: str | None = None
    ) -> str:
        """The `n` most suspicious tokens in their sentences, to read, and kinds of errors; `label` and
        `rather` as for `top`."""
        data: Labelled = self.fit.data
        chosen = self.top(n, by, label=label, rather=rather).to_dict("records")
        lines = [f"The {len(chosen)} most suspicious of {len(self.tokens):,} labels, by {by}:", ""]
        for place, row in enumerate(chosen, 1):
            time = row["time"]
            lines += [
                f"{place:>3}. {in_sentence(data.words_of(row['sequence']), {time})}",
                f"     labelled {row['label']}; the model says {row['rather']} ({row['chance']:.0%}); "
                f"surprise {row['loss']:.1f} nats, displacement {row['displacement']:.2g}; "
                f"sequence {row['sequence']}, token {time}",
            ]
        return "\n".join([*lines, *self._by_kind(), *self.notes])

    def _by_kind(self) -> list[str]:
        kinds = self.kinds
        if kinds.empty:
            return []
        title = "By kind, given -> more probable given all other labels, with the most surprising words:"
        return [title, *lines_of(kinds, "audit.kinds")]

    def plot(self, by: str = "loss", ax: Any = None) -> Any:
        """`by` along the data, the ten largest labelled by their words. Returns the matplotlib axes."""
        require_choice("by", by, _BY)
        sites, values = self.tokens["site"].to_numpy(), self.tokens[by].to_numpy()
        words = None if self.fit.data.words is None else self.tokens["word"].tolist()
        label = "held-out surprise, nats" if by == "loss" else by
        return plots.along_sites(sites, values, "token", label, ax, words)

    def _repr_html_(self) -> str:
        from fitonce.results.notebook.fits import of_audit  # only notebooks need it

        return of_audit(self)

    def __repr__(self) -> str:
        columns = ["sequence", "time", "word", "label", "rather", "chance", "loss", "displacement"]
        labels, where = counted(len(self.tokens), "label"), counted(len(self.sequences), "sequence")
        lines = [
            f"Audit of {labels} in {where}; the most surprising:",
            self.top(5)[columns].to_string(index=False, float_format=lambda v: f"{v:.3g}"),
            "print(audit.report()) shows more of them in their sentences",
        ]
        return "\n".join(lines + self.notes)

    @property
    def notes(self) -> list[str]:
        """Caveats about the numbers."""
        notes = [f"H damped by {self.damping:g}"] if self.damping else []
        if not self.fit.ok:
            notes.append(f"FIT {self.fit.status}; losses and displacements are rough")
        return notes


def label_audit(fit: Fit, damping: float) -> LabelAudit:
    """Judge every label and every sequence by the rest of the data, to first order, from one pass."""
    with stage("H of the fit, and its factor", None):
        curve = curvature(fit, damping=damping)
    hold_point(fit.objective)
    return LabelAudit(_tokens(fit, curve), _sequences(fit, curve), damping, fit)


def _tokens(fit: Fit, curve: Curvature) -> pd.DataFrame:
    data: Labelled = fit.data
    objective = cast(HasLabels, fit.objective)
    known = np.flatnonzero(data.weights)
    values, losses, displacement, best, chance = np.empty((5, len(known)))
    memory.hold(bytes_of_influence(fit.objective, len(known)), "the table of labels")
    pieces = _some(len(known), 32.0 * len(fit.theta), "the slopes of a label")
    with bar(len(known), "labels judged by the others", None) as advance:
        for number, some in enumerate(pieces):
            started = now()
            logs, slopes, shares = objective.label_evidence(fit.theta, known[some])
            values[some] = -logs
            losses[some], displacement[some] = _without(curve, -logs, -slopes)
            best[some], chance[some] = shares.argmax(1), shares.max(1)
            advance(some.stop - some.start)
            if number == 0 and is_told(None):
                taken = (now() - started) * len(known) / (some.stop - some.start)
                what = f"the influence of {counted(len(known), 'label')}"
                foretell(what, _LEAST * taken, _MOST * taken, _FASTER)
    sites, tags = data.sites.iloc[known], np.array(data.tags)
    return pd.DataFrame(
        {
            "sequence": sites["sequence"].to_numpy(),
            "time": sites["time"].to_numpy(),
            "site": known,
            "word": "" if data.words is None else np.array(data.words, object)[known],
            "label": tags[data.labels[known]],
            "loss": losses,
            "control": values,
            "rather": tags[best.astype(int)],
            "chance": chance,
            "displacement": displacement,
        }
    )


def _some(count: int, bytes_each: float, what: str) -> Iterator[slice]:
    """In pieces that memory allows, and that show progress."""
    for part in stretches(count, bytes_each, what):
        start = part.start
        while start < part.stop:
            end = min(start + (_AT_ONCE if start else _FIRST), part.stop)
            yield slice(start, end)
            start = end


def _sequences(fit: Fit, curve: Curvature) -> pd.DataFrame:
    data: Labelled = fit.data
    objective = cast(HasLabels, fit.objective)
    known = np.flatnonzero(data.sequence_weights)
    values, losses, displacement = np.empty((3, len(known)))
    for some in stretches(len(known), 64.0 * len(fit.theta), "the slopes of a sequence"):
        values[some], slopes = objective.sequence_evidence(fit.theta, known[some])
        losses[some], displacement[some] = _without(curve, values[some], slopes)
    return pd.DataFrame(
        {
            "sequence": known,
            "length": data.lengths[known],
            "loss": losses,
            "per_token": losses / data.lengths[known],
            "control": values,
            "displacement": displacement,
        }
    )


def _without(curve: Curvature, values: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) losses at the parameters one step without each label or sequence, to first order, and (n,)
    displacements, from values (n,) and slopes (n, D) at the fit.

    Losses are truncated at zero, below which a long step from a fit that stopped early may lead.
    """
    displacement = np.einsum("nd,nd->n", slopes, curve.solve(slopes.T).T)
    losses = values + displacement - slopes @ curve.solve(curve.gradient)
    return np.maximum(losses, 0.0), displacement
