"""CVResult: the result of cross-validation, the same for every method, always with its control."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from fitonce.core.numerics import is_number
from fitonce.core.status import Rung
from fitonce.core.wording import counted, duration
from fitonce.core.writing import check_free, write_text
from fitonce.results import plots, saving
from fitonce.results.standard_errors import FEW, Spread
from fitonce.results.summary import FitSummary, Fitted, loss_in_words
from fitonce.results.verdicts import sound

Looked = Literal["searched", "partly", "compared", "local", "convex"]


@dataclass(frozen=True, eq=False)
class CVResult:
    """The outcome of cross-validation.

    Attributes:
        estimate: mean over folds of the fold's loss. Folds that are not ok (no certificate, no number)
            are left out; see `treatment`.
        se: standard error of `estimate`. Folds overlap and neighbours in time are dependent, so it comes
            from slow waves along the data, from sums over sequences where there are eight or more, or
            over 32 connected regions of a graph (see `fitonce.results.standard_errors`); nan when
            too little was scored.
        dof: degrees of freedom of the standard error, by which `interval` is wider than that of a normal
            distribution; see `stretches`.
        memory: of the losses, in steps of time; nan where sequences or regions are independent.
        control: the same mean with the parameters of the full fit, not adjusted to any fold.
        pointwise: one row per left-out point: `fold`, `sequence`, `time` (within the sequence), `site`
            (across all sequences), `loss`, `control`, and `cluster`, its place in standard errors: the
            site along time, the sequence, or the region. For whole sequences `time` and `site`
            are -1; a joint loss has one row per fold, with `sequence` -1 as well.
        error: estimated error of `estimate` against exact refits: the mean of the folds' errors, as if
            all had the same sign; nan when no fold was checked.
        folds: one row per fold:
            `loss` (the mean over its points) and `control`;
            `error`, the estimated error of that mean; `distance` from the fold's own optimum, in
            standard errors; `rate`, the share of the gradient that remains one step ahead; `move`, the
            distance of its parameters from the full fit, in standard errors, and `away`, whether that
            is more than ten times what is usual for its size; `optimum`, which of the fit's optima it
            continues (0: the fit itself; -1: none, a fold found it), `gain`, by how much its objective
            is below that of the optimum that continues the fit itself, in nats, `shift`, by how much
            the loss differs from that there, and `ways`, how often the optimum was found; `verdict`,
            "good", "fair", "bad" or "unchecked" (see `fitonce.results.verdicts`);
            `rung`, how its parameters were obtained; `gradients` and `hessians`, how often these were
            evaluated for the fold (a Hessian costs D more gradients; a Hessian product counts as two);
            `size`; `ok`, whether there is a usable number; `status`, a description.
        tolerance: the error of a fold's loss that the verdicts allow.
        theta: (folds, D) free parameters of each fold.
        method, scheme, loss, damping: the settings.
        seconds: wall time of the call.
        compiling: the part of it that this process spent compiling, which a second call of the same
            shape does not need; compilation in worker processes is not included.
        refits_seconds: estimated time of refitting every fold, from the time of the full fit.
        left_out: description of the folds.
        fit: the fit, or a summary of it in a result read from a file.
        about: information kept with a saved result, such as the command that made it, and versions.
        fingerprint: of the data and of what each fold drops and scores; only results with equal
            fingerprints can be compared.
        looked: whether other optima were looked for: "searched" in every fold, "partly" in some, with
            what they found offered to all; "compared": every point with the fit's other optima;
            "local": not at all; "convex": there are none.
        better: where a fold led to an optimum of all data that is better than the fit, its parameters:
            `fo.fit(model, data, init=cv.better)`.
    """

    estimate: float
    se: float
    dof: float
    memory: float
    control: float
    error: float
    pointwise: pd.DataFrame
    folds: pd.DataFrame
    theta: np.ndarray
    tolerance: float
    method: str
    scheme: str
    loss: str
    damping: float
    seconds: float
    compiling: float
    refits_seconds: float
    left_out: str
    fit: Fitted = field(repr=False)
    about: dict[str, Any] = field(default_factory=dict, repr=False)
    fingerprint: str = field(default="", repr=False)
    looked: Looked = "local"
    better: Any = field(default=None, repr=False)

    @property
    def summary(self) -> FitSummary:
        """The part of the fit that is shown and saved."""
        return self.fit.summary

    @property
    def n_failed(self) -> int:
        """Number of folds without a usable number."""
        return int((~self.folds["ok"]).sum())

    @property
    def n_unfinished(self) -> int:
        """Number of folds cut short by a budget or an interruption."""
        return int(self.folds["status"].str.contains("the budget ended").sum())

    @property
    def treatment(self) -> str:
        """How the estimate treats folds that failed, are unreliable or unfinished."""
        ok, bad = self.folds["ok"], self.folds["verdict"] == "bad"
        failed, n_bad, all_folds = self.n_failed, int((ok & bad).sum()), counted(len(ok), "fold")
        parts = []
        if failed:
            parts.append(f"{failed:,} of {all_folds} without a usable number, left out")
        if n_bad:
            parts.append(f"{n_bad:,} of {all_folds} with a bad verdict, included")
        if 0 < n_bad <= 0.1 * len(ok):
            parts[-1] += f" (estimate without: {self.folds.loc[ok & ~bad, 'loss'].mean():.4f})"
        if self.n_unfinished:
            ended = "an interruption" if self.about.get("interrupted") else "the budget"
            parts.append(f"{ended} left {self.n_unfinished:,} of {all_folds} unfinished")
        return "; ".join(parts) or f"all {all_folds} included"

    @property
    def stretches(self) -> float:
        """How many independent stretches of time, sequences or regions the standard error comes from;
        with less than one stretch, or only two parts, the data are too short to tell."""
        return self.dof + 1 if np.isnan(self.memory) else 0.5 * self.dof

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """In which the expected loss lies with this probability, by Student's t with `dof` degrees of
        freedom; nan where there is no standard error."""
        if not (is_number(level) and 0 < level < 1):
            raise ValueError(f"level must be between 0 and 1, got {level!r}")
        half = Spread(self.se, self.dof).half_width(level)
        return self.estimate - half, self.estimate + half

    def params(self, fold: int) -> Any:
        """The fold's parameters, as a pytree of constrained values."""
        if not 0 <= fold < len(self.theta):
            raise ValueError(f"fold must be between 0 and {len(self.theta) - 1}, got {fold}")
        return self.fit.params_at(self.theta[fold])

    def to_dataframe(self, level: str = "folds") -> pd.DataFrame:
        """A copy of `folds` or `pointwise`, the latter with a column `place` where the data have names,
        such as dates or groups."""
        tables = {"folds": self.folds, "pointwise": self.pointwise}
        if level not in tables:
            raise ValueError(f"level must be 'folds' or 'pointwise', got {level!r}")
        table, names = tables[level].copy(), self.fit.places
        if level == "pointwise" and names is not None:
            table["place"] = names.places(
                *(table[name].to_numpy() for name in ("sequence", "time", "site"))
            )
        return table

    def plot(self, against: CVResult | None = None, ax: Any = None) -> Any:
        """Scatter plot of pointwise held-out losses against the control, or against another result (such
        as method="exact") on the same folds. Returns the matplotlib axes."""
        losses = self.pointwise["loss"].to_numpy()
        if against is None:
            control = self.pointwise["control"].to_numpy()
            return plots.agreement(control, losses, "control (not adjusted)", self.method, ax)
        if not isinstance(against, CVResult):
            raise ValueError(f"against must be a CVResult, got {type(against).__name__}")
        self.require_same_folds(against)
        other = against.pointwise["loss"].to_numpy()
        return plots.agreement(other, losses, against.method, self.method, ax)

    def require_same_folds(self, other: CVResult) -> None:
        """Raise unless both results score the same points in the same folds."""
        points = ["fold", "sequence", "site"]
        same = self.pointwise[points].equals(other.pointwise[points])
        if not (same and self.fingerprint == other.fingerprint):
            raise ValueError(
                "both results must be on the same folds of the same data, got "
                f"'{self.left_out}' and '{other.left_out}'"
            )

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        about: Mapping[str, Any] | None = None,
    ) -> Path:
        """Write to one file, which `fo.load` and the commands read.

        Args:
            path: usually ends in .json.
            force: whether to overwrite an existing file.
            about: information to keep with it, such as the command: strings and numbers by name.
        """
        return saving.write_result(self, path, force, about)

    def to_html(self, path: str | os.PathLike[str], *, force: bool = False, **more: Any) -> Path:
        """Write a report: one self-contained HTML file; `more` as in
        `fitonce.results.report.html_report`."""
        from fitonce.results.report import html_report  # a slow import

        check_free(path, force)
        known = {key: self.about[key] for key in ("asked", "command") if key in self.about}
        return write_text(path, html_report(self, **(known | more)), force=force)

    def __repr__(self) -> str:
        return "\n".join(_lines(self))


def load(path: str | os.PathLike[str]) -> CVResult:
    """Read a saved result. Its `fit` is a summary, so there is `theta` but no `params`."""
    return CVResult(**saving.read_result(path))


def _lines(cv: CVResult) -> list[str]:
    spread = f"+- {cv.se:.4f}" if np.isfinite(cv.se) else "(no se)  "
    damped = f", H damped by {cv.damping:g}" if cv.damping else ""
    averaged = loss_in_words(cv.scheme, cv.loss)
    lines = [
        f"Cross-validation: {cv.left_out}",
        f"  estimate  {cv.estimate:.4f} {spread}   mean over folds of {averaged}",
        *_certainty(cv),
        f"  control   {cv.control:.4f}            same folds, parameters not adjusted",
        f"  method    {cv.method}, scheme {cv.scheme}{damped}{_rungs(cv)}",
        f"  trust     {_trust(cv)}",
        *_optima(cv),
    ]
    if cv.better is not None:
        better = "not the best optimum: a fold led to a better one, fo.fit(model, data, init=cv.better)"
        lines.insert(1, f"  FIT       {better}")
    untrusted = cv.folds[~cv.folds["ok"] | (cv.folds["verdict"] == "bad") | cv.folds["away"]]
    if len(untrusted) or cv.n_unfinished:
        lines.append(f"  FOLDS     {cv.treatment}")
    for fold, row in untrusted.iloc[:5].iterrows():
        error = f"; estimated loss error {row['error']:.2g}" if np.isfinite(row["error"]) else ""
        lines.append(f"            fold {fold}: {row['status']}{error}")
    times = f"  time      {duration(cv.seconds)}"
    if cv.compiling > 0.2 * cv.seconds:
        times += f", including {duration(cv.compiling)} compiling"
    if cv.method != "exact" and np.isfinite(cv.refits_seconds):
        times += (
            f"; {counted(len(cv.folds), 'refit')} would take about {duration(cv.refits_seconds)} "
            f"(the fit took {duration(cv.refits_seconds / len(cv.folds))} without compiling)"
        )
    lines.append(times)
    if not cv.fit.ok:
        lines.append(f"  FIT       {cv.fit.status}")
    return lines


def _certainty(cv: CVResult) -> list[str]:
    """Where the standard error comes from."""
    if not np.isfinite(cv.se):
        return []
    if cv.dof < 2:
        why = f"losses remember about {cv.memory:.0f} steps"
        if np.isnan(cv.memory):
            why = "there are only two sequences or regions"
        return [f"            too short to tell: {why}, the se is a guess"]
    low, high = cv.interval()
    things = "stretches" if np.isfinite(cv.memory) else "parts"
    few = " (few: the se itself is uncertain)" if cv.stretches < FEW else ""
    text = f"95 %: {low:.4f} to {high:.4f}; se from about {cv.stretches:.0f} independent {things}{few}"
    return [f"            {text}"]


def _optima(cv: CVResult) -> list[str]:
    """What is known about other optima of the folds."""
    if cv.looked == "convex":
        return []
    if cv.looked == "local":
        return ["            local: other optima of the folds were not looked for"]
    moved = cv.folds["optimum"] != 0
    some = {
        "partly": " (random starts in some of the folds only)",
        "compared": " (every point compared with those of the fit)",
    }.get(cv.looked, "")
    if not moved.any():
        return [f"            other optima: no better one in any fold{some}"]
    used = cv.folds["ok"]
    shift = float(cv.folds.loc[used, "shift"].mean())
    text = f"other optima: {moved.sum():,} of {counted(len(moved), 'fold')} moved"
    return [f"            {text}, estimate {shift:+.4f}, included{some}"]


def _rungs(cv: CVResult) -> str:
    if cv.method not in ("auto", "loo"):
        return ""
    counts = cv.folds["rung"].value_counts()
    named = [f"{counts[rung.value]:,} {rung.value}" for rung in Rung if rung.value in counts]
    return "; folds by rung: " + ", ".join(named)


def _trust(cv: CVResult) -> str:
    verdicts = cv.folds.loc[cv.folds["verdict"] != "unchecked", "verdict"]
    if verdicts.empty and cv.damping:
        return "not checked: steps with a damped H are too short to estimate the error"
    if verdicts.empty and not cv.fit.ok:
        return "not checked: H is not positive definite at the fit"
    if verdicts.empty and cv.method == "auto":
        return "not checked: the budget ended before any fold was checked"
    if verdicts.empty:
        return "not checked; pass check= for an error estimate"
    counts = verdicts.value_counts()
    named = ", ".join(f"{counts[name]:,} {name}" for name in ("good", "fair", "bad") if name in counts)
    some, size = len(verdicts) < len(cv.folds), ""
    if np.isfinite(cv.se) and cv.se > 0:
        ratio = cv.error / cv.se
        size = f", {100 * ratio:.2g} % of se" if ratio < 1 else f", {ratio:.1f} x se"
    holds = sound(cv.folds["distance"].to_numpy(), cv.folds["rate"].to_numpy())[cv.folds["ok"]].all()
    about = "about" if holds or some else "at least"  # a lower bound where the quadratic model fails
    text = f"error of the estimate {about} {cv.error:.1e}{size}; verdicts: {named}"
    if counts.get("bad", 0) and cv.method in ("ij", "onestep", "none", "newton"):
        text += "; use method='auto'"
    return text + (f" ({len(verdicts):,} of {len(cv.folds):,} folds checked)" if some else "")
