"""CVResult: one shape for every method, never without its control."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from fitonce import plots
from fitonce.curvature import Curvature
from fitonce.data import Sequences
from fitonce.fit import Fit
from fitonce.folds import Folds
from fitonce.numerics import in_float64
from fitonce.status import Status

_STRETCHES = 32  # into which the sites are cut for the standard error


class Part(NamedTuple):
    """What a chunk of folds gives."""

    thetas: np.ndarray  # (F, D)
    status: list[Status]
    losses: np.ndarray  # (F, M) or (F, 1) for a joint loss
    control: np.ndarray


@dataclass(frozen=True, eq=False)
class CVResult:
    """The outcome of cross-validation.

    Attributes:
        estimate: mean over folds of the fold's loss; folds whose status is not ok are left out of it,
            and printing says how many.
        se: its standard error. Folds overlap and neighbours in time depend on each other, so it comes
            from sums over 32 contiguous stretches of the data (or over sequences), each of which
            counts as one observation; nan when fewer than two were scored, and for a joint loss on
            folds that overlap.
        control: the same mean with the parameters of the full fit, not adjusted to any fold.
        pointwise: one row per left-out point: `fold`, `sequence`, `site`, `loss`, `control`. For whole
            sequences `site` is -1; for a joint loss there is one row per fold, `sequence` -1 too.
        folds: one row per fold: `loss` (the mean over its points), `control`, `size`, `status`, `ok`.
        theta: (folds, D) free parameters of each fold.
        method, scheme, loss: how it was done.
        seconds: wall time of the call.
        refits_seconds: what refitting every fold would take, from the time of the full fit.
        left_out: the folds, in words.
    """

    estimate: float
    se: float
    control: float
    pointwise: pd.DataFrame
    folds: pd.DataFrame
    theta: np.ndarray
    method: str
    scheme: str
    loss: str
    seconds: float
    refits_seconds: float
    left_out: str
    fit: Fit = field(repr=False)

    @property
    def n_failed(self) -> int:
        """How many folds have no usable number."""
        return int((~self.folds["ok"]).sum())

    @in_float64
    def params(self, fold: int) -> Any:
        """The fold's parameters, as a pytree of constrained values."""
        if not 0 <= fold < len(self.theta):
            raise ValueError(f"fold must be between 0 and {len(self.theta) - 1}, got {fold}")
        space = self.fit.problem.program.space
        return jax.tree_util.tree_map(np.asarray, space.to_params(jnp.asarray(self.theta[fold])))

    def to_dataframe(self, level: str = "folds") -> pd.DataFrame:
        """`level="folds"`: one row per fold. `level="pointwise"`: one row per left-out point."""
        tables = {"folds": self.folds, "pointwise": self.pointwise}
        if level not in tables:
            raise ValueError(f"level must be 'folds' or 'pointwise', got {level!r}")
        return tables[level].copy()

    def plot(self, against: CVResult | None = None, ax: Any = None) -> Any:
        """Held-out losses point by point against the control, or against another result (such as
        method="exact") on the same folds. Returns the matplotlib axes."""
        losses = self.pointwise["loss"].to_numpy()
        if against is None:
            control = self.pointwise["control"].to_numpy()
            return plots.agreement(control, losses, "control (not adjusted)", self.method, ax)
        if not isinstance(against, CVResult):
            raise ValueError(f"against must be a CVResult, got {type(against).__name__}")
        points = ["fold", "sequence", "site"]
        if not self.pointwise[points].equals(against.pointwise[points]):
            raise ValueError(
                f"both results must be on the same folds, got '{self.left_out}' and '{against.left_out}'"
            )
        other = against.pointwise["loss"].to_numpy()
        return plots.agreement(other, losses, against.method, self.method, ax)

    def __repr__(self) -> str:
        return "\n".join(_lines(self))


def _lines(cv: CVResult) -> list[str]:
    unit = "per sequence" if cv.scheme == "structures" else "per point"
    spread = f"+- {cv.se:.4f}" if np.isfinite(cv.se) else "(no se)  "
    lines = [
        f"Cross-validation: {cv.left_out}",
        f"  estimate  {cv.estimate:.4f} {spread}   mean over folds of the {cv.loss} loss {unit}",
        f"  control   {cv.control:.4f}            same folds, parameters not adjusted",
        f"  method    {cv.method}, scheme {cv.scheme}",
    ]
    if cv.n_failed:
        lines.append(
            f"  FOLDS     {cv.n_failed} of {len(cv.folds)} have no usable number and are not in the "
            "estimate:"
        )
        for fold, status in cv.folds.loc[~cv.folds["ok"], "status"].head(5).items():
            lines.append(f"            fold {fold}: {status}")
    times = f"  time      {_duration(cv.seconds)}"
    if cv.method != "exact" and np.isfinite(cv.refits_seconds):
        times += (
            f"; {len(cv.folds):,} refits would take about {_duration(cv.refits_seconds)} "
            f"(the fit took {_duration(cv.refits_seconds / len(cv.folds))}, compiled)"
        )
    lines.append(times)
    if not cv.fit.ok:
        lines.append(f"  FIT       {cv.fit.status}")
    return lines


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def assemble(
    fit: Fit,
    folds: Folds,
    method: str,
    curve: Curvature,
    loss: Any,
    parts: list[Part],
    seconds: float,
) -> CVResult:
    """Put the chunks together."""
    status = [s for part in parts for s in part.status]
    pointwise = _pointwise(fit, folds, loss, parts)
    sizes = np.array([len(indices) for indices in folds.scored])
    # bincount and not groupby, which would pass over a nan in silence.
    means = pd.DataFrame(
        {name: np.bincount(pointwise["fold"], pointwise[name]) / sizes for name in ("loss", "control")}
    )
    ok = np.array([s.ok for s in status]) & np.isfinite(means["loss"].to_numpy())
    table = means.assign(
        size=sizes,
        ok=ok,
        status=[
            "the loss is not finite: something left out is impossible under the fold's model"
            if s.ok and not good
            else (s.outcome.value if s.ok else str(s))
            for s, good in zip(status, ok, strict=True)
        ],
    )
    table.index.name = "fold"
    used = table[table["ok"]]
    return CVResult(
        estimate=float(used["loss"].mean()) if len(used) else float("nan"),
        se=_standard_error(folds, table, pointwise, loss),
        control=float(used["control"].mean()) if len(used) else float("nan"),
        pointwise=pointwise,
        folds=table[["loss", "control", "size", "status", "ok"]],
        theta=np.concatenate([part.thetas for part in parts]),
        method=method,
        scheme="own" if curve.objective.layout is None else curve.objective.program.scheme.name,
        loss=loss if isinstance(loss, str) else getattr(loss, "__name__", "own"),
        seconds=seconds,
        refits_seconds=fit.refit_seconds * len(folds),
        left_out=folds.describe(),
        fit=fit,
    )


def _pointwise(fit: Fit, folds: Folds, loss: Any, parts: list[Part]) -> pd.DataFrame:
    losses = [row for part in parts for row in part.losses]
    control = [row for part in parts for row in part.control]
    sizes = [1 if loss == "joint" else len(indices) for indices in folds.scored]
    number = np.repeat(np.arange(len(folds), dtype=np.int32), sizes)
    if loss == "joint":
        site = sequence = np.full(len(folds), -1, np.int32)
    else:
        index = np.concatenate(folds.scored).astype(np.int32)
        site, sequence = index, np.zeros_like(index)
        if folds.kind == "sequences":
            site, sequence = np.full_like(index, -1), index
        elif isinstance(fit.data, Sequences) and fit.data.n_sequences > 1:
            sequence = fit.data.sites["sequence"].to_numpy(np.int32)[index]
    pick = lambda rows: np.concatenate([r[:n] for r, n in zip(rows, sizes, strict=True)])  # noqa: E731
    return pd.DataFrame(
        {
            "fold": number,
            "sequence": sequence,
            "site": site,
            "loss": pick(losses),
            "control": pick(control),
        }
    )


def _standard_error(folds: Folds, table: pd.DataFrame, pointwise: pd.DataFrame, loss: Any) -> float:
    """Cluster-robust standard error of a mean of fold means.

    The estimate is sum_c s_c / sum_c m_c over clusters c (stretches of sites, or sequences): each
    left-out thing adds its loss to s_c and 1 to m_c, both times its share 1 / (folds * size of its
    fold). The variance is that of a ratio of sums of independent clusters. A joint loss belongs to its
    fold as a whole, so folds are the clusters; folds that overlap are not independent, and give nan.
    """
    index = np.concatenate(folds.scored)
    sizes = table["size"].to_numpy()
    if loss == "joint":
        if len(np.unique(index)) < len(index):
            return float("nan")
        fold = cluster = np.arange(len(folds))
        losses = table["loss"].to_numpy()
        sizes = np.ones(len(folds))
    else:
        fold = np.repeat(np.arange(len(folds)), sizes)
        losses = pointwise["loss"].to_numpy()
        cluster = index // (1 if folds.kind == "sequences" else -(-folds.size // _STRETCHES))
    used = table["ok"].to_numpy()[fold]
    share = 1.0 / (max(table["ok"].sum(), 1) * sizes[fold[used]])
    mass = np.bincount(cluster[used], share)
    total = np.bincount(cluster[used], share * losses[used])
    count = int((mass > 0).sum())
    if count < 2:
        return float("nan")
    residual = total - mass * total.sum() / mass.sum()
    return float(np.sqrt(count / (count - 1) * np.sum(residual**2)))
