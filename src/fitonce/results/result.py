"""CVResult: one shape for every method, never without its control."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.status import Rung
from fitonce.core.wording import duration
from fitonce.core.writing import check_free, write_text
from fitonce.results import plots, saving
from fitonce.results.summary import FitSummary, Fitted, loss_in_words
from fitonce.results.verdicts import sound


@dataclass(frozen=True, eq=False)
class CVResult:
    """The outcome of cross-validation.

    Attributes:
        estimate: mean over folds of the fold's loss. Folds that are not ok (no certificate, no number)
            are left out of it, and `treatment` says so.
        se: its standard error. Folds overlap and neighbours in time depend on each other, so it comes
            from sums over 32 contiguous stretches of the data (or over sequences), each of which
            counts as one observation; nan when fewer than two were scored, and for a joint loss on
            folds that overlap.
        control: the same mean with the parameters of the full fit, not adjusted to any fold.
        pointwise: one row per left-out point: `fold`, `sequence`, `time` (within it), `site` (through
            all sequences), `loss`, `control`, and `cluster`, the stretch of the data (or the sequence)
            with which it counts as one observation in standard errors. For whole sequences `time`
            and `site` are -1; for a joint loss there is one row per fold, `sequence` -1 too.
        error: estimated error of `estimate` against exact refits: the mean of the folds' errors, as if
            all had one sign; nan when no fold was checked.
        folds: one row per fold:
            `loss` (the mean over its points) and `control`;
            `error`, the estimated error of that mean; `distance`, from the fold's own optimum, in
            standard errors; `rate`, the share of the gradient that a step ahead leaves; `move`, how far
            its parameters are from the full fit's, in standard errors, and `away`, whether that is more
            than ten times what is usual for its size; `verdict`, "good", "fair", "bad" or "unchecked"
            (see `fitonce.results.verdicts`);
            `rung`, which step of the ladder gave it; `gradients` and `hessians` of the fold's objective
            that it took (a Hessian is D more gradients; a product with one counts as two);
            `size`; `ok`, whether there is a usable number; `status`, in words.
        tolerance: the error of a fold's loss that the verdicts allow.
        theta: (folds, D) free parameters of each fold.
        method, scheme, loss, damping: how it was done.
        seconds: wall time of the call.
        compiling: how much of that this process was compiling, which a second call of the same shape
            does not need; what worker processes compile is not in it.
        refits_seconds: what refitting every fold would take, from the time of the full fit.
        left_out: the folds, in words.
        fit: the fit; of a result that was read from a file, a summary of it.
        about: words kept with a saved result, such as the command that made it, and versions.
        fingerprint: of the data and of what each fold drops and scores: only results with the same one
            are compared.
    """

    estimate: float
    se: float
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

    @property
    def summary(self) -> FitSummary:
        """What is shown and written down of the fit."""
        return self.fit.summary

    @property
    def n_failed(self) -> int:
        """How many folds have no usable number."""
        return int((~self.folds["ok"]).sum())

    @property
    def n_unfinished(self) -> int:
        """How many folds a budget or an interruption left before their end."""
        return int(self.folds["status"].str.contains("the budget ended").sum())

    @property
    def treatment(self) -> str:
        """How the estimate treats folds that failed or that are not to be trusted."""
        failed, bad = self.n_failed, int((self.folds["ok"] & (self.folds["verdict"] == "bad")).sum())
        parts = []
        if failed:
            parts.append(f"{failed} of {len(self.folds)} folds have no usable number and are left out")
        if bad and bad <= 0.1 * len(self.folds):
            good = self.folds["ok"] & (self.folds["verdict"] != "bad")
            without = self.folds.loc[good, "loss"].mean()
            parts.append(f"{bad} folds with a bad verdict are included; without them {without:.4f}")
        elif bad:
            parts.append(f"{bad} of {len(self.folds)} folds have a bad verdict and are included")
        ended = "an interruption" if self.about.get("interrupted") else "the budget"
        if self.n_unfinished:
            parts.append(f"{ended} left {self.n_unfinished} of {len(self.folds)} folds unfinished")
        return "; ".join(parts) or f"all {len(self.folds)} folds are included"

    def params(self, fold: int) -> Any:
        """The fold's parameters, as a pytree of constrained values."""
        if not 0 <= fold < len(self.theta):
            raise ValueError(f"fold must be between 0 and {len(self.theta) - 1}, got {fold}")
        return self.fit.params_at(self.theta[fold])

    def to_dataframe(self, level: str = "folds") -> pd.DataFrame:
        """`level="folds"`: one row per fold. `level="pointwise"`: one row per left-out point, with its
        `place` in words where the data have names, such as dates or groups."""
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
        """Held-out losses point by point against the control, or against another result (such as
        method="exact") on the same folds. Returns the matplotlib axes."""
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
        """Refuse a result that scored other points, or the same ones in other folds."""
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
        """Write to one file, which `fo.load` and every command read back.

        Args:
            path: usually ends in .json.
            force: whether to replace a file that is there.
            about: words to keep with it, such as the command; strings and numbers by name.
        """
        return saving.write_result(self, path, force, about)

    def to_html(self, path: str | os.PathLike[str], *, force: bool = False, **more: Any) -> Path:
        """Write a report: one HTML file that needs nothing else; `more` as in
        `fitonce.results.report.html_report`."""
        from fitonce.results.report import html_report  # only who wants a report waits for it

        check_free(path, force)
        known = {key: self.about[key] for key in ("asked", "command") if key in self.about}
        return write_text(path, html_report(self, **(known | more)), force=force)

    def __repr__(self) -> str:
        return "\n".join(_lines(self))


def load(path: str | os.PathLike[str]) -> CVResult:
    """Read a saved result back. Its `fit` is a summary: there are no parameters by fold but `theta`."""
    return CVResult(**saving.read_result(path))


def _lines(cv: CVResult) -> list[str]:
    spread = f"+- {cv.se:.4f}" if np.isfinite(cv.se) else "(no se)  "
    damped = f", H damped by {cv.damping:g}" if cv.damping else ""
    averaged = loss_in_words(cv.scheme, cv.loss)
    lines = [
        f"Cross-validation: {cv.left_out}",
        f"  estimate  {cv.estimate:.4f} {spread}   mean over folds of {averaged}",
        f"  control   {cv.control:.4f}            same folds, parameters not adjusted",
        f"  method    {cv.method}, scheme {cv.scheme}{damped}{_rungs(cv)}",
        f"  trust     {_trust(cv)}",
    ]
    untrusted = cv.folds[~cv.folds["ok"] | (cv.folds["verdict"] == "bad") | cv.folds["away"]]
    if len(untrusted) or not cv.treatment.startswith("all"):
        lines.append(f"  FOLDS     {cv.treatment}")
        lines += [f"            {_sentence(cv, fold)}" for fold in untrusted.index[:5]]
    times = f"  time      {duration(cv.seconds)}"
    if cv.compiling > 0.2 * cv.seconds:
        times += f", of which compiling {duration(cv.compiling)}"
    if cv.method != "exact" and np.isfinite(cv.refits_seconds):
        times += (
            f"; {len(cv.folds):,} refits would take about {duration(cv.refits_seconds)} "
            f"(the fit took {duration(cv.refits_seconds / len(cv.folds))}, compiled)"
        )
    lines.append(times)
    if not cv.fit.ok:
        lines.append(f"  FIT       {cv.fit.status}")
    return lines


def _rungs(cv: CVResult) -> str:
    if cv.method not in ("auto", "loo"):
        return ""
    counts = cv.folds["rung"].value_counts()
    named = [f"{counts[rung.value]:,} {rung.value}" for rung in Rung if rung.value in counts]
    return ": folds by rung " + ", ".join(named)


def _trust(cv: CVResult) -> str:
    verdicts = cv.folds.loc[cv.folds["verdict"] != "unchecked", "verdict"]
    if verdicts.empty and cv.damping:
        return "not checked: steps by a damped H are too short to tell"
    if verdicts.empty and not cv.fit.ok:
        return "not checked: H is not positive definite at the fit"
    if verdicts.empty and cv.method == "auto":
        return "not checked: the budget ended before a fold could be"
    if verdicts.empty:
        return "not checked; pass check= to have an error estimate"
    counts = verdicts.value_counts()
    named = ", ".join(f"{counts[name]:,} {name}" for name in ("good", "fair", "bad") if name in counts)
    some = len(verdicts) < len(cv.folds)
    share = f", {_percent(cv.error / cv.se)} of se" if np.isfinite(cv.se) and cv.se > 0 else ""
    holds = sound(cv.folds["distance"].to_numpy(), cv.folds["rate"].to_numpy())[cv.folds["ok"]].all()
    about = "about" if holds or some else "at least about"  # beyond a bend nobody can see
    text = f"error of the estimate {about} {cv.error:.1e}{share}; verdicts: {named}"
    if counts.get("bad", 0) and cv.method in ("ij", "onestep", "none", "newton"):
        text += "; use method='auto'"
    return text + (f" ({len(verdicts):,} of {len(cv.folds):,} folds checked)" if some else "")


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 1 else f"{share:.1f} times"


def _sentence(cv: CVResult, fold: int) -> str:
    row = cv.folds.loc[fold]
    text = f"fold {fold}: {row['status']}"
    if np.isfinite(row["error"]):
        text += f"; loss error estimated {row['error']:.2g}"
    return text
