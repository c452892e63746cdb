"""Bootstrap draws: weights, closed forms, exact refits, refusals; and the bound for inexact fits."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import fitonce as fo
from fitonce.analysis.bootstrap import _weights
from fitonce.objectives.schemes import Increments

X = np.random.default_rng(0).normal(np.tile(np.repeat([-2.0, 2.0], 25), 6), 1.0)
X[10:13] = np.nan
MODEL = fo.models.GaussianHMM(2, covariance="fixed", mean_scale=1.0)


@pytest.fixture(scope="module")
def fit():
    return fo.fit(MODEL, X)


@pytest.fixture(scope="module")
def lengths():
    rng = np.random.default_rng(3)
    data = [rng.normal(np.repeat([-2.0, 2.0], [n, 5]), 1.0) for n in (20, 10, 7, 15, 30, 12)]
    return fo.fit(MODEL, data)


def test_increments_add_up_to_the_likelihood_with_the_same_hessian(fit):
    curve = fo.curvature(fit, Increments())
    assert curve.objective(fit.theta) == pytest.approx(fit.value, rel=1e-12)
    hessian = curve.objective.hessians(fit.theta[None], fit.objective.base[None])[0]
    np.testing.assert_allclose(hessian, fit.H, rtol=1e-8, atol=1e-8)


def test_derivatives_by_the_weights_match_differences(fit):
    curve = fo.curvature(fit, Increments())
    rng = np.random.default_rng(0)
    change = rng.normal(size=len(fit.objective.base)) * fit.objective.base
    ends = [
        curve.objective.gradients(fit.theta[None], (fit.objective.base + h * change)[None])[0]
        for h in (1.0, -1.0)
    ]
    np.testing.assert_allclose(curve.J @ change, (ends[0] - ends[1]) / 2, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("kind", "block"), [("iid", None), ("block", 7)])
def test_weights_count_draws(fit, kind, block):
    base = fit.objective.base
    weights = _weights(base, fit, block, np.random.default_rng(0), 50)
    assert (weights[:, base == 0] == 0).all()
    assert (weights == np.round(weights)).all()
    if kind == "iid":
        assert (weights.sum(1) == base.sum()).all()
    if block == 7:
        assert (np.abs(weights.sum(1) - base.sum()) < 0.1 * base.sum()).all()
        inner = weights[:, 100:]  # away from the gap, a weight changes where blocks begin and end
        assert (np.diff(inner, axis=1) != 0).mean() < 0.4


def test_blocks_stay_within_sequences(lengths):
    base = lengths.objective.base
    weights = _weights(base, lengths, 20, np.random.default_rng(0), 200)
    assert (weights.sum(1) == len(base)).all()
    short = slice(40, 52)  # the third sequence has 12 steps: it is drawn whole, or cut as the last one
    turns = np.append(weights[:, short], weights[:, [40]], axis=1)
    assert (np.abs(np.diff(turns, axis=1)).sum(1) <= 2).all()


def test_every_site_is_drawn_once_on_average(lengths):
    """Short sequences and the ends of long ones, too."""
    base = lengths.objective.base
    weights = _weights(base, lengths, 14, np.random.default_rng(0), 4000)
    spread = weights.std(0) / np.sqrt(len(weights))
    assert (np.abs(weights.mean(0) - 1) < 5 * spread).all()


def test_draws_without_a_usable_number():
    """Nothing is left of a density that is nan anywhere but at the fit."""

    def log_density(params, data, weights):
        far = jnp.abs(params["m"] - 4.5) > 1e-3
        return jnp.where(far, jnp.nan, -0.5 * jnp.sum(weights * (data - params["m"]) ** 2))

    fit = fo.fit_at(fo.models.Custom(log_density, {"m": 4.5}), np.arange(10.0), {"m": 4.5})
    with pytest.raises(ValueError, match="at least 2 draws with a usable number, got 0 of 5; the first"):
        fo.bootstrap(fit, "iid", n=5, method="exact")


def test_the_mean_of_independent_draws_has_the_usual_standard_error():
    x = np.random.default_rng(1).normal(size=400)
    model = fo.models.Custom(lambda p, d, w: -0.5 * jnp.sum(w * (d - p["m"]) ** 2), {"m": 0.0})
    boot = fo.bootstrap(fo.fit(model, x), "iid", n=4000)
    expected = x.std() / np.sqrt(len(x))
    assert boot.table["se"][0] == pytest.approx(expected, rel=0.05)
    width = boot.table["high"][0] - boot.table["low"][0]
    assert width == pytest.approx(2 * 1.645 * expected, rel=0.06)


@pytest.mark.slow
def test_draws_are_near_exact_refits(fit):
    boot = fo.bootstrap(fit, "block", n=60, block=10, check=20)
    assert boot.n_failed == 0
    means = boot.check[boot.check["name"].str.startswith("mean")]
    np.testing.assert_allclose(means["se"], means["se_exact"], rtol=0.1)
    assert (means["largest"] < 1.0).all()
    assert "check against exact refits" in repr(boot)
    assert "trust: " in repr(boot)
    exact = fo.bootstrap(fit, "block", n=20, block=10, method="exact")
    np.testing.assert_allclose(exact.draws.std(0, ddof=1), boot.check["se_exact"], rtol=1e-5)
    newton = fo.bootstrap(fit, "block", n=20, block=10, method="newton")
    assert newton.n_failed == 0
    off = [np.abs(b.draws[:20] - exact.draws).mean(0)[1:3] for b in (boot, newton)]  # of the means
    assert (off[1] < 0.5 * off[0]).all()


def test_any_function_of_the_parameters(fit):
    def gap(params):
        return params["mean"][1, 0] - params["mean"][0, 0]

    boot = fo.bootstrap(fit, n=300, statistic=gap)
    assert boot.table["name"].tolist() == ["gap"]
    assert boot.table["value"][0] == pytest.approx(float(np.diff(fit.params["mean"][:, 0])[0]))
    assert boot.table["low"][0] < boot.table["value"][0] < boot.table["high"][0]
    two = fo.bootstrap(fit, n=10, statistic=lambda p: p["mean"][:, 0])
    assert two.table["name"].tolist() == ["statistic[0]", "statistic[1]"]
    assert boot.block == 7  # the cube root of 300, rounded up


def test_whole_sequences(lengths):
    boot = fo.bootstrap(lengths, "structures", n=400, check=10)
    assert boot.block is None
    assert (boot.table["se"] > 0).all()
    means = boot.check[boot.check["name"].str.startswith("mean")]
    np.testing.assert_allclose(means["se"], means["se_exact"], rtol=0.2)


def test_seeds_make_draws_reproducible(fit):
    first, second, third = (fo.bootstrap(fit, n=5, seed=s).draws for s in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, third)


REFUSALS = [
    ({"kind": "blocks"}, r"kind must be one of \('block', 'iid', 'structures'\), got 'blocks'"),
    ({"kind": "structures"}, "kind='structures' resamples whole sequences and needs at least 2, got 1"),
    ({"kind": "iid", "block": 5}, "block is for kind='block', got kind='iid'"),
    ({"n": 1}, "n must be an integer of at least 2, got 1"),
    ({"block": 0}, "block must be an integer of at least 1, got 0"),
    ({"block": 151}, "block must be at most half of the 300 steps of data, got 151"),
    ({"check": None}, "check must be an integer of at least 0, got None"),
    ({"n": None}, "n must be an integer of at least 2, got None"),
    ({"check": 1}, "check must be 0 or between 2 and the 1000 draws, got 1"),
    ({"check": 1001}, "check must be 0 or between 2 and the 1000 draws, got 1001"),
    ({"level": 90}, r"level must be a probability between 0 and 1 \(0.9, not 90\), got 90"),
    ({"method": "onestep"}, r"method must be one of \('ij', 'newton', 'exact'\), got 'onestep'"),
    ({"statistic": lambda p: np.asarray(p["mean"])[0]}, "statistic must be written with jax.numpy"),
    ({"statistic": lambda p: {"m": p["mean"][0]}}, "statistic must be written with jax.numpy"),
    ({"statistic": "mean"}, "statistic must be a function of the parameters, got 'mean'"),
    (
        {"statistic": lambda p: p["transition"]},
        r"must return a number or a vector, got shape \(2, 2\)",
    ),
]


@pytest.mark.parametrize(("arguments", "sentence"), REFUSALS)
def test_refusals(fit, arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        fo.bootstrap(fit, **arguments)
    with pytest.raises(ValueError, match=r"fit must be a Fit from fo\.fit, got str"):
        fo.bootstrap("fit")


def test_the_residual_gradient_enters_the_expansion(fit):
    """Started off the optimum, a fold's parameters are off by a fraction of that, not by as much."""
    folds = fo.folds.kfold(X, 6)
    for method in ("ij", "onestep"):
        right = fo.cross_validate(fit, folds, method=method, check=False).theta
        off = []
        for shift in (0.02, 0.01):
            early = fo.fit_at(MODEL, X, dict(fit.params, mean=fit.params["mean"] + shift))
            assert "standard errors from stationary" in early.status.message
            cv = fo.cross_validate(early, folds, method=method, check=False)
            assert "FIT" in repr(cv)
            # H at the start is not the fold's own: the fraction is about the share left out.
            off.append(np.abs(cv.theta - right).max() / shift)
        assert off[0] < 0.5
        assert off[1] < 0.5


def test_the_bound_for_an_inexact_fit_covers_the_error_and_shrinks(fit):
    folds = fo.folds.kfold(X, 6)
    exact = fo.cross_validate(fit, folds, method="exact").estimate
    bounds = []
    for shift in (0.05, 0.01):
        early = fo.fit_at(MODEL, X, dict(fit.params, mean=fit.params["mean"] + shift))
        bound = fo.inexact_bound(early, folds)
        found = fo.cross_validate(early, folds, method="ij", check=False).estimate
        assert abs(found - exact) <= bound.bound
        bounds.append(bound.bound)
    at_the_fit = fo.inexact_bound(fit, folds)
    assert bounds[0] > bounds[1] > at_the_fit.bound
    assert at_the_fit.bound == at_the_fit.eps_ij
    assert "an estimate of the paper's bound, not a bound" in repr(at_the_fit)
