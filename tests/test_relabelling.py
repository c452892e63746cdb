"""States in another order: the same minimum, certificate and cross-validation under other numbers."""

from __future__ import annotations

import numpy as np
import pytest

import fitonce as fo
from fitonce.objectives.families import objective_of
from golden_record import saved_fit
from registry import entries

BY_NAME = {entry.name: entry for entry in entries()}
EXCHANGEABLE = [
    entry
    for entry in entries()
    if isinstance(entry.model, (fo.models.HMM, fo.models.PottsMixture)) and entry.name != "events"
]
RNG = np.random.default_rng(3)
COUNTS = RNG.poisson(np.resize(np.repeat([2.0, 9.0, 25.0], 12), 144)).astype(float)


@pytest.fixture(scope="module")
def fit():
    return fo.fit(fo.models.PoissonHMM(3), COUNTS, restarts=3)


@pytest.mark.parametrize(
    "entry",
    [pytest.param(e, id=e.name, marks=[pytest.mark.slow] if e.slow else []) for e in EXCHANGEABLE],
)
def test_every_fit_can_be_turned_and_turned_back(entry):
    """The derivatives that follow from those of the fit are those computed afresh."""
    fit = saved_fit(entry.name)
    count = len(fit.states())
    order = np.roll(np.arange(count), 1)
    turned = fit.ordered(order)
    assert turned.value == fit.value
    assert turned.status.outcome == fit.status.outcome
    assert turned.distance == fit.distance
    objective = objective_of(turned.model, fit.data)
    assert objective(turned.theta) == pytest.approx(fit.value, rel=1e-10)
    everyone = objective.base[None]
    np.testing.assert_allclose(
        objective.gradients(turned.theta[None], everyone)[0], turned.gradient,
        atol=1e-6 * (1 + np.abs(fit.H).max() ** 0.5),
    )  # fmt: skip
    afresh = objective.hessians(turned.theta[None], everyone)[0]
    np.testing.assert_allclose(turned.H, afresh, atol=1e-5 * np.abs(afresh).max())
    np.testing.assert_allclose(
        turned.states().to_numpy(), fit.states().to_numpy()[order], rtol=1e-8, atol=1e-8
    )
    back = turned.ordered(np.argsort(order))
    np.testing.assert_allclose(back.theta, fit.theta, rtol=1e-12, atol=1e-12)
    assert back.model == fit.model


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 0, 2]])
def test_cross_validation_stays(fit, order):
    turned = fit.ordered(order)
    assert turned.ok
    assert repr(turned.status)[:40] == repr(fit.status)[:40]
    np.testing.assert_allclose(turned.params["rate"], fit.params["rate"][order])
    for row, column in np.ndindex(3, 3):
        moved = turned.params["transition"][row, column]
        assert moved == pytest.approx(fit.params["transition"][order[row], order[column]], rel=1e-12)
    folds = fo.folds.blocks(COUNTS, percent=10, n=8)
    before, after = (fo.cross_validate(one, folds) for one in (fit, turned))
    np.testing.assert_allclose(after.folds["loss"], before.folds["loss"], rtol=1e-6)
    assert after.estimate == pytest.approx(before.estimate, rel=1e-7)
    np.testing.assert_allclose(
        [turned.objective(theta) for theta in turned.optima.thetas],
        [fit.objective(theta) for theta in fit.optima.thetas], rtol=1e-10,
    )  # fmt: skip
    spread = np.sqrt(np.diag(np.linalg.inv(turned.H)))
    assert np.isfinite(spread).all()


def test_what_the_model_says_of_single_states_moves_with_them():
    support = [[True, True, False], [False, True, True], [False, False, True]]
    frozen = {"rate": [[2.0], [9.0], [25.0]]}
    prior = np.array([[5.0, 2.0, 1.0], [1.0, 4.0, 2.0], [1.0, 1.0, 3.0]])
    model = fo.models.PoissonHMM(
        3, support=support, initial_support=[True, True, False], frozen=frozen,
        transition_concentration=prior, initial_concentration=[2.0, 3.0, 4.0],
    )  # fmt: skip
    fit = fo.fit(model, COUNTS[:36], restarts=1)
    turned = fit.ordered("rate", descending=True)
    assert turned.ok
    assert turned.model.support == ((True, False, False), (True, True, False), (False, True, True))
    assert turned.model.initial_support == (False, True, True)
    assert dict(turned.model.frozen)["rate"] == ((25.0,), (9.0,), (2.0,))
    np.testing.assert_array_equal(turned.model.transition_concentration, prior[::-1, ::-1])
    np.testing.assert_array_equal(turned.model.initial_concentration, [4.0, 3.0, 2.0])
    assert turned.score() == pytest.approx(fit.score(), rel=1e-10)


def test_order_by_parameters_shares_and_channels():
    pairs = np.stack([COUNTS, 30.0 - np.minimum(COUNTS, 30.0)], 1)
    fit = fo.fit(fo.models.PoissonHMM(3), pairs, restarts=1, order_by="rate[1]")
    assert (np.diff(fit.params["rate"][:, 1]) > 0).all()
    assert (np.diff(fit.ordered("rate").params["rate"][:, 0]) > 0).all()
    assert (np.diff(fit.ordered("share", descending=True).states()["share"]) <= 0).all()


@pytest.mark.parametrize("by", [None, "posterior", "parameters"])
def test_align_finds_the_states_of_another_fit(fit, by):
    for order in ([2, 1, 0], [1, 2, 0]):
        found = fo.align(fit.ordered(order), fit, by=by)
        np.testing.assert_allclose(found.theta, fit.theta, atol=1e-10)


def test_fits_to_other_data_are_aligned_by_parameters(fit):
    other = fo.fit(fo.models.PoissonHMM(3), COUNTS[::-1][:100], restarts=2).ordered([1, 2, 0])
    found = fo.align(other, fit)
    assert (
        np.argsort(found.params["rate"][:, 0]).tolist() == np.argsort(fit.params["rate"][:, 0]).tolist()
    )
    with pytest.raises(ValueError, match="needs fits to data of the same lengths"):
        fo.align(other, fit, by="posterior")


def test_classes_on_a_graph_are_aligned():
    entry = BY_NAME["potts-poisson"]
    fit = saved_fit(entry.name)
    turned = fit.ordered("rate", descending=True)
    assert turned.states()["rate"].is_monotonic_decreasing
    assert list(turned.states()) == ["share", "rate"]
    for by in ("posterior", "parameters"):
        np.testing.assert_allclose(fo.align(turned, fit, by=by).theta, fit.theta)


def test_states_with_parts_of_their_own_stay():
    entry = BY_NAME["events"]
    fit = saved_fit(entry.name)
    with pytest.raises(ValueError, match=r"cannot change places: each has a part of its own"):
        fit.ordered([1, 0])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda fit: fit.ordered("mean"),
            "by='mean': states have no such column to order them by; they have share",
        ),
        (lambda fit: fit.ordered([0, 0, 1]), "by must be a list of the 3 states, each once"),
        (lambda fit: fit.ordered(2.5), "the name of a column of states.. or a list of states, got 2.5"),
        (
            lambda fit: fo.align(fit, fit, by="x"),
            r"by must be one of \('posterior', 'parameters'\) or None",
        ),
        (lambda fit: fo.align(fit, 3), "other must be a Fit from fo.fit, got 3"),
        (
            lambda fit: fo.align(fit, fo.fit(fo.models.PoissonHMM(2), COUNTS, restarts=1)),
            "as many states to be aligned, got 3 and 2",
        ),
        (
            lambda fit: fo.align(
                fit, fo.fit(fo.models.GaussianHMM(3), COUNTS, restarts=1), by="parameters"
            ),
            "same parameters to be aligned by them, got rate and mean, variance",
        ),
    ],
)
def test_bad_arguments_are_refused(fit, call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call(fit)


def test_only_states_have_an_order():
    model = fo.models.LinearChainCRF()
    data = fo.labelled([np.eye(2)] * 3, [["a", "b"]] * 3)
    with pytest.raises(ValueError, match="order_by= needs an HMM or a PottsMixture, got LinearChainCRF"):
        fo.fit(model, data, order_by="rate")


def test_transitions_are_drawn(fit):
    import matplotlib.pyplot as plt

    axes = fit.plot_transitions()
    shown = [text.get_text() for text in axes.texts]
    assert len(shown) == 9
    assert axes.get_images()[0].get_array().shape == (3, 3)
    np.testing.assert_allclose(axes.get_images()[0].get_array() ** 2, fit.params["transition"])
    plt.close("all")
    entry = BY_NAME["potts-poisson"]
    with pytest.raises(ValueError, match="plot_transitions needs an HMM, got PottsMixture"):
        fo.fit(entry.model, entry.data, restarts=1).plot_transitions()


def test_categories_that_a_state_cannot_have_move_with_it():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.integers(0, 3, 40), rng.integers(1, 4, 40)])
    support = [[True, True, True, False], [False, True, True, True]]
    fit = fo.fit(fo.models.HMM(2, fo.models.Categorical(4, support=support)), x, restarts=1)
    turned = fit.ordered([1, 0])
    assert len(turned.states()) == 2
    assert turned.value == pytest.approx(fit.value, abs=1e-9)
    np.testing.assert_allclose(turned.params["probability"], fit.params["probability"][::-1], atol=1e-12)
    assert (turned.params["probability"][0] == 0).sum() == 1
