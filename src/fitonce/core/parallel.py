"""Where work runs: threads of this process, all of its devices, or worker processes.

One argument chooses, `parallel=`:

* None: threads of this process, on one device;
* "devices": all devices that JAX sees; folds or sequences are sharded over them;
* a number of worker processes, of which there are never more than cores, or `Workers(n, backend)`: the
  backend "loky" (processes of this machine, by joblib) or "dask" (the cluster of the current
  `dask.distributed` client); the name of a backend alone means two workers.

If a worker dies, its tasks are retried; earlier results are kept.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

from fitonce.core import deferred, memory
from fitonce.core.arguments import require_choice, shown
from fitonce.core.deferred import jax
from fitonce.core.numerics import in_float64, is_count
from fitonce.core.wording import counted

BACKENDS = ("loky", "dask")
_MOST_DEATHS = 3  # in a row without a result: more, and the task itself kills its worker
PATIENCE = 60.0  # seconds that a cluster may be without a worker
_GONE = "the Dask cluster is gone; with journal= what was computed is found by the same call"
_LOOK = 2.0  # seconds between looks at whether it has one, or at whether a caller is still there


def cores() -> int:
    """Those that this process may use: a container or a batch system may allow fewer than there are."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


@dataclass(frozen=True)
class Workers:
    """Worker processes.

    Args:
        n: how many. On a cluster, which has workers of its own: the number of parts into which H is
            split, and half the number of chunks of folds.
        backend: "loky", or "dask" for the current `dask.distributed` client.
    """

    n: int = 2
    backend: Literal["loky", "dask"] = "loky"

    def __post_init__(self) -> None:
        if not is_count(self.n):
            raise ValueError(
                f"n, the number of workers, must be an integer of at least 1, got {shown(self.n)}"
            )
        require_choice("backend", self.backend, BACKENDS)

    def run(self, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        """Yield work(*task) for each task, in order, as soon as it is there."""
        from joblib.externals.loky.process_executor import BrokenProcessPool, TerminatedWorkerError

        work = memory.shared(work, self.n)
        done, deaths = 0, 0
        while done < len(tasks):
            try:
                for result in self._stream(work, tasks[done:]):
                    done, deaths = done + 1, 0
                    yield result
            except (BrokenProcessPool, TerminatedWorkerError) as death:
                deaths += 1
                if deaths > _MOST_DEATHS:
                    raise RuntimeError(
                        f"workers died {deaths} times at task {done} of {len(tasks)}, perhaps out "
                        "of memory; use fewer workers or a smaller chunk="
                    ) from death

    def _stream(self, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        import cloudpickle

        packed = ((cloudpickle.dumps((work, task)), deferred.loaded()) for task in tasks)
        if self.backend == "dask":
            yield from _on_cluster(packed, self.n)
            return
        from joblib import Parallel, delayed, parallel_config

        # Two for one task: joblib would run it in this process, which it may end.
        with parallel_config(backend=self.backend, n_jobs=min(self.n, max(len(tasks), 2))):
            yield from Parallel(return_as="generator", batch_size=1)(
                delayed(_run_for)(os.getpid(), *each) for each in packed
            )


def _run_for(caller: int, *packed: Any) -> Any:
    """`_run_packed` in a worker of this process, with which it ends."""
    if os.getppid() == caller:
        _end_with(caller)
    return _run_packed(*packed)


@cache
def _end_with(caller: int) -> None:
    """A worker whose caller was killed would wait for further tasks for minutes."""

    def watch() -> None:
        while os.getppid() == caller:
            time.sleep(_LOOK)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@in_float64
def _run_packed(packed: bytes, has_jax: bool) -> Any:
    """Unpacks inside the float64 scope: outside of it, JAX would unpickle arrays as float32."""
    if has_jax:
        _ = deferred.jnp.float64  # imports it here, before the arrays do
    work, task = pickle.loads(packed)
    return work(*task)


def _client() -> Any:
    try:
        from distributed import default_client
    except ImportError:
        raise ValueError("backend='dask' needs dask.distributed: pip install 'fitonce[dask]'") from None
    try:
        return default_client()
    except ValueError:
        raise ValueError(
            "backend='dask' needs a client: make one with dask.distributed.Client(...) first"
        ) from None


def _on_cluster(packed: Iterator[tuple[Any, ...]], least: int) -> Iterator[Any]:
    """Results of `_run_packed` in order, twice as many tasks sent ahead as the cluster runs at once."""
    client, waiting = _client(), deque[Any]()
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.comm.core import CommClosedError

    try:
        ahead = 2 * max(least, sum(client.nthreads().values()))
        for each in packed:
            waiting.append(client.submit(_run_packed, *each, pure=False))
            if len(waiting) >= ahead:
                yield _awaited(client, waiting.popleft())
        while waiting:
            yield _awaited(client, waiting.popleft())
    except KilledWorker as error:
        raise RuntimeError(
            "a task ended every worker of the Dask cluster that it was given to, perhaps out of memory; "
            "use a smaller chunk="
        ) from error
    except Exception as error:
        gone = isinstance(error, (CancelledError, CommClosedError)) or client.status != "running"
        if gone and not str(error).startswith(_GONE):
            raise RuntimeError(f"{_GONE}: {error or type(error).__name__}") from error
        raise
    finally:
        for future in waiting:
            future.release()


def _awaited(client: Any, future: Any) -> Any:
    """The result of a task, unless the cluster has no worker for too long."""
    alone = 0.0
    while True:
        try:
            return future.result(timeout=_LOOK)
        except TimeoutError:
            if future.done():  # at the last moment, or its own error is a TimeoutError
                return future.result(timeout=PATIENCE)
        if client.status != "running":
            raise RuntimeError(f"{_GONE}: its scheduler does not answer")
        alone = 0.0 if client.nthreads() else alone + _LOOK
        if alone >= PATIENCE:
            raise RuntimeError(
                f"the Dask cluster has had no worker for {alone:.0f} s; start some, and call again "
                "(with journal= what was computed is found)"
            )


Parallel = Workers | Literal["devices"] | None


def resolve_parallel(parallel: Any) -> Parallel:
    """Check a `parallel=` argument; 1 worker is None. Processes on this machine are declared as memory
    of the call."""
    found = _resolved(parallel)
    if isinstance(found, Workers) and found.backend == "loky":
        what = counted(found.n, "worker process", "worker processes")
        memory.hold(found.n * memory.WORKER, what)
    return found


def _resolved(parallel: Any) -> Parallel:
    if parallel is None or isinstance(parallel, Workers):
        return parallel
    if isinstance(parallel, str):
        if parallel == "devices":
            return "devices"
        if parallel in BACKENDS:
            return Workers(backend=parallel)  # type: ignore[arg-type]
    elif is_count(parallel):
        number = min(int(parallel), cores())  # more only where Workers says so
        return Workers(number) if number > 1 else None
    raise ValueError(
        "parallel must be None, 'devices', 'loky', 'dask', a number of worker processes or "
        f"fo.Workers(...), got {shown(parallel)}"
    )


def groups(lengths: np.ndarray, count: int) -> list[np.ndarray]:
    """Indices of sequences in `count` groups with about equally many steps."""
    loads = np.zeros(min(count, len(lengths)))
    members: list[list[int]] = [[] for _ in loads]
    for number in np.argsort(-lengths, kind="stable"):
        lightest = int(np.argmin(loads))
        members[lightest].append(int(number))
        loads[lightest] += lengths[number]
    return [np.sort(np.array(group)) for group in members]


def mesh_of(devices: int) -> jax.sharding.Mesh:
    """A mesh of that many devices with one axis, "part"."""
    return jax.make_mesh((devices,), ("part",), axis_types=(jax.sharding.AxisType.Auto,))


def _sharding(*axes: str) -> jax.sharding.NamedSharding:
    mesh = mesh_of(len(jax.devices()))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))


def everywhere() -> jax.sharding.NamedSharding:
    """Sharding that copies an array to every device."""
    return _sharding()


def placed(array: Any, parallel: Parallel) -> jax.Array:
    """An array on the default device; with "devices", its rows split over all devices, or copied to each
    if they do not split evenly."""
    if parallel != "devices":
        return jax.device_put(array)
    rows = np.shape(array)[0] if np.ndim(array) else 1
    even = rows % len(jax.devices()) == 0
    return jax.device_put(array, _sharding("part") if even else _sharding())
