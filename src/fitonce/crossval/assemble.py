"""From folds' parameters, losses and evidence to a `CVResult`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.status import Outcome, Status
from fitonce.crossval.evidence import Evidence
from fitonce.crossval.fold_states import FoldParameters, usual_way
from fitonce.crossval.losses import Scoring
from fitonce.fitting.curvature import Curvature
from fitonce.fitting.fit import Fit
from fitonce.results.result import CVResult
from fitonce.results.verdicts import default_tolerance, verdicts

# Times the usual move. Where a model is wrong, as for the traffic data, blocks move four times as far
# as H says without harm; a fold that carries a state on its own moves ten times that.
_AWAY = 10.0


def assemble(
    fit: Fit,
    scoring: Scoring,
    method: str,
    curve: Curvature,
    found: FoldParameters,
    evidence: Evidence,
    tolerance: float | None,
    work: np.ndarray,
    seconds: tuple[float, float],
) -> CVResult:
    """Put the parts together; `work` (2, F) counts gradients and Hessians, `seconds` are of the call and
    of compiling in it."""
    folds, objective = scoring.folds, curve.objective
    losses, control = scoring.means(evidence.losses), scoring.means(evidence.control)
    ok = np.array([s.ok for s in found.status]) & np.isfinite(losses)
    se = scoring.standard_error(evidence.losses, ok)
    allowed = default_tolerance(se, losses[ok]) if tolerance is None else tolerance
    errors = np.where(ok, evidence.errors, np.nan)
    ways = curve.way_to(found.thetas)
    # From a fit that stopped early, folds move for another reason.
    away = fit.ok & ok & (ways > _AWAY * usual_way(scoring.batches.turnover, len(curve.theta)))
    judged = verdicts(errors, evidence.distances, evidence.rates, evidence.checked, allowed, away)
    told = [
        _said(status, good, way if far else None)
        for status, good, way, far in zip(found.status, ok, ways, away, strict=True)
    ]
    table = _table_of_folds(
        {"loss": losses, "control": control},
        evidence,
        {"move": ways, "away": away, "verdict": [verdict.value for verdict in judged]},
        {"rung": [rung.value for rung in found.rungs], "gradients": work[0], "hessians": work[1]},
        {"size": scoring.sizes, "ok": ok, "status": told},
    )
    errors = errors[evidence.checked & ok]
    nothing = not ok.any()
    return CVResult(
        estimate=float("nan") if nothing else float(losses[ok].mean()),
        se=se,
        control=float("nan") if nothing else float(control[ok].mean()),
        error=float(errors.mean()) if errors.size else float("nan"),
        pointwise=_pointwise(scoring, evidence),
        folds=table,
        theta=found.thetas,
        tolerance=allowed,
        method=method,
        scheme=objective.scheme.name,
        loss=scoring.loss if isinstance(scoring.loss, str) else getattr(scoring.loss, "__name__", "own"),
        damping=curve.damping,
        seconds=seconds[0],
        compiling=seconds[1],
        refits_seconds=fit.refit_seconds * len(folds),
        left_out=folds.describe(),
        fit=fit,
        fingerprint=f"{folds.fingerprint} {objective.collection.fingerprint}".strip(),
    )


def _table_of_folds(
    losses: dict[str, Any], evidence: Evidence, *columns: dict[str, Any]
) -> pd.DataFrame:
    told = {"error": evidence.errors, "distance": evidence.distances, "rate": evidence.rates}
    table = pd.DataFrame(losses | told)
    for more in columns:
        table = table.assign(**more)
    table.index.name = "fold"
    return table


def _said(status: Status, ok: bool, far: float | None) -> str:
    """The fold's sentence; `far`: its move, where that is ten times the usual."""
    if status.ok and not ok:
        return (
            "the loss is not finite: something left out is impossible under the fold's model, or the "
            "loss itself is not a number"
        )
    if far is not None:
        return (
            f"{status.outcome.value}, {far:.1f} standard errors from the full fit: what it leaves out "
            "carries a parameter, and there may be another optimum"
        )
    certified = status.outcome is Outcome.STATIONARY
    return status.outcome.value if certified else str(status)


def _pointwise(scoring: Scoring, evidence: Evidence) -> pd.DataFrame:
    folds, sites = scoring.folds, scoring.batches.objective.collection
    if scoring.loss == "joint":
        number = np.arange(len(folds), dtype=np.int32)
        site = sequence = time = np.full(len(folds), -1, np.int32)
        cluster = number
    else:
        number = np.repeat(np.arange(len(folds), dtype=np.int32), scoring.sizes)
        index = np.concatenate(folds.scored).astype(np.int32)
        site, time, sequence = index, index, np.zeros_like(index)
        cluster = np.asarray(scoring.batches.objective.clusters)[index].astype(np.int32)
        if folds.kind == "sequences":
            sequence, site, time = index, *np.full((2, len(index)), -1, np.int32)
        elif sites.n_sequences > 1:
            places = sites.sites
            sequence = places["sequence"].to_numpy(np.int32)[index]
            time = places["time"].to_numpy(np.int32)[index]
    return pd.DataFrame(
        {
            "fold": number,
            "sequence": sequence,
            "time": time,
            "site": site,
            "loss": evidence.losses[scoring.counted],
            "control": evidence.control[scoring.counted],
            "cluster": cluster,
        }
    )
