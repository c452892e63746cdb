"""Influence: every point's effect on every parameter, from one sweep."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from fitonce.analysis.label_audit import LabelAudit, label_audit
from fitonce.core import memory
from fitonce.core.arguments import require_choice, require_count, require_text
from fitonce.core.memory import limits_memory
from fitonce.core.progress_lines import told_as
from fitonce.core.wording import counted
from fitonce.crossval.loo import sweep
from fitonce.fitting.carriers import about_carriers
from fitonce.fitting.curvature import curvature
from fitonce.fitting.fit import Fit
from fitonce.fitting.footprint import bytes_of_influence, bytes_of_sweep
from fitonce.fitting.summarise import delta_method
from fitonce.results import plots
from fitonce.results.summary import moves_most

LOSS = "loss: -log p(point | all others) at the parameters of the fit, which is the control of loo"
_COMMON = ("sequence", "time", "site", "place", "value", "loss", "displacement")


@dataclass(frozen=True, eq=False)
class Influence:
    """The effect of leaving a point out, to first order, one row per observed point.

    Attributes:
        table: `sequence`, `time`, `site`, and `place` in words where the data have names; `value`, the
            first channel; `loss`, -log p(x_t | x_-t) at the fit's parameters, how surprising the point
            is; `displacement`, the drop of twice the log posterior of all data at the parameters fitted
            without the point; and a column for each parameter: how far it moves when the point is left
            out, in its own standard errors.
        names: of the parameters.
        damping: what was added to the diagonal of H.
    """

    table: pd.DataFrame
    names: list[str]
    damping: float
    fit: Fit = field(repr=False)

    def to_dataframe(self) -> pd.DataFrame:
        """The table."""
        return self.table.copy()

    def top(self, n: int = 10, by: str = "displacement") -> pd.DataFrame:
        """The `n` points with the largest `by`: "displacement", "loss", or a parameter, such as
        "rate[0,0]" or all of "rate"."""
        require_count("n", n)
        n = min(int(n), len(self.table))
        order = self.column(by).abs().sort_values(ascending=False, kind="stable").index[:n]
        common = [name for name in _COMMON if name in self.table]
        return self.table.loc[order, [*common, *([by] if by in self.names else self.names)]]

    def plot(self, by: str = "displacement", ax: Any = None) -> Any:
        """`by` along the data, the ten largest labelled. Returns the matplotlib axes."""
        sites, values = self.table["site"].to_numpy(), self.column(by).to_numpy()
        label = by if by in ("displacement", "loss") else f"move of {by}, standard errors"
        return plots.along_sites(sites, values, "site", label, ax)

    def column(self, by: str) -> pd.Series:
        """One number for each point: "displacement", "loss", or how far a parameter moves."""
        require_text("by", by)
        entries = [name for name in self.names if name.startswith(f"{by}[")]
        if entries:  # a parameter with several entries: the norm of their move
            return np.sqrt((self.table[entries] ** 2).sum(axis=1))
        allowed = ["displacement", "loss", *self.names]
        require_choice("by", by, allowed)
        return self.table[by]

    def _repr_html_(self) -> str:
        from fitonce.results.notebook.fits import of_influence  # only notebooks need it

        return of_influence(self)

    def __repr__(self) -> str:
        shown = self.top(5)
        several = self.table["sequence"].iloc[-1] > 0
        place = self.fit.objective.traits.site
        where = ["place"] if "place" in shown else [*(["sequence"] if several else []), place]
        text = shown[[*where, "value", "loss", "displacement"]]
        text = text.assign(moves_most=moves_most(shown[self.names]))
        points, parameters = counted(len(self.table), "point"), counted(len(self.names), "parameter")
        lines = [
            f"Influence of {points} on {parameters}; the largest:",
            text.to_string(index=False, float_format=lambda v: f"{v:.3g}"),
            LOSS,
        ]
        return "\n".join([*lines, *self.cautions])

    @property
    def cautions(self) -> list[str]:
        """What to keep in mind: that all of it is local, and states whose parameters would move farther
        than is shown, since they rest on one point."""
        found = []
        if not self.fit.objective.traits.convex:
            found.append("local: at the optimum of the fit; others were not looked for")
        carried = about_carriers(self.fit)
        if carried:
            found.append(
                f"{carried}; without it the fit moves farther than shown, fo.loo(fit) says how far"
            )
        if self.damping:
            found.append(f"H damped by {self.damping:g}")
        if not self.fit.ok:
            found.append(f"FIT {self.fit.status}")
        return found


@limits_memory
@told_as("influence")
def influence(
    fit: Fit, *, damping: float = 0.0, memory_limit: float | str | None = None
) -> Influence | LabelAudit:
    """Every observed point's influence on the fit, to first order, from one sweep of tangents; for a
    model of labels, an audit of them.

    Args:
        fit: of a chain, a field or a model of labels.
        damping: added to the diagonal of H, for a fit at which it is not positive definite.
        memory_limit: what the call may add to the memory of this process, in bytes or as text such as
            "2GB"; None: half of this machine's memory. The table has a number for each point and
            parameter, so that less than it takes is refused. See `fo.plan`.
    """
    if isinstance(fit, Fit) and fit.objective.traits.labels:
        return label_audit(fit, damping)
    curve = curvature(fit, damping=damping)
    folds, losses, slopes = sweep(fit)
    more = bytes_of_influence(fit.objective, len(folds)) - bytes_of_sweep(fit.objective, len(folds))
    memory.hold(more, f"the table of {counted(len(folds), 'point')}")
    moves = curve.solve(slopes.T).T
    observed = np.array([indices[0] for indices in folds.dropped])
    sites = fit.objective.collection.sites.iloc[observed]
    slope = fit.objective.space.named_slopes(fit.theta).toarray()
    se = delta_method(slope, curve.inverse)
    table = pd.DataFrame(
        {
            "sequence": sites["sequence"].to_numpy(),
            "time": sites["time"].to_numpy(),
            "site": observed,
            **({"place": sites["place"].to_numpy()} if "place" in sites else {}),
            "value": fit.objective.collection.shown_values[observed],
            "loss": losses,
            "displacement": np.einsum("td,td->t", slopes, moves),
        }
    )
    effects = pd.DataFrame(moves @ slope.T / se, columns=fit.names)
    return Influence(pd.concat([table, effects], axis=1), list(fit.names), damping, fit)
