"""All folds, or as many at a time as memory allows.

Folds do not depend on each other, so that a piece of them gives the numbers that all together give.
"""

from __future__ import annotations

import numpy as np

from fitonce.core import memory
from fitonce.core.wording import counted
from fitonce.crossval.evidence import Evidence, gather_evidence
from fitonce.crossval.fold_states import FoldParameters
from fitonce.crossval.losses import Scoring
from fitonce.crossval.methods import METHODS
from fitonce.fitting.footprint import bytes_per_refined
from fitonce.objectives.base import Objective


def pieces_of(objective: Objective, n_folds: int, method: str) -> list[np.ndarray]:
    """Numbers of the folds of each piece. A piece counts as held from now on; it takes at most half of
    what is left, so that evaluating it has the other half."""
    one = bytes_per_refined(objective, n_folds, method)
    what = f"a fold's vectors and matrices of {counted(objective.space.size, 'parameter')}"
    memory.room(one, 2 * one, what)
    size = int(np.clip(0.5 * memory.left() / one, 1, n_folds))
    memory.hold(size * one, what)
    return [np.arange(start, min(start + size, n_folds)) for start in range(0, n_folds, size)]


def by_method(
    scoring: Scoring, method: str, checked: np.ndarray, pieces: list[np.ndarray]
) -> tuple[FoldParameters, Evidence]:
    """Parameters of all folds by a method, and the evidence for them: gradients at folds `checked`."""
    found = []
    for folds in pieces:
        part = scoring.some(folds)
        parameters = METHODS[method](part.curve, part.batches)
        evidence = gather_evidence(part, parameters, np.flatnonzero(np.isin(folds, checked)))
        scoring.batches.add_work(part.batches, folds)
        found.append((parameters._replace(inverses=None, gradients=None), evidence))
    return joined([parameters for parameters, _ in found], [evidence for _, evidence in found])


def joined(
    parameters: list[FoldParameters], evidence: list[Evidence]
) -> tuple[FoldParameters, Evidence]:
    """Of all pieces, in order; without matrices and gradients, which only a piece has."""
    if len(parameters) == 1:
        return parameters[0]._replace(inverses=None, gradients=None, moves=None), evidence[0]
    thetas = np.concatenate([part.thetas for part in parameters])
    status = [one for part in parameters for one in part.status]
    rungs = np.concatenate([part.rungs for part in parameters])
    columns = (np.concatenate(column) for column in zip(*evidence, strict=True))
    return FoldParameters(thetas, status, rungs, own=parameters[0].own), Evidence(*columns)
