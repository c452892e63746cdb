"""Parameters that end at zero count in AIC and BIC, and are said to be at zero."""

from __future__ import annotations

import json

import numpy as np
import pytest
from reproduce.cases import EARTHQUAKES

import fitonce as fo
from fitonce.cli.display import show_models
from fitonce.results.saving import write_document

X = np.asarray(EARTHQUAKES, float)
# -log L, AIC and BIC of stationary Poisson HMMs with m = 2, 3, 4 states: Zucchini and MacDonald, Hidden
# Markov Models for Time Series, where k = m^2.
PUBLISHED = {2: (342.3183, 692.6, 703.3), 3: (329.4603, 676.9, 701.0), 4: (327.8316, 687.7, 730.4)}
AT_ZERO = {2: 0, 3: 1, 4: 6}


def _flat(states):
    emission = fo.models.Poisson(shape=1.0, rate=0.0)
    return fo.models.HMM(states, emission, stationary=True, transition_concentration=1.0)


@pytest.fixture(scope="module")
def fits():
    return {states: fo.fit(_flat(states), X) for states in PUBLISHED}


@pytest.fixture(scope="module")
def selection(fits):
    named = {f"{states} states": fit for states, fit in fits.items()}
    return fo.select(named, X, fo.folds.kfold(X, k=5), optima=0)


@pytest.mark.parametrize("states", PUBLISHED)
def test_criteria_are_those_of_the_book(fits, selection, states):
    loss, aic, bic = PUBLISHED[states]
    fit, row = fits[states], selection.table.loc[f"{states} states"]
    assert -fit.log_likelihood == pytest.approx(loss, abs=1e-4)
    assert (fit.n_parameters, fit.at_zero) == (states**2, AT_ZERO[states])
    assert len(fit.theta) == states**2 - AT_ZERO[states]
    assert (row["parameters"], row["at_zero"]) == (states**2, AT_ZERO[states])
    assert row["aic"] == pytest.approx(aic, abs=0.05)
    assert row["bic"] == pytest.approx(bic, abs=0.05)


def test_zeros_are_shown(fits, selection):
    assert "HMM, 4 states, Poisson emission, 16 free parameters, 6 of them at zero, " in repr(fits[4])
    assert "16 free parameters, 6 of them at zero, " in fits[4]._repr_html_()
    assert "2 states, Poisson emission, 4 free parameters, objective" in repr(fits[2])
    assert "at_zero" in repr(selection)
    assert "at_zero" in selection._repr_html_()


def test_a_loaded_fit_counts_the_same(fits, tmp_path):
    path = fits[4].save(tmp_path / "fit.json")
    assert fo.load(path).n_parameters == 16
    document = json.loads(path.read_text())
    del document["at_zero"], document["digest"]  # as in files of earlier versions
    write_document(document, tmp_path / "old.json", force=False)
    assert fo.load(tmp_path / "old.json").at_zero == 6


def test_zeros_that_are_assumed_are_no_parameters():
    """A first state and transitions that the data speak against: the model was meant to have these."""
    params = {
        "initial": np.array([0.0, 1.0]),
        "transition": np.array([[0.9, 0.1], [0.2, 0.8]]),
        "rate": np.array([[15.0], [25.0]]),
    }
    fit = fo.fit_at(fo.models.HMM(2, "poisson", initial_concentration=1.0), X, params)
    assert "held at zero: 1 probability" in fit.status.message
    assert (fit.at_zero, fit.n_parameters) == (0, len(fit.theta))


LEFT_RIGHT = {
    "initial": np.array([1.0, 0.0, 0.0]),
    "transition": np.array([[0.9, 0.1, 0.0], [0.0, 0.9, 0.1], [0.0, 0.0, 1.0]]),
    "rate": np.array([[3.0], [9.0], [20.0]]),
}


def _left_right(slow):
    """Counts that go up, or up and down: slopes of the zeros have either sign."""
    rng = np.random.default_rng(1)
    return np.concatenate([rng.poisson(mean, 30) for mean in ((3, 9, 20) if slow else (20, 3, 9))])[
        :, None
    ]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of hmmlearn, by NumPy 2.5
@pytest.mark.parametrize("slow", [True, False])
@pytest.mark.parametrize("drawn", ["", "st"])
def test_zeros_that_hmmlearn_began_with_are_no_parameters(slow, drawn, tmp_path):
    """Two chances to go on and three rates; what EM drew and brought to zero itself counts."""
    hmm = pytest.importorskip("hmmlearn.hmm")
    x = _left_right(slow)
    theirs = hmm.PoissonHMM(3, init_params="", n_iter=20, random_state=0)
    theirs.startprob_, theirs.transmat_ = LEFT_RIGHT["initial"], LEFT_RIGHT["transition"]
    theirs.lambdas_ = LEFT_RIGHT["rate"]
    theirs.fit(x)
    theirs.init_params = drawn
    fit = fo.from_hmmlearn(theirs, x)
    zeros = sum(int((fit.params[name] == 0).sum()) for name in ("initial", "transition"))
    wanted = (5, 0) if drawn == "" else (len(fit.theta) + zeros, zeros)
    assert zeros >= 6
    assert (fit.n_parameters, fit.at_zero) == wanted
    if drawn == "" and slow:
        assert fit.polish().n_parameters == 5
        assert fo.load(fit.save(tmp_path / "fit.json")).n_parameters == 5


@pytest.mark.parametrize("slow", [True, False])
def test_zeros_that_are_given_are_meant_whatever_the_data(slow):
    x = _left_right(slow).astype(float)
    model = fo.models.HMM(
        3, fo.models.Poisson(), initial_concentration=1.0, transition_concentration=1.0
    )
    for fit in (fo.fit_at(model, x, LEFT_RIGHT), fo.fit(model, x, init=LEFT_RIGHT, max_iterations=1)):
        assert (fit.n_parameters, fit.at_zero) == (5, 0)
    turned = fit.ordered("rate", descending=True) if slow else fit
    assert turned.n_parameters == 5


def test_commands_print_zeros(selection, capsys):
    show_models(selection.table, ["parameters", "at_zero", "aic"])
    printed = capsys.readouterr().out
    assert [word for word in ("D", "at zero", "aic") if word not in printed] == []
    assert "D: free parameters; at zero: so many of these" in printed
