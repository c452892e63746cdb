"""Densities with each call of LAPACK that `jax.numpy.linalg` and `jax.scipy.linalg` have, through every
method; run with names of calls, or `car`."""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

import fitonce as fo
from fitonce.core.constraints import Free

POINTS, ROWS = 24, 32  # rows of the matrix: parts of a batch of such are handed to threads


def total(*arrays):
    return sum(jnp.sum(jnp.abs(array) ** 2) for array in arrays)


def _sums(function):
    return lambda matrix: total(*jax.tree_util.tree_leaves(function(matrix)))


DERIVED = {  # that have derivatives
    "cholesky": _sums(jnp.linalg.cholesky),
    "cond": _sums(jnp.linalg.cond),
    "det": lambda m: jnp.linalg.det(m / m[0, 0]),
    "eigh": lambda m: jnp.sum(jnp.linalg.eigh(m)[0]) + jnp.sum(jnp.linalg.eigh(m)[1] ** 4),
    "eigvals": _sums(jnp.linalg.eigvals),
    "eigvalsh": _sums(jnp.linalg.eigvalsh),
    "inv": _sums(jnp.linalg.inv),
    "lstsq": lambda m: total(jnp.linalg.lstsq(m, m[0])[0]),
    "matrix_norm": lambda m: jnp.linalg.norm(m, 2),
    "matrix_power": lambda m: total(jnp.linalg.matrix_power(m / m[0, 0], -2)),
    "pinv": _sums(jnp.linalg.pinv),
    "qr": lambda m: total(jnp.linalg.qr(m)[1]),
    "slogdet": lambda m: jnp.linalg.slogdet(m)[1],
    "solve": lambda m: total(jnp.linalg.solve(m, m[0])),
    "svd": lambda m: total(jnp.linalg.svd(m)[1]),
    "svdvals": _sums(jnp.linalg.svdvals),
    "tensorinv": lambda m: total(jnp.linalg.tensorinv(m, 1)),
    "tensorsolve": lambda m: total(jnp.linalg.tensorsolve(m, m[0])),
    "cho_solve": lambda m: total(jsl.cho_solve(jsl.cho_factor(m), m[0])),
    "eigh_of_scipy": lambda m: jnp.sum(jsl.eigh(m)[0]),
    "expm": lambda m: total(jsl.expm(m / jnp.sum(m**2))),
    "expm_frechet": lambda m: total(jsl.expm_frechet(m / jnp.sum(m**2), m / m[0, 0])[1]),
    "lu": lambda m: total(*jsl.lu(m)[1:]),
    "lu_solve": lambda m: total(jsl.lu_solve(jsl.lu_factor(m), m[0])),
    "polar": lambda m: total(jsl.polar(m, method="svd")[1]),
    "solve_positive": lambda m: total(jsl.solve(m, m[0], assume_a="pos")),
    "solve_triangular": lambda m: total(jsl.solve_triangular(m, m[0], lower=True)),
}
OTHERS = {
    "eig": lambda m: total(*jnp.linalg.eig(m)),
    "matrix_rank": lambda m: 1.0 * jnp.linalg.matrix_rank(m),
    "funm": lambda m: total(jsl.funm(m, lambda x: x**2)),
    "hessenberg": _sums(jsl.hessenberg),
    "qr_multiply": lambda m: total(jsl.qr_multiply(m, m)[0]),
    "rsf2csf": lambda m: total(*jsl.rsf2csf(*jsl.schur(m))),
    "schur": _sums(jsl.schur),
    "solve_sylvester": lambda m: total(jsl.solve_sylvester(m, m, m)),
    "sqrtm": _sums(jsl.sqrtm),
    "tridiagonal": lambda m: total(*jax.lax.linalg.tridiagonal(m)[1:3]),
    "tridiagonal_solve": lambda m: total(
        jax.lax.linalg.tridiagonal_solve(m[0] / m[0, 0], 9.0 + m[1] ** 2, m[2] / m[2, 2], m)
    ),
}
CALLS_OF_JAX = DERIVED | OTHERS


def _matrix(params, weights):
    """A positive definite matrix with distinct eigenvalues, another one in every fold."""
    apart = jnp.abs(jnp.arange(ROWS)[:, None] - jnp.arange(ROWS))
    spread = 2.0 + 0.1 * jnp.arange(ROWS) + 0.01 * jnp.sum(weights)
    return jnp.exp(-apart * (1.0 + 0.1 * params["mean"] ** 2)) + jnp.diag(spread)


def normal(params, data, weights):
    return jnp.sum(
        weights * (-0.5 * ((data - params["mean"]) / params["sd"]) ** 2 - jnp.log(params["sd"]))
    )


def with_call(name):
    """The normal density plus nothing, which a call makes."""
    found = CALLS_OF_JAX[name]

    def log_density(params, data, weights):
        matrix = _matrix(params, weights)
        matrix = matrix if name in DERIVED else jax.lax.stop_gradient(matrix)
        return normal(params, data, weights) + 0.0 * jnp.real(found(matrix))

    return log_density


def model_of(density):
    return fo.models.Custom(density, {"mean": 0.3, "sd": 1.0}, constraints={"sd": "positive"})


def through_every_method(model, data, folds):
    """The mean losses, and what else uses the density."""
    fit = fo.fit(model, data)
    assert fit.ok, fit.status
    found = [
        fo.cross_validate(fit, folds, method=method).pointwise
        for method in ("ij", "onestep", "exact", "auto")
    ]
    return [*found, fo.bootstrap(fit, "iid", n=20).draws]


class Own(fo.models.Emission):
    """A normal emission plus nothing, which a call makes."""

    name = "own"

    def __init__(self, call):
        self.call = call

    def parameters(self, n_states, rows):
        return {"mean": Free((n_states, 1))}

    def start(self, n_states, rows, rng):
        return {"mean": np.linspace(-1.0, 1.0, n_states)[:, None]}

    def log_density(self, params, rows):
        found = 0.0
        if self.call is not None:
            matrix = jax.vmap(lambda mean: _matrix({"mean": mean[0]}, jnp.ones(1)))(params["mean"])
            matrix = matrix if self.call in DERIVED else jax.lax.stop_gradient(matrix)
            found = 0.0 * jnp.real(jax.vmap(CALLS_OF_JAX[self.call])(matrix))
        return found - 0.5 * (rows.x - params["mean"][:, 0]) ** 2

    def log_prior(self, params, rows):
        return -0.5 * jnp.sum(params["mean"] ** 2)


def along_a_chain(call, data):
    """What sweeps a chain, with an own emission."""
    fit, folds = fo.fit(fo.models.HMM(2, Own(call)), data, restarts=1), fo.folds.points(POINTS)
    assert fit.ok, fit.status
    influence = fo.influence(fit).table.select_dtypes("number")
    return [fo.loo(fit).pointwise, influence, fo.cross_validate(fit, folds).pointwise]


def car(side=7, seed=0):
    """A spatial autoregression on a grid, observed with noise: `inv`, `cholesky`, `solve_triangular`."""
    count = side * side
    places = np.argwhere(np.ones((side, side)))
    beside = (np.abs(places[:, None] - places).sum(-1) == 1).astype(float)
    degrees = np.diag(beside.sum(1))
    rng = np.random.default_rng(seed)
    u = rng.normal(size=count)
    effect = np.linalg.solve(np.linalg.cholesky(degrees - 0.8 * beside).T, rng.normal(size=count))
    y = 1.0 + 0.5 * u + effect + 0.3 * rng.normal(size=count)

    def log_density(p, data, weights):
        """A point that is left out is independent of all others, with a density of one."""
        covariance = jnp.linalg.inv(p["tau"] * (degrees - p["rho"] * beside)) + p["noise"] * jnp.eye(
            count
        )
        kept = weights[:, None] * covariance * weights + jnp.diag(1.0 - weights**2)
        factor = jnp.linalg.cholesky(kept)
        residual = weights * (data["y"] - p["level"] - p["slope"] * data["u"])
        white = jsl.solve_triangular(factor, residual, lower=True)
        return -0.5 * jnp.sum(white**2) - jnp.sum(jnp.log(jnp.diag(factor)))

    def log_prior(p):
        return -0.005 * (p["level"] ** 2 + p["slope"] ** 2) - p["noise"] - 0.1 * p["tau"]

    start = {"level": 0.0, "slope": 0.0, "tau": 1.0, "rho": 0.5, "noise": 0.3}
    kinds = {"tau": "positive", "rho": "proportion", "noise": "positive"}
    return fo.models.Custom(log_density, start, log_prior, constraints=kinds), {"y": y, "u": u}


def main(names):
    data = np.random.default_rng(0).normal(size=POINTS)
    folds = fo.folds.points(POINTS)
    for name in names:
        if name == "car":
            fo.cross_validate(fo.fit(*car()), fo.folds.points(49))
        else:
            expected = through_every_method(model_of(normal), data, folds)
            found = through_every_method(model_of(with_call(name)), data, folds)
            chain = data + 4.0 * (np.arange(POINTS) % 8 < 4)
            found, expected = found + along_a_chain(name, chain), expected + along_a_chain(None, chain)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)
        print(f"{name}:done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
