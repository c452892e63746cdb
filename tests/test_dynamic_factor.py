"""Dynamic factors: likelihoods against statsmodels and one Gaussian, identified, cross-validated."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import statsmodels.api as sm
from typer.testing import CliRunner

import fitonce as fo
from dense_gaussian import log_likelihood
from fitonce.cli import app
from fitonce.core.factor_constraints import Loadings, StationaryVector, anchored
from fitonce.core.numerics import in_float64
from fitonce.objectives.families import objective_of

NOISES = {"diag": "diagonal", "full": "unstructured"}


def growth():
    """Quarterly growth in percent, and changes of an interest rate."""
    table = sm.datasets.macrodata.load_pandas().data
    found = 100.0 * table[["realgdp", "realcons", "realinv"]].apply(np.log).diff()
    return found.assign(tbilrate=table["tbilrate"].diff()).iloc[1:].reset_index(drop=True)


def with_gaps():
    y = growth().to_numpy()
    y[5], y[20:24, 2], y[50, [0, 3]] = np.nan, np.nan, np.nan
    return y


def drawn(model, objective, seed):
    """Values of the parameters, away from where fits start."""
    rng = np.random.default_rng(seed)
    values = model.start(objective.steps, rng)
    leaves = objective.model.leaves(objective.steps)
    moved = {name: leaf.to_free(values[name]) for name, leaf in leaves.items()}
    moved = {name: free + rng.normal(0.0, 0.3, free.shape) for name, free in moved.items()}
    return {name: leaf.values(moved[name][:, None])[..., 0] for name, leaf in leaves.items()}


def theirs(model, values):
    """The parameters in the order of statsmodels."""
    noise = values["noise"]
    if model.noise == "full":
        noise = np.linalg.cholesky(noise)[np.tril_indices(len(noise))]
    rows = [values["ar"][:, row].ravel() for row in range(model.n_factors)]
    return np.concatenate(
        [values["loading"].ravel(), noise, *rows, np.ravel(values.get("error_ar", []))]
    )


@pytest.mark.parametrize(
    ("factors", "order", "errors", "noise"),
    [(1, 1, 0, "diag"), (1, 2, 0, "full"), (2, 2, 0, "diag"), (2, 1, 1, "diag"), (1, 1, 2, "full")],
)
def test_likelihoods_are_those_of_statsmodels(factors, order, errors, noise):
    y = with_gaps()
    model = fo.models.DynamicFactor(factors, order, errors, noise, mean=False)
    objective = objective_of(model, y)
    kind = {"error_order": errors, "error_cov_type": NOISES[noise]}
    peer = sm.tsa.DynamicFactor(y, k_factors=factors, factor_order=order, **kind)
    peer.ssm.tolerance = 0.0  # its filter otherwise stops updating, at a variance that is absolute
    for seed in (0, 1):
        values = drawn(model, objective, seed)
        found = -objective(objective.space.to_free(values))
        assert found == pytest.approx(peer.loglike(theirs(model, values)), rel=1e-9)


@pytest.mark.parametrize(("factors", "order", "errors", "noise"), [(2, 2, 0, "full"), (1, 1, 2, "diag")])
def test_likelihoods_and_gradients_are_those_of_one_gaussian(factors, order, errors, noise):
    rng = np.random.default_rng(2)
    data = fo.sequences(with_gaps()[:12, :3], covariates={"u0": rng.normal(size=12)})
    model = fo.models.DynamicFactor(factors, order, errors, noise, exog="u0", anchors=[2, 0][:factors])
    objective = objective_of(model, data)
    theta = objective.space.to_free(drawn(model, objective, 3))
    steps, layout = objective.steps, objective.layout

    def dense(at):
        return -log_likelihood(layout.systems(at[None]), steps.y, steps.seen)

    assert objective(theta) == pytest.approx(dense(theta), rel=1e-9)
    slope = objective.gradients(theta[None], objective.base[None])[0]
    for place, move in enumerate(1e-5 * np.eye(len(theta))):
        difference = (dense(theta + move) - dense(theta - move)) / 2e-5
        assert slope[place] == pytest.approx(difference, rel=1e-5, abs=1e-5)


def test_optima_are_not_below_those_of_statsmodels():
    y = growth().iloc[:, 1:]
    fit = fo.fit(fo.models.DynamicFactor(1, mean=False), y - y.mean(), restarts=2)
    assert fit.status.ok
    peer = sm.tsa.DynamicFactor(y - y.mean(), k_factors=1, factor_order=1)
    peer.ssm.tolerance = 0.0
    assert peer.loglike(theirs(fit.model, fit.params)) == pytest.approx(fit.log_likelihood, rel=1e-8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of statsmodels, on convergence
        results = peer.fit(disp=0, maxiter=40)
        from_ours = peer.fit(theirs(fit.model, fit.params), disp=0, maxiter=40)
    assert fit.log_likelihood > results.llf - 1e-6
    assert from_ours.llf == pytest.approx(fit.log_likelihood, abs=1e-5)
    brought = fo.from_statsmodels(results)
    assert brought.log_likelihood == pytest.approx(results.llf, rel=1e-8)


def test_turned_and_mirrored_factors_are_the_same_model():
    """Any loadings and noise of rotated factors have one form with anchors, of the same likelihood."""
    y = with_gaps()
    model = fo.models.DynamicFactor(2, mean=False, anchors=[3, 1])
    objective = objective_of(model, y)
    values = drawn(model, objective, 4)
    rng = np.random.default_rng(5)
    turn = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    other = {"loading": values["loading"] @ turn, "ar": turn.T @ values["ar"] @ turn}
    loading, back = anchored(other["loading"], model.anchors)
    np.testing.assert_allclose(loading, values["loading"], rtol=1e-10)
    np.testing.assert_allclose(back.T @ other["ar"] @ back, values["ar"], rtol=1e-10)
    assert loading[3, 1] == 0.0
    assert (loading[[3, 1], [0, 1]] > 0).all()


@pytest.mark.parametrize(("order", "size"), [(1, 1), (1, 3), (3, 2)])
def test_vector_autoregressions_are_stationary_whatever_their_coordinates(order, size):
    """Far out eigenvalues are near one, and the way back has fewer digits."""
    leaf = StationaryVector((order, size, size))
    draws = np.random.default_rng(order).normal(size=(order * size * size, 6))
    for spread, digits in ((1.0, 9), (2.0, 4)):
        free = spread * draws
        for one, value in zip(free.T, np.moveaxis(leaf.values(free), -1, 0), strict=True):
            assert leaf.violation(value) is None
            np.testing.assert_allclose(in_float64(leaf.to_value)(one), value, rtol=1e-9, atol=1e-12)
            back = leaf.to_free(value)
            again = leaf.values(back[:, None])[..., 0]
            np.testing.assert_allclose(again, value, rtol=0, atol=10.0**-digits)
            if spread == 1.0:
                np.testing.assert_allclose(back, one, rtol=1e-6, atol=1e-6)
    assert leaf.violation(np.stack([np.eye(size)] * order)) is not None


def test_loadings_go_both_ways():
    leaf = Loadings((4, 2), (2, 0), (1.0, 2.0, 0.5, 1.0))
    free = np.random.default_rng(0).normal(size=7)
    value = leaf.values(free[:, None])[..., 0]
    np.testing.assert_allclose(leaf.to_free(value), free)
    np.testing.assert_allclose(in_float64(leaf.to_value)(free), value)
    assert value[2, 1] == 0.0
    assert leaf.violation(value) is None
    assert "anchors" in leaf.violation(-value)


def test_blocks_and_channels_that_are_missing_are_cross_validated():
    fit = fo.fit(fo.models.DynamicFactor(1), with_gaps()[:100], restarts=1)
    folds = fo.folds.blocks(fit.data, percent=5, n=4, seed=0)
    found = {m: fo.cross_validate(fit, folds, method=m, optima=0).estimate for m in ("auto", "exact")}
    assert found["auto"] == pytest.approx(found["exact"], rel=1e-3)
    factor = fit.smoothed().to_dataframe()
    assert list(factor) == ["factor[0]", "factor[0]_sd"]
    with pytest.raises(ValueError, match="has no parts that add up"):
        fit.components()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n_factors": 0}, "n_factors must be an integer"),
        ({"factor_order": 0}, "factor_order must be an integer"),
        ({"noise": "round"}, "noise must be one of"),
        ({"n_factors": 2, "anchors": [0]}, "anchors must be the places of 2 channels"),
        ({"n_factors": 2, "anchors": [1, 1]}, "anchors must be the places of 2 channels"),
    ],
)
def test_factors_that_do_not_exist_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        fo.models.DynamicFactor(**arguments)


def test_more_factors_than_channels_are_refused():
    with pytest.raises(ValueError, match=r"needs a channel for each factor .* got 2 channels"):
        fo.fit(fo.models.DynamicFactor(3), with_gaps()[:, :2])


def test_the_command_line_fits_and_decodes(tmp_path):
    growth().iloc[:80].to_csv(tmp_path / "growth.csv", index=False)
    kept = tmp_path / "fit.json"
    words = ["--model", "dynamic-factor", "--factors", "2", "--restarts", "1", "--no-cache"]
    done = CliRunner().invoke(app, ["fit", str(tmp_path / "growth.csv"), *words, "--save", str(kept)])
    assert done.exit_code == 0, done.output
    assert fo.load(kept).model == fo.models.DynamicFactor(2)
    shown = CliRunner().invoke(app, ["decode", str(kept), "--csv"]).stdout
    assert "factor[1]" in shown.splitlines()[0]


@pytest.mark.parametrize("order", [1, 2])
def test_a_fit_of_levels_says_that_changes_are_to_be_fitted(order):
    rng = np.random.default_rng(0)
    factor = np.cumsum(rng.normal(size=100))
    y = 100.0 + factor[:, None] * [1.0, 0.8, 0.5] + rng.normal(scale=0.5, size=(100, 3))
    model = fo.models.DynamicFactor(1, order)
    said = "beside 1: where channels are levels, fit their changes, np.diff(y, axis=0))"
    assert said in str(fo.fit(model, y, restarts=1, optima=0))
    assert said not in str(fo.fit(model, np.diff(y, axis=0), restarts=1, optima=0))


def test_roots_of_several_factors_are_those_of_their_determinant():
    ar = np.zeros((2, 2, 2))
    ar[0], ar[1] = [[0.2, 0.1], [0.0, 0.5]], [[0.1, 0.0], [0.3, 0.4]]
    roots = 1.0 / np.roots(
        [*np.poly1d([-0.4, -0.5, 1.0]) * np.poly1d([-0.1, -0.2, 1.0]) - np.poly1d([0.03, 0.0, 0.0, 0.0])]
    )
    found = fo.models.DynamicFactor(2, 2).remarks({"ar": ar}, np.array([100]))["ar"]
    assert found.startswith(f"a root of {np.abs(roots).max():.4f}, beside 1")
