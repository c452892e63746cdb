"""Fits of hmmlearn: the same log-likelihood, objective and folds."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dynamax_cases
import fitonce as fo
from hmmlearn_cases import LENGTHS, NAMES, data, fitted, stored


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_fit_has_its_log_likelihood_and_is_where_its_em_ends(name):
    model, score = stored(name)
    fit = fo.from_hmmlearn(model, data(name), LENGTHS)
    assert fit.log_likelihood == pytest.approx(score, abs=1e-8)
    # EM to 1e-9 nats is this near to the minimum of the same objective, priors included.
    assert fit.distance < 1e-2
    polished = fit.polish()
    assert polished.ok, polished.status
    assert -1e-9 <= fit.value - polished.value < 1e-5  # the lower end is rounding


def test_zeros_stay_exact_zeros():
    model, _ = stored("PoissonHMM")
    assert min(model.startprob_.min(), model.transmat_.min()) >= 0
    model.startprob_ = np.array([1.0, 0.0])
    model.transmat_ = np.array([[1.0 - 1e-30, 1e-30], [0.2, 0.8]])
    fit = fo.from_hmmlearn(model, data("PoissonHMM"), LENGTHS)
    assert fit.params["transition"][0, 1] == 0
    assert fit.params["initial"][1] == 0
    assert fit.polish().params["transition"][0, 1] == 0


def test_letters_that_were_not_learned_are_frozen():
    model, _ = stored("GaussianHMM diag")
    model.params = "mc"
    fit = fo.from_hmmlearn(model, data("GaussianHMM"), LENGTHS)
    assert not [name for name in fit.names if name.startswith(("initial", "transition"))]


def test_zeros_of_emissions_stay_exact_zeros_and_are_optima_on_the_boundary():
    """EM has brought a probability from 1/4 to nearly nothing, which stays out of all derivatives."""
    model, _ = stored("CategoricalHMM zeros")
    x = data("CategoricalHMM zeros")
    assert (model.emissionprob_ < 1e-10).sum() == 1
    fit = fo.from_hmmlearn(model, x, LENGTHS)
    assert "1 probability at zero, an optimum on the boundary" in str(fit.status)
    polished = fit.polish()
    assert polished.ok
    assert (polished.params["probability"] == 0).sum() == 1
    found = fo.zero_probabilities(polished)
    place = tuple(np.argwhere(polished.params["probability"] == 0)[0])
    assert found["name"][0] == f"probability[{place[0]},0,{place[2]}]"
    # The same slope by a difference, without a support: from zero to a little, others in proportion.
    step, base = 1e-6, polished.params["probability"]
    moved = base + step * (base == 0)
    moved = polished.params | {"probability": moved / moved.sum(-1, keepdims=True)}
    there = fo.fit_at(replace(polished.model, emission=fo.models.Categorical(4, 1.0)), fit.data, moved)
    slope = (polished.log_likelihood - there.log_likelihood) / step
    assert found["slope"][0] == pytest.approx(slope, rel=1e-3)
    assert found["slope"][0] > 0


def test_a_zero_that_is_no_optimum_is_said_to_be_none():
    model, _ = stored("CategoricalHMM")
    model.emissionprob_ = np.array([[1.0, 0.0, 0.0], [0.2, 0.2, 0.6]])
    fit = fo.from_hmmlearn(model, data("CategoricalHMM"), LENGTHS)
    assert not fit.ok
    assert "is held at zero, but the objective changes by -" in str(fit.status)
    assert not fo.zero_probabilities(fit)["optimum"].any()


def test_zeros_above_which_probabilities_count_can_be_chosen():
    model, _ = stored("CategoricalHMM")
    model.emissionprob_ = np.array([[0.6, 0.4 - 1e-5, 1e-5], [0.2, 0.2, 0.6]])
    x = data("CategoricalHMM")
    assert (fo.from_hmmlearn(model, x, LENGTHS).params["probability"] > 0).all()
    assert fo.from_hmmlearn(model, x, LENGTHS, zeros=1e-4).params["probability"][0, 0, 2] == 0


def test_zeros_that_were_not_learned_are_not_judged():
    model, _ = stored("CategoricalHMM")
    model.emissionprob_, model.params = np.array([[1.0, 0.0, 0.0], [0.2, 0.2, 0.6]]), "st"
    fit = fo.from_hmmlearn(model, data("CategoricalHMM"), LENGTHS)
    assert len(fo.zero_probabilities(fit)) == 0
    assert "held at zero" not in str(fit.status)


def test_zeros_on_a_graph_are_refused():
    support = [[True, True, False], [True, True, True]]
    field = fo.models.PottsMixture(
        [(0, 1), (1, 2)], 2, fo.models.Categorical(3, support=support), beta=0.5
    )
    fit = fo.fit_at(
        field, [0.0, 1.0, 2.0], {"probability": np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])}
    )
    with pytest.raises(ValueError, match="zero_probabilities needs an HMM, got PottsMixture"):
        fo.zero_probabilities(fit)


def test_a_fit_has_the_zeros_that_its_model_learned():
    model, _ = stored("PoissonHMM")
    fit = fo.from_hmmlearn(model, data("PoissonHMM"), LENGTHS)
    assert fo.zero_probabilities(fit)["name"].tolist() == ["initial[0]"]  # all begin in one state


def test_subclasses_that_only_inherit_are_read():
    model, score = stored("PoissonHMM")
    derived = type("Ours", (type(model),), {"note": "of ours"})()
    derived.__dict__.update(model.__dict__)
    fit = fo.from_hmmlearn(derived, data("PoissonHMM"), LENGTHS)
    assert fit.log_likelihood == pytest.approx(score, abs=1e-8)
    other = type("Other", (type(model),), {"_compute_log_likelihood": lambda self, x: x})()
    other.__dict__.update(model.__dict__)
    with pytest.raises(
        ValueError, match="Other has its own _compute_log_likelihood, so it is not the Pois"
    ):
        fo.from_hmmlearn(other, data("PoissonHMM"), LENGTHS)


class VariationalHMM:
    """As if of hmmlearn."""


class PoissonHMM:
    """Not fitted."""

    startprob_prior = 1.0


def _changed(name, **attributes):
    model, _ = stored(name)
    for key, value in attributes.items():
        setattr(model, key, value)
    return model


@pytest.mark.parametrize(
    ("model", "lengths", "sentence"),
    [
        (VariationalHMM(), LENGTHS, "reads GaussianHMM, GMMHMM, .*, got VariationalHMM"),
        (PoissonHMM(), LENGTHS, "the PoissonHMM must be fitted first"),
        (fo.models.GaussianHMM(2), LENGTHS, "reads GaussianHMM, .*, got HMM"),
        (dynamax_cases.stored("GaussianHMM")[0], LENGTHS,
         "reads HMMs of hmmlearn, got a GaussianHMM of dynamax: use fo.from_dynamax"),
        (stored("PoissonHMM")[0], [10, 20], "lengths must sum to the number of rows, 345, got 30"),
        (stored("PoissonHMM")[0], [-10, 355], "lengths must be integers of at least 1, got"),
        (_changed("PoissonHMM", lambdas_weight=1.0), LENGTHS, "lambdas_prior and lambdas_weight must"),
        (_changed("GaussianHMM full", means_prior=np.array([[1.0, 2.0], [3.0, 4.0]])), LENGTHS,
         "means_prior must be one for all states and components"),
        (_changed("GMMHMM diag", weights_=np.array([[1.0, 0.0], [0.5, 0.5]])), LENGTHS,
         "weights_ has zeros, components without data"),
        (_changed("GMMHMM diag", means_weight=np.array([[1.0, 0.0], [0.5, 0.5]])), LENGTHS,
         "means_weight must be one for all"),
    ],
)  # fmt: skip
def test_what_cannot_be_mapped_is_refused_by_name(model, lengths, sentence):
    kind = type(model).__name__
    with pytest.raises(ValueError, match=sentence):
        fo.from_hmmlearn(model, data(kind), lengths)


def test_data_with_other_columns_are_refused_by_their_number():
    model, _ = stored("PoissonHMM")
    rows = np.asarray(data("PoissonHMM"))
    columns = 1 if rows.ndim == 1 else rows.shape[1]
    wanted = f"X must have {columns} columns?, as the PoissonHMM was fitted to, got {columns + 1}"
    with pytest.raises(ValueError, match=wanted):
        fo.from_hmmlearn(model, np.c_[rows, rows[..., :1] if rows.ndim > 1 else rows], LENGTHS)


def _write(model, params):
    """Put our parameters into their model."""
    model.startprob_, model.transmat_ = params["initial"], params["transition"]
    if "rate" in params:
        model.lambdas_ = params["rate"]
    elif "probability" in params:
        model.emissionprob_ = params["probability"][:, 0]
    elif "weight" in params:
        model.weights_, model.means_ = params["weight"], params["mean"]
        model.covars_ = params["covariance"] if "covariance" in params else params["variance"]
    else:
        model.means_ = params["mean"]
        spread = params["covariance"] if "covariance" in params else params["variance"]
        spherical = model.covariance_type == "spherical"
        model._covars_ = np.tile(spread[:, None], (1, 2)) if spherical else spread


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_derivatives_are_differences_of_their_log_likelihood(name):
    model, x = fitted(name), data(name)
    fit = fo.from_hmmlearn(model, x, LENGTHS).polish()
    objective, size, step = fit.objective, len(fit.theta), 1e-4

    def score(theta):
        _write(model, fit.params_at(theta))
        return model.score(x, LENGTHS)

    units, nothing = step * np.eye(size), np.zeros((1, len(objective.base)))
    slopes = [(score(fit.theta + u) - score(fit.theta - u)) / (2 * step) for u in units]
    ours = objective.gradients(fit.theta[None], nothing) - objective.gradients(
        fit.theta[None], objective.base[None]
    )
    np.testing.assert_allclose(ours[0], slopes, atol=2e-5)
    likelihood = objective.hessians(fit.theta[None], nothing)[0] - fit.H
    # All pairs of coordinates, or random pairs of directions where those would take minutes.
    rng = np.random.default_rng(0)
    pairs = [(u, v) for u in np.eye(size) for v in np.eye(size)]
    pairs = pairs if size <= 14 else [tuple(rng.normal(size=(2, size))) for _ in range(20)]
    for u, v in pairs:
        corners = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
        around = sum(a * b * score(fit.theta + step * (a * u + b * v)) for a, b in corners)
        scale = np.abs(fit.H).max() * np.linalg.norm(u) * np.linalg.norm(v)
        assert u @ likelihood @ v == pytest.approx(around / (4 * step**2), abs=2e-3 * scale)


def test_a_fold_may_leave_one_zero_and_reach_another():
    """Against a fit of the other sequences that begins with everything possible."""
    model, _ = stored("CategoricalHMM zeros")
    fit = fo.from_hmmlearn(model, data("CategoricalHMM zeros"), LENGTHS).polish()
    cv = fo.cross_validate(fit, fo.folds.structures(fit.data), method="exact", optima=0)
    parts = np.split(data("CategoricalHMM zeros"), np.cumsum(LENGTHS)[:-1])
    begin = {name: np.where(value == 0, 0.02, value) for name, value in fit.params.items()}
    begin = {name: value / value.sum(-1, keepdims=True) for name, value in begin.items()}
    refit = fo.fit(fit.model.zeros.freed(), parts[:5], init=begin)
    assert refit.ok, refit.status
    assert fit.params["probability"][0, 0, 3] == 0 < refit.params["probability"][0, 0, 3]
    assert fit.params["initial"][1] > 0 == refit.params["initial"][1]
    assert cv.folds["loss"][5] == pytest.approx(-refit.score([parts[5]]), abs=1e-6)


def test_other_starts_of_a_fit_with_zeros_are_no_worse():
    """Three states of which theirs never leaves one: starts that kept its zeros could not either."""
    hmm = pytest.importorskip("hmmlearn.hmm")
    rng, z = np.random.default_rng(3), np.tile(np.repeat([0, 1, 2, 1], 12), 5)
    x = rng.normal(4.0 * z[:, None], 1.0)
    theirs = hmm.GaussianHMM(3, "diag", n_iter=60, random_state=0, init_params="mc")
    theirs.startprob_ = np.array([0.9, 0.1, 0.0])
    theirs.transmat_ = np.array([[0.8, 0.2, 0.0], [0.1, 0.8, 0.1], [0.0, 0.0, 1.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = fo.from_hmmlearn(theirs.fit(x), x).polish()
    others = fo.fit(fit.model, fit.data, restarts=3, optima=1)
    assert others.ok, others.status
    assert others.value < fit.value - 10
    best = hmm.GaussianHMM(3, "diag", n_iter=500, tol=1e-9, init_params="", random_state=0)
    best.startprob_, best.transmat_ = others.params["initial"], others.params["transition"]
    best.means_, best.covars_ = others.params["mean"], others.params["variance"]
    assert others.log_likelihood == pytest.approx(best.score(x), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_folds_are_those_of_their_refits(name):
    """Leave-one-sequence-out, each refit of theirs from their full fit."""
    model = fitted(name, 2000)
    x = data(name)
    fit = fo.from_hmmlearn(model, x, LENGTHS)
    assert fit.log_likelihood == pytest.approx(model.score(x, LENGTHS), abs=1e-8)
    exact = fo.cross_validate(fit.polish(), fo.folds.structures(fit.data), method="exact", optima=0)
    ends = np.cumsum(LENGTHS)
    parts = np.split(x, ends[:-1])
    for number in range(len(LENGTHS)):
        others = np.concatenate([part for n, part in enumerate(parts) if n != number])
        lengths = [length for n, length in enumerate(LENGTHS) if n != number]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            again = fitted(name, 2000)
            again.init_params = ""
            # Their monitor is made with the model, and watches the likelihood without its prior.
            again.monitor_.tol, again.monitor_.n_iter, again.n_iter = -np.inf, 400, 400
            trials = np.split(np.broadcast_to(getattr(again, "n_trials", 0), ends[-1]), ends[:-1])
            if name.startswith("Multinomial"):
                again.n_trials = np.concatenate([one for n, one in enumerate(trials) if n != number])
            again.fit(others, lengths)
            theirs = fo.from_hmmlearn(again, others, lengths)
            if name.startswith("Multinomial"):
                again.n_trials = trials[number]
        loss = exact.folds["loss"][number]
        if loss != pytest.approx(-again.score(parts[number]), abs=2e-3):  # ours must be no worse a fit
            ours = fo.fit_at(theirs.model.zeros.freed(), theirs.data, exact.params(number))
            assert ours.value <= theirs.value + 1e-6


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of hmmlearn, by NumPy 2.5
def test_a_state_of_one_point_is_named():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    X[30] = (14.0, -9.0)
    model = pytest.importorskip("hmmlearn.hmm").GaussianHMM(2, "full", init_params="", n_iter=1)
    model.startprob_, model.transmat_ = np.array([0.9, 0.1]), np.array([[0.9, 0.1], [0.9, 0.1]])
    model.means_ = np.array([[0.0, 0.0], X[30]])
    model._covars_ = np.array([np.eye(2), np.full((2, 2), 0.01)])
    model.n_features = 2
    with pytest.raises(ValueError, match=r"state 1 of the model holds [01]\.\d observations,.*singular"):
        fo.from_hmmlearn(model, X)
    with pytest.raises(ValueError, match=r"most of all row 30 of X.* covars_prior=0.1 \* np.eye\(2\)"):
        fo.from_hmmlearn(model, X, [25, 35])
    model.covars_prior, model.init_params = 0.1 * np.eye(2), ""  # what the refusal advises
    assert fo.from_hmmlearn(model.fit(X), X).polish().ok


def test_columns_of_a_table_keep_their_names():
    table = pd.DataFrame(data("PoissonHMM"), columns=["calls", "visits"])
    fit = fo.from_hmmlearn(stored("PoissonHMM")[0], table, LENGTHS)
    assert fit.data.channels == ("calls", "visits")
    right = fit.score(table, lengths=LENGTHS)
    assert fit.score(table[["visits", "calls"]], lengths=LENGTHS) == right
    assert right == pytest.approx(fit.score(), rel=1e-12)
    with pytest.raises(ValueError, match="the columns of the fit, calls, visits, in any order"):
        fit.score(table.rename(columns={"visits": "letters"}), lengths=LENGTHS)
