"""A few of the inputs of `make fuzz`, the same every time; that judges and the hunt notice faults."""

from __future__ import annotations

import numpy as np
import pytest

import enumeration
from fuzzing import hunting
from fuzzing.judges import Chain, Field, Tags, log_densities
from fuzzing.kinds import KINDS, try_one
from fuzzing.outcomes import Outcome

SLICE = {
    "chains": 25,
    "labels": 12,
    "files": 12,
    "graphs": 6,
    "columns": 20,
    "dates": 20,
    "beside": 20,
    "places": 6,
}


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_slice_of_random_inputs_is_answered_or_refused(kind):
    hunt = hunting.Hunt()
    hunt.round(kind, 7, SLICE[kind], float("inf"), write=False)
    assert not hunt.known
    assert sum(hunt.counts.values()) >= SLICE[kind]
    assert hunt.counts[kind, "right"] > 0


def test_the_forward_algorithm_agrees_with_enumeration():
    rng = np.random.default_rng(0)
    params = {"initial": rng.dirichlet(np.ones(3)), "transition": rng.dirichlet(np.ones(3), 3)}
    chain = Chain.of(params, rng.normal(size=(5, 3)))
    kept = np.array([True, False, True, True, False])
    unary = chain.seen(kept)
    unary[0] += chain.initial
    assert chain.log_likelihood(kept) == pytest.approx(enumeration.log_partition(unary, chain.moves))
    states = enumeration.marginals(unary, chain.moves)
    np.testing.assert_allclose(np.exp(chain.posterior(kept)), states, rtol=1e-12)
    whole = chain.table.copy()
    whole[0] += chain.initial
    assert chain.best() == pytest.approx(enumeration.path_scores(whole, chain.moves).max())


def test_densities_sum_to_one():
    counts = np.arange(400.0)[:, None]
    for kind, params in {
        "poisson": {"rate": [[3.0]]},
        "negative-binomial": {"mean": [[3.0]], "size": [[2.0]]},
        "zero-inflated": {"rate": [[3.0]], "zeros": [[0.2]]},
        "binomial": {"rate": [[0.3]]},
        "categorical": {"probability": [[[0.1, 0.2, 0.3, 0.4]]]},
    }.items():
        assert np.exp(log_densities(kind, params, counts)).sum() == pytest.approx(1.0)


def test_a_field_of_two_sites_and_tags_of_one_token_by_hand():
    field = Field(np.log([[0.5, 0.25], [0.125, 0.5]]), [(0, 1)], np.log(3.0))
    both = np.ones(2, bool)
    expected = (3 * 0.5 * 0.125 + 0.5 * 0.5 + 0.25 * 0.125 + 3 * 0.25 * 0.5) / 8
    assert field.log_likelihood(both) == pytest.approx(np.log(expected))
    tags = Tags(np.log([[1.0, 3.0]]), np.zeros((2, 2)), np.array([1]))
    assert tags.log_likelihood(np.ones(1, bool)) == pytest.approx(np.log(0.75))


@pytest.mark.parametrize(
    ("kind", "place", "fault"),
    [
        ("columns", "fitonce.data.sequences.order_of", lambda *given, **more: None),
        ("dates", "fitonce.data.sequences.require_in_time", lambda *given: None),
        ("beside", "fitonce.data.covariates.aligned", lambda given, *labels: given),
        ("places", "fuzzing.orders._after", lambda sets, order: sets),
    ],
)
def test_judges_of_orders_notice_faults(monkeypatch, kind, place, fault):
    monkeypatch.setattr(place, fault)
    monkeypatch.setattr(hunting, "SHRINKING", 0.0)
    hunt = hunting.Hunt()
    hunt.round(kind, 7, 60, float("inf"), write=False)
    assert {what for _, what, _ in hunt.known} <= {"wrong answer", "refused what is right"}
    assert len(hunt.known) == 1


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (lambda recipe: None, "right"),
        (lambda recipe: int("x"), "raw error"),  # of nobody's
        (lambda recipe: [][0], "raw error"),
        (lambda recipe: np.testing.assert_allclose(1.0, 2.0), "wrong answer"),
        (lambda recipe: np.log(np.zeros(1)), "warning"),
    ],
)
def test_what_comes_of_an_input_is_told_apart(monkeypatch, answer, kind):
    monkeypatch.setitem(KINDS, "chains", KINDS["chains"]._replace(judge=answer))
    assert try_one("chains", {}).kind == kind


def test_a_failure_is_shortened_and_written_as_a_test(monkeypatch, tmp_path, capsys):
    def judge(recipe):
        assert len(recipe["data"]) < 2, "sequences: too many"

    monkeypatch.setitem(KINDS, "chains", KINDS["chains"]._replace(judge=judge))
    hunt = hunting.Hunt()
    hunt.round("chains", 0, 50, float("inf"), write=False)
    assert list(hunt.known) == [("chains", "wrong answer", "sequences")]
    assert "wrong answer: sequences: too many" in capsys.readouterr().out
    recipe = {"data": [[[float("nan")]], [[1.0]]], "text": "\u96ea", "bytes": b"\0"}
    path = hunting.write_test("chains", Outcome("wrong answer", "sequences"), recipe, tmp_path)
    space: dict = {}
    exec(path.read_text(), space)
    (test,) = (value for name, value in space.items() if name.startswith("test_"))
    with pytest.raises(AssertionError, match="wrong answer: sequences: too many"):
        test()
