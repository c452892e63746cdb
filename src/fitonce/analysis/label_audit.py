"""Label audit: the labels that the rest of the data disagrees with most, and what they do to the fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.numerics import is_count
from fitonce.data.labelled import Labelled
from fitonce.fitting.curvature import Curvature, curvature
from fitonce.fitting.fit import Fit
from fitonce.results import plots

_CHUNK_BYTES = 2**27  # of slopes at a time
_BY = ("loss", "displacement")
_AROUND = 6  # words on either side that a report shows


@dataclass(frozen=True, eq=False)
class LabelAudit:
    """Every label and every sequence, held against the rest of the data.

    Attributes:
        tokens: one row per known label: `sequence`, `time`, `site`, `word`, `label`; `loss`, its
            held-out surprise -log p(label | all other labels, x) at the parameters without it;
            `control`, the same at the fit's; `rather`, the tag that the fit finds most probable given
            all other labels, and `chance`, how probable; `displacement`, by how much twice the log
            posterior of all data would drop at the parameters fitted without the label, at a stationary
            fit `loss` less `control`.
        sequences: one row per labelled sequence: `sequence`, `length`; `loss`, -log p(its labels | x)
            without it; `per_token`; `control`; `displacement`.
        damping: what was added to the diagonal of H.
    """

    tokens: pd.DataFrame
    sequences: pd.DataFrame
    damping: float
    fit: Fit = field(repr=False)

    def to_dataframe(self) -> pd.DataFrame:
        """The table of tokens."""
        return self.tokens.copy()

    def top(self, n: int = 25, by: str = "loss", of: str = "tokens") -> pd.DataFrame:
        """The `n` most suspicious tokens or sequences.

        Args:
            n: how many.
            by: "loss" (how surprising) or "displacement" (how much they move the fit).
            of: "tokens" or "sequences".
        """
        if not is_count(n):
            raise ValueError(f"n must be an integer of at least 1, got {n!r}")
        if of not in ("tokens", "sequences"):
            raise ValueError(f"of must be 'tokens' or 'sequences', got {of!r}")
        table = self.tokens if of == "tokens" else self.sequences
        allowed = _BY if of == "tokens" else (*_BY, "per_token")
        if by not in allowed:
            raise ValueError(f"by must be one of {list(allowed)}, got {by!r}")
        return table.sort_values(by, ascending=False, kind="stable").head(int(n))

    def report(self, n: int = 25, by: str = "loss") -> str:
        """The `n` most suspicious tokens in their sentences, to read."""
        data: Labelled = self.fit.data
        chosen = self.top(n, by).to_dict("records")
        lines = [
            f"The {len(chosen)} most suspicious of {len(self.tokens):,} labels, by {by}:",
            "",
        ]
        for place, row in enumerate(chosen, 1):
            words, time = data.words_of(row["sequence"]), row["time"]
            begin, end = max(time - _AROUND, 0), time + _AROUND + 1
            shown = [*words[begin:time], f"[{words[time]}]", *words[time + 1 : end]]
            text = ("... " if begin else "") + " ".join(shown) + (" ..." if end < len(words) else "")
            lines += [
                f"{place:>3}. {text}",
                f"     labelled {row['label']}; the model says {row['rather']} ({row['chance']:.0%}); "
                f"surprise {row['loss']:.1f} nats, displacement {row['displacement']:.2g}; "
                f"sequence {row['sequence']}, token {time}",
            ]
        return "\n".join([*lines, *self._notes()])

    def plot(self, by: str = "loss", ax: Any = None) -> Any:
        """`by` along the data, the ten largest labelled. Returns the matplotlib axes."""
        if by not in _BY:
            raise ValueError(f"by must be one of {list(_BY)}, got {by!r}")
        sites, values = self.tokens["site"].to_numpy(), self.tokens[by].to_numpy()
        return plots.along_sites(sites, values, "token", by, ax)

    def __repr__(self) -> str:
        columns = ["sequence", "time", "word", "label", "rather", "chance", "loss", "displacement"]
        shown = self.top(5)[columns].to_string(index=False, float_format=lambda v: f"{v:.3g}")
        head = (
            f"Audit of {len(self.tokens):,} labels in {len(self.sequences):,} sequences; the most "
            "surprising:"
        )
        lines = [head, shown, "print(audit.report()) shows more of them in their sentences"]
        return "\n".join(lines + self._notes())

    def _notes(self) -> list[str]:
        """What a reader must know of the numbers."""
        notes = [f"H damped by {self.damping:g}"] if self.damping else []
        if not self.fit.ok:
            notes.append(f"FIT {self.fit.status}; losses and displacements are rough from there")
        return notes


def label_audit(fit: Fit, damping: float) -> LabelAudit:
    """Hold every label and every sequence against the rest, to first order, from one pass."""
    curve = curvature(fit, damping=damping)
    return LabelAudit(_tokens(fit, curve), _sequences(fit, curve), damping, fit)


def _tokens(fit: Fit, curve: Curvature) -> pd.DataFrame:
    data: Labelled = fit.data
    known = np.flatnonzero(data.weights)
    values, losses, displacement, best, chance = np.empty((5, len(known)))
    size = max(_CHUNK_BYTES // (8 * len(fit.theta)), 1)
    for start in range(0, len(known), size):
        some = slice(start, start + size)
        logs, slopes, shares = fit.objective.label_evidence(fit.theta, known[some])
        values[some] = -logs
        losses[some], displacement[some] = _without(curve, -logs, -slopes)
        best[some], chance[some] = shares.argmax(1), shares.max(1)
    sites = data.sites.iloc[known]
    tags = np.array(data.tags)
    words = np.array(data.words, object)[known] if data.words is not None else ""
    return pd.DataFrame(
        {
            "sequence": sites["sequence"].to_numpy(),
            "time": sites["time"].to_numpy(),
            "site": known,
            "word": words,
            "label": tags[data.labels[known]],
            "loss": losses,
            "control": values,
            "rather": tags[best.astype(int)],
            "chance": chance,
            "displacement": displacement,
        }
    )


def _sequences(fit: Fit, curve: Curvature) -> pd.DataFrame:
    data: Labelled = fit.data
    known = np.flatnonzero(data.sequence_weights)
    values, slopes = fit.objective.sequence_evidence(fit.theta, known)
    losses, displacement = _without(curve, values, slopes)
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
    """Losses (n,) at the parameters one step without each thing, to first order, and displacements.

    No loss is negative; a long step from a fit that stopped far off may say otherwise, and is cut there.
    """
    moves = curve.solve(slopes.T).T
    left = slopes @ curve.solve(curve.gradient)
    displacement = np.einsum("nd,nd->n", slopes, moves)
    return np.maximum(values + displacement - left, 0.0), displacement
