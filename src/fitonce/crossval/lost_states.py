"""Folds of one point that is all there is of a hidden state.

Without the point nothing determines the state, which stays where the point was and seems to expect it:
what is computed there is no held-out loss. With r_k the probabilities of states at the point given all
data, p(x_t, z_t in S | x_-t) = p(x_t | x_-t) sum_{k in S} r_k, so that the loss under the states S that
remain follows from what is known at the fit.
"""

from __future__ import annotations

import numpy as np

from fitonce.core.status import Status
from fitonce.crossval.evidence import Evidence
from fitonce.crossval.fold_states import FoldParameters
from fitonce.crossval.losses import Scoring
from fitonce.fitting.carriers import CARRIED, state_shares
from fitonce.objectives.abilities import HasLabels


def score_by_others(scoring: Scoring, parameters: FoldParameters, evidence: Evidence) -> None:
    """Give folds without a certificate whose only point carries a state the loss under the others."""
    objective, dropped = scoring.curve.objective, scoring.folds.dropped
    hidden = objective.traits.hidden_states and not isinstance(objective, HasLabels)
    failed = [
        fold
        for fold, status in enumerate(parameters.status)
        if not status.ok and len(dropped[fold]) == 1
    ]
    plain = (
        scoring.folds.kind == "sites" and scoring.loss == "pointwise" and objective.scheme.name == "A"
    )
    if not failed or not plain or not hidden:
        return
    theta = scoring.curve.theta
    shares, states = state_shares(objective, theta), objective.state_probabilities(theta)
    for fold in failed:
        site = int(dropped[fold][0])
        carried = shares[site] > CARRIED
        if not carried.any() or not np.isfinite(evidence.control[fold, 0]):
            continue
        others = float(states[site, ~carried].sum())
        found = evidence.control[fold, 0] - np.log(others) if others > 0 else np.nan
        evidence.losses[fold, 0], evidence.errors[fold] = found, np.nan
        known, numbers = parameters.status[fold], ", ".join(map(str, np.flatnonzero(carried)))
        under = "the loss is that under" if others > 0 else "its density is zero in all digits under"
        why = f"state {numbers} rests on this point alone, {under} the fit's others"
        parameters.status[fold] = Status(known.outcome, f"{known.message}; {why}")
