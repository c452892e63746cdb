"""Linear-chain CRFs against enumeration of all paths of tags."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

import fitonce as fo
from fuzzing.judges import Tags, close
from fuzzing.reading import check_folds, make_folds
from fuzzing.scoring import check_losses


def judge(recipe: dict[str, Any]) -> None:
    """Raise unless everything about the CRF of a recipe is right; refusals pass through."""
    features = recipe["features"]
    if recipe["sparse"]:
        features = [sparse.csr_matrix(np.array(part)) for part in features]
    data = fo.labelled(features, recipe["labels"], **recipe["reading"])
    x, codes = _own(recipe, data)
    more = {"all_possible_states": True} if recipe["sparse"] else {}
    model = fo.models.LinearChainCRF(**recipe["options"], **more)
    if recipe["fit"] is None:
        fit = fo.fit_at(model, data, drawn(model, data, recipe["seed"]))
    else:
        fit = fo.fit(model, data, restarts=1, optima=0, progress=False)

    def at(params: Any) -> list[Tags]:
        params = {name: np.asarray(value, float) for name, value in params.items()}
        none = np.zeros(len(data.tags))
        params = {"start": none, "end": none, "bias": none} | params
        return [Tags.of(params, part, labels) for part, labels in zip(x, codes, strict=True)]

    parts, seen = at(fit.params), [labels >= 0 for labels in codes]
    check_tags(fit, parts, seen, data.tags)
    folds = make_folds(recipe["folds"], data)
    units = np.concatenate(seen)
    units = np.array([one.any() for one in seen]) if folds.kind == "sequences" else units
    check_folds(folds, recipe["folds"], units, np.array([len(one) for one in seen]))
    method = recipe["fit"] or "none"
    cv = fo.cross_validate(
        fit, folds, method=method, loss=recipe["loss"], optima=0, progress=False, check=False
    )
    check_losses(cv, folds, at, seen)


def check_tags(fit: Any, parts: list[Tags], seen: list[np.ndarray], tags: tuple[str, ...]) -> None:
    """The log-likelihood, marginals without labels, and best paths."""
    expected = sum(part.log_likelihood(kept) for part, kept in zip(parts, seen, strict=True))
    size = sum(np.abs(part.unary[np.isfinite(part.unary)]).sum() for part in parts)
    close("log-likelihood", fit.log_likelihood, expected, size)
    for n, (part, found) in enumerate(zip(parts, fo.marginals(fit), strict=True)):
        nothing = np.zeros(len(part.labels), bool)
        close(f"marginals of {n}", np.asarray(found), np.exp(part.posterior(nothing)), size)
    for n, (part, path) in enumerate(zip(parts, fo.predict(fit), strict=True)):
        found = part.score(np.array([tags.index(tag) for tag in path]))
        close(f"best path of {n}", found, part.best(), size)


def _own(recipe: dict[str, Any], data: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Features and numbers of tags of each sequence, -1 where a label is unknown."""
    try:
        x = [np.array([[float(one) for one in row] for row in part]) for part in recipe["features"]]
        width = {part.shape[1] for part in x if part.ndim == 2}
        lengths = [len(part) for part in recipe["labels"]]
    except (TypeError, ValueError, OverflowError):
        raise AssertionError("accepted: features that cannot be read") from None
    assert len(width) == 1, "accepted: features of several widths"
    assert all(np.isfinite(part).all() for part in x), "accepted: features that are not finite"
    assert lengths == [len(part) for part in x], "accepted: more or fewer labels than tokens"
    said = [[_tag(label) for label in part] for part in recipe["labels"]]
    known = {tag for part in said for tag in part if tag is not None}
    tags = sorted(known) if "tags" not in recipe["reading"] else [*map(_tag, recipe["reading"]["tags"])]
    assert tuple(tags) == data.tags, f"tags: {data.tags}, expected {tags}"
    number = {None: -1} | {tag: k for k, tag in enumerate(tags)}
    return x, [np.array([number[tag] for tag in part]) for part in said]


def _tag(label: Any) -> str | None:
    if label is None or (isinstance(label, float) and math.isnan(label)):
        return None
    if label == "" or (label == -1 and not isinstance(label, str)):
        return None
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def drawn(model: Any, data: Any, seed: int) -> dict[str, Any]:
    """Parameters at random, minus infinity where the model of the recipe forbids something."""
    rng, count = np.random.default_rng(seed), len(data.tags)
    found: dict[str, Any] = {
        "weights": rng.normal(size=(data.features.shape[1], count)),
        "transition": rng.normal(size=(count, count)),
    }
    if model.biases:
        found |= {name: rng.normal(size=count) for name in ("start", "end", "bias")}
    first, moves = _possible(model, data.tags)
    found["transition"][~moves] = -np.inf
    if model.biases:
        found["start"][~first] = -np.inf
    return found


def _possible(model: Any, tags: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Tags that can be first (K,), and moves that can happen (K, K)."""
    count = len(tags)
    first, moves = np.ones(count, bool), np.ones((count, count), bool)
    if isinstance(model.support, str):
        for j, tag in enumerate(tags):
            if tag.startswith("I-"):
                first[j] = False
                moves[:, j] = [before[:2] in ("B-", "I-") and before[2:] == tag[2:] for before in tags]
    elif np.shape(model.support) == (count, count):
        moves = np.array(model.support)
    if np.shape(model.start_support) == (count,):
        first = np.array(model.start_support)
    return first, moves
