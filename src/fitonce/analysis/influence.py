"""Influence: every point's effect on every parameter, from one sweep, and exactly for the largest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from fitonce.analysis.displacements import most_doubtful, refitted, usual_refits
from fitonce.analysis.label_audit import LabelAudit, label_audit
from fitonce.core import memory
from fitonce.core.arguments import require, require_choice, require_count, require_text
from fitonce.core.memory import limits_memory
from fitonce.core.progress_lines import told_as
from fitonce.core.wording import counted
from fitonce.crossval.loo import sweep
from fitonce.fitting.carriers import about_carriers, single_carriers
from fitonce.fitting.curvature import Curvature, curvature
from fitonce.fitting.fit import Fit
from fitonce.fitting.footprint import bytes_of_influence, bytes_of_sweep
from fitonce.fitting.optima import SAME
from fitonce.fitting.summarise import delta_method
from fitonce.objectives.abilities import HasLabels
from fitonce.results import plots
from fitonce.results.summary import moves_most

LOSS = "loss: -log p(point | all others) at the parameters of the fit, which is the control of loo"
_COMMON = ("sequence", "time", "site", "place", "value", "loss", "displacement", "how")
EXACT, FIRST_ORDER = "exact", "first order"
HOW = "how: exact: refitted without the point; first order: rough for points that move the fit far"


@dataclass(frozen=True, eq=False)
class Influence:
    """The effect of leaving a point out, one row per observed point.

    Attributes:
        table: `sequence`, `time`, `site`, and `place` in words where the data have names; `value`, the
            first channel; `loss`, -log p(x_t | x_-t) at the fit's parameters, how surprising the point
            is; `displacement`, the drop of twice the log posterior of all data at the parameters fitted
            without the point; `how` that and the rest of the row were found, "exact" by a refit or to
            "first order"; and a column for each parameter: how far it moves when the point is left out,
            in its own standard errors.
        names: of the parameters.
        damping: what was added to the diagonal of H.
        se: (D,) standard errors of the parameters.
    """

    table: pd.DataFrame
    names: list[str]
    damping: float
    fit: Fit = field(repr=False)
    se: np.ndarray = field(repr=False)

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
        several = self.table["sequence"].iloc[-1] > 0
        where = [*(["sequence"] if several else []), self.fit.objective.traits.site]
        text = self.shown(5, where)
        points, parameters = counted(len(self.table), "point"), counted(len(self.names), "parameter")
        lines = [
            f"Influence of {points} on {parameters}; the largest:",
            text.to_string(index=False, float_format=lambda v: f"{v:.3g}"),
            LOSS,
            HOW,
        ]
        return "\n".join([*lines, *self.cautions])

    def shown(self, n: int, where: list[str]) -> pd.DataFrame:
        """The `n` largest as they are printed: by place where the data have names, otherwise `where`
        they are; every channel by its name; and the parameter that moves most."""
        top, sites = self.top(n), self.fit.objective.collection
        values = {"value": top["value"]}
        if sites.further_values is not None:
            channels = np.column_stack([sites.shown_values, sites.further_values])[top["site"]]
            names = sites.channel_names[: channels.shape[1]]  # the first few
            values = dict(zip(names, channels.T, strict=True))
        found = top[["place"] if "place" in top else where].assign(**values)
        found = found.assign(**{name: top[name] for name in ("loss", "displacement", "how")})
        return found.assign(moves_most=moves_most(top[self.names]))

    @property
    def cautions(self) -> list[str]:
        """What to keep in mind: that all of it is local, and states whose parameters would move farther
        than is shown, since they rest on one point."""
        found = []
        lowest = self.table.loc[self.table["how"] == EXACT, "displacement"].min()
        if lowest < -2.0 * SAME:
            found.append(
                f"the fit is not at its best optimum: without a point it goes to one that is "
                f"{-0.5 * lowest:.2g} nats better for all data; fo.fit(fit.model, fit.data) looks for it"
            )
        elif not self.fit.objective.traits.convex:
            found.append("local: at the optimum of the fit; others were not looked for")
        carried, exact = about_carriers(self.fit), self.table["how"] == EXACT
        sites = [one.site for one in single_carriers(self.fit)]
        if not exact[self.table["site"].isin(sites)].all():
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
    fit: Fit,
    *,
    refine: bool | int = True,
    damping: float = 0.0,
    memory_limit: float | str | None = None,
) -> Influence | LabelAudit:
    """Every observed point's influence on the fit, to first order from one sweep of tangents, and by
    refits for those that move it most; for a model of labels, an audit of them, to first order.

    Args:
        fit: of a chain, a field or a model of labels.
        refine: refit exactly without each of so many points, those first that move the fit most or may:
            to first order, and by what they are of a hidden state. True: 20, or fewer where that would
            take more than seconds. False: none.
        damping: added to the diagonal of H, for a fit at which it is not positive definite.
        memory_limit: what the call may add to the memory of this process, in bytes or as text such as
            "2GB"; None: half of this machine's memory. The table has a number for each point and
            parameter, so that less than it takes is refused. See `fo.plan`.
    """
    require(
        isinstance(refine, (bool, int, np.integer)) and refine >= 0,
        "refine",
        "True, False or a number of points",
        refine,
    )
    if isinstance(fit, Fit) and isinstance(fit.objective, HasLabels):
        return label_audit(fit, damping)
    curve = curvature(fit, damping=damping)
    found, moves = _to_first_order(fit, curve)
    if refine is not False and fit.ok and not damping:
        count = usual_refits(fit.objective) if refine is True else min(int(refine), len(found.table))
        _refine(found, curve, moves, count)
    return found


def _to_first_order(fit: Fit, curve: Curvature) -> tuple[Influence, np.ndarray]:
    """The table, and the moves of the free parameters (n, D)."""
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
            "how": FIRST_ORDER,
        }
    )
    effects = pd.DataFrame(moves @ slope.T / se, columns=fit.names)
    whole = pd.concat([table, effects], axis=1)
    return Influence(whole, list(fit.names), curve.damping, fit, se), moves


def _refine(found: Influence, curve: Curvature, moves: np.ndarray, count: int) -> None:
    """Replace the rows of the points that move the fit most, or may, by those of exact refits."""
    table, fit = found.table, found.fit
    observed, first_order = table["site"].to_numpy(), table["displacement"].to_numpy()
    if not count:
        return
    rows = most_doubtful(curve, fit, observed, moves, first_order, count)
    exact = refitted(fit, observed, rows)
    table.loc[exact.rows, "displacement"] = exact.displacements
    table.loc[exact.rows, "how"] = EXACT
    table.loc[exact.rows, found.names] = exact.moves / found.se
