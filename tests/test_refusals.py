"""Refusals that point to what was meant."""

from __future__ import annotations

import numpy as np
import pytest

import fitonce as fo
from fitonce.core import memory
from fitonce.engines import elimination

X = np.random.default_rng(0).poisson(np.repeat([2.0, 9.0], 10)).astype(float)
LINE = fo.graph([(0, 1), (1, 2), (2, 3)])


@pytest.mark.parametrize("verb", [fo.marginals, fo.loo, fo.influence, fo.curvature, fo.bootstrap])
def test_a_model_in_place_of_a_fit_is_told_to_be_fitted(verb):
    with pytest.raises(
        ValueError, match=r"got HMM; a model is fitted first: fit = fo\.fit\(model, data\)"
    ):
        verb(fo.models.PoissonHMM(2))
    with pytest.raises(ValueError, match=r"fit must be a Fit from fo\.fit, got int$"):
        verb(3)


@pytest.mark.parametrize(
    "folds",
    [
        fo.folds.regions(LINE, hops=1),
        fo.folds.spatial_kfold(LINE, 2),
        fo.folds.buffered(LINE, hops=1),
        fo.folds.spatial_kfold(LINE, 2).rebased(np.array([1.0, 1.0, 1.0, 0.0])),
        fo.folds.regions(LINE, hops=1).some([0]),
    ],
)
def test_sites_of_a_map_have_none_that_follow(folds):
    with pytest.raises(ValueError, match=r"sites of a graph have no order; .*buffer=1.*buffered"):
        fo.folds.followed_by(folds, np.ones(4), 1)


def test_steps_follow_steps_only():
    with pytest.raises(ValueError, match="sites of a graph have no order"):
        fo.folds.followed_by(fo.folds.points(4), LINE, 1)
    with pytest.raises(ValueError, match="after whole sequences there are none"):
        fo.folds.followed_by(fo.folds.structures(3), [X, X, X], 1)
    with pytest.raises(ValueError, match="got list first"):
        fo.folds.followed_by([1], X, 1)


def complete(n):
    return fo.models.PottsMixture([(i, j) for i in range(n) for j in range(i)], 2, beta=0.5)


def test_memory_is_advised_only_where_it_could_help(monkeypatch):
    monkeypatch.setattr(elimination, "machine_memory", lambda: 12 * 2.0**30)
    with pytest.raises(ValueError, match=r"needs 8 GiB.*; or give the model memory_limit=8\.59e\+09 \("):
        fo.plan(complete(29))
    with pytest.raises(
        ValueError, match=r"needs 16 GiB.*no memory_limit= helps here: this machine has 12"
    ):
        fo.plan(complete(30))
    with pytest.raises(
        ValueError, match=r"not possible on this graph of 70 sites: some group of sites has 69 n"
    ):
        fo.plan(complete(70))


def test_a_call_that_no_limit_allows_says_so(monkeypatch):
    monkeypatch.setattr(memory, "machine_memory", lambda: 50 * 2.0**20)
    with pytest.raises(memory.MemoryLimitError, match="this machine has 50 MiB in all, so ask for less"):
        fo.fit(fo.models.PoissonHMM(2), X, memory_limit="10MB")
    monkeypatch.undo()
    with pytest.raises(memory.MemoryLimitError, match="raise memory_limit=, or ask for less"):
        fo.fit(fo.models.PoissonHMM(2), X, memory_limit="10MB")
