"""select: several models on the same folds, and the simplest that is as good as the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core import memory
from fitonce.core.memory import limits_memory
from fitonce.crossval.cross_validate import cross_validate
from fitonce.fitting.fit import fit
from fitonce.fitting.optima import DEFAULT_OPTIMA
from fitonce.folds import Folds
from fitonce.results.compare import Comparison, compare
from fitonce.results.plots import new_axes
from fitonce.results.result import CVResult


@dataclass(frozen=True, eq=False)
class Selection:
    """Several models, cross-validated.

    Attributes:
        table: one row per model, in the order given (simplest first): `parameters`, `estimate`, `se`,
            `control`, `error`; `difference` from the best, its paired `difference_se`, and `p`, the
            probability of such a difference by chance; `aic` and `bic` of the full fit; `worst`
            verdict; `failed` and `unfinished` folds; `fit`, its outcome.
        best: the model with the lowest held-out loss.
        simplest: the first whose loss is within one paired standard error of the best.
        skipped: models that could not be fitted, and why.
        comparison: of the results, the best first.
        results: by model.
    """

    table: pd.DataFrame
    best: str
    simplest: str
    skipped: dict[str, str]
    comparison: Comparison = field(repr=False)
    results: dict[str, CVResult] = field(repr=False)

    def to_dataframe(self) -> pd.DataFrame:
        """The table."""
        return self.table.copy()

    @property
    def sentence(self) -> str:
        """The conclusion, with caveats."""
        parts = [f"lowest held-out loss: {self.best}; simplest within one paired se: {self.simplest}"]
        usual = {name: self.table[name.lower()].astype(float) for name in ("AIC", "BIC")}
        known = {name: column for name, column in usual.items() if column.notna().any()}
        parts += [f"lowest {name}: {column.idxmin()}" for name, column in known.items()]
        return "; ".join([*parts, *self.comparison.doubts])

    def plot(self, ax: Any = None) -> Any:
        """The estimates with their standard errors and those of the paired differences from the best,
        which show what is as good, and the control. Returns the matplotlib axes."""
        ax = ax or new_axes(6.5, 4.0)
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
            (self.simplest, "o", "none", f"simplest within one paired se: {self.simplest}"),
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

    def __repr__(self) -> str:
        text = self.table.to_string(float_format=lambda v: f"{v:.4f}", na_rep="")
        lines = [f"Selection on {self.comparison.left_out}", text, self.sentence]
        lines += [f"{name} was skipped: {why}" for name, why in self.skipped.items()]
        return "\n".join(lines)


@limits_memory
def select(
    candidates: Mapping[str, Any],
    data: Any,
    folds: Folds | Callable[[Any], Folds],
    *,
    restarts: int = 3,
    seed: int = 0,
    optima: int = DEFAULT_OPTIMA,
    told: Callable[[str], None] = lambda name: None,
    stop: Callable[[], bool] | None = None,
    memory_limit: float | str | None = None,
    **how: Any,
) -> Selection:
    """Fit several models, cross-validate each on the same folds, and choose among them.

    Args:
        candidates: models by name, the simplest first.
        data: what `fo.fit` reads.
        folds: from `fo.folds`, or a function of a fit's data that makes them.
        restarts, seed: of the fits.
        optima: how hard to look for other optima, in the fits and in the folds; 0: not at all.
        told: called with a model's name before it is fitted.
        stop: once it returns true, models that were not begun are skipped.
        memory_limit: what all of it may add to the memory of this process, in bytes or as text such as
            "2GB"; None: half of this machine's memory. A model that needs more is skipped.
        **how: for `cross_validate`.
    """
    if not isinstance(candidates, Mapping) or not candidates:
        raise ValueError("candidates must be a dict of models by name, the simplest first")
    results: dict[str, CVResult] = {}
    rows: dict[str, dict[str, Any]] = {}
    skipped: dict[str, str] = {}
    for name, model in ((str(key), model) for key, model in candidates.items()):
        if results and stop is not None and stop():
            skipped[name] = "interrupted before it began"
            continue
        told(name)
        try:
            progress = how.get("progress")
            fitted = fit(model, data, restarts=restarts, seed=seed, optima=optima, progress=progress)
            chosen = folds(fitted.data) if callable(folds) else folds
            results[name] = cross_validate(fitted, chosen, optima=optima, stop=stop, **how)
        except ValueError as error:  # the others are still compared
            skipped[name] = str(error)
        else:
            rows[name] = _criteria(fitted)
            memory.hold(_size(results[name]), "the results of other models")
    if not results:
        raise ValueError(f"no model could be fitted: {next(iter(skipped.values()))}")
    comparison = compare(results)
    table = pd.DataFrame.from_dict(rows, orient="index").join(comparison.table.drop(columns="ratio"))
    table.index.name = "model"
    best = comparison.best
    near = (table["difference"] <= table["difference_se"]) | (table.index == best)
    return Selection(table, best, str(table.index[near][0]), skipped, comparison, results)


def _size(result: CVResult) -> float:
    """Bytes of a result that is kept."""
    tables = (result.pointwise, result.folds)
    return float(result.theta.nbytes + sum(table.memory_usage(deep=True).sum() for table in tables))


def _criteria(fitted: Any) -> dict[str, Any]:
    """The number of parameters, AIC, and BIC with observed sites as observations."""
    size, deviance = len(fitted.theta), -2.0 * fitted.log_likelihood
    count = float(fitted.objective.base.sum())
    return {"parameters": size, "aic": 2.0 * size + deviance, "bic": np.log(count) * size + deviance}
