"""Hard cases, each of which must end in a right number or a clear sentence. Right: against refits by
another optimiser (SciPy's BFGS) from the full fit. Prints what happened and whether it was right."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from scipy import optimize

import fitonce as fo


def main() -> None:
    verdicts = []
    for case in (near_singular, emptied_state, multimodal, saddle, flat, float32, impossible):
        print(f"-- {case.__doc__}")
        verdicts.append((case.__name__, case()))
        print()
    for name, safe in verdicts:
        print(f"{name:>16}: {'safe' if safe else 'UNSAFE'}")
    if not all(safe for _, safe in verdicts):
        raise SystemExit("benchmarks: a case ended in a wrong number without a warning")


def near_singular() -> bool:
    """H nearly singular: two regressors that are the same up to 1e-6, and a weak prior."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    x[:, 1] = x[:, 0] + 1e-6 * x[:, 1]
    y = x[:, 0] + rng.normal(size=60)

    def log_density(params, data, weights):
        return -0.5 * jnp.sum(weights * (data[1] - data[0] @ params["slope"]) ** 2)

    model = fo.models.Custom(
        log_density, {"slope": np.zeros(2)}, log_prior=lambda p: -0.5e-6 * jnp.sum(p["slope"] ** 2)
    )
    return _judge(fo.fit(model, (x, y)), fo.folds.kfold(60, 6))


def emptied_state() -> bool:
    """A fold that empties a state: the only burst of counts is left out."""
    rng = np.random.default_rng(1)
    counts = rng.poisson(np.repeat([3.0, 40.0, 3.0], [60, 12, 60])).astype(float)
    fit = fo.fit(fo.models.PoissonHMM(2), counts)
    return _judge(fit, fo.folds.sites([range(58, 74), range(10, 20)], counts))


def multimodal() -> bool:
    """A multimodal likelihood: a mixture whose smaller cluster a fold takes away in part."""
    rng = np.random.default_rng(2)
    data = np.concatenate([rng.normal(-2, 1, 40), rng.normal(3, 1, 6)])

    def log_density(params, x, weights):
        share = 1 / (1 + jnp.exp(-params["logit"]))
        terms = jnp.stack(
            [jnp.log(share) - 0.5 * (x - params["low"]) ** 2,
             jnp.log1p(-share) - 0.5 * (x - params["high"]) ** 2]
        )  # fmt: skip
        return jnp.sum(weights * jnp.logaddexp(*terms))

    init = {"logit": 1.0, "low": -2.0, "high": 3.0}
    prior = lambda p: -0.005 * (p["low"] ** 2 + p["high"] ** 2 + p["logit"] ** 2)  # noqa: E731
    fit = fo.fit(fo.models.Custom(log_density, init, log_prior=prior), data)
    return _judge(fit, fo.folds.sites([range(40, 45), range(40, 46), range(5)], 46))


def saddle() -> bool:
    """A fit stopped at a saddle: both states alike."""
    x = np.random.default_rng(3).normal(np.repeat([-2.0, 2.0], 40), 1.0)
    params = {"initial": [0.5, 0.5], "transition": np.full((2, 2), 0.5), "mean": np.zeros((2, 1))}
    model = fo.models.GaussianHMM(2, covariance="fixed", mean_scale=3.0)
    start = fo.fit_at(model, x, params)
    middle = float(x.sum() / (len(x) + 2 / 9))
    fit = fo.fit_at(model, x, {**params, "mean": np.full((2, 1), middle)})
    print(f"fit: {fit.status}")
    return not fit.ok and not start.ok and _refuses(fit, fo.folds.kfold(80, 4))


def flat() -> bool:
    """A direction that the data say nothing about, and no prior."""
    model = fo.models.Custom(
        lambda p, x, w: -0.5 * jnp.sum(w * (x - p["a"] - p["b"]) ** 2), {"a": 0.0, "b": 0.0}
    )
    fit = fo.fit(model, np.arange(10.0))
    print(f"fit: {fit.status}")
    return not fit.ok and _refuses(fit, fo.folds.kfold(10, 5))


def float32() -> bool:
    """float32 input: fitted and cross-validated in float64."""
    x = np.random.default_rng(4).normal(np.repeat([-2.0, 2.0, -2.0], 40), 1.0).astype(np.float32)
    model = fo.models.GaussianHMM(2, covariance="fixed", mean_scale=3.0)
    single, double = fo.fit(model, x), fo.fit(model, x.astype(np.float64))
    same = np.array_equal(single.theta, double.theta)
    print(f"same fit as from float64: {same}")
    return same and _judge(single, fo.folds.kfold(120, 6))


def impossible() -> bool:
    """Data that are impossible under the model: a category that no state emits."""
    x = np.array([0, 1, 0, 0, 1, 1, 2, 1, 0, 1, 0, 0, 1.0])
    table = [[[0.5, 0.5, 0.0]], [[0.2, 0.8, 0.0]]]
    model = fo.models.CategoricalHMM(2, 3, frozen={"probability": table})
    params = {"initial": [0.5, 0.5], "transition": [[0.8, 0.2], [0.3, 0.7]], "probability": table}
    fit = fo.fit_at(model, x, params)
    print(f"fit: {fit.status}")
    return not fit.ok and _refuses(fit, fo.folds.kfold(13, 4))


def _judge(fit: fo.Fit, folds: fo.Folds) -> bool:
    """Whether `auto` is right, or says that it is not, on every fold."""
    print(f"fit: {fit.status}")
    cv = fo.cross_validate(fit, folds)
    print(cv)
    losses, values = _refits(fit, folds)
    safe = True
    for fold, row in cv.folds.iterrows():
        off = abs(row["loss"] - losses[fold])
        right = off <= max(cv.tolerance, 1e-6)
        # Another optimum that is no higher is as good an end of a refit from the full fit.
        lower = fit.objective(cv.theta[fold], folds.weights_of([fold])[0]) <= values[fold] + 1e-6
        warned = not row["ok"] or row["verdict"] != "good"
        safe &= bool(right or lower or warned)
        what = "right" if right else "another optimum, no higher" if lower else "off"
        print(f"  fold {fold}: {what}, by {off:.1e}; {row['rung']}, verdict {row['verdict']}")
    return safe


def _refits(fit: fo.Fit, folds: fo.Folds) -> tuple[list[float], list[float]]:
    losses, values = [], []
    for fold in range(len(folds)):
        weights = folds.weights_of([fold])[0]
        found = optimize.minimize(
            lambda t, w=weights: fit.objective(t, w),
            fit.theta,
            jac=lambda t, w=weights: fit.objective.gradients(t[None], w[None])[0],
            options={"gtol": 1e-9},
        )
        values.append(float(found.fun))
        there = fo.fit_at(fit.model, fit.data, fit.params_at(found.x))
        alone = fo.folds.sites([folds.dropped[fold]], fit.data if _is_chain(fit) else folds.size)
        losses.append(fo.cross_validate(there, alone, method="none", check=False).estimate)
    return losses, values


def _is_chain(fit: fo.Fit) -> bool:
    return isinstance(fit.data, fo.Sequences)


def _refuses(fit: fo.Fit, folds: fo.Folds) -> bool:
    """Whether every method says no in a sentence, or marks every fold."""
    safe = True
    for method in ("ij", "onestep", "newton", "exact", "auto"):
        try:
            cv = fo.cross_validate(fit, folds, method=method)
        except fo.IndefiniteError as error:
            print(f"  {method}: {error}")
            continue
        trusted = cv.folds["ok"] & (cv.folds["verdict"] == "good")
        print(f"  {method}: {int(trusted.sum())} of {len(cv.folds)} folds called good; {cv.treatment}")
        safe &= not trusted.any()
    return safe
