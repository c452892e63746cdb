"""Linear-chain CRFs against enumeration of all label paths, on random small cases."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import optimize

import fitonce as fo
from crf_cases import CASES, CRF, Case, draw, named
from fitonce import schemes
from fitonce.objectives.labels import buckets
from fuzzing.engine_strategies import small_crfs
from fuzzing.strategies import seeds
from golden_record import saved_fit
from solving import solve

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
few = settings(max_examples=8, deadline=None)


def same(found, expected, digits=11):
    """To so many digits of the largest entry: a hundred additions of numbers up to a hundred lose four
    of sixteen."""
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=0, atol=10.0**-digits * scale)


def check_objective(objective, thetas, weights, expected):
    """Values, gradients and Hessians of all folds at once."""
    values, gradients = objective.values_and_gradients(thetas, weights)
    hessians = objective.hessians(thetas, weights)
    for fold, (value, gradient, hessian) in enumerate(expected):
        same(values[fold], value, 12)
        same(gradients[fold], gradient)
        same(hessians[fold], hessian)


def two_thetas(problem, seed):
    """Two folds are at points of their own."""
    more = np.random.default_rng(seed + 1).normal(size=len(problem.theta))
    return np.stack([problem.theta, more])


@every_case
@given(**small_crfs)
@few
def test_objective_and_derivatives_match_enumeration(case, seed, unknown, spread):
    problem = draw(case, seed, unknown, spread)
    value, gradient, hessian = problem.twin.objective(problem.theta)
    same(problem.fit.value, value, 12)
    same(problem.fit.gradient, gradient)
    same(problem.fit.H, hessian)
    found = problem.fit.objective.values_and_gradients(
        problem.theta[None], problem.fit.objective.base[None]
    )
    assert found[0][0] == problem.fit.value
    np.testing.assert_array_equal(found[1][0], problem.fit.gradient)


@pytest.mark.parametrize("weights", [None, 0.3], ids=["labels kept", "labels kept in part"])
def test_the_twins_derivatives_are_those_of_its_value(weights):
    """Means and covariances of counts, by finite differences of the enumerated sums."""
    problem = draw(CASES["linear"], 1, unknown=True)
    twin, theta, step = problem.twin, problem.theta, 1e-4
    given_weights = None if weights is None else np.full(sum(twin.lengths), weights)
    _, gradient, hessian = twin.objective(theta, given_weights)
    for d, unit in enumerate(np.eye(len(theta))):
        ahead, behind = (twin.objective(theta + h * unit, given_weights) for h in (step, -step))
        # Second order: an error of step^2 times a third derivative, and rounding of 1e-14 / step.
        assert (ahead[0] - behind[0]) / (2 * step) == pytest.approx(gradient[d], abs=1e-6)
        np.testing.assert_allclose((ahead[1] - behind[1]) / (2 * step), hessian[d], atol=1e-6)


@every_case
@given(**small_crfs)
@few
def test_weights_of_sequences_multiply_their_losses(case, seed, unknown, spread):
    problem = draw(case, seed, unknown, spread)
    curve = fo.curvature(problem.fit, "structures")
    rng = np.random.default_rng(seed)
    weights = rng.choice([0.0, 0.3, 1.0, 1.7], size=(2, len(case.lengths)))
    weights[:, 1] *= not unknown  # nothing was observed there
    thetas = two_thetas(problem, seed)
    expected = [problem.twin.objective(t, None, w) for t, w in zip(thetas, weights, strict=True)]
    check_objective(curve.objective, thetas, weights, expected)
    slopes = [problem.twin.loss(n, problem.theta, problem.twin.labels[n] >= 0)[1]
              for n in range(len(case.lengths))]  # fmt: skip
    same(curve.J, np.stack(slopes, 1))


@every_case
@given(**small_crfs)
@few
def test_left_out_labels_are_summed_over(case, seed, unknown, spread):
    problem = draw(case, seed, unknown, spread)
    rng = np.random.default_rng(seed)
    weights = problem.data.weights * (rng.random((2, problem.data.n_sites)) < 0.6)
    thetas = two_thetas(problem, seed)
    expected = [problem.twin.objective(t, w) for t, w in zip(thetas, weights, strict=True)]
    check_objective(problem.fit.objective, thetas, weights, expected)


@every_case
@given(**small_crfs)
@few
def test_the_path_of_c_is_the_mean_over_independently_kept_labels(case, seed, unknown, spread):
    problem = draw(case, seed, unknown, spread)
    rng = np.random.default_rng(seed)
    weights = rng.choice([0.0, 0.2, 0.7, 1.0], size=(2, problem.data.n_sites)) * problem.data.weights
    weights[0, 0] = 0.5  # not all of them at an end of the path
    thetas = two_thetas(problem, seed)
    expected = [problem.twin.objective(t, w) for t, w in zip(thetas, weights, strict=True)]
    values, gradients = problem.fit.objective.values_and_gradients(thetas, weights)
    same(values, [value for value, _, _ in expected], 12)
    same(gradients, np.stack([gradient for _, gradient, _ in expected]))


@pytest.mark.parametrize("name", ["linear", "onward"])
@given(**small_crfs)
@settings(max_examples=4, deadline=None)
def test_the_hessian_on_the_path_of_c_is_the_mean_of_hessians(name, seed, unknown, spread):
    problem = draw(CASES[name], seed, unknown, spread)
    rng = np.random.default_rng(seed)
    weights = np.append(0.5, rng.random(problem.data.n_sites - 1)) * problem.data.weights
    (found,) = problem.fit.objective.hessians(problem.theta[None], weights[None])
    same(found, problem.twin.objective(problem.theta, weights)[2])


@every_case
@given(**small_crfs)
@few
def test_one_sweep_of_labels_and_j_match_enumeration(case, seed, unknown, spread):
    """J_t = -d/dtheta log p(z_t | all other labels, x), and nothing where no label is known."""
    problem = draw(case, seed, unknown, spread)
    twin, theta = problem.twin, problem.theta
    values, slopes = problem.fit.objective.leave_one_out(theta)
    expected = [
        twin.log_conditional(n, t, theta, np.ones(twin.lengths[n], bool)) for n, t in problem.places()
    ]
    same(values, [value for value, _, _ in expected])
    same(slopes, np.stack([slope for _, slope, _ in expected], 1))
    cross = fo.curvature(problem.fit, "C").J
    np.testing.assert_array_equal(cross, -slopes)
    assert (cross[:, ~problem.known] == 0).all()


@every_case
@given(**small_crfs)
@few
def test_losses_of_left_out_labels_match_enumeration(case, seed, unknown, spread):
    """One by one, -log p(z_t | kept labels, x), and together."""
    problem = draw(case, seed, unknown, spread)
    twin, objective = problem.twin, problem.fit.objective
    labelled = np.flatnonzero(problem.known)
    rng = np.random.default_rng(seed)
    sets = [rng.choice(labelled, 3, replace=False), labelled[1:4], rng.choice(labelled, 1)]
    folds = fo.folds.sites(sets, problem.data)
    assert folds.kind == "sites"
    result = fo.cross_validate(problem.fit, folds, method="none", check=False)
    together = fo.cross_validate(problem.fit, folds, method="none", check=False, loss="joint")
    place = problem.places()
    for fold, weights in enumerate(folds.weights):
        kept = problem.split(weights > 0)
        mine = result.pointwise[result.pointwise["fold"] == fold]
        expected = [
            -twin.log_conditional(n, t, problem.theta, kept[n])[0]
            for n, t in (place[site] for site in mine["site"])
        ]
        same(mine["loss"], expected)
        assert result.folds["loss"][fold] == pytest.approx(np.mean(expected), rel=1e-10, abs=1e-10)
        all_labels = objective.base > 0
        joint = sum(
            twin.log_sum(n, problem.theta, kept[n])[0]
            - twin.log_sum(n, problem.theta, problem.split(all_labels)[n])[0]
            for n in range(len(case.lengths))
        )
        size = len(folds.scored[fold])
        assert together.folds["loss"][fold] == pytest.approx(joint / size, rel=1e-10, abs=1e-10)
    assert (result.scheme, together.loss) == ("C", "joint")


@every_case
@given(**small_crfs)
@few
def test_losses_of_left_out_sequences_match_enumeration(case, seed, unknown, spread):
    problem = draw(case, seed, unknown, spread)
    count = len(case.lengths)
    groups = np.arange(count) == count - 1
    folds = fo.folds.structures(problem.data, groups=groups)
    expected = [problem.twin.loss(n, problem.theta, np.ones(length, bool))[0]
                for n, length in enumerate(case.lengths)]  # fmt: skip
    result = fo.cross_validate(problem.fit, folds, method="none", check=False)
    together = fo.cross_validate(problem.fit, folds, method="none", check=False, loss="joint")
    same(result.pointwise["loss"], np.array(expected)[result.pointwise["sequence"]])
    assert (1 in set(result.pointwise["sequence"])) == (not unknown)
    for fold, scored in enumerate(folds.scored):
        mean = np.mean([expected[n] for n in scored])
        assert result.folds["loss"][fold] == pytest.approx(mean, rel=1e-10, abs=1e-10)
        assert together.folds["loss"][fold] == pytest.approx(mean, rel=1e-10, abs=1e-10)
    assert result.scheme == "structures"


@every_case
@given(**small_crfs)
@few
def test_predicted_tags_and_marginals_match_enumeration(case, seed, unknown, spread):
    """Of the sequences fitted, whose labels are not used, and of new ones."""
    problem = draw(case, seed, unknown, spread)
    twin, fit = problem.twin, problem.fit
    best = [twin.best(n, fit.theta) for n in range(len(case.lengths))]
    assert fo.predict(fit) == named(best, case.tags)
    for n, found in enumerate(fo.marginals(fit)):
        same(found, twin.marginals(n, fit.theta))
    other = draw(case, seed + 1, unknown, spread)
    best = [other.twin.best(n, fit.theta) for n in range(len(case.lengths))]
    assert fo.predict(fit, other.twin.features) == named(best, case.tags)
    assert fo.predict(fit, other.data) == named(best, case.tags)
    for n, found in enumerate(fo.marginals(fit, other.twin.features)):
        same(found, other.twin.marginals(n, fit.theta))


@every_case
@given(**small_crfs)
@few
def test_the_posterior_is_one_hot_where_the_label_is_known(case, seed, unknown, spread):
    problem = draw(case, seed, unknown, spread)
    found = problem.fit.posterior()
    known, labels = problem.known, problem.data.labels
    np.testing.assert_allclose(found[known], np.eye(len(case.tags))[labels[known]], atol=1e-12)
    for n, shares in enumerate(problem.split(found)):
        every = np.ones(case.lengths[n], bool)
        same(shares, problem.twin.marginals(n, problem.theta, every))


def test_a_path_that_cannot_happen_has_no_probability():
    problem = draw(CASES["iob2"], 3)
    (found,) = fo.marginals(problem.fit, [np.full((1, 2), 50.0)])
    assert found[0, 2] == 0.0
    for tags in fo.predict(problem.fit, [np.full((6, 2), -50.0), np.full((6, 2), 50.0)]):
        pairs = zip(["O", *tags], tags, strict=False)
        assert all(before in ("B-X", "I-X") for before, tag in pairs if tag == "I-X")


def test_several_buckets_and_chunks_are_the_same_as_one(monkeypatch):
    """As of large corpora: more than one program, sequences in another order, rows in several chunks."""
    monkeypatch.setattr(buckets, "_FEW", 0)
    monkeypatch.setattr(buckets, "bucketed", partial(buckets.bucketed, most=2))
    monkeypatch.setattr(buckets, "_CHUNK", 2)
    case = replace(CASES["linear"], lengths=(5, 2, 4, 5, 2, 1, 5))
    problem = draw(case, 5, unknown=True, kernel="scan")
    twin, fit = problem.twin, problem.fit
    assert [len(bucket.members) for bucket in fit.objective.layout.chains.buckets] == [3, 4]
    value, gradient, hessian = twin.objective(fit.theta)
    same(fit.value, value, 12)
    same(fit.gradient, gradient)
    same(fit.H, hessian)
    rng = np.random.default_rng(0)
    weights = problem.data.weights * (rng.random((2, problem.data.n_sites)) < 0.6)
    thetas = two_thetas(problem, 0)
    expected = [twin.objective(t, w) for t, w in zip(thetas, weights, strict=True)]
    check_objective(fit.objective, thetas, weights, expected)
    every = [np.ones(length, bool) for length in case.lengths]
    slopes = [twin.log_conditional(n, t, fit.theta, every[n])[1] for n, t in problem.places()]
    same(fo.curvature(fit).J, -np.stack(slopes, 1))
    points = fo.folds.points(problem.data)
    result = fo.cross_validate(fit, points, method="none", check=False)
    losses = [-twin.log_conditional(row.sequence, row.time, fit.theta, every[row.sequence])[0]
              for row in result.pointwise.itertuples()]  # fmt: skip
    same(result.pointwise["loss"], losses)
    assert fo.predict(fit) == named([twin.best(n, fit.theta) for n in range(7)], case.tags)
    for n, found in enumerate(fo.marginals(fit)):
        same(found, twin.marginals(n, fit.theta))
    for n, found in enumerate(problem.split(fit.posterior())):
        same(found, twin.marginals(n, fit.theta, every[n]))


def test_sequences_of_one_token_are_a_logistic_regression():
    case = Case(CRF(scale=2.0), ("a", "b"), lengths=(1,) * 6)
    problem = draw(case, 1)
    value, gradient, hessian = problem.twin.objective(problem.theta)
    same(problem.fit.value, value, 12)
    same(problem.fit.gradient, gradient)
    same(problem.fit.H, hessian)
    params = problem.fit.params
    scores = problem.data.features @ params["weights"] + sum(params[k] for k in ("bias", "start", "end"))
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    for found, expected in zip(fo.marginals(problem.fit), shares, strict=True):
        same(found[0], expected)
    _, slopes = problem.fit.objective.leave_one_out(problem.theta)
    same(slopes.sum(1), -gradient + problem.theta / 4.0)  # labels are independent


@lru_cache
def fitted(name="linear", unknown=False):
    problem = draw(CASES[name], 7, unknown)
    return fo.fit(problem.fit.model, problem.data), problem.twin


def refitted(twin, weights=None, by_sequence=None):
    """By BFGS on the enumerated objective, from zero. A gradient of 1e-8 is 1e-7 from the optimum, since
    the prior's curvature is a ninth."""
    found = optimize.minimize(
        lambda theta: twin.objective(theta, weights, by_sequence)[:2],
        np.zeros(len(twin.names)),
        jac=True,
        method="BFGS",
        options={"gtol": 1e-8},
    )
    assert np.abs(found.jac).max() < 1e-6
    return found.x


@pytest.mark.parametrize("unknown", [False, True])
def test_the_fit_is_that_of_bfgs_on_the_enumerated_objective(unknown):
    fit, twin = fitted("linear", unknown)
    assert fit.ok, str(fit.status)
    np.testing.assert_allclose(fit.theta, refitted(twin), atol=1e-5)


def test_an_exact_fold_without_a_sequence_is_that_of_bfgs():
    fit, twin = fitted()
    folds = fo.folds.structures(fit.data)
    result = fo.cross_validate(fit, folds, method="exact")
    assert result.folds["ok"].all()
    expected = refitted(twin, by_sequence=folds.weights[3])
    assert np.abs(expected - fit.theta).max() > 0.1
    np.testing.assert_allclose(result.theta[3], expected, atol=1e-5)
    loss = twin.loss(3, expected, np.ones(6, bool))[0]
    assert result.folds["loss"][3] == pytest.approx(loss, abs=1e-4)


def test_an_exact_fold_without_some_labels_is_that_of_bfgs():
    fit, twin = fitted()
    folds = fo.folds.sites([[1, 2, 7, 11], [0]], fit.data)
    result = fo.cross_validate(fit, folds, method="exact")
    assert result.folds["ok"].all()
    expected = refitted(twin, folds.weights[0])
    assert np.abs(expected - fit.theta).max() > 0.1
    np.testing.assert_allclose(result.theta[0], expected, atol=1e-5)


@pytest.mark.parametrize("scheme", ["C", "structures"])
def test_steps_from_a_fit_that_stopped_early_correct_for_it_or_not(scheme):
    """With `residual`, H^-1 (g + J dw); without, the paper's H^-1 J dw."""
    fit, twin = fitted()
    away = 0.3 * np.random.default_rng(0).normal(size=len(fit.theta))
    early = fo.fit_at(fit.model, fit.data, twin.params(fit.theta + away))
    _, gradient, hessian = twin.objective(early.theta)
    assert np.abs(gradient).max() > 0.1
    if scheme == "C":
        folds = fo.folds.sites([[1, 2, 7], [0]], fit.data)
        every = [np.ones(length, bool) for length in twin.lengths]
        place = [(n, t) for n, length in enumerate(twin.lengths) for t in range(length)]
        cross = [-twin.log_conditional(n, t, early.theta, every[n])[1] for n, t in place]
    else:
        folds = fo.folds.structures(fit.data)
        cross = [twin.loss(n, early.theta, np.ones(k, bool))[1] for n, k in enumerate(twin.lengths)]
    change = folds.weights - 1.0
    for residual in (True, False):
        result = fo.cross_validate(early, folds, method="ij", check=False, residual=residual)
        slopes = change @ np.stack(cross) + residual * gradient
        expected = early.theta - np.linalg.solve(hessian, slopes.T).T
        same(result.theta, expected, 9)
        # One step's gradient is the fold's own; without `residual` less what the fit left.
        result = fo.cross_validate(early, folds, method="onestep", check=False, residual=residual)
        own = [twin.objective(early.theta, *((w,) if scheme == "C" else (None, w)))[1]
               for w in folds.weights]  # fmt: skip
        slopes = np.stack(own) - (not residual) * gradient
        expected = early.theta - np.linalg.solve(hessian, slopes.T).T
        same(result.theta, expected, 9)


def test_one_step_without_sequences_is_the_infinitesimal_jackknife():
    """The objective is linear in the weights of sequences, but not in those of labels."""
    fit, _ = fitted()
    whole, single = fo.curvature(fit, "structures"), fo.curvature(fit, "C")
    weights = fo.folds.structures(fit.data).weights
    ij, onestep = (solve(method, whole, weights).thetas for method in ("ij", "onestep"))
    np.testing.assert_array_equal(ij, onestep)
    gradients = whole.objective.gradients(np.tile(fit.theta, (len(weights), 1)), weights)
    same(onestep, fit.theta - np.linalg.solve(fit.H, gradients.T).T, 9)
    weights = fo.folds.sites([[1, 2, 7, 11]], fit.data).weights
    ij, onestep = (solve(method, single, weights).thetas for method in ("ij", "onestep"))
    assert np.abs(ij - onestep).max() > 1e-3


def test_leaving_all_labels_of_a_sequence_out_is_leaving_it_out():
    fit, _ = fitted()
    labels = fo.cross_validate(fit, fo.folds.sites([range(6, 10)], fit.data), method="exact")
    whole = fo.cross_validate(fit, fo.folds.structures(fit.data, groups=[0, 0, 1, 0, 0]), method="exact")
    np.testing.assert_allclose(labels.theta[0], whole.theta[1], atol=1e-8)


def test_a_convex_fit_has_no_other_optima_to_speak_of():
    """Scores are linear, and log-partitions convex: reports have no sentence on starts."""
    complete, partial = fitted()[0], fitted("linear", True)[0]
    assert complete.summary.optima is None
    assert partial.summary.optima is not None  # sums over unknown labels are not


def test_only_a_complete_corpus_by_sequences_is_called_convex():
    complete, partial = fitted()[0].objective, fitted("linear", True)[0].objective
    whole = schemes.Structures()
    assert complete.with_scheme(whole).traits.convex
    assert not complete.traits.convex
    assert not partial.with_scheme(whole).traits.convex


@lru_cache
def tagged(name):
    return saved_fit(name)


def test_leave_one_out_is_that_of_folds_of_single_labels():
    fit = tagged("crf-partial")
    points = fo.folds.points(fit.data)
    assert len(points) == fit.data.weights.sum()
    swept = fo.loo(fit, refine=False)
    alone = fo.cross_validate(fit, points, method="none", check=False)
    np.testing.assert_allclose(swept.folds["control"], alone.folds["loss"], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(swept.pointwise["site"], alone.pointwise["site"])
    one = fo.cross_validate(fit, points, method="onestep", check=False)
    np.testing.assert_allclose(swept.theta, one.theta, rtol=1e-7, atol=1e-9)
    # One label has one path: the expansion and the step are the same.
    ij = fo.cross_validate(fit, points, method="ij", check=False)
    np.testing.assert_allclose(swept.theta, ij.theta, rtol=1e-7, atol=1e-9)


@pytest.mark.slow
def test_leave_one_out_is_near_exact_refits_and_knows_where_not():
    fit = tagged("crf-partial")
    exact = fo.cross_validate(fit, fo.folds.points(fit.data), method="exact")
    assert exact.folds["ok"].all()
    swept, result = fo.loo(fit, refine=False), fo.loo(fit)
    off = (swept.folds["loss"] - exact.folds["loss"]).abs()
    control = (swept.folds["control"] - exact.folds["loss"]).abs()
    assert off.mean() < 0.3 * control.mean()
    assert (off > 3 * swept.folds["error"]).mean() < 0.02
    refined = result.folds["rung"] != "onestep"
    assert refined.any()
    np.testing.assert_allclose(
        result.folds["loss"][refined], exact.folds["loss"][refined], atol=1e-6
    )  # fmt: skip
    assert (result.folds["verdict"] != "bad").all()


def test_auto_on_sequences_is_within_its_tolerance_of_exact_refits():
    fit = tagged("crf-partial")
    folds = fo.folds.structures(fit.data)
    auto, exact = (fo.cross_validate(fit, folds, method=method) for method in ("auto", "exact"))
    assert exact.folds["ok"].all()
    assert (auto.folds["verdict"] == "good").any()
    off = (auto.folds["loss"] - exact.folds["loss"]).abs()
    assert (off[auto.folds["verdict"] == "good"] <= auto.tolerance).all()


def test_what_cannot_happen_has_no_parameter():
    fit = tagged("crf-partial")
    assert "transition[0,2]" not in fit.names
    assert len(fit.theta) == 3 + 3 + 3 + 8 + 6
    assert fit.params["transition"][0, 2] == -np.inf


def test_a_loss_of_ones_own_is_given_the_labels():
    fit, _ = fitted()
    folds = fo.folds.sites([[1, 2], [5]], fit.data)

    def number(params, data, weights):
        return data.labels + params["bias"][0] * 0.0 + 10.0 * weights

    result = fo.cross_validate(fit, folds, method="none", check=False, loss=number)
    np.testing.assert_array_equal(result.pointwise["loss"], fit.data.labels[[1, 2, 5]])


@given(seed=seeds)
@few
def test_the_weight_of_an_unknown_label_does_not_matter(seed):
    problem = draw(CASES["linear"], seed, unknown=True)
    rng = np.random.default_rng(seed)
    weights = rng.choice([0.0, 0.4, 1.0], size=(2, problem.data.n_sites))
    weights[0, 0] = 0.4
    weights[1] = weights[0] * problem.data.weights
    values, gradients = problem.fit.objective.values_and_gradients(
        two_thetas(problem, 0)[[0, 0]], weights
    )
    assert values[0] == pytest.approx(values[1], rel=1e-12)
    same(gradients[0], gradients[1])


def test_a_corpus_without_a_single_complete_sequence():
    rng = np.random.default_rng(0)
    features = [rng.normal(size=(3, 2)), rng.normal(size=(2, 2))]
    data = fo.labelled(features, [["a", None, "c"], [None, "b"]], tags=["a", "b", "c"])
    fit = fo.fit_at(CRF(), data, CRF().start(data, None))
    # All paths are as probable: 3^3 and 3^2 of them, 3 of which agree with the labels.
    assert fit.value == pytest.approx(np.log(27 / 3) + np.log(9 / 3), rel=1e-14)


def test_a_label_cannot_be_kept_more_than_once():
    fit, _ = fitted()
    for off in (1.5, -0.5):
        weights = np.ones(fit.data.n_sites)
        weights[3] = off
        with pytest.raises(ValueError, match="weights of labels must be between 0 and 1, got"):
            fit.objective(fit.theta, weights)


@pytest.mark.parametrize("unknown", [False, True])
def test_the_audit_holds_each_label_and_sequence_against_the_rest(unknown):
    fit, twin = fitted("linear", unknown)
    audit = fo.influence(fit)
    every = [np.ones(length, bool) for length in twin.lengths]
    labelled = np.flatnonzero(fit.data.weights)
    assert audit.tokens["site"].tolist() == labelled.tolist()
    for row in audit.tokens.itertuples():
        loss, slope, _ = (-part for part in twin.log_conditional(
            row.sequence, row.time, fit.theta, every[row.sequence]))  # fmt: skip
        move = np.linalg.solve(fit.H, slope)
        assert row.control == pytest.approx(loss, rel=1e-9)
        assert row.displacement == pytest.approx(slope @ move, rel=1e-8)
        assert row.loss == pytest.approx(loss + slope @ move, rel=1e-8)
        others = every[row.sequence] & (np.arange(len(every[row.sequence])) != row.time)
        shares = twin.marginals(row.sequence, fit.theta, others)[row.time]
        assert (row.rather, row.label) == (
            fit.data.tags[shares.argmax()],
            fit.data.tags[twin.labels[row.sequence][row.time]],
        )
        assert row.chance == pytest.approx(shares.max(), rel=1e-10)
    assert audit.sequences["sequence"].tolist() == ([0, 2, 3, 4] if unknown else [0, 1, 2, 3, 4])
    for row in audit.sequences.itertuples():
        loss, slope, _ = twin.loss(row.sequence, fit.theta, every[row.sequence])
        move = np.linalg.solve(fit.H, slope)
        assert (row.control, row.displacement) == pytest.approx((loss, slope @ move), rel=1e-8)
        assert row.loss == pytest.approx(loss + slope @ move, rel=1e-8)
        assert row.per_token == pytest.approx(row.loss / twin.lengths[row.sequence], rel=1e-12)
