"""CVResult: the result of cross-validation, the same for every method, always with its control."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from fitonce.core.arguments import require_choice, require_count, require_level
from fitonce.core.parameters import Params
from fitonce.core.writing import check_free, write_text
from fitonce.results import certainty, exports, plots, saving, site_losses, steps_ahead
from fitonce.results import doubts as doubted
from fitonce.results.dropped import scored_otherwise
from fitonce.results.fold_names import named_folds
from fitonce.results.heldout_values import HeldoutValues
from fitonce.results.labels.confusion import Confusion, confusion
from fitonce.results.labels.heldout import HeldoutLabels
from fitonce.results.labels.scores import LabelScores, label_scores
from fitonce.results.labels.suspects import Suspects, suspects
from fitonce.results.printed import lines_of
from fitonce.results.standard_errors import Spread
from fitonce.results.summary import FitSummary, Fitted

SearchOfOptima = Literal["searched", "partly", "compared", "local", "convex"]


@dataclass(frozen=True, eq=False)
class CVResult:
    """The outcome of cross-validation.

    Attributes:
        estimate: mean over folds of the fold's loss. Folds that are not ok (no certificate, no number)
            are left out; see `treatment`.
        se: standard error of `estimate`. Folds overlap and neighbours in time are dependent, so it comes
            from slow waves along the data, from sums over sequences where there are eight or more, or
            over connected regions of a graph (see `fitonce.results.standard_errors`); nan when
            too little was scored.
        dof: degrees of freedom of the standard error, by which `interval` is wider than that of a normal
            distribution; see `stretches`.
        memory: of the losses, in steps of time; nan where sequences or regions are independent.
        units: what is independent where the model does not say: "points" of a `Custom`, "clusters" that
            were given, or "regions" of the graph of the folds.
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
            the loss differs from that there, and `ways`, how often the optimum was found; `missed`,
            why there may be a better one (see `results.missed.Missed`; empty: it seems not); `verdict`,
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
        refits_seconds, refits_most: estimated time of refitting every fold with one start, from the
            fastest start of the full fit and from its slowest.
        left_out: description of the folds.
        fit: the fit, or a summary of it in a result read from a file.
        about: information kept with a saved result, such as the command that made it, and versions.
        fingerprint: of the data and of what each fold drops and scores; only results with equal
            fingerprints can be compared.
        optima_search: whether other optima were looked for: "searched" in every fold, "partly" in some,
            with what they found offered to all; "compared": with the fit's other optima only;
            "local": not at all; "convex": there are none.
        n_scored: how many different points, or sequences, the folds score.
        better_theta: (D,) free parameters of an optimum of all data that is better than the fit, where
            folds led to one; see `better`.
        better_by: how far its objective is below that of the fit, in nats; nan where there is none.
        starts: how many random starts the search for other optima could give to a fold (`optima=`); 0
            where there was none.
        dropped: what each fold leaves out, scored or not, as numbers of sites or sequences; None in
            files of earlier versions.
        left: parameters of folds that left zeros of the fit, by number; their theta is nan.
        labels: of a model of labels, what was predicted for those left out; see `heldout_labels`.
        predicted: on a map, how far out what was left out lies in what was predicted; see `site_losses`.
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
    optima_search: SearchOfOptima = "local"
    n_scored: int = 0
    better_theta: np.ndarray | None = field(default=None, repr=False)
    left: Mapping[int, Params] = field(default_factory=dict, repr=False)
    labels: HeldoutLabels | None = field(default=None, repr=False)
    predicted: HeldoutValues | None = field(default=None, repr=False)
    dropped: tuple[np.ndarray, ...] | None = field(default=None, repr=False)
    refits_most: float = float("nan")
    better_by: float = float("nan")
    starts: int = 0
    units: str = ""

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
        return certainty.treatment(self)

    @property
    def stretches(self) -> float:
        """How many independent stretches of time, sequences or regions the standard error comes from;
        with less than one stretch, or only two parts, the data are too short to tell."""
        return self.dof + 1 if np.isnan(self.memory) else 0.5 * self.dof

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """In which the expected loss lies with this probability, by Student's t with `dof` degrees of
        freedom; nan where there is no standard error, or no degree of freedom."""
        require_level(level)
        half = Spread(self.se, self.dof).half_width(level)
        return self.estimate - half, self.estimate + half

    @property
    def better(self) -> Any:
        """Parameters of an optimum of all data that is better than the fit, where folds led to one, for
        `fo.fit(fit.model, fit.data, init=cv.better)`; else None. A result read from a file has
        `better_theta`, which `params_at` of any fit of the model reads."""
        return None if self.better_theta is None else self.fit.params_at(self.better_theta)

    @property
    def about_optima(self) -> str:
        """What is known about other optima of the folds, in a sentence; empty if there can be none."""
        return certainty.about_optima(self)

    @property
    def doubts(self) -> list[str]:
        """Reasons to be careful with the estimate: a fit that is not a minimum, or not at its best
        optimum; many folds that may have a better one; folds without a number, with a bad verdict or
        unfinished. Print-outs, notebooks and reports begin with them."""
        return doubted.doubts(self)

    @property
    def about_se(self) -> str:
        """Where the standard error comes from, with the interval of 95 %; empty without one."""
        return certainty.about_se(self)

    def params(self, fold: int) -> Any:
        """The fold's parameters, as a pytree of constrained values; nan where it has none."""
        require_count("fold", fold, 0, len(self.theta) - 1)
        return self.left[fold] if fold in self.left else self.fit.params_at(self.theta[fold])

    def to_dataframe(self, level: str = "folds") -> pd.DataFrame:
        """A copy of `folds` or `pointwise`, with a column `place` where the data have names, such as
        dates or groups; of folds where some are of a single site or sequence."""
        tables = {"folds": self.folds, "pointwise": self.pointwise}
        require_choice("level", level, tuple(tables))
        table, names = tables[level].copy(), self.fit.places
        if level == "folds" and (named := named_folds(self)):
            table["place"] = [named.get(fold, "") for fold in table.index]
        if level == "pointwise" and names is not None:
            table["place"] = names.places(
                *(table[name].to_numpy() for name in ("sequence", "time", "site"))
            )
        return table

    def heldout_labels(self) -> pd.DataFrame:
        """What was predicted for every held-out token of a model of labels: `fold`, `sequence`, `time`,
        `site`, `word`; `label`, as given ("" where it is not known); `predicted`, the tag at the fold's
        parameters (of whole sequences the most probable path, else the most probable tag given the kept
        labels), and `control`, that at the full fit's; `chance` and `predicted_chance`, the
        probabilities of `label` and `predicted` at the fold's parameters; `loss`, -log `chance`.
        Folds that are not ok are left out."""
        return self._labels("heldout_labels").table()

    def label_scores(self) -> LabelScores:
        """Accuracy, and precision, recall and F1 of every tag and of entities (as seqeval counts them)
        on held-out labels, each with a standard error that takes sequences as the unit, beside the same
        at the full fit's parameters."""
        return label_scores(self._labels("label_scores"), self.left_out)

    def confusion(self) -> Confusion:
        """Which tags are taken for which, among held-out labels."""
        return confusion(self._labels("confusion"), self.left_out)

    def suspects(self, n: int = 25, label: str | None = None, rather: str | None = None) -> Suspects:
        """The `n` held-out tokens whose given label is least probable without it, of those for which
        another tag was predicted, by sentence, and all of them by kind of error.

        Args:
            n: how many.
            label: only those of this given tag ("B-LOC"), or type of entity ("LOC").
            rather: only those for which this was predicted.
        """
        return suspects(self._labels("suspects"), self.left_out, n, label, rather)

    def _labels(self, what: str) -> HeldoutLabels:
        if self.labels is None:
            raise ValueError(
                f"{what} is for models of labels, such as LinearChainCRF, got {self.summary.model}"
            )
        return self.labels

    def site_losses(self) -> pd.DataFrame:
        """One row per site, the largest loss first: `place` (its name), `site`, `sequence`, `time`,
        `value` (the first channel), `loss` and `control` (means over the folds that score it), `folds`
        (how many do) and `share`, of the sum of these losses.

        On a map of counts or numbers also what was predicted from what the folds kept, at their
        parameters: `expected`, the mean; `direction`, "more" or "less" than that; and `p`, the
        probability of a value as far out on either side, which does not favour large counts as `loss`
        does. It is twice the smaller tail of the predictive distribution (a mixture over classes, and
        over the folds that score the site), with half of the probability of the value itself in the
        tail (mid-p). By chance, about n p of n sites have a p as small."""
        return site_losses.table_of(self)

    def by_steps_ahead(self) -> pd.DataFrame:
        """Of folds of the future: one row per number of steps ahead of the last one kept, with the mean
        `loss` of the `folds` that score that step, its standard error `se`, and `control`. Sequences
        of which a fold keeps nothing have no such steps, and do not count.

        Autoregressive emissions (`order=` of an HMM) score each step given the actual values before it:
        their rows are not of forecasts that far ahead."""
        return steps_ahead.table_of(self)

    def to_arviz(self) -> Any:
        """The result as `ELPDData` of the ArviZ that is installed (0.x or 1.x), for `az.compare` and
        plots. Losses must be log-densities.

        `elpd_i` has minus the loss of each point, or sequence, or of each fold for joint losses; where a
        point is scored in several folds, their mean. `elpd` is their sum, so that points count equally;
        in `estimate` folds do. `se` is ours, for dependent losses. `p` is the sum of losses less those
        of the control: what the parameters gain by having seen the data. There are no posterior draws
        and no Pareto k: `n_samples` is 1.

        ArviZ takes points to be independent in the standard errors of its comparison (`dse`), and so in
        `p_worse`. Where they are not, as along time, `warning` is true: trust `fo.compare` instead. It
        is also true where a verdict is bad or the fit is no certified minimum.
        """
        return exports.arviz_elpd(self)

    def to_sklearn(self, folds: Any = None) -> dict[str, Any]:
        """The result as scikit-learn's `cross_validate` has it: arrays with one entry per fold.
        `test_score` is minus the fold's loss, so that higher is better; nan where there is no usable
        number. Folds are not fitted one by one: `fit_time` is the time of the call, equally shared, and
        `score_time`, which is part of it, is zero.

        Args:
            folds: those of the result, to have `indices` too: `train`, what each fold kept, and `test`,
                what it scored, as numbers of points or sequences.
        """
        return exports.sklearn_scores(self, folds)

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
                f"'{self.left_out}' and '{other.left_out}'{scored_otherwise(self, other)}"
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
        return "\n".join(lines_of(self))

    def _repr_html_(self) -> str:
        from fitonce.results.notebook.scores import of_result  # only notebooks need it

        return of_result(self)


def load_result(path: str | os.PathLike[str]) -> CVResult:
    """Read a saved result. Its `fit` is a summary, so there is `theta` but no `params`."""
    return CVResult(**saving.read_result(path))
