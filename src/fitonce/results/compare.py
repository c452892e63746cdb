"""Comparison of results on the same folds, best first, with paired standard errors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtr

from fitonce.core.arguments import shown
from fitonce.core.status import Outcome
from fitonce.core.writing import check_free, write_text
from fitonce.results.cautions import EXPLAINED, MANY, Lead, lead_by_chance, notes
from fitonce.results.doubts import better_fit, in_large_part
from fitonce.results.plots import axes_on
from fitonce.results.result import CVResult
from fitonce.results.stacking import weights_of
from fitonce.results.standard_errors import Spread, Terms, by_cluster, spread_of

_LEVELS = ("point", "fold")
_ROUNDING = 1e-12  # of the loss: models that differ by less are the same
CLEAR = 0.05  # probability of a difference by chance, below which a model is worse
_SHOWN = [
    "estimate", "se", "difference", "difference_se", "p_worse", "nats", "weight", "control", "worst",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Comparison:
    """Models ordered by their held-out loss, lowest first.

    Attributes:
        table: one row per model: `estimate` and `se`; `difference` from the first model and
            `difference_se`, paired by point (or fold), so that variation common to both models cancels;
            `ratio` of the two, and `p`, the probability of a ratio as large by chance, by Student's t
            with `dof` degrees of freedom; `p_worse`, the probability that the model is worse than the
            first, 1 - p / 2; `nats`, the difference over all that is scored, each
            point once, where losses are log-densities (minus the `elpd_diff` of loo and ArviZ);
            `weight`, that of the model in the mixture that would have predicted best
            (`fitonce.results.stacking`); `note`, what to be careful about in the difference
            (`fitonce.results.cautions`); `control`; `error`, the estimated error of the
            estimate in its own result; `worst`, the worst verdict of its folds; `failed`, the number of
            folds without a usable number, which are left out for all models; `unfinished`, the number
            of folds cut short by a budget or an interruption; `fit`, the outcome of the fit.
        by: "point": standard errors that know the memory of the losses, as for estimates; "fold":
            folds as independent observations, which overlapping folds are not.
        left_out: description of the folds.
        lead: of the best over the middle model, and a lead that chance gives once in twenty times, if
            there are more than 11 models whose differences have standard errors; else None.
    """

    table: pd.DataFrame
    by: str
    left_out: str
    results: dict[str, CVResult] = field(repr=False)
    lead: Lead | None = None

    @property
    def best(self) -> str:
        return str(self.table.index[0])

    def to_dataframe(self) -> pd.DataFrame:
        """The table."""
        return self.table.copy()

    def differences(self, a: str, b: str) -> pd.DataFrame:
        """Loss of `a` minus loss of `b` by row: `fold`, `sequence`, `time`, `site`, `difference`."""
        for argument, name in (("a", a), ("b", b)):
            if not (isinstance(name, str) and name in self.results):
                raise ValueError(
                    f"{argument}: expected one of {shown(list(self.results))}, got {shown(name)}"
                )
        left, right = self.results[a].pointwise, self.results[b].pointwise
        places = left[["fold", "sequence", "time", "site"]]
        return places.assign(difference=left["loss"] - right["loss"])

    def plot(self, ax: Any = None) -> Any:
        """Plot estimates and differences from the best with their standard errors, and the controls.
        Returns the matplotlib axes."""
        rows, place = self.table, np.arange(len(self.table))
        ax = axes_on(ax, 7.0, 1.2 + 0.5 * len(rows))
        ax.errorbar(
            rows["estimate"], place, xerr=rows["se"], fmt="o", color="#1b4f8a", label="estimate, se"
        )
        others = rows["estimate"].iloc[0] + rows["difference"].iloc[1:]
        ax.errorbar(
            others, place[1:] - 0.2, xerr=rows["difference_se"].iloc[1:], fmt="^", ms=5, color="0.35",
            label="difference from the best, se",
        )  # fmt: skip
        ax.plot(rows["control"], place, "x", color="#c2410c", label="control (not adjusted)")
        ax.axvline(rows["estimate"].iloc[0], ls="--", lw=0.8, color="0.5")
        ax.set_yticks(place, [str(name) for name in rows.index])
        ax.invert_yaxis()
        ax.margins(y=0.2)
        ax.set_xlabel("held-out loss (lower is better)")
        ax.legend(fontsize=8, loc="best")
        return ax

    def _repr_html_(self) -> str:
        from fitonce.results.notebook.scores import of_comparison  # only notebooks need it

        return of_comparison(self)

    def to_html(self, path: str | os.PathLike[str], *, force: bool = False, **more: Any) -> Path:
        """Write a page: one self-contained HTML file; `more` as in
        `fitonce.results.report.comparison_report`."""
        from fitonce.results.report import comparison_report  # a slow import

        check_free(path, force)
        return write_text(path, comparison_report(self, **more), force=force)

    def __repr__(self) -> str:
        shown = self.table[_SHOWN].dropna(axis="columns", how="all")
        if self.table["note"].any():
            shown = shown.assign(note=self.table["note"])
        text = shown.to_string(float_format=lambda v: f"{v:.4f}", na_rep="")
        lines = [f"Comparison on {self.left_out}; lowest held-out loss first", text, self.sentence]
        if self.by == "fold":
            lines.append("standard errors treat folds as independent observations")
        return "\n".join([*lines, *self.cautions])

    @property
    def cautions(self) -> list[str]:
        """What the notes in the table mean, a sentence for each that occurs."""
        found = set(", ".join(self.table["note"]).split(", "))
        return [f"{note}: {meaning}" for note, meaning in EXPLAINED.items() if note in found]

    @property
    def tied(self) -> list[str]:
        """The best model and those that are not clearly worse, which the data cannot tell from it: their
        `p`, times the number of models compared with the best, is at least a twentieth. Where that is
        not known, a model is not among them."""
        close = self.table["p"] * max(len(self.table) - 1, 1) >= CLEAR
        return [self.best, *(str(name) for name in self.table.index[close] if name != self.best)]

    @property
    def sentence(self) -> str:
        """The conclusion in one sentence."""
        if len(self.table) < 2:
            return f"{self.best} is the only model"
        others = self.table.iloc[1:]
        unknown = [str(name) for name in others.index[others["p"].isna()]]
        close = [name for name in self.tied if name != self.best]
        text = f"{self.best} has the lowest held-out loss"
        if close:
            text += f"; not clearly worse: {', '.join(close)}"
        if unknown:
            text += f"; too little was scored to tell it from: {', '.join(unknown)}"
        return "; ".join([text, *self.doubts])

    @property
    def doubts(self) -> list[str]:
        """Reasons to doubt the numbers, each with the models concerned."""
        rows = self.table
        missed = [name for name, cv in self.results.items() if in_large_part(cv)]
        reasons: dict[str, Any] = {
            "unreliable folds in": (rows["worst"] == "bad") | (rows["failed"] > 0),
            "unfinished folds in": rows["unfinished"] > 0,
            "fit not at a certified minimum": rows["fit"] != Outcome.STATIONARY.value,
            "many folds may have a better optimum": rows.index.isin(missed),
        }
        found, used = list[str](), _usable(self.results)
        if not used.all():
            what = f"{used.sum():,} of {len(used):,} folds, which have a number in every model"
            found.append(f"estimates and differences are of {what}")
        found += [
            f"{reason}: {', '.join(map(str, rows.index[models]))}"
            for reason, models in reasons.items()
            if models.any()
        ]
        for name, cv in self.results.items():
            if cv.better_theta is not None:
                found.append(
                    f"fit not at its best optimum: {name}, {better_fit(cv)}; fit it with optima=50 "
                    "(--optima 50), or from there, init=cv.better"
                )
        if self.lead is not None and self.lead.size <= self.lead.by_chance:
            found.append(
                f"the best of {len(rows)} models may be best by chance: it leads the middle one, "
                f"{self.lead.over}, by {self.lead.size:.2g}, and of as many equally good ones the best "
                f"leads by {self.lead.by_chance:.2g} once in twenty times"
            )
        return found


def _require_same_units(first: CVResult, other: CVResult) -> None:
    """Raise where whole sequences are scored by likelihoods that have no common unit."""
    starts = [result.summary.unknown_starts for result in (first, other)]
    if first.scheme == "structures" and starts[0] != starts[1]:
        named = " and ".join(f"'{words}'" if words else "no such states" for words in starts)
        raise ValueError(
            "the likelihoods of whole sequences have a unit in common only where the same first states "
            f"are unknown, got {named}; leave out blocks or points, which are scored given others"
        )


def compare(results: Mapping[str, CVResult] | Sequence[CVResult], *, by: str = "point") -> Comparison:
    """Compare models that were cross-validated on the same folds.

    Args:
        results: by name, or a list (named A, B, ...).
        by: "point" or "fold": the unit by which losses are paired; see `Comparison`.
    """
    named = _named(results)
    if not (isinstance(by, str) and by in _LEVELS):
        raise ValueError(f"by must be one of {list(_LEVELS)}, got {shown(by)}")
    first_name, first = next(iter(named.items()))
    for name, other in named.items():
        both = f"'{first_name}' and '{name}' cannot be compared"
        try:
            if other.loss != first.loss:
                raise ValueError(f"both must have the same loss, got '{first.loss}' and '{other.loss}'")
            first.require_same_folds(other)
            _require_same_units(first, other)
        except ValueError as error:
            raise ValueError(f"{both}: {error}") from None
    used = _usable(named)
    if not used.any():
        raise ValueError("no fold has a usable number in every result")
    means = {name: float(result.folds["loss"].to_numpy()[used].mean()) for name, result in named.items()}
    order = sorted(named, key=lambda name: means[name])
    ordered = [named[name] for name in order]
    weights = weights_of(ordered, used) if _in_nats(first) else np.full(len(order), np.nan)
    rows = [
        _row(result, ordered[0], used, by, weight)
        for result, weight in zip(ordered, weights, strict=True)
    ]
    rows[0] |= dict.fromkeys(("difference_se", "dof", "ratio", "p", "p_worse"), float("nan"))
    rows[0] |= {"note": ""}
    table = pd.DataFrame(rows, index=pd.Index(order, name="model"))
    lead = _lead(order, ordered, used, by) if len(order) > MANY else None
    return Comparison(table, by, first.left_out, named, lead)


def _usable(named: Mapping[str, CVResult]) -> np.ndarray:
    """(F,) which folds have a number in every result: differences are of these."""
    return np.all([result.folds["ok"].to_numpy(bool) for result in named.values()], axis=0)


def _named(results: Any) -> dict[str, CVResult]:
    if isinstance(results, Mapping):
        named = {str(name): result for name, result in results.items()}
    elif isinstance(results, Sequence) and not isinstance(results, str):
        named = {chr(ord("A") + k) if k < 26 else str(k): one for k, one in enumerate(results)}
    else:
        raise ValueError(f"results must be a dict of results by name, got {type(results).__name__}")
    if not named:
        raise ValueError("results must hold at least one result, got none")
    for name, result in named.items():
        if not isinstance(result, CVResult):
            raise ValueError(f"results: '{name}' must be a CVResult, got {type(result).__name__}")
    return named


def _row(result: CVResult, best: CVResult, used: np.ndarray, by: str, weight: float) -> dict[str, Any]:
    differences = result.folds["loss"].to_numpy()[used] - best.folds["loss"].to_numpy()[used]
    difference, spread = float(differences.mean()), _spread([result, best], used, by)
    estimate = float(result.folds["loss"].to_numpy()[used].mean())
    if abs(difference) <= _ROUNDING * abs(estimate):
        difference, spread = 0.0, Spread(0.0, spread.dof)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = float(np.float64(difference) / spread.se) if difference else 0.0
    verdicts = set(result.folds["verdict"])
    chance, nats = _chance(difference, spread), _total(result, differences, used)
    independent = by == "fold" or np.isnan(_coarser([result, best]).memory)
    return {
        "estimate": estimate,
        "se": _spread([result], used, by).se,
        "difference": difference,
        "difference_se": spread.se,
        "dof": spread.dof,
        "ratio": ratio,
        "p": chance,
        "p_worse": 1.0 - 0.5 * chance,
        "nats": nats,
        "weight": weight,
        "note": notes(nats, _n_scored(result), spread.dof + 1 if independent else 0.5 * spread.dof),
        "control": float(result.folds["control"].to_numpy()[used].mean()),
        "error": result.error,
        "worst": next((v for v in ("bad", "unchecked", "fair", "good") if v in verdicts), "unchecked"),
        "failed": result.n_failed,
        "unfinished": result.n_unfinished,
        "fit": result.fit.status.outcome.value,
    }


def _in_nats(result: CVResult) -> bool:
    """Whether losses are log-densities."""
    return result.loss in ("pointwise", "joint")


def _n_scored(result: CVResult) -> int:
    return result.n_scored or len(result.pointwise)  # results of earlier versions do not say


def _total(result: CVResult, differences: np.ndarray, used: np.ndarray) -> float:
    """Of differences (n,) of the `used` folds, over all that is scored, each point or sequence once; nan
    for losses that are not in nats."""
    if not _in_nats(result):
        return float("nan")
    sizes = result.folds["size"].to_numpy()[used]
    return float(differences @ sizes / sizes.sum() * _n_scored(result))


def _lead(names: list[str], ordered: list[CVResult], used: np.ndarray, by: str) -> Lead | None:
    """Of the first over the middle one of many models; None where that has no standard error."""
    middle = len(ordered) // 2
    spreads = [_spread([result, ordered[middle]], used, by) for result in ordered[:middle]]
    chance = lead_by_chance(spreads, len(ordered))
    best, other = (ordered[k].folds["loss"].to_numpy()[used].mean() for k in (0, middle))
    return None if np.isnan(chance) else Lead(names[middle], float(other - best), chance)


def _chance(difference: float, spread: Spread) -> float:
    """The probability of a difference at least as large, in either direction, between models that are
    equally good; nan where too little was scored to tell."""
    if spread.se == 0:
        return 0.0 if difference else 1.0
    if not (spread.dof >= 1 and spread.se > 0):
        return float("nan")
    return float(2.0 * stdtr(spread.dof, -abs(difference) / spread.se))


def _spread(both: list[CVResult], used: np.ndarray, by: str) -> Spread:
    """Of the mean loss of one result, or of the difference of two."""
    result, paired = both[0], len(both) > 1
    values = [(one.folds if one.loss == "joint" else one.pointwise)["loss"].to_numpy() for one in both]
    difference = values[0] - values[1] if paired else values[0]
    fold = result.pointwise["fold"].to_numpy()
    if by == "fold":
        return by_cluster(Terms.of(difference, fold, fold, used))
    if not np.isfinite(result.se):
        return Spread(float("nan"), 0.0)
    coarser = _coarser(both)
    terms = Terms.of(difference, fold, coarser.pointwise["cluster"].to_numpy(), used)
    known = [one.memory for one in both if not np.isnan(coarser.memory)]
    memory = float(np.nanmax(known)) if known else float("nan")  # nan: places are independent
    if np.isfinite(memory) and paired and result.loss != "joint":
        own = [one.fit.memory_of(terms) for one in both]
        memory = memory if None in own else float(np.max(own))  # type: ignore[arg-type]
    return spread_of(terms, memory)


def _coarser(both: list[CVResult]) -> CVResult:
    """The result that takes less as independent: fewer parts or, of as many, steps along time."""

    def fineness(one: CVResult) -> tuple[int, bool]:
        return one.pointwise["cluster"].nunique(), bool(np.isnan(one.memory))

    return min(both, key=fineness)
