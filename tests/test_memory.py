"""memory_limit: the same results in pieces, below the limit, or a refusal in one sentence."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import weakref
from functools import cache

import numpy as np
import pytest

import fitonce as fo
from fitonce.core import deferred, memory
from fitonce.crossval import pieces
from fitonce.fitting import footprint

SMALL = memory.IMPORTS


@cache
def fit():
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.tile(np.repeat([2.0, 9.0], 50), 6))
    return fo.fit(fo.models.PoissonHMM(2), counts, restarts=1)


def folds():
    return fo.folds.blocks(fit().data, percent=10, n=40)


@pytest.mark.parametrize(
    ("given", "found"),
    [(5e8, 5e8), ("2GB", 2e9), (" 1.5 GiB", 1.5 * 2**30), ("300mb", 3e8), ("7", 7.0), ("1e9 B", 1e9)],
)
def test_limits_are_numbers_or_text(given, found):
    assert memory.checked_limit(given) == found


@pytest.mark.parametrize("given", [0, -1.0, np.nan, "two GB", "2 furlongs", "", True, [1], "-1GB"])
def test_other_limits_are_refused_by_every_verb(given):
    verbs = (
        lambda: fo.fit(fit().model, fit().data, memory_limit=given),
        lambda: fo.fit_at(fit().model, fit().data, fit().params, memory_limit=given),
        lambda: fo.cross_validate(fit(), folds(), memory_limit=given),
        lambda: fo.loo(fit(), memory_limit=given),
        lambda: fo.influence(fit(), memory_limit=given),
        lambda: fo.bootstrap(fit(), memory_limit=given),
        lambda: fo.curvature(fit(), memory_limit=given),
        lambda: fo.select({"two": fit().model}, fit().data, folds(), memory_limit=given),
        lambda: fo.plan(fit(), memory_limit=given),
    )
    for verb in verbs:
        with pytest.raises(ValueError, match="memory_limit must be a positive number of bytes, text"):
            verb()


def test_verbs_refuse_a_limit_that_is_too_small_with_what_they_need():
    for verb in (
        lambda: fo.fit(fit().model, fit().data, memory_limit="1MB"),
        lambda: fo.cross_validate(fit(), folds(), memory_limit=SMALL + 1e4),
        lambda: fo.loo(fit(), memory_limit=SMALL + 1e4),
        lambda: fo.influence(fit(), memory_limit=SMALL + 1e4),
        lambda: fo.bootstrap(fit(), memory_limit=SMALL + 1e4),
        lambda: fo.curvature(fit(), memory_limit=SMALL + 10).J,
    ):
        sentence = r"this needs .*, .* of it for .*, and memory_limit is .*; raise memory_limit="
        with pytest.raises(memory.MemoryLimitError, match=sentence):
            verb()


def test_select_skips_what_does_not_fit():
    with pytest.raises(ValueError, match="no model could be fitted: this needs"):
        fo.select({"two": fit().model}, fit().data, folds(), memory_limit=SMALL + 1e4)


def test_a_call_within_a_call_has_what_is_left():
    with memory.limited(SMALL + 1000.0):
        memory.hold(600.0, "something")
        with memory.limited(None):
            assert memory.left() == 400.0
            memory.hold(100.0, "something else")
        assert memory.left() == 400.0
        with pytest.raises(memory.MemoryLimitError, match="401 B of it for a third"):
            memory.hold(401.0, "a third")
        assert memory.room(1e9, 10.0, "a piece") == 400.0
        assert memory.shared(memory.left, 4)() == 100.0
    assert memory.left() == np.inf


@pytest.mark.parametrize("method", ["ij", "onestep", "newton", "exact", "auto"])
def test_pieces_give_the_numbers_of_all_together(method):
    """By what is held for all folds, and a fifth of what they would take beside that."""
    objective, asked = fit().objective, footprint.asked_of(folds())
    held = footprint.bytes_of_losses(asked, method) + 8.0 * asked.folds * objective.space.size
    held += objective.bytes_per_point
    held += footprint.bytes_of_cross(objective, asked.folds) if method == "ij" else 0
    least = 16 * (objective.bytes_per_fold + 8 * len(objective.base))
    one = footprint.bytes_per_refined(objective, asked.folds, method)
    limit = SMALL + held + 2 * max(least, 8 * one)
    whole = fo.cross_validate(fit(), folds(), method=method)
    parts = fo.cross_validate(fit(), folds(), method=method, memory_limit=limit)
    np.testing.assert_allclose(parts.theta, whole.theta, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(parts.pointwise["loss"], whole.pointwise["loss"], rtol=1e-12)
    for column in ("error", "distance", "gradients", "hessians"):
        np.testing.assert_allclose(parts.folds[column], whole.folds[column], rtol=1e-9, atol=1e-12)
    for column in ("rung", "verdict", "ok", "status"):
        assert list(parts.folds[column]) == list(whole.folds[column])


def test_folds_are_cut_where_memory_is_short():
    one = footprint.bytes_per_refined(fit().objective, 40, "exact")
    with memory.limited(SMALL + 20 * one):
        found = pieces.pieces_of(fit().objective, 40, "exact")
    assert [len(piece) for piece in found] == [10, 10, 10, 10]


def test_auto_walks_again_to_where_it_was(monkeypatch):
    """In pieces of seven folds, some of which must be refined."""
    whole = fo.cross_validate(fit(), folds(), method="auto", tolerance=1e-9)
    cut = lambda objective, count, method: np.split(np.arange(count), range(7, count, 7))  # noqa: E731
    monkeypatch.setattr(sys.modules["fitonce.crossval.cross_validate"], "pieces_of", cut)
    parts = fo.cross_validate(fit(), folds(), method="auto", tolerance=1e-9)
    assert set(whole.folds["rung"]) - {"none", "onestep"}
    np.testing.assert_allclose(parts.theta, whole.theta, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(parts.folds["gradients"], whole.folds["gradients"])
    assert list(parts.folds["rung"]) == list(whole.folds["rung"])


def test_a_plan_is_a_table_of_every_call():
    found = fo.plan(fit(), folds=folds())
    table = found.to_frame()
    calls = ["fit", "none", "ij", "onestep", "newton", "auto", "exact", "loo", "influence", "bootstrap"]
    assert list(table.index) == calls
    assert (table[["seconds", "bytes"]] > 0).all().all()
    assert table["fits"].all()
    assert all(call in repr(found) for call in calls)
    assert not fo.plan(fit(), folds=folds(), memory_limit="1MB").to_frame()["fits"].any()


def test_a_plan_is_of_folds_that_belong_to_the_data():
    model, data = fit().model, np.arange(30.0)
    with pytest.raises(ValueError, match=r"folds must come from fo\.folds, got str"):
        fo.plan(model, data, "blocks")
    with pytest.raises(ValueError, match="folds were made for sequences of"):
        fo.plan(model, data, folds())
    with pytest.raises(ValueError, match="a fit has its data"):
        fo.plan(fit(), data)


def test_a_plan_of_a_graph_has_its_junction_tree():
    edges = np.array([(0, 1), (1, 2), (2, 3), (3, 0)])
    found = fo.plan(fo.models.PottsMixture(edges, n_classes=2, emission="poisson", beta=1.0))
    assert (found.width, found.entries) == (found.tree.width, found.tree.entries)
    assert repr(found) == str(found.tree)
    with pytest.warns(DeprecationWarning, match=r"Plan.bytes is now Plan.tree.bytes"):
        assert found.bytes == found.tree.bytes
    with pytest.raises(AttributeError, match="only a model on a graph"):
        _ = fo.plan(fit(), folds=folds()).width


_LONG = """
import json, sys
import numpy as np
import fitonce as fo

def memory(key):
    with open("/proc/self/status") as file:
        return 1024 * next(int(line.split()[1]) for line in file if line.startswith(key))

def grown(work):
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = memory("VmRSS")
    found = work()
    return found, memory("VmHWM") - before

rng = np.random.default_rng(0)
series = rng.normal(np.tile(np.repeat([2.0, 9.0], 50), 300))
model = fo.models.GaussianHMM(2)
params = {"initial": [0.5, 0.5], "transition": [[0.98, 0.02], [0.02, 0.98]]}
params |= {"mean": [[2.0], [9.0]], "variance": [[1.0], [1.0]]}
fo.cross_validate, fo.loo
limit = float(sys.argv[1])
few = fo.fit_at(model, series[:200], params)  # loops that no earlier process has compiled
fo.cross_validate(few, fo.folds.blocks(few.data, percent=10, n=20), method="onestep", progress=False)
fit, first = grown(lambda: fo.fit_at(model, series, params, memory_limit=limit))
folds = fo.folds.blocks(fit.data, percent=0.1, n=256)
how = {"method": "onestep", "progress": False}
less, bound = grown(lambda: fo.cross_validate(fit, folds, memory_limit=limit, **how))
usual, free = grown(lambda: fo.cross_validate(fit, folds, **how))
same = float(np.abs(less.theta - usual.theta).max())
print(json.dumps([first, free, bound, same]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc")
def test_a_process_stays_below_its_limit():
    """30,000 steps and 256 folds, in less than they take without a limit."""
    limit = 130e6
    said = subprocess.run(
        [sys.executable, "-c", _LONG, str(limit)], check=True, capture_output=True, text=True
    ).stdout
    first, free, bound, same = json.loads(said)
    assert first <= limit
    assert bound <= limit < free
    assert same <= 1e-12


def test_a_process_that_meets_ever_new_shapes_forgets_programs(monkeypatch):
    function = deferred.jit(lambda x: x + 1)
    monkeypatch.setattr(deferred, "MOST_PROGRAMS", 5)
    monkeypatch.setattr(deferred, "_programs", weakref.WeakKeyDictionary())
    counts = []
    for size in range(1, 12):
        assert np.asarray(function(np.ones(size))).tolist() == [2.0] * size
        counts.append(sum(deferred._programs.values()))
    assert max(counts) == 5
    assert counts == [1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]


def test_a_program_goes_with_its_function():
    """And with it what the function holds, such as the fit of a bootstrap."""

    class Held:
        factor = 2.0

    held = Held()
    function = deferred.jit(_times(held))
    assert function(np.ones(3)).tolist() == [2.0] * 3
    ref, before = weakref.ref(held), len(deferred._programs)
    held = function = None
    gc.collect()
    assert ref() is None
    assert len(deferred._programs) == before - 1


def _times(held):
    return lambda x: x * held.factor
