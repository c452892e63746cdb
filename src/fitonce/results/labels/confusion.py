"""Which tags are taken for which."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from fitonce.core.arguments import shown
from fitonce.core.wording import counted
from fitonce.results import plots
from fitonce.results.labels.heldout import HeldoutLabels
from fitonce.results.labels.ratios import ratios

_MOST_PRINTED = 15  # tags: with more, only what is confused most is printed
_MOST_PAIRS = 10


@dataclass(frozen=True, eq=False)
class Confusion:
    """Given tags and what was predicted for them without them.

    Attributes:
        table: one row per pair of tags that occurs (held out or at the full fit), by given tag:
            `label`, `predicted`, `count`, `share` of the label's tokens, its standard error `se` (from
            sums over sequences; nan where it says nothing, as for shares of 0 and 1), and `control`,
            the count at the full fit's parameters.
        tags: all of them, in order.
        left_out: description of the folds.
    """

    table: pd.DataFrame
    tags: tuple[str, ...]
    left_out: str = field(default="", repr=False)

    def to_dataframe(self) -> pd.DataFrame:
        """The table."""
        return self.table.copy()

    def matrix(self, of: str = "count") -> pd.DataFrame:
        """A square table, given tags down and predicted ones across, of "count", "share", "se" or
        "control"."""
        allowed = ("count", "share", "se", "control")
        if of not in allowed:
            raise ValueError(f"of must be one of {list(allowed)}, got {shown(of)}")
        wide = self.table.set_index(["label", "predicted"])[of].unstack()  # noqa: PD010
        wide = wide.reindex(index=list(self.tags), columns=list(self.tags))
        return wide.fillna(0).astype(int) if of in ("count", "control") else wide

    def most(self, n: int = _MOST_PAIRS) -> pd.DataFrame:
        """The `n` most frequent mistakes."""
        wrong = self.table[(self.table["label"] != self.table["predicted"]) & (self.table["count"] > 0)]
        return wrong.sort_values("count", ascending=False, kind="stable").head(n)

    def plot(self, ax: Any = None) -> Any:
        """A map of the shares, with the counts in its cells. Returns the matplotlib axes."""
        shares, counts = self.matrix("share").fillna(0.0), self.matrix()
        return plots.confusion(shares.to_numpy(), counts.to_numpy(), self.tags, ax)

    def _repr_html_(self) -> str:
        from fitonce.results.notebook.labels import of_confusion  # only notebooks need it

        return of_confusion(self)

    def __repr__(self) -> str:
        total = counted(int(self.table["count"].sum()), "token")
        lines = [f"Confusion of held-out labels, {total}: {self.left_out}"]
        if len(self.tags) <= _MOST_PRINTED:
            lines += [
                "given (down), predicted (across):",
                self.matrix().rename_axis(None).rename_axis(None, axis=1).to_string(),
            ]
        worst = self.most()
        lines.append("most frequent mistakes:" if len(worst) else "no mistakes")
        for row in worst.to_dict("records"):
            spread = f" +- {100 * row['se']:.1f}" if np.isfinite(row["se"]) else ""
            lines.append(
                f"  {row['label']} taken for {row['predicted']}: {row['count']:,}, "
                f"{100 * row['share']:.1f}{spread} % of {row['label']} (control {row['control']:,})"
            )
        return "\n".join(lines)


def confusion(found: HeldoutLabels, left_out: str) -> Confusion:
    """Of held-out labels that are known."""
    codes, states = found.codes, len(found.tags)
    known = codes["label"].to_numpy() >= 0
    place = np.unique(found.unit[known], return_inverse=True)[1]
    label, said, control = (codes[name].to_numpy()[known] for name in ("label", "predicted", "control"))
    shape = (int(place.max(initial=-1)) + 1, states * states)
    pairs = sparse.csr_array((np.ones(len(label)), (place, label * states + said)), shape)
    given = sparse.csr_array((np.ones(len(label)), (place, label)), (shape[0], states))
    below = sparse.csr_array(given @ sparse.csr_array(np.kron(np.eye(states), np.ones((1, states)))))
    share, se = ratios(pairs, below)
    counts = pairs.sum(0).astype(int)
    at_fit = np.bincount(label * states + control, minlength=states * states)
    rows = np.flatnonzero(counts + at_fit)
    names = np.array(found.tags, object)
    table = pd.DataFrame(
        {
            "label": names[rows // states],
            "predicted": names[rows % states],
            "count": counts[rows],
            "share": share[rows],
            "se": se[rows],
            "control": at_fit[rows],
        }
    )
    return Confusion(table, found.tags, left_out)
