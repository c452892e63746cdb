"""Where work runs changes no number: worker processes, clusters, and workers that die."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import cloudpickle
import jax
import jax.numpy as jnp
import joblib
import numpy as np
import pytest

import fitonce as fo
from ar_cases import wide
from fitonce.core import parallel
from fitonce.core.parallel import Workers, groups, resolve_parallel
from registry import _tagged, _unequal

pytestmark = pytest.mark.xdist_group("parallel")  # one worker has the worker processes


@pytest.fixture(scope="module")
def fit():
    return fo.fit(fo.models.GaussianHMM(2, scale=0.5), _unequal()[:3], restarts=1)


def folds_of(fit, kind):
    if kind == "sites":
        return fo.folds.kfold(fit.data, 4)
    return fo.folds.structures(fit.data)


def assert_same(found, expected):
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found.folds["loss"], expected.folds["loss"], rtol=1e-9)
    assert found.folds["ok"].equals(expected.folds["ok"])
    assert found.folds["verdict"].equals(expected.folds["verdict"])


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "two", None])
def test_a_number_of_workers_is_at_least_one(n):
    with pytest.raises(ValueError, match="the number of workers, must be an integer of at least 1"):
        Workers(n)


def test_an_unknown_backend_is_refused():
    with pytest.raises(ValueError, match=r"backend must be one of .*, got 'threads'"):
        Workers(2, "threads")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (None, None),
        (1, None),
        (3, Workers(3)),
        (10**5, Workers(4)),
        (Workers(7), Workers(7)),
        (np.int64(2), Workers(2)),
        ("devices", "devices"),
        ("loky", Workers()),
        ("dask", Workers(backend="dask")),
        (Workers(1), Workers(1)),
    ],
)
def test_an_argument_says_where_work_runs(monkeypatch, given, found):
    monkeypatch.setattr(parallel, "cores", lambda: 4)
    assert resolve_parallel(given) == found


@pytest.mark.parametrize("given", [0, -2, 1.5, "gpu", True, [2], {"n": 2}])
def test_other_arguments_are_refused(given):
    with pytest.raises(ValueError, match="parallel must be None, 'devices', 'loky', 'dask', a number"):
        resolve_parallel(given)


def test_calls_refuse_them_too(fit):
    with pytest.raises(ValueError, match="parallel must be"):
        fo.cross_validate(fit, folds_of(fit, "sites"), parallel="gpu")
    with pytest.raises(ValueError, match="parallel must be"):
        fo.fit(fit.model, fit.data, parallel=0)


def test_a_field_is_not_split_over_devices():
    model = fo.models.PottsMixture([(0, 1), (1, 2)], beta=0.5)
    with pytest.raises(ValueError, match="does not run on several devices"):
        fo.fit(model, np.array([1.0, 5.0, 6.0]), restarts=1, parallel="devices")


def test_groups_of_sequences_are_whole_and_about_equal():
    lengths = np.array([9, 1, 5, 5, 8, 2])
    found = groups(lengths, 3)
    assert sorted(np.concatenate(found)) == list(range(6))
    assert {int(lengths[group].sum()) for group in found} == {10}
    assert [list(group) for group in groups(np.array([3, 4]), 5)] == [[1], [0]]


def add(a, b):
    time.sleep(0.05 * (a == 0))  # the first is not the first to end
    return a + b


def test_results_come_in_the_order_of_the_tasks():
    assert list(Workers(2).run(add, [(n, 10) for n in range(5)])) == [10, 11, 12, 13, 14]
    assert list(Workers(2).run(add, [])) == []


def complain(n):
    raise ArithmeticError(f"task {n} is wrong")


def test_an_error_of_the_work_is_not_taken_for_a_death():
    with pytest.raises(ArithmeticError, match="task 7 is wrong"):
        list(Workers(2).run(complain, [(7,)]))


def die_once(marker, n):
    """Ends its process the first time that the task 2 is asked for."""
    if n == 2 and not Path(marker).exists():
        Path(marker).touch()
        os._exit(1)
    return n * n


def always_die():
    os._exit(1)


@pytest.mark.filterwarnings("ignore:A worker stopped:UserWarning")
def test_the_task_of_a_worker_that_died_runs_again(tmp_path):
    tasks = [(str(tmp_path / "died"), n) for n in range(4)]
    assert list(Workers(2).run(die_once, tasks)) == [0, 1, 4, 9]
    assert (tmp_path / "died").exists()


@pytest.mark.filterwarnings("ignore:A worker stopped:UserWarning")
def test_a_task_that_always_kills_its_worker_ends_with_a_sentence(monkeypatch):
    monkeypatch.setattr(parallel, "_MOST_DEATHS", 1)
    with pytest.raises(RuntimeError, match=r"workers died 2 times at task 0 of 1.*fewer workers"):
        list(Workers(2).run(always_die, [()]))


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        ("sites", "onestep"),
        pytest.param("sites", "ij", marks=pytest.mark.slow),
        pytest.param("sites", "exact", marks=pytest.mark.slow),
        pytest.param("sites", "auto", marks=pytest.mark.slow),
        pytest.param("sequences", "ij", marks=pytest.mark.slow),
        pytest.param("sequences", "onestep", marks=pytest.mark.slow),
        pytest.param("sequences", "exact", marks=pytest.mark.slow),
    ],
)
def test_worker_processes_give_what_threads_do(fit, kind, method):
    folds = folds_of(fit, kind)
    found, expected = (
        fo.cross_validate(fit, folds, method=method, parallel=p) for p in (2, None)
    )  # fmt: skip
    assert_same(found, expected)


@pytest.mark.slow
def test_worker_processes_take_crfs():
    fit = fo.fit(fo.models.LinearChainCRF(scale=1.0), _tagged(), restarts=1)
    folds = fo.folds.structures(fit.data).some(range(4))
    found, expected = (fo.cross_validate(fit, folds, parallel=n) for n in (2, None))
    assert_same(found, expected)
    copy = pickle.loads(pickle.dumps(fit))
    np.testing.assert_array_equal(copy.H, fit.H)


def test_a_fresh_worker_reads_arrays_of_jax_as_they_are():
    """Which it would not, were JAX imported by the arrays themselves."""
    code = (
        "import pickle, sys\n"
        "from fitonce.core.parallel import _run_packed\n"
        "print(_run_packed(sys.stdin.buffer.read(), True))"
    )
    with jax.enable_x64(True):
        packed = cloudpickle.dumps((lambda array: str(array.dtype), (jnp.ones(3),)))
    told = subprocess.run([sys.executable, "-c", code], input=packed, capture_output=True, check=True)
    assert told.stdout.strip() == b"float64"


def test_h_split_over_workers_is_the_same():
    whole = wide()
    there = whole.objective.run_on(Workers(2))
    found = there.hessians(whole.theta[None], there.base[None])[0]
    np.testing.assert_allclose(found, whole.H, atol=1e-11 * np.abs(whole.H).max())


@pytest.mark.slow
def test_a_fit_with_workers_is_the_same():
    whole = wide()
    found = fo.fit(whole.model, whole.data, init=whole.params, parallel=2)
    assert found.ok
    np.testing.assert_allclose(found.theta, whole.theta, atol=1e-6)
    np.testing.assert_allclose(found.H, whole.H, atol=1e-6 * np.abs(whole.H).max())


def test_a_cluster_needs_a_client(fit):
    pytest.importorskip("distributed", reason="needs the dask extra")
    with pytest.raises(ValueError, match=r"backend='dask' needs a client: make one with"):
        list(Workers(2, "dask").run(add, [(1, 2)]))
    with pytest.raises(ValueError, match="needs a client"):
        fo.cross_validate(fit, folds_of(fit, "sites"), method="onestep", parallel="dask")


def test_there_are_never_more_workers_than_tasks(monkeypatch):
    asked = []

    class Counted(joblib.Parallel):
        def __init__(self, **how):
            super().__init__(**how)
            asked.append(self.n_jobs)

    monkeypatch.setattr(joblib, "Parallel", Counted)
    assert list(Workers(10**5).run(add, [(1, 2), (3, 4)])) == [3, 7]
    assert asked == [2]


@pytest.fixture
def cluster(monkeypatch):
    distributed = pytest.importorskip("distributed", reason="needs the dask extra")
    monkeypatch.setattr(parallel, "PATIENCE", 0.6)
    monkeypatch.setattr(parallel, "_LOOK", 0.2)
    one = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    )
    with one as cluster, distributed.Client(cluster) as client:
        yield cluster, client


def wait_a_little(n):
    time.sleep(0.05)
    return n


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_without_workers_is_not_waited_for(cluster):
    results = Workers(2, "dask").run(wait_a_little, [(n,) for n in range(40)])
    assert next(results) == 0
    cluster[0].scale(0)
    with pytest.raises(RuntimeError, match="the Dask cluster has had no worker for 1 s; start some"):
        list(results)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", [0, 1])  # the scheduler, or the client
def test_a_cluster_that_is_gone_is_one_error(cluster, what):
    results = Workers(2, "dask").run(wait_a_little, [(n,) for n in range(40)])
    assert next(results) == 0
    cluster[what].close()
    with pytest.raises(RuntimeError, match="the Dask cluster is gone; with journal= what was computed"):
        list(results)


class EndsAsTheWaitDoes:
    """A future whose first wait is over just before its task is."""

    def __init__(self, outcome):
        self.outcome, self.waits = outcome, 0

    def done(self):
        return True

    def result(self, timeout=None):
        self.waits += 1
        if self.waits == 1:
            raise TimeoutError(f"timed out after {timeout} s.")
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def test_a_task_that_ends_as_the_wait_does_is_answered():
    assert parallel._awaited(None, EndsAsTheWaitDoes(9)) == 9
    for error in (ArithmeticError("task 7 is wrong"), TimeoutError("the task's own")):
        with pytest.raises(type(error), match=str(error)):
            parallel._awaited(None, EndsAsTheWaitDoes(error))


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_keeps_the_order_and_the_errors_of_tasks(cluster):
    assert list(Workers(2, "dask").run(add, [(n, 1) for n in range(9)])) == list(range(1, 10))
    with pytest.raises(ArithmeticError, match="task 7 is wrong"):
        list(Workers(2, "dask").run(complain, [(7,)]))


def kill_after_a_result(folder, pid):
    """Waits for an entry of the journal."""
    while not list(folder.glob("*.entry")):
        time.sleep(0.01)
    os.kill(pid, 9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_of_which_a_worker_is_killed_gives_the_same(tmp_path, fit):
    distributed = pytest.importorskip("distributed", reason="needs the dask extra")
    folds = fo.folds.kfold(fit.data, 10)
    expected = fo.cross_validate(fit, folds, method="exact", chunk=1)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        before = set(client.run(os.getpid).values())
        killer = threading.Thread(target=kill_after_a_result, args=(tmp_path, min(before)))
        killer.start()
        found = fo.cross_validate(
            fit, folds, method="exact", chunk=1, parallel=Workers(2, "dask"), journal=tmp_path
        )
        killer.join(60)
        client.wait_for_workers(2)
        assert set(client.run(os.getpid).values()) != before
    assert_same(found, expected)


CALLER = """
import os, time
from fitonce.core.parallel import Workers
print(*{pid for pid in Workers(2).run(os.getpid, [()] * 4)}, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_a_caller_that_is_killed(number):
    with subprocess.Popen([sys.executable, "-c", CALLER], stdout=subprocess.PIPE, text=True) as caller:
        workers = [Path(f"/proc/{pid}") for pid in caller.stdout.readline().split()]
        assert workers
        assert all(worker.exists() for worker in workers)
        caller.send_signal(number)
    for _ in range(300):
        if not any(worker.exists() for worker in workers):
            return
        time.sleep(0.1)
    raise AssertionError("workers are left")
