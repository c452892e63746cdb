"""What `select` found: the models, the choice, and its reasons."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.wording import counted
from fitonce.fitting.carriers import about_carriers
from fitonce.fitting.fit import Fit
from fitonce.fitting.summarise import free_names
from fitonce.objectives.families import has_priors
from fitonce.results.compare import Comparison
from fitonce.results.plots import axes_on
from fitonce.results.result import CVResult

_STARTS = "more starts (restarts=40, --restarts 40), a prior, or leave these models out"
_MORE = {
    "gradients": "more gradients (max_gradients=)",
    "seconds": "more seconds (max_seconds=, --max-seconds), or fewer starts",
}


@dataclass(frozen=True, eq=False)
class Selection:
    """Several models, cross-validated.

    Attributes:
        table: one row per model, in the order given: `parameters`, how many of them are `at_zero`,
            `estimate`, `se`, `control`, `error`; `difference` from the best, its paired
            `difference_se`, `nats`, the difference over all data, and `p`, its probability by chance;
            `aic` and `bic` of the full fit; `worst` verdict; `failed` and `unfinished` folds; `fit`, its
            outcome, and `found`, by how many of its starts.
        best: the model with the lowest held-out loss.
        simplest: the choice: of the models within `margin` of the best, that with the fewest parameters
            and unknown first states, and of several such the one with the lowest loss.
        as_good: the best and those that predict about as well, within the margin or within one standard
            error, in the order given.
        margin: in nats over all data.
        skipped: models that could not be fitted or for which there was no time, and why.
        comparison: of the results, the best first.
        results: by model.
        sizes: of every model that was asked for, numbers of which there could be more, such as "number
            of states".
        given: with models of which first states are unknown: the number of observed steps at the
            beginning of each sequence that `aic` and `bic` are given, in every model, so that
            likelihoods can be compared.
        not_compared: one row per model that was fitted and is not compared, for the reason in `skipped`:
            `parameters`, how many of them are `at_zero`, `aic`, `bic` and `fit`, its outcome.
        short_of: the budgets that ended before all were compared: "seconds", "gradients".
        uncertified: of `best`, `simplest` and the models beside these, those without a certified fit,
            and why. Where there are some, there is no answer yet, see `undecided`.
    """

    table: pd.DataFrame
    best: str
    simplest: str
    as_good: list[str]
    margin: float
    skipped: dict[str, str]
    comparison: Comparison = field(repr=False)
    results: dict[str, CVResult] = field(repr=False)
    sizes: Mapping[str, Mapping[str, int]] = field(default_factory=dict, repr=False)
    given: int = 0
    not_compared: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False)
    short_of: frozenset[str] = frozenset()
    uncertified: Mapping[str, str] = field(default_factory=dict)

    def to_dataframe(self) -> pd.DataFrame:
        """The table."""
        return self.table.copy()

    @property
    def sentence(self) -> str:
        """The choice and its reasons, with caveats."""
        return "; ".join([self.choice, *self.doubts])

    @property
    def choice(self) -> str:
        """The choice and its reasons, without `doubts`."""
        if self.undecided:
            parts = [self.undecided]
        elif len(self.table) == 1:
            parts = [f"{self.best} is the only model" + (" that was compared" if self.skipped else "")]
        elif self.simplest == self.best:
            parts = [f"chosen: {self.best}, which predicts best"]
        else:
            parts = [
                f"chosen: {self.simplest}, the simplest within {self.margin:.1f} nats of the best, "
                f"{self.best}"
            ]
        if len(self.as_good) > 1:
            named = f"{', '.join(self.as_good[:-1])} and {self.as_good[-1]}"
            parts.append(f"no clear winner: {named} predict about equally well")
        worse = [str(name) for name in self.table.index if str(name) not in self.as_good]
        if worse:
            parts.append(f"{self._rule}: " + ", ".join(self._by_how_much(name) for name in worse))
        parts += self._criteria
        parts += [f"not compared: {', '.join(self.skipped)}"] if self.skipped else []
        return "; ".join([*parts, *self.at_the_end])

    @property
    def undecided(self) -> str:
        """That there is no answer yet, why, and what to type; empty where there is one."""
        if not self.uncertified:
            return ""
        why = [f"{name} has no certified fit ({about})" for name, about in self.uncertified.items()]
        others = f"; of the others {self.simplest} would be chosen"
        others = "" if self.simplest in self.uncertified else others
        more = [_MORE[budget] for budget in sorted(self.short_of)]
        if self.uncertified.keys() - (self.skipped.keys() - set(self.not_compared.index)):
            more.append(_STARTS)
        more = more or ["the same without an interruption"]
        return f"no answer yet: {', '.join(why)}{others}; try {' and '.join(more)}"

    @property
    def _rule(self) -> str:
        """What makes a model worse."""
        in_nats = self.table["nats"].notna().any()
        beyond = f"the margin of {self.margin:.1f} nats and " if in_nats else ""
        return f"worse, by more than {beyond}one standard error"

    @property
    def _criteria(self) -> list[str]:
        """The models that AIC and BIC prefer, and at which parameters these are."""
        usual = {name: self.table[name.lower()].astype(float) for name in ("AIC", "BIC")}
        known = {name: column for name, column in usual.items() if column.notna().any()}
        if len(self.table) < 2 or (not known and not self.given):
            return []
        if not known:
            return ["no AIC and BIC: all data are needed to determine first states"]
        found = [f"lowest {name}: {column.idxmin()}" for name, column in known.items()]
        if any(_has_priors(cv.fit) for cv in self.results.values()):
            found[-1] += " (with the likelihood at fits with priors, not at its maximum)"
        if self.given:
            steps = counted(self.given, "observed step")
            found[-1] += f" (of what follows the first {steps}, which all models are given)"
        return found

    @property
    def doubts(self) -> list[str]:
        """Reasons to doubt the numbers: those of the comparison, and states of the best or the chosen
        model, or of one that is as good, that rest on one point."""
        found = []
        for name, cv in self.results.items():
            if name in (self.best, self.simplest, *self.as_good) and isinstance(cv.fit, Fit):
                carried = about_carriers(cv.fit)
                found += [f"in {name} {carried}"] if carried else []
        return [*self.comparison.doubts, *found]

    @property
    def skipped_words(self) -> list[str]:
        """What is not compared, why, and what is known of it, in sentences."""
        found = []
        for name, why in self.skipped.items():
            known = ""
            if name in self.not_compared.index:
                row = self.not_compared.loc[name].to_dict()
                size = counted(row["parameters"], "parameter")
                known = (
                    f"; its fit, {row['fit']}, has {size}, AIC {row['aic']:.1f}, BIC {row['bic']:.1f}"
                )
            found.append(f"{name} was skipped: {why}{known}")
        return found + [f"to compare all: {_MORE[budget]}" for budget in sorted(self.short_of)]

    @property
    def at_the_end(self) -> list[str]:
        """What the best has most of, of all that was asked for: with more it might be better still."""
        found = []
        for what, number in self.sizes.get(self.best, {}).items():
            asked = {sizes[what] for sizes in self.sizes.values() if what in sizes}
            if len(asked) > 1 and number == max(asked):
                found.append(f"the best, {self.best}, has the largest {what} asked for; try more")
        return found

    def _by_how_much(self, name: str) -> str:
        row = self.table.loc[name]
        nats = f"{row['nats']:.1f} nats in all" if np.isfinite(row["nats"]) else ""
        chance = f"p = {row['p']:.2g}" if np.isfinite(row["p"]) else "too little scored for a p"
        return f"{name} ({', '.join(filter(None, (nats, chance)))})"

    def plot(self, ax: Any = None) -> Any:
        """The estimates with their standard errors and those of the paired differences from the best,
        and the control. Returns the matplotlib axes."""
        ax = axes_on(ax, 6.5, 4.0)
        rows, place = self.table, np.arange(len(self.table))
        line = {"fmt": "o-", "color": "#1b4f8a", "capsize": 3, "label": "estimate"}
        ax.errorbar(place, rows["estimate"], rows["se"], **line)
        others = rows.index != self.best
        bars = {"fmt": "none", "ecolor": "0.35", "elinewidth": 2.5, "label": "se, paired with the best"}
        se = rows["difference_se"][others]
        ax.errorbar(place[others] + 0.12, rows["estimate"][others], se, **bars)
        ax.axhline(rows["estimate"][self.best], ls="--", lw=0.8, color="0.5")
        ax.plot(place, rows["control"], "x--", color="#c2410c", lw=0.8, label="control (not adjusted)")
        marks = (
            (self.best, "*", "#1b4f8a", f"best: {self.best}"),
            (
                self.simplest,
                "o",
                "none",
                f"{'simplest' if self.undecided else 'chosen'}: {self.simplest}",
            ),
        )
        for name, mark, fill, label in marks:
            at = rows.index.get_loc(name)
            height = rows["estimate"].iloc[at]
            ax.plot(at, height, mark, ms=15, mfc=fill, mec="#0b2545", ls="none", label=label, zorder=3)
        ax.set_xticks(place, [str(name) for name in rows.index])
        ax.set_ylabel("held-out loss (lower is better)")
        ax.margins(x=0.1, y=0.15)
        ax.legend(fontsize=8, labelspacing=0.9)
        return ax

    def _repr_html_(self) -> str:
        from fitonce.results.notebook.scores import of_selection  # only notebooks need it

        return of_selection(self)

    def to_html(self, path: str | os.PathLike[str], *, force: bool = False, **more: Any) -> Path:
        """Write the report of the chosen model, with the choice before it; `more` as in
        `fitonce.results.report.html_report`."""
        chosen = {"models": self.table, "choice": self.sentence}
        return self.results[self.simplest].to_html(path, force=force, **(chosen | more))

    def __repr__(self) -> str:
        shown = self.table if self.table["at_zero"].any() else self.table.drop(columns="at_zero")
        text = shown.to_string(float_format=lambda v: f"{v:.4f}", na_rep="")
        lines = [f"Selection on {self.comparison.left_out}", text, self.choice, *self.doubts]
        if self.undecided:  # above the numbers, which are of the others
            lines[1:3] = [self.undecided, text, *self.at_the_end]
        lines += self.skipped_words
        return "\n".join(lines)


def _has_priors(fit: Any) -> bool:
    """Whether some parameter has a prior that is known not to be flat."""
    return isinstance(fit, Fit) and has_priors(fit.model, free_names(fit))
