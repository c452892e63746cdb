"""Properties that every registered model must have."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import optimize

import fitonce as fo
from fitonce import schemes
from fitonce.core.series_constraints import Variance
from fitonce.crossval.loo import sweep
from fitonce.fitting.newton import minimise
from fitonce.objectives.abilities import HasLabels
from fitonce.objectives.families import family_of
from golden_record import ENTRIES, saved_fit
from solving import solve


def parameters(chosen=lambda entry: True, slow=()):
    """One worker holds all tests of a model, so that what they share is fitted and compiled once."""
    marks = {name: [pytest.mark.xdist_group(name)] for name in ENTRIES}
    for name, entry in ENTRIES.items():
        marks[name] += [pytest.mark.slow] if entry.slow or name in slow else []
    return [pytest.param(n, marks=marks[n]) for n, entry in ENTRIES.items() if chosen(entry)]


def is_of(*names):
    """Whether a model is of one of these families."""
    return lambda entry: family_of(entry.model).name in names


has_a_sweep = is_of("chain", "graph", "labels", "mixture")  # a custom density has none
has_scheme_b = is_of("chain", "graph")


def leaves_no_regressors_behind(entry):
    """A step that an autoregression leaves out still explains the next ones."""
    return not is_of("chain")(entry) or not hasattr(entry.model.emission, "order")


every_model = pytest.mark.parametrize("name", parameters())
SHAPES = ("gaussian-unequal",)  # the slow tests take the others
FIELDS = ("potts-poisson", "potts-learned")
STEP = 1e-4


fitted = lru_cache(saved_fit)


@lru_cache
def folds_of(name, percent=6.0):
    fit = fitted(name)
    return fo.folds.iid(fit.data, percent=percent, n=2, seed=3)


def schemes_of(name):
    """Scheme B on some models, of each shape of data: it does not look inside a model's potentials."""
    if is_of("labels")(ENTRIES[name]):
        return [schemes.C(), schemes.Structures()]
    if is_of("custom")(ENTRIES[name]):
        return [None]
    if name in FIELDS:
        return [schemes.A(), schemes.B(), schemes.B(per_transition=True)]
    if name not in SHAPES:
        return [schemes.A()]
    paths = [
        schemes.A(),
        schemes.B(normalised=True),
        schemes.B(per_transition=True),
    ]
    return paths + ([schemes.Structures()] if ENTRIES[name].sequences else [])


@every_model
def test_fit_ends_at_a_certified_minimum(name):
    fit = fitted(name)
    assert fit.ok, str(fit.status)
    assert fit.distance < 1e-9
    assert fit.smallest_eigenvalue > 0
    assert len(fit.names) == len(fit.theta) == len(set(fit.names))


@every_model
def test_log_likelihood_is_the_objective_without_the_prior(name):
    fit = fitted(name)
    prior = fit.objective.log_prior(fit.theta)
    assert fit.objective.log_likelihood(fit.theta) == pytest.approx(-fit.value - prior, abs=1e-8)
    assert fit.log_likelihood == pytest.approx(-fit.value - prior, abs=1e-8)


@every_model
def test_a_printed_fit_names_the_prior_of_every_parameter(name):
    fit = fitted(name)
    said = next(line for line in str(fit).splitlines() if line.startswith("  priors: "))
    for parameter in {one.split("[")[0] for one in fit.names}:
        assert (
            re.search(rf"(?<![\w.]){re.escape(parameter)}(?![\w.])", said) or "every parameter" in said
        )


@every_model
def test_hessian_matches_finite_differences_of_the_gradient(name):
    fit = fitted(name)
    objective = fit.objective
    numeric = np.empty_like(fit.H)
    for d, unit in enumerate(np.eye(len(fit.theta))):
        numeric[d] = four_point(
            lambda h, unit=unit: objective.gradients((fit.theta + h * unit)[None], objective.base[None])[
                0
            ]
        )
    scale = np.abs(fit.H).max()
    np.testing.assert_allclose(fit.H, numeric, atol=1e-8 * scale)


@every_model
def test_gradient_matches_finite_differences_of_the_value(name):
    fit = fitted(name)
    rng = np.random.default_rng(0)
    theta = fit.theta + 0.1 * rng.normal(size=len(fit.theta))
    gradient = fit.objective.gradients(theta[None], fit.objective.base[None])[0]
    for direction in rng.normal(size=(2, len(theta))):
        slope = four_point(lambda h, d=direction: fit.objective(theta + h * d), step=1e-3)
        assert gradient @ direction == pytest.approx(slope, rel=1e-7, abs=1e-6)


@every_model
def test_j_matches_finite_differences_along_its_path(name):
    check_j(name, schemes_of(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", parameters(has_scheme_b))
def test_j_matches_finite_differences_along_every_path_of_b(name):
    flags = [(n, p) for n in (False, True) for p in (False, True)]
    check_j(name, [schemes.B(normalised=n, per_transition=p) for n, p in flags])


def check_j(name, chosen):
    fit = fitted(name)
    for scheme in chosen:
        curve = fo.curvature(fit, scheme)
        start = np.asarray(curve.objective.coordinates(curve.objective.base))
        rng = np.random.default_rng(1)
        directions, difference = rng.normal(size=(2, len(start))), four_point
        if isinstance(scheme, schemes.C):
            directions, difference = -np.abs(directions) * start, ahead
        for direction in directions:
            slope = difference(
                lambda h, d=direction, c=curve, s=start: path_gradient(c, fit.theta, s + h * d)
            )
            scale = np.abs(slope).max()
            np.testing.assert_allclose(
                curve.J @ direction, slope, atol=1e-7 * scale, err_msg=str(scheme)
            )


@every_model
def test_weights_of_zero_and_fractions_give_finite_derivatives(name):
    fit = fitted(name)
    weights = np.random.default_rng(2).random((2, len(fit.objective.base))) * fit.objective.base
    weights[:, ::3] = 0.0
    thetas = np.tile(fit.theta, (2, 1))
    values, gradients = fit.objective.values_and_gradients(thetas, weights)
    assert np.isfinite(values).all()
    assert np.isfinite(gradients).all()
    assert np.isfinite(fit.objective.hessians(thetas, weights)).all()


@every_model
def test_onestep_and_newton_are_what_they_say(name):
    fit, folds = fitted(name), folds_of(name)
    curve = fo.curvature(fit)
    for fold, weights in enumerate(folds.weights):
        gradient = four_point_gradient(lambda t, w=weights: fit.objective(t, w), fit.theta)
        own = fit.objective.hessians(np.tile(fit.theta, (2, 1)), np.tile(weights, (2, 1)))[0]
        for method, hessian in (("onestep", fit.H), ("newton", own)):
            expected = fit.theta - np.linalg.solve(hessian, gradient)
            found = solve(method, curve, folds.weights).thetas[fold]
            np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected - fit.theta).max())


@every_model
def test_ij_is_the_derivative_of_exact_refits_along_the_path(name):
    fit, folds = fitted(name), folds_of(name)
    curve = fo.curvature(fit)
    step = 1e-3
    change = folds.weights - fit.objective.base

    def refits(h):
        return solve("exact", curve, fit.objective.base + h * change).thetas

    if isinstance(fit.objective, HasLabels):
        slope = ahead(refits, step)
    else:
        slope = (refits(step) - refits(-step)) / (2 * step)
    found = solve("ij", curve, folds.weights).thetas - fit.theta
    np.testing.assert_allclose(found, slope, atol=1e-4 * np.abs(slope).max())


def canonical(fit, theta):
    """Roots of variances count without their sign."""
    found = np.array(theta)
    for _, leaf, places in fit.objective.space.leaves():
        if isinstance(leaf, Variance):
            found[places] = np.abs(found[places])
    return found


@every_model
def test_exact_matches_a_cold_scipy_refit(name):
    fit, folds = fitted(name), folds_of(name)
    found = solve("exact", fo.curvature(fit), folds.weights)
    cold = fit.objective.start(None)
    for weights, theta, status in zip(folds.weights, found.thetas, found.status, strict=True):
        assert status.ok, str(status)
        slope = lambda t, w=weights: fit.objective.gradients(t[None], w[None])[0]  # noqa: E731
        value = lambda t, w=weights: fit.objective(t, w)  # noqa: E731
        near = cold
        for method, options in (("L-BFGS-B", {"ftol": 1e-12}), ("BFGS", {"gtol": 1e-7})):
            near = optimize.minimize(value, near, jac=slope, method=method, options=options).x
        # Searches end where values differ by rounding; gradients go on.
        found_by_scipy = optimize.root(slope, near, tol=1e-12).x
        ends = (canonical(fit, theta), canonical(fit, found_by_scipy))
        np.testing.assert_allclose(*ends, atol=2e-6)


@every_model
def test_the_ladder_climbs_towards_the_exact_refit(name):
    fit, folds = fitted(name), folds_of(name)
    curve = fo.curvature(fit)
    exact = solve("exact", curve, folds.weights).thetas

    def distance(method):
        gap = solve(method, curve, folds.weights).thetas - exact
        return np.sqrt(np.einsum("fd,de,fe->f", gap, fit.H, gap)).mean()

    assert distance("onestep") < distance("none")
    assert distance("newton") < distance("onestep")


@pytest.mark.slow
@every_model
def test_auto_is_within_its_tolerance_of_exact_refits(name):
    fit, folds = fitted(name), folds_of(name)
    auto = fo.cross_validate(fit, folds)
    exact = fo.cross_validate(fit, folds, method="exact")
    assert exact.folds["ok"].all()
    off = (auto.folds["loss"] - exact.folds["loss"]).abs()
    assert (off[auto.folds["verdict"] == "good"] <= auto.tolerance).all()
    assert (off <= 3 * auto.folds["error"] + 1e-9).all()


@pytest.mark.parametrize("name", parameters(has_a_sweep))
def test_one_sweep_is_every_single_point_left_out(name):
    fit = fitted(name)
    folds, losses, slopes = sweep(fit)
    some = fo.folds.sites([folds.dropped[0], folds.dropped[17], folds.dropped[-1]], fit.data)
    alone = fo.cross_validate(fit, some, method="none", check=False)
    np.testing.assert_allclose(losses[[0, 17, -1]], alone.folds["loss"], rtol=1e-9)
    gradients = fit.objective.gradients(np.tile(fit.theta, (3, 1)), some.weights)
    np.testing.assert_allclose(gradients, fit.gradient - slopes[[0, 17, -1]], atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", parameters(is_of("chain")))
def test_increments_add_up_to_the_objective(name):
    fit = fitted(name)
    curve = fo.curvature(fit, schemes.Increments())
    theta = fit.theta + 0.01
    assert curve.objective(theta) == pytest.approx(fit.objective(theta), rel=1e-12)
    both = [o.gradients(theta[None], o.base[None]) for o in (curve.objective, fit.objective)]
    np.testing.assert_allclose(*both, atol=1e-8)


def _replaced(data, dropped):
    """One sequence, with observations of other steps at those that are dropped."""
    if isinstance(data, fo.Sequences):
        values, observed = data.values.copy(), data.observed.copy()
        for array in (values, observed):
            array[:, dropped] = np.roll(array, 7, axis=1)[:, dropped]
        return replace(data, values=values, observed=observed)
    data = np.array(data, float)
    data[dropped] = np.roll(data, 7, axis=0)[dropped]
    return data


@pytest.mark.parametrize(
    "name",
    parameters(lambda e: not e.sequences and leaves_no_regressors_behind(e), slow=("events",)),
)
def test_left_out_data_has_no_influence_on_the_exact_refit(name):
    """Replacing what a fold leaves out by something else changes nothing."""
    entry = ENTRIES[name]
    fit, folds = fitted(name), folds_of(name)
    data = _replaced(entry.data, folds.dropped[0])
    other = fo.fit_at(entry.model, data, fit.params)
    weights = folds.weights[:1] * other.objective.base
    ends = [
        f.objective.space.named_values(
            minimise(f.objective, f.theta[None], weights, tolerance=1e-6).thetas
        )[0]
        for f in (fit, other)
    ]
    np.testing.assert_allclose(*ends, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", parameters(lambda entry: entry.name in SHAPES))
def test_kernels_agree(name):
    entry = ENTRIES[name]
    scan = fitted(name)
    tree = fo.fit_at(entry.model, entry.data, scan.params, kernel="tree")
    np.testing.assert_allclose(scan.H, tree.H, rtol=1e-9, atol=1e-9 * np.abs(scan.H).max())
    folds = folds_of(name)
    losses = [fo.cross_validate(f, folds, method="none").pointwise["loss"] for f in (scan, tree)]
    np.testing.assert_allclose(*losses, rtol=1e-10)


def four_point(f, step=STEP):
    """Fourth-order central difference."""
    return (8 * (f(step) - f(-step)) - (f(2 * step) - f(-2 * step))) / (12 * step)


def ahead(f, step=STEP):
    """Fourth order from one side: the weights of labels end at one."""
    return (-25 * f(0) + 48 * f(step) - 36 * f(2 * step) + 16 * f(3 * step) - 3 * f(4 * step)) / (
        12 * step
    )


def four_point_gradient(f, theta, step=1e-3):
    return np.array(
        [four_point(lambda h, u=unit: f(theta + h * u), step) for unit in np.eye(len(theta))]
    )


@dataclass(frozen=True)
class AtCoordinates:
    """A scheme that is given path coordinates instead of weights."""

    scheme: Any
    name: ClassVar[str] = "at coordinates"
    kind: ClassVar[str] = "sites"
    keeps_latent: ClassVar[bool] = False

    def path(self, weights, layout):
        return weights

    def terms(self, chain, coordinates, layout):
        return self.scheme.terms(chain, coordinates, layout)

    def weigh(self, field, coordinates, layout):
        return self.scheme.weigh(field, coordinates, layout)


def path_gradient(curve, theta, coordinates):
    """Gradient of F at a point of the path."""
    objective = curve.objective
    if objective.coordinates(objective.base).shape != objective.base.shape:
        objective = objective.with_scheme(AtCoordinates(objective.scheme))
    return objective.gradients(theta[None], np.asarray(coordinates)[None])[0]
