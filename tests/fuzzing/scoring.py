"""Answers of the library against those of a judge: likelihood, posterior, decoding and losses."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import logsumexp

import fitonce as fo
from fuzzing.judges import close


def check_answers(fit: Any, parts: list[Any], seen: list[np.ndarray], paths: bool) -> bool:
    """The log-likelihood, posterior and best paths of judged parts, where `seen` (T,) is observed.
    False: the data are impossible, and nothing else can be asked."""
    expected = sum(part.log_likelihood(kept) for part, kept in zip(parts, seen, strict=True))
    size = sum(_size(part) for part in parts)
    if np.isnan(expected) and not fit.status.ok:  # a fit that ran off, and says so
        return False
    if not np.isfinite(expected):
        assert not np.isfinite(fit.log_likelihood), "log-likelihood: finite for impossible data"
        return False
    close("log-likelihood", fit.log_likelihood, expected, size)
    posterior = np.concatenate([part.posterior(kept) for part, kept in zip(parts, seen, strict=True)])
    close("posterior", np.asarray(fit.posterior()), np.exp(posterior), size)
    if paths:
        for number, (part, path) in enumerate(zip(parts, fit.decode(), strict=True)):
            close(f"best path of {number}", part.score(np.asarray(path)), part.best(), size)
    return True


def _size(part: Any) -> float:
    table = part.unary if hasattr(part, "unary") else part.table
    return float(np.abs(table[np.isfinite(table)]).sum())


def check_losses(
    cv: fo.CVResult, folds: fo.Folds, at: Callable[[Any], list[Any]], seen: list[np.ndarray]
) -> None:
    """Losses of every fold at its own parameters; `at`: the judged parts at some parameters."""
    lengths = [len(one) for one in seen]
    ends, observed = np.cumsum(lengths)[:-1], np.concatenate(seen)
    losses = cv.pointwise["loss"].to_numpy()
    number = cv.pointwise["fold"].to_numpy()
    for fold, (out, scored) in enumerate(zip(folds.dropped, folds.scored, strict=True)):
        own = cv.params(fold)  # theta is nan of a fold with other zeros than the fit
        carried = re.search(r"state ([\d, ]+) rests on this point alone", cv.folds["status"].iloc[fold])
        if carried:  # judged at the fit, whatever came of the fold's own parameters
            own = cv.fit.params
        if not all((np.asarray(value) < np.inf).all() for value in own.values()):  # which must be said
            said, mean = cv.folds["status"].iloc[fold], cv.folds["loss"].to_numpy()[fold]
            assert "not" in said, f"fold {fold}: no parameters, but {said}"
            assert not np.isfinite(mean), f"fold {fold}: a loss without parameters"
            continue
        parts = at(own)
        size = sum(_size(part) for part in parts)
        if folds.kind == "sequences":
            each = [-parts[n].log_likelihood(seen[n]) for n in scored]
            expected = np.array([sum(each)]) if cv.loss == "joint" else np.array(each)
        else:
            kept = observed.copy()
            kept[out] = False
            expected = _of_sites(parts, np.split(kept, ends), np.split(observed, ends), scored, cv.loss)
        mine = losses[number == fold]
        if carried:
            states = [int(one) for one in carried[1].split(", ")]
            expected = _under_others(at(cv.fit.params), np.split(kept, ends), scored[0], states)
            if "zero in all digits" in cv.folds["status"].iloc[fold]:
                assert np.isnan(mine).all(), f"fold {fold}: a loss where none can be"
                above = expected[0] - cv.folds["control"].iloc[fold]
                assert above > 700, f"fold {fold}: no loss, but one of {above:g} above the control"
                continue
        if cv.loss == "joint":
            mine = np.asarray([cv.folds["loss"].to_numpy()[fold] * len(scored)])
        if np.isfinite(expected).all():
            close(f"{cv.loss} losses of fold {fold}", mine, expected, size)
            close(
                f"loss of fold {fold}",
                cv.folds["loss"].to_numpy()[fold] * len(scored),
                expected.sum(),
                size,
            )
        else:
            assert not np.isfinite(mine).all(), f"{cv.loss} losses of fold {fold}: finite, must not be"
    means = cv.folds["loss"].to_numpy()
    if np.isfinite(means).all() and not cv.n_failed:
        close("estimate", cv.estimate, means.mean())


def _under_others(parts: list[Any], kept: list[np.ndarray], site: int, carried: list[int]) -> np.ndarray:
    """The loss (1,) of a site under the states that do not rest on it alone."""
    each = [part.posterior(one) + part.table for part, one in zip(parts, kept, strict=True)]
    logs = np.delete(np.concatenate(each)[site], carried)
    return np.array([-logsumexp(logs) if len(logs) else np.inf])


def _of_sites(
    parts: list[Any], kept: list[np.ndarray], observed: list[np.ndarray], scored: np.ndarray, loss: str
) -> np.ndarray:
    if loss == "pointwise":
        each = [part.predictive(one) for part, one in zip(parts, kept, strict=True)]
        return -np.concatenate(each)[scored]
    ends = np.cumsum([len(one) for one in kept])[:-1]
    restored = np.concatenate(kept)
    restored[scored] = np.concatenate(observed)[scored]
    total = 0.0
    for part, one, other in zip(parts, kept, np.split(restored, ends), strict=True):
        if not np.array_equal(one, other):
            total += part.log_likelihood(one) - part.log_likelihood(other)
    return np.array([total])
