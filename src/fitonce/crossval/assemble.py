"""From folds' parameters, losses and evidence to a `CVResult`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from fitonce.core.status import Outcome, Status
from fitonce.crossval.evidence import Evidence
from fitonce.crossval.fold_states import FoldParameters, usual_move
from fitonce.crossval.heldout_labels import heldout_labels
from fitonce.crossval.heldout_values import heldout_values
from fitonce.crossval.losses import LOSSES, Loss, Scoring
from fitonce.crossval.lost_states import score_by_others
from fitonce.crossval.mirrors import make_canonical
from fitonce.crossval.optima import WAYS
from fitonce.crossval.repeats import Found
from fitonce.crossval.search_record import Search
from fitonce.fitting.curvature import Curvature
from fitonce.fitting.fit import Fit
from fitonce.results.missed import BETTER, Missed
from fitonce.results.result import CVResult, SearchOfOptima
from fitonce.results.verdicts import default_tolerance, verdicts

# Multiples of the usual move. Under a misspecified model, as for the traffic data, blocks move four
# times as far as H predicts without harm; a fold that alone determines a state moves ten times that.
_AWAY = 10.0
_SCATTERED = 0.5  # of a fold's descents ended each in an optimum of its own
_COLUMNS = (
    "loss", "control", "error", "distance", "rate", "move", "away", "optimum", "gain", "shift", "ways",
    "missed", "verdict", "rung", "gradients", "hessians", "size", "ok", "status",
)  # fmt: skip


def assemble(
    fit: Fit,
    scoring: Scoring,
    method: str,
    found: Found,
    tolerance: float | None,
    seconds: tuple[float, float],
) -> CVResult:
    """Put the parts together; `seconds` are those of the call and of compilation within it."""
    folds, curve = scoring.folds, scoring.curve
    parameters, evidence, work, search, left, remarks = found
    turned = make_canonical(curve.objective, parameters.thetas)
    if parameters.moves is not None and turned.size:
        parameters.moves[turned] = curve.distances_to(parameters.thetas[turned])
    score_by_others(scoring, parameters, evidence)
    losses, control = scoring.means(evidence.losses), scoring.means(evidence.control)
    ok = np.array([status.ok for status in parameters.status]) & np.isfinite(losses)
    places = scoring.placed(evidence.losses, ok)
    spread, memory = scoring.spread(evidence.losses, ok, places)
    allowed = default_tolerance(spread.se, losses[ok]) if tolerance is None else tolerance
    optima = Search.of(len(folds)) if search is None else search
    kind = _kind_of_search(method, curve, search)
    # Single steps only claim to continue the fit, and are judged by that.
    refined = method in ("auto", "exact", "loo")
    several = fit.optima.has_rivals or bool((optima.optimum != 0).any())
    unsure = refined and kind in ("local", "compared", "partly") and several
    remarks = {**remarks, **{fold: one.remark for fold, one in left.items()}}
    table = _fold_table(fit, scoring, parameters, evidence, optima, allowed, ok, unsure, remarks)
    errors = evidence.errors[evidence.checked & ok]
    return CVResult(
        estimate=float(losses[ok].mean()) if ok.any() else float("nan"),
        se=spread.se,
        dof=spread.dof,
        memory=memory,
        units=scoring.dependence.units,
        control=float(control[ok].mean()) if ok.any() else float("nan"),
        error=float(errors.mean()) if errors.size else float("nan"),
        pointwise=_pointwise(scoring, evidence, places),
        folds=table.assign(gradients=work[0], hessians=work[1])[list(_COLUMNS)],
        theta=parameters.thetas,
        tolerance=allowed,
        method=method,
        scheme=curve.objective.scheme.name,
        loss=_name_of(scoring.loss),
        damping=curve.damping,
        seconds=seconds[0],
        compiling=seconds[1],
        refits_seconds=fit.refit_seconds * len(folds),
        refits_most=fit.refit_most * len(folds),
        left_out=folds.describe(),
        fit=fit,
        fingerprint=f"{folds.fingerprint} {curve.objective.collection.fingerprint}".strip(),
        optima_search=kind,
        n_scored=folds.n_scored,
        better_theta=optima.better,
        better_by=optima.better_by,
        starts=optima.starts,
        left={fold: one.params for fold, one in left.items()},
        labels=heldout_labels(curve, folds, parameters.thetas, ok),
        predicted=heldout_values(scoring, method, parameters.thetas, parameters.rungs),
        dropped=folds.dropped,
    )


def _fold_table(
    fit: Fit,
    scoring: Scoring,
    parameters: FoldParameters,
    evidence: Evidence,
    optima: Search,
    tolerance: float,
    ok: np.ndarray,
    unsure: bool,
    remarks: Mapping[int, str],
) -> pd.DataFrame:
    """One row per fold: losses, evidence, verdicts; `ok` (F,) says which have a usable number, `unsure`
    whether folds that had no random starts may be in the wrong optimum."""
    curve, errors = scoring.curve, np.where(ok, evidence.errors, np.nan)
    moves = curve.distances_to(parameters.thetas) if parameters.moves is None else parameters.moves
    # Folds of a fit that stopped early also move because of what the fit left.
    away = fit.ok & ok & (moves > _AWAY * usual_move(scoring.batches.turnover, len(curve.theta)))
    away &= optima.optimum == 0  # folds that moved to another optimum are expected to be far away
    found = zip(optima.ways, optima.searched, optima.unseen, strict=True)
    missed = [_missed(*row, unsure) for row in found]
    doubtful = away | (ok & np.array([why is not Missed.NO for why in missed]))
    judged = verdicts(errors, evidence.distances, evidence.rates, evidence.checked, tolerance, doubtful)
    doubts = [_doubt(*row) for row in zip(missed, optima.ways, strict=True)]
    said = [", ".join(filter(None, (remarks.get(fold), why))) for fold, why in enumerate(doubts)]
    per_fold = zip(parameters.status, ok, moves, away, said, strict=True)
    messages = [_message(*row) for row in per_fold]
    for fold in np.flatnonzero(~ok).tolist():
        weights = scoring.folds.weights_of([fold])[0]
        messages[fold] = curve.objective.fault(curve.theta, weights) or messages[fold]
    columns: dict[str, Any] = {
        "loss": scoring.means(evidence.losses),
        "control": scoring.means(evidence.control),
        "error": evidence.errors,
        "distance": evidence.distances,
        "rate": evidence.rates,
        "move": moves,
        "away": away,
        "optimum": optima.optimum,
        "gain": optima.gain,
        "shift": optima.shift,
        "ways": optima.ways,
        "missed": [why.value for why in missed],
        "verdict": [verdict.value for verdict in judged],
        "rung": [rung.value for rung in parameters.rungs],
        "size": scoring.sizes,
        "ok": ok,
        "status": messages,
    }
    return pd.DataFrame(columns).rename_axis("fold")


def _name_of(loss: Loss) -> str:
    """A user's function is never taken for one of ours."""
    if isinstance(loss, str):
        return loss
    name = getattr(loss, "__name__", "own")
    return f"own {name}" if name in LOSSES else name


def _kind_of_search(method: str, curve: Curvature, search: Search | None) -> SearchOfOptima:
    """How other optima were looked for."""
    if search is None:
        return "convex" if curve.objective.traits.convex else "local"
    if method == "loo" or not search.searched.any():
        return "compared"
    return "searched" if search.searched.all() else "partly"


def _missed(ways: int, searched: bool, unseen: float, unsure: bool) -> Missed:
    """Why there may be a better optimum."""
    if ways == 0:
        return Missed.LOWER
    if searched and ways < WAYS:
        return Missed.SELDOM
    if unsure and not searched:
        return Missed.UNSEARCHED
    if searched and unseen > _SCATTERED:
        return Missed.SCATTERED
    return Missed.NO


def _doubt(missed: Missed, ways: int) -> str:
    """The same in words; empty if nothing speaks for it."""
    if missed is Missed.NO:
        return ""
    why = {
        Missed.LOWER: "a descent went lower, where none was certified",
        Missed.SELDOM: f"found {'twice' if ways == 2 else 'once'} only",
        Missed.UNSEARCHED: "not searched, and other starts or folds disagree",
        Missed.SCATTERED: "most starts ended in optima of their own",
    }[missed]
    return f"but {why}: {BETTER}"


def _message(status: Status, ok: bool, move: float, away: bool, said: str) -> str:
    """The `status` of a fold in words, with what else is `said` of it."""
    if status.ok and not ok:
        return (
            "the loss is not finite: something left out is impossible under the fold's model, or the "
            "loss itself is not a number" + (f" ({said})" if said else "")
        )
    if away:
        far = (
            f"{status.outcome.value}, {move:.1f} standard errors from the full fit: a parameter depends "
            "mainly on the data left out, and there may be another optimum"
        )
        return f"{far}; {said}" if said else far
    known = status.outcome.value if status.outcome is Outcome.STATIONARY else str(status)
    return f"{known}, {said}" if said else known


def _pointwise(scoring: Scoring, evidence: Evidence, places: np.ndarray) -> pd.DataFrame:
    """One row per held-out loss; -1 where it belongs to no single site, time or sequence."""
    folds, objective = scoring.folds, scoring.batches.objective
    number = np.arange(len(folds), dtype=np.int32)
    if scoring.loss == "joint":
        sequence, time, site = (np.full_like(number, -1) for _ in range(3))
    else:
        number = np.repeat(number, scoring.sizes)
        index = folds.all_scored.astype(np.int32)
        site, time, sequence = index, index.copy(), np.zeros_like(index)
        if folds.kind == "sequences":
            sequence, site = index, np.full_like(index, -1)
            time = site.copy()
        elif objective.collection.n_sequences > 1:
            table = objective.collection.sites
            sequence, time = (table[name].to_numpy(np.int32)[index] for name in ("sequence", "time"))
    return pd.DataFrame(
        {
            "fold": number,
            "sequence": sequence,
            "time": time,
            "site": site,
            "loss": scoring.rows(evidence.losses),
            "control": scoring.rows(evidence.control),
            "cluster": places.astype(np.int32),
        },
        copy=False,
    )
