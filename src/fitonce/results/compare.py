"""Comparison of results on the same folds, best first, with paired standard errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtr

from fitonce.core.status import Outcome
from fitonce.results.plots import new_axes
from fitonce.results.result import CVResult
from fitonce.results.standard_errors import Spread, Terms, by_cluster, spread_of

_LEVELS = ("point", "fold")
_ROUNDING = 1e-12  # of the loss: models that differ by less are the same
CLEAR = 0.05  # probability of a difference by chance, below which a model is worse


@dataclass(frozen=True, eq=False)
class Comparison:
    """Models ordered by their held-out loss, lowest first.

    Attributes:
        table: one row per model: `estimate` and `se`; `difference` from the first model and
            `difference_se`, paired by point (or fold), so that variation common to both models cancels;
            `ratio` of the two, and `p`, the probability of a ratio as large by chance, by Student's t
            with `dof` degrees of freedom; `nats`, the difference over all that is scored, each
            point once, where losses are log-densities; `control`; `error`, the estimated error of the
            estimate in its own result; `worst`, the worst verdict of its folds; `failed`, the number of
            folds without a usable number, which are left out for all models; `unfinished`, the number
            of folds cut short by a budget or an interruption; `fit`, the outcome of the fit.
        by: "point": standard errors that know the memory of the losses, as for estimates; "fold":
            folds as independent observations, which overlapping folds are not.
        left_out: description of the folds.
    """

    table: pd.DataFrame
    by: str
    left_out: str
    results: dict[str, CVResult] = field(repr=False)

    @property
    def best(self) -> str:
        return str(self.table.index[0])

    def to_dataframe(self) -> pd.DataFrame:
        """The table."""
        return self.table.copy()

    def differences(self, a: str, b: str) -> pd.DataFrame:
        """Loss of `a` minus loss of `b` by row: `fold`, `sequence`, `time`, `site`, `difference`."""
        for name in (a, b):
            if name not in self.results:
                raise ValueError(f"expected one of {list(self.results)}, got {name!r}")
        left, right = self.results[a].pointwise, self.results[b].pointwise
        places = left[["fold", "sequence", "time", "site"]]
        return places.assign(difference=left["loss"] - right["loss"])

    def plot(self, ax: Any = None) -> Any:
        """Plot estimates and differences from the best with their standard errors, and the controls.
        Returns the matplotlib axes."""
        rows, place = self.table, np.arange(len(self.table))
        ax = ax or new_axes(7.0, 1.2 + 0.5 * len(rows))
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

    def __repr__(self) -> str:
        text = self.table.to_string(float_format=lambda v: f"{v:.4f}", na_rep="")
        lines = [f"Comparison on {self.left_out}; lowest held-out loss first", text, self.sentence]
        if self.by == "fold":
            lines.append("standard errors treat folds as independent observations")
        return "\n".join(lines)

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
        better = [name for name, cv in self.results.items() if cv.better_theta is not None]
        reasons: dict[str, Any] = {
            "unreliable folds in": (rows["worst"] == "bad") | (rows["failed"] > 0),
            "unfinished folds in": rows["unfinished"] > 0,
            "fit not at a certified minimum": rows["fit"] != Outcome.STATIONARY.value,
            "folds led to a better fit": rows.index.isin(better),
        }
        return [
            f"{reason}: {', '.join(map(str, rows.index[models]))}"
            for reason, models in reasons.items()
            if models.any()
        ]


def compare(results: Mapping[str, CVResult] | Sequence[CVResult], *, by: str = "point") -> Comparison:
    """Compare models that were cross-validated on the same folds.

    Args:
        results: by name, or a list (named A, B, ...).
        by: "point" or "fold": the unit by which losses are paired; see `Comparison`.
    """
    named = _named(results)
    if by not in _LEVELS:
        raise ValueError(f"by must be one of {list(_LEVELS)}, got {by!r}")
    first_name, first = next(iter(named.items()))
    for name, other in named.items():
        both = f"'{first_name}' and '{name}' cannot be compared"
        try:
            if other.loss != first.loss:
                raise ValueError(f"both must have the same loss, got '{first.loss}' and '{other.loss}'")
            first.require_same_folds(other)
        except ValueError as error:
            raise ValueError(f"{both}: {error}") from None
    used = np.all([result.folds["ok"].to_numpy(bool) for result in named.values()], axis=0)
    if not used.any():
        raise ValueError("no fold has a usable number in every result")
    means = {name: float(result.folds["loss"].to_numpy()[used].mean()) for name, result in named.items()}
    order = sorted(named, key=lambda name: means[name])
    best = order[0]
    rows = [_row(named[name], named[best], used, by, name == best) for name in order]
    table = pd.DataFrame(rows, index=pd.Index(order, name="model"))
    return Comparison(table, by, first.left_out, named)


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
            raise ValueError(f"'{name}' must be a CVResult, got {type(result).__name__}")
    return named


def _row(result: CVResult, best: CVResult, used: np.ndarray, by: str, is_best: bool) -> dict[str, Any]:
    differences = result.folds["loss"].to_numpy()[used] - best.folds["loss"].to_numpy()[used]
    difference, spread = float(differences.mean()), _spread(result, best, used, by)
    estimate = float(result.folds["loss"].to_numpy()[used].mean())
    if abs(difference) <= _ROUNDING * abs(estimate):
        difference, spread = 0.0, Spread(0.0, spread.dof)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = float(np.float64(difference) / spread.se) if difference else 0.0
    verdicts = set(result.folds["verdict"])
    return {
        "estimate": estimate,
        "se": _spread(result, None, used, by).se,
        "difference": difference,
        "difference_se": float("nan") if is_best else spread.se,
        "dof": float("nan") if is_best else spread.dof,
        "ratio": float("nan") if is_best else ratio,
        "p": float("nan") if is_best else _chance(difference, spread),
        "nats": _total(result, differences, used),
        "control": float(result.folds["control"].to_numpy()[used].mean()),
        "error": result.error,
        "worst": next((v for v in ("bad", "unchecked", "fair", "good") if v in verdicts), "unchecked"),
        "failed": result.n_failed,
        "unfinished": result.n_unfinished,
        "fit": result.fit.status.outcome.value,
    }


def _total(result: CVResult, differences: np.ndarray, used: np.ndarray) -> float:
    """Of differences (n,) of the `used` folds, over all that is scored, each point or sequence once; nan
    for losses that are not in nats."""
    if result.loss not in ("pointwise", "joint"):
        return float("nan")
    sizes = result.folds["size"].to_numpy()[used]
    count = result.n_scored or len(result.pointwise)  # results of earlier versions do not say
    return float(differences @ sizes / sizes.sum() * count)


def _chance(difference: float, spread: Spread) -> float:
    """The probability of a difference at least as large, in either direction, between models that are
    equally good; nan where too little was scored to tell."""
    if spread.se == 0:
        return 0.0 if difference else 1.0
    if not (spread.dof >= 1 and spread.se > 0):
        return float("nan")
    return float(2.0 * stdtr(spread.dof, -abs(difference) / spread.se))


def _spread(result: CVResult, other: CVResult | None, used: np.ndarray, by: str) -> Spread:
    """Of the mean loss, or of its difference from that of `other`."""
    rows, both = result.pointwise, [result] if other is None else [result, other]
    values = [(one.folds if one.loss == "joint" else one.pointwise)["loss"].to_numpy() for one in both]
    difference = values[0] if other is None else values[0] - values[1]
    fold = rows["fold"].to_numpy()
    if by == "fold":
        return by_cluster(Terms.of(difference, fold, fold, used))
    if not np.isfinite(result.se):
        return Spread(float("nan"), 0.0)
    places = min((one.pointwise["cluster"].to_numpy() for one in both), key=lambda c: len(np.unique(c)))
    terms = Terms.of(difference, fold, places, used)
    memory = float(np.max([one.memory for one in both]))  # nan where places are independent
    if np.isfinite(memory) and other is not None and result.loss != "joint":
        own = [one.fit.memory_of(terms) for one in both]
        memory = memory if None in own else float(np.max(own))  # type: ignore[arg-type]
    return spread_of(terms, memory)
