"""Where work runs: threads of this process, all of its devices, or worker processes.

One argument chooses, `parallel=`:

* None: threads of this process, on one device;
* "devices": every device that JAX sees, through sharding: folds, or sequences, are split over them;
* a number of worker processes, or `Workers(n, backend)`: through joblib, whose backend may be "loky"
  (processes of this machine) or "dask" (the cluster of the current `dask.distributed` client); the
  name of a backend alone means two workers.

A worker that dies costs its tasks, which run again; what came before them is kept.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from fitonce.core.numerics import is_count

BACKENDS = ("loky", "dask")
_MOST_DEATHS = 3  # in a row without a result: then it is the task that kills its worker


@dataclass(frozen=True)
class Workers:
    """Worker processes.

    Args:
        n: how many; with a cluster, whose own workers count, into how many parts H is split, and half of
            the chunks of folds.
        backend: "loky", or "dask" for the current `dask.distributed` client.
    """

    n: int = 2
    backend: Literal["loky", "dask"] = "loky"

    def __post_init__(self) -> None:
        if not is_count(self.n):
            raise ValueError(
                f"n, the number of workers, must be an integer of at least 1, got {self.n!r}"
            )
        if self.backend not in BACKENDS:
            raise ValueError(f"backend must be one of {BACKENDS}, got {self.backend!r}")

    def run(self, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        """work(*task) of each task, in order, as they come."""
        done, deaths = 0, 0
        while done < len(tasks):
            try:
                for result in self._stream(work, tasks[done:]):
                    done, deaths = done + 1, 0
                    yield result
            except _deaths() as death:
                deaths += 1
                if deaths > _MOST_DEATHS:
                    raise RuntimeError(
                        f"workers died {deaths} times at task {done} of {len(tasks)}, perhaps for want "
                        "of memory; use fewer workers or a smaller chunk="
                    ) from death

    def _stream(self, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        import cloudpickle
        from joblib import Parallel, delayed, parallel_config

        if self.backend == "dask":
            _require_client()
        with parallel_config(backend=self.backend, n_jobs=self.n):
            yield from Parallel(return_as="generator", batch_size=1)(
                delayed(_in_float64)(cloudpickle.dumps((work, task))) for task in tasks
            )


def _in_float64(packed: bytes) -> Any:
    """Unpacked here, since JAX would read arrays as float32 elsewhere."""
    with jax.enable_x64(True):
        work, task = pickle.loads(packed)
        return work(*task)


def _deaths() -> tuple[type[BaseException], ...]:
    from joblib.externals.loky.process_executor import BrokenProcessPool, TerminatedWorkerError

    return (BrokenProcessPool, TerminatedWorkerError)


def _require_client() -> None:
    try:
        from distributed import default_client
    except ImportError:
        raise ValueError("backend='dask' needs dask.distributed: pip install 'fitonce[dask]'") from None
    try:
        default_client()
    except ValueError:
        raise ValueError(
            "backend='dask' needs a client: make one with dask.distributed.Client(...) first"
        ) from None


Parallel = Workers | Literal["devices"] | None


def resolve_parallel(parallel: Any) -> Parallel:
    """Check a `parallel=` argument."""
    if parallel is None or isinstance(parallel, Workers):
        return parallel
    if isinstance(parallel, str):
        if parallel == "devices":
            return "devices"
        if parallel in BACKENDS:
            return Workers(backend=parallel)  # type: ignore[arg-type]
    elif is_count(parallel):
        return Workers(int(parallel)) if parallel > 1 else None
    raise ValueError(
        f"parallel must be None, 'devices', 'loky', 'dask', a number of worker processes or "
        f"fo.Workers(...), got {parallel!r}"
    )


def groups(lengths: np.ndarray, count: int) -> list[np.ndarray]:
    """Sequences in `count` groups of about as many steps each."""
    loads = np.zeros(min(count, len(lengths)))
    members: list[list[int]] = [[] for _ in loads]
    for number in np.argsort(-lengths, kind="stable"):
        lightest = int(np.argmin(loads))
        members[lightest].append(int(number))
        loads[lightest] += lengths[number]
    return [np.sort(np.array(group)) for group in members]


def mesh_of(devices: int) -> jax.sharding.Mesh:
    """So many devices in a row, along which an axis named "part" is split."""
    return jax.make_mesh((devices,), ("part",), axis_types=(jax.sharding.AxisType.Auto,))


def _mesh() -> jax.sharding.Mesh:
    return mesh_of(len(jax.devices()))


def everywhere() -> jax.sharding.NamedSharding:
    """The whole of an array on every device."""
    return jax.sharding.NamedSharding(_mesh(), jax.sharding.PartitionSpec())


def over_devices(array: Any) -> jax.Array:
    """An array whose rows are split over all devices; whole on each where they do not split evenly."""
    rows = np.shape(array)[0] if np.ndim(array) else 1
    even = rows % len(jax.devices()) == 0
    spec = jax.sharding.PartitionSpec("part") if even else jax.sharding.PartitionSpec()
    return jax.device_put(array, jax.sharding.NamedSharding(_mesh(), spec))


def placed(array: Any, parallel: Parallel) -> jax.Array:
    """Rows of folds where they are worked on: split over the devices, or on the one that there is."""
    return over_devices(array) if parallel == "devices" else jnp.asarray(array)
