"""Where fits begin, and which of their ends count."""

import numpy as np
import pytest

import fitonce as fo
import registry
from fitonce.core.numerics import in_float64
from fitonce.fitting.carriers import has_empty_state
from fitonce.fitting.descent import Run
from fitonce.fitting.fit import continued
from fitonce.fitting.optima import distinct, first_of_best
from fitonce.models.starts import clustered
from fitonce.objectives.families import objective_of

CHAINS = [one for one in registry.entries() if isinstance(one.model, fo.models.HMM) and not one.slow]


def _patterns(emission, seed, steps=600, channels=12, states=4):
    """Steps whose states are high in some channels and low in others, with their parameters."""
    rng = np.random.default_rng(seed)
    z = np.cumsum((rng.random(steps) > 0.95) * rng.integers(1, states, steps)) % states
    rate = np.exp(rng.normal(size=(states, channels)) + 0.5)
    if emission == "poisson":
        return rng.poisson(rate[z]).astype(float), {"rate": rate}
    numbers = np.log(rate)[:, :4]
    x = np.concatenate([numbers[z] + 0.5 * rng.normal(size=(steps, 4)), rng.poisson(rate[z])], 1)
    return x, {"numbers": numbers, "rate": rate}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_states_that_differ_by_their_pattern_are_found(seed):
    x, params = _patterns("poisson", seed)
    fit = fo.fit(fo.models.PoissonHMM(4), x)
    truth = fo.fit(fo.models.PoissonHMM(4), x, init={**fit.params, **params})
    assert fit.ok
    assert fit.value < truth.value + 1e-3


def test_channels_of_different_kinds_are_clustered_together():
    x, params = _patterns("product", 3)
    names = [f"x{c}" for c in range(16)]
    parts = {tuple(names[:4]): fo.models.Gaussian(), tuple(names[4:]): fo.models.Poisson()}
    fit = fo.fit(fo.models.HMM(4, fo.models.Product(parts)), x, restarts=1, optima=0)
    rate = np.asarray(fit.params["+".join(names[4:]) + ".rate"])
    nearest = ((rate[:, None] - params["rate"]) ** 2).sum(-1).argmin(1)
    assert sorted(nearest) == [0, 1, 2, 3]
    mean = np.asarray(fit.params["+".join(names[:4]) + ".mean"])
    np.testing.assert_allclose(mean, params["numbers"][nearest], atol=0.4)


@pytest.mark.parametrize("entry", CHAINS, ids=str)
@in_float64
def test_random_starts_are_points_of_the_model(entry):
    objective = objective_of(entry.model, entry.data, None)
    rng = np.random.default_rng(0)
    for _ in range(10):
        theta = objective.start(rng)
        assert np.isfinite(theta).all()
        assert np.isfinite(objective(theta))


@pytest.mark.parametrize("entry", CHAINS, ids=str)
def test_features_are_known_where_something_was_observed(entry):
    objective = objective_of(entry.model, entry.data, None)
    rows, emission = objective.prepared.rows, objective.model.emission
    found = emission.features(rows)
    assert len(found) == len(rows.counts)
    np.testing.assert_array_equal(np.isfinite(found).any(1), rows.mask().reshape(len(found), -1).any(1))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_clusters_do_not_depend_on_units_of_channels(scale):
    rng = np.random.default_rng(5)
    centre = np.array([[-2.0, 2.0, 0.0], [2.0, 2.0, 1.0], [2.0, -2.0, 3.0]])
    x = centre[np.repeat([0, 1, 2] * 10, 10)] + 0.3 * rng.normal(size=(300, 3))
    x[:, 1] *= scale
    objective = objective_of(fo.models.GaussianHMM(3), fo.sequences(x), None)
    steps = np.arange(300)[None]
    found = clustered(objective.model.emission, 3, objective.prepared.rows, steps, None)
    np.testing.assert_allclose(found["mean"] / [1.0, scale, 1.0], centre, atol=0.8)


def test_constant_and_missing_channels_do_not_stop_a_start():
    x = np.random.default_rng(0).poisson(3.0, (80, 3)).astype(float)
    x[:, 1], x[:40, 2] = 0.0, np.nan
    for seed in range(3):
        fit = fo.fit(fo.models.PoissonHMM(2), x, seed=seed)
        assert np.isfinite(fit.value)


def _run(value, **marks):
    return Run(np.zeros(2), value, 1.0, 1.0, **marks)


def test_ends_with_an_empty_state_or_without_a_certificate_are_not_found():
    runs = [_run(5.0), _run(5.0), _run(3.0, refused=True), _run(9.0, lost=True), _run(np.nan)]
    pool = distinct(runs)
    assert pool.values.tolist() == [5.0]
    assert (pool.found.tolist(), pool.starts, pool.lost, pool.below) == ([2], 4, 2, 2.0)
    assert pool.sentence == (
        "found by 2 of 4 starts; 2 ended in no optimum, 2 nats below at the lowest; no other optimum met"
    )
    assert first_of_best(runs) is runs[0]
    assert first_of_best(runs[2:3]) is runs[2]  # there is no other


def test_a_state_that_no_point_is_in_is_empty():
    x = np.random.default_rng(0).poisson(3.0, 60).astype(float)
    objective = objective_of(fo.models.PoissonHMM(2), fo.sequences(x), None)
    params = {"initial": [0.5, 0.5], "transition": [[0.9, 0.1], [0.1, 0.9]]}
    there = objective.space.to_free({**params, "rate": np.array([[2.9], [3.1]])})
    far = objective.space.to_free({**params, "rate": np.array([[3.0], [1e6]])})
    assert not has_empty_state(objective, there)
    assert has_empty_state(objective, far)


def test_the_next_end_is_taken_where_the_lowest_is_not_certified(monkeypatch):
    from fitonce.core.status import Outcome, Status
    from fitonce.fitting import search as module

    x = np.random.default_rng(0).poisson(np.repeat([2.0, 9.0, 4.0] * 3, 12)).astype(float)
    usual, seen = module.finish, []

    def once(objective, theta, *rest):
        end = usual(objective, theta, *rest)
        seen.append(objective(end.theta))
        lowest = abs(seen[-1] - seen[0]) < 1e-3
        return end._replace(status=Status(Outcome.NOT_A_MINIMUM, "as a test has it")) if lowest else end

    monkeypatch.setattr(module, "finish", once)
    fit = fo.fit(fo.models.PoissonHMM(4), x)
    assert fit.ok
    assert fit.value > seen[0]
    assert fit.optima.lost > 0
    assert fit.optima.below == pytest.approx(fit.value - seen[0], abs=1e-3)
    assert "ended in no optimum" in repr(fit)


def test_what_is_known_of_ends_that_do_not_count_is_saved(tmp_path):
    x = np.random.default_rng(0).poisson(np.repeat([2.0, 9.0], 40)).astype(float)
    fit = fo.fit(fo.models.PoissonHMM(2), x)
    object.__setattr__(fit.optima, "lost", 2)
    object.__setattr__(fit.optima, "below", 1.5)
    again = fo.load(fit.save(tmp_path / "fit.json"))
    assert (again.optima.lost, again.optima.below) == (2, 1.5)


@pytest.fixture(scope="module")
def two_optima():
    """Counts, a fit in a poor optimum, and the best one."""
    x, params = _patterns("poisson", 0)
    model = fo.models.PoissonHMM(4)
    best = fo.fit(model, x)
    rate = params["rate"]  # two states as one, and one as two
    split = np.stack([rate[0], 0.5 * (rate[1] + rate[2]), rate[3] * 0.9, rate[3] * 1.1])
    return x, fo.fit(model, x, init={**best.params, "rate": split}), best


def test_a_fit_goes_on_from_a_better_optimum_and_keeps_its_own(two_optima):
    _, poor, best = two_optima
    assert poor.value > best.value + 1.0
    better = continued(poor, best.theta)
    assert better.value == pytest.approx(best.value, abs=1e-6)
    np.testing.assert_allclose(better.optima.values, [better.value, poor.value])
    assert better.optima.starts == poor.optima.starts + 1
    assert continued(best, poor.theta) is None


def test_select_uses_a_better_fit_that_folds_lead_to(two_optima, monkeypatch):
    from fitonce.analysis import select as module

    x, poor, best = two_optima
    monkeypatch.setattr(module, "fit", lambda *args, **how: poor)
    usual = module.cross_validate

    def led(fit, folds, **how):
        found = usual(fit, folds, **how)
        if fit is poor:
            object.__setattr__(found, "better_theta", best.theta)
        return found

    monkeypatch.setattr(module, "cross_validate", led)
    found = fo.select({"4": poor.model}, x, optima=0)
    assert found.results["4"].fit.value == pytest.approx(best.value, abs=1e-6)
    assert found.table["aic"]["4"] == pytest.approx(2 * 63 - 2 * best.log_likelihood, abs=1e-4)
    given = fo.select({"4": poor}, x, optima=0)  # a fit that is given stays
    assert given.results["4"].fit is poor


def test_select_has_no_answer_beside_a_fit_without_a_certificate():
    x = np.random.default_rng(1).poisson(np.tile(np.repeat([2.0, 9.0], 20), 5)).astype(float)
    fits = {str(k): fo.fit(fo.models.PoissonHMM(k), x) for k in (1, 2)}
    early = fo.fit(fo.models.PoissonHMM(3), x, max_iterations=3, restarts=1)
    assert not early.ok
    found = fo.select({**fits, "3": early}, x, optima=0)
    assert found.simplest == "2"
    assert found.undecided.startswith("no answer yet: 3 has no certified fit (not a minimum)")
    assert "without it, 2" in found.undecided
    assert "restarts=40, --restarts 40" in found.undecided
    lines = repr(found).splitlines()
    assert lines[1] == found.undecided  # above the table
    assert "chosen" not in repr(found)
    assert "chosen" not in found.sentence
    assert "chosen" not in found._repr_html_()
    assert "chosen: 2" in fo.select(fits, x, optima=0).sentence


def test_a_model_that_cannot_be_fitted_is_beside_nothing():
    x = np.random.default_rng(1).poisson(np.tile(np.repeat([2.0, 9.0], 20), 5)).astype(float) + 0.5
    models = {"1": fo.models.GaussianHMM(1), "2": fo.models.GaussianHMM(2), "3": fo.models.PoissonHMM(3)}
    found = fo.select(models, x, optima=0)
    assert "3" in found.skipped
    assert not found.undecided
    assert "chosen: 2" in found.sentence


def test_as_many_restarts_find_as_good_an_optimum_as_the_default():
    counts = [13, 14, 8, 10, 16, 26, 32, 27, 18, 32, 36, 24, 22, 23, 22, 18, 25, 21, 21, 14, 8, 11, 14]
    x = np.tile(np.array(counts, float), 3)
    model = fo.models.PoissonHMM(5)
    usual, many = fo.fit(model, x), fo.fit(model, x, restarts=24)
    assert many.value == pytest.approx(usual.value, abs=1e-3)
