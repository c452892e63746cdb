"""D = 11,712 emission parameters (16 states, order 5, 12 channels): H, its factor, J, and products.

The H200's figures come from the same command on a machine with one.
"""

from __future__ import annotations

import resource
import time
from typing import Any

import jax
import numpy as np
from reproduce import cases, mocap, mocap_sequences

import fitonce as fo
from fitonce.fitting.hessian import DenseHessian, DeviceHessian, ImplicitHessian


def main() -> None:
    print(f"{cases.machine()}, {jax.default_backend()} {jax.devices()[0].device_kind}")
    model, data = mocap.model("AR(5)"), mocap.trials().train
    print(fo.plan(model, data))
    objective, theta = near_a_minimum(model, data)
    moves, took = formed(objective, theta)
    J = objective.with_scheme(fo.schemes.Structures()).cross(theta)
    free = ImplicitHessian(objective, theta)
    free.solve(J[:, :4])
    found, seconds = timed(lambda: free.solve(J))
    off = np.abs(found - moves).max() / np.abs(moves).max()
    print(
        f"conjugate gradients, 100 right-hand sides: {seconds:.1f} s, at most {free.iterations} iterations, "
        f"largest relative residual {free.residual:.1e}; largest difference from dense {off:.1e} of the "
        f"largest entry; H, factor and H^-1 J: {took:.1f} s"
    )


def formed(objective: Any, theta: np.ndarray) -> tuple[np.ndarray, float]:
    """H^-1 J, and seconds of H, its factor and the solutions, which are printed apart."""
    along = objective.with_scheme(fo.schemes.Structures())
    base, names = objective.base, list(objective.space.names)
    device = jax.default_backend() != "cpu"
    gradient = best(lambda: objective.gradients(theta[None], base[None]))
    product = best(lambda: objective.products_at(theta, np.ones((1, len(theta)))))
    cold = timed(lambda: along.cross(theta))[1]
    J, cross = timed(lambda: along.cross(theta))
    form: Any = (
        (lambda: objective.device_hessian(theta).block_until_ready())
        if device
        else (lambda: objective.hessians(theta[None], base[None])[0])
    )
    _, first = timed(form)
    matrix, whole = timed(form)
    dense: Any = DeviceHessian(matrix, names) if device else DenseHessian(matrix, names)
    if device:
        timed(lambda: DeviceHessian(matrix, names).solve(theta))
        _, factored = timed(lambda: DeviceHessian(matrix, names)._factor.block_until_ready())
    else:
        _, factored = timed(lambda: dense.solve(theta))
    dense.solve(J[:, :1])
    moves, solved = timed(lambda: dense.solve(J))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"gradient {gradient:.3f} s, product with H {product:.3f} s ({product / gradient:.1f} gradients)\n"
        f"H {whole:.2f} s ({first:.1f} s with compilation), factor {factored:.2f} s, J of 100 sequences "
        f"{cross:.2f} s ({cold:.1f} s), H^-1 J {solved:.2f} s; peak memory of the process {peak:.1f} GiB\n"
        f"D products would take {len(theta) * product:.0f} s, {len(theta) * product / whole:.0f} times H"
    )
    return moves, whole + factored + solved


def near_a_minimum(model: Any, data: Any) -> tuple[Any, np.ndarray]:
    """A point where H is positive definite: the fit of `reproduce mocap-sequences` where it is at hand,
    else one that never forms H."""
    kept = mocap_sequences.FOLDER / "AR5.npz"
    if kept.exists():
        with np.load(kept) as file:
            params = {key: file[key] for key in file.files if key != "seconds"}
        fit = fo.fit_at(model, data, params, memory_limit="2GB")
    else:
        fit = fo.fit(model, data, restarts=1, memory_limit="2GB")
    print(f"fit by products {fit.seconds:.0f} s: {fit.status}")
    return fit.objective, fit.theta


def timed(work: Any) -> tuple[Any, float]:
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started


def best(work: Any, times: int = 3) -> float:
    work()
    return min(timed(work)[1] for _ in range(times))
