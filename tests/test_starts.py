"""Where fits begin, and which of their ends count."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from reproduce.cases import EARTHQUAKES
from reproduce.starts import made

import fitonce as fo
import registry
from fitonce.core.constraints import Positive
from fitonce.core.numerics import in_float64
from fitonce.fitting.carriers import has_empty_state
from fitonce.fitting.descent import Run
from fitonce.fitting.fit import continued
from fitonce.fitting.optima import _is_enough, distinct, first_of_best
from fitonce.models import starts
from fitonce.models.starts import ObservedSteps, clustered
from fitonce.objectives.families import objective_of

CHAINS = [one for one in registry.entries() if isinstance(one.model, fo.models.HMM) and not one.slow]


def _patterns(emission, seed, steps=600, channels=12, states=4):
    """ObservedSteps whose states are high in some channels and low in others, with their parameters."""
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
    rows = objective.prepared.rows
    found = clustered(objective.model.emission, 3, rows, ObservedSteps.of(rows, None, (1, 300)), None)
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
    runs = [_run(5.0), _run(5.0), _run(3.0, refused=True), _run(9.0, empty=True), _run(np.nan)]
    pool = distinct(runs)
    assert pool.values.tolist() == [5.0]
    assert (pool.found.tolist(), pool.starts, pool.lost, pool.below) == ([2], 4, 2, 2.0)
    assert pool.sentence == (
        "found by 2 of 4 starts; 2 ended in no optimum, 2 nats below at the lowest; no other optimum met"
    )
    assert first_of_best(runs) is runs[0]
    assert first_of_best(runs[2:3]) is runs[2]  # there is no other


@pytest.mark.parametrize(
    ("values", "rivals"),
    [
        ([1.0] * 3, False),
        ([1.0] * 4 + [8.0], True),
        ([1.0] * 4 + [30.0], False),
        ([1.0, 1.0, 30.0], True),
    ],
)
def test_optima_that_are_much_worse_are_no_rivals_of_one_that_is_found_often(values, rivals):
    assert distinct([_run(value) for value in values]).has_rivals is rivals


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
    fit = replace(fit, optima=replace(fit.optima, lost=2, below=1.5))
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
    assert better.optima.found.tolist() == [0, 1]  # no start has found it
    assert continued(best, poor.theta) is None


def test_select_uses_a_better_fit_that_folds_lead_to(two_optima, monkeypatch):
    from fitonce.analysis import select as module

    x, poor, best = two_optima
    monkeypatch.setattr(module, "fit", lambda *args, **how: poor)
    usual = module.cross_validate

    def led(fit, folds, **how):
        found = usual(fit, folds, **how)
        if fit is poor:
            return replace(found, better_theta=best.theta)
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
    assert "of the others 2 would be chosen" in found.undecided
    assert "restarts=40, --restarts 40" in found.undecided
    lines = repr(found).splitlines()
    assert lines[1] == found.undecided  # above the table
    for said in (repr(found), found.sentence, found._repr_html_()):
        assert "chosen: " not in said
        assert ">chosen<" not in said
    assert "chosen: 2" in fo.select(fits, x, optima=0).sentence


def test_a_model_that_cannot_be_fitted_is_beside_nothing():
    x = np.random.default_rng(1).poisson(np.tile(np.repeat([2.0, 9.0], 20), 5)).astype(float) + 0.5
    models = {"1": fo.models.GaussianHMM(1), "2": fo.models.GaussianHMM(2), "3": fo.models.PoissonHMM(3)}
    found = fo.select(models, x, optima=0)
    assert "3" in found.skipped
    assert not found.undecided
    assert "chosen: 2" in found.sentence


def test_restarts_of_the_earthquakes_find_what_select_finds():
    """24 restarts with five states ended at 325.900 where `select` found 325.035."""
    flat = {"stationary": True, "transition_concentration": 1.0}
    model = fo.models.PoissonHMM(5, **flat)
    usual, many = fo.fit(model, EARTHQUAKES), fo.fit(model, EARTHQUAKES, restarts=24)
    found = fo.select({"5": model}, EARTHQUAKES).results["5"].fit
    assert many.ok
    assert many.value == pytest.approx(usual.value, abs=1e-3)
    assert found.value < usual.value + 1e-3


def test_empty_steps_and_ends_of_short_sequences_say_nothing_of_noise():
    rng = np.random.default_rng(2)
    data = [rng.normal(size=(20, 2)) for _ in range(4)] + [rng.normal(size=(300, 2))]
    found = _points(fo.models.GaussianHMM(2), data)
    assert len(found) == 380
    np.testing.assert_allclose(found.std(0), 1.0, atol=0.1)  # white noise has unit noise


def _points(model, data):
    prepared = objective_of(model, fo.sequences(data), None).prepared
    steps = ObservedSteps.of(prepared.rows, None, prepared.grid)
    return starts._points(model.emission, prepared.rows, steps)


def test_counts_are_clustered_by_their_rates():
    rng = np.random.default_rng(0)
    births = rng.choice([10.0, 1000.0], 200)
    deaths = rng.poisson(0.1 * births).astype(float)
    data = fo.sequences(deaths, covariates={"births": births})
    emission = fo.models.PoissonRegression(exposure="births")
    rows = objective_of(fo.models.HMM(2, emission), data, None).prepared.rows
    small, large = (emission.features(rows)[births == b].mean() for b in (10.0, 1000.0))
    assert small == pytest.approx(large, abs=0.1)


def test_a_channel_that_is_seldom_observed_does_not_stop_a_fit():
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = rng.poisson(np.repeat([[1.0, 4.0, 2.0], [6.0, 1.0, 3.0]] * 5, 25, 0)).astype(float)
        x[rng.random(250) < 0.97, 0] = np.nan
        assert np.isfinite(fo.fit(fo.models.PoissonHMM(3), x).value)
        assert np.isfinite(fo.fit(fo.models.HMM(3, "log-normal"), x + 1.0, restarts=2).value)


class ByChannel(fo.models.Emission):
    """Poisson counts whose rates have the state last."""

    def parameters(self, n_states, rows):
        return {"rate": Positive((rows.x.shape[1], n_states))}

    def start(self, n_states, rows, rng):
        return {"rate": fo.models.emissions.spread_levels(n_states, rows, rng).T + 0.1}

    def log_prior(self, params, rows):
        return 0.0

    def log_density(self, params, rows):
        rate = params["rate"].T
        terms = rows.x[:, None] * jnp.log(rate) - rate
        return fo.models.emissions.sum_channels(terms, rows)


def test_an_emission_of_ones_own_may_have_the_state_last():
    x = np.random.default_rng(0).poisson(np.repeat([[1.0, 8.0], [6.0, 2.0]], 40, 0)).astype(float)
    own, usual = fo.fit(fo.models.HMM(2, ByChannel()), x), fo.fit(fo.models.PoissonHMM(2), x)
    assert own.ok
    theirs = np.sort(np.asarray(usual.params["rate"]), 0)
    np.testing.assert_allclose(np.sort(np.asarray(own.params["rate"]).T, 0), theirs, rtol=1e-4)


def test_many_categories_are_clustered_by_the_most_common():
    x = np.random.default_rng(0).zipf(1.5, 3000).clip(1, 2000) - 1.0
    rows = objective_of(fo.models.CategoricalHMM(3, 2000), fo.sequences(x), None).prepared.rows
    assert fo.models.Categorical(2000).features(rows).shape == (3000, 50)


def test_a_product_with_an_impossible_category_starts():
    rng = np.random.default_rng(0)
    z = np.repeat([0, 1] * 5, 20)
    x = np.stack([rng.normal(3.0 * z), rng.integers(0, 2, 200) + z], 1)
    categories = fo.models.Categorical(3, support=[[1, 1, 0], [0, 1, 1]])
    fit = fo.fit(fo.models.HMM(2, fo.models.Product({"x0": "gaussian", "x1": categories})), x)
    assert fit.ok


@pytest.mark.parametrize(
    ("runs", "enough"),
    [
        ([_run(1.0)] * 3, True),
        ([_run(1.0)] * 2 + [_run(4.0)], False),
        ([_run(1.0)] * 3 + [_run(4.0)] * 2, True),
        ([_run(1.0), _run(9.0, empty=True)], False),
        ([_run(9.0, empty=True)] * 3, False),
        ([_run(1.0)], True),  # a single start was asked for
    ],
)
def test_starts_end_where_the_best_was_found_often_enough(runs, enough):
    data = fo.sequences(np.arange(18.0).reshape(9, 2))
    objective = objective_of(fo.models.PoissonHMM(2), data, None)
    assert _is_enough(objective, distinct(runs)) is enough


def test_a_refused_end_is_not_tried_again(monkeypatch):
    from fitonce.core.status import Outcome, Status
    from fitonce.fitting import search as module

    x = np.random.default_rng(0).poisson(np.repeat([2.0, 9.0, 4.0] * 3, 12)).astype(float)
    usual, seen = module.finish, []

    def never(objective, theta, *rest):
        end = usual(objective, theta, *rest)
        seen.append(objective(end.theta))
        return end._replace(status=Status(Outcome.NOT_A_MINIMUM, "as a test has it"))

    monkeypatch.setattr(module, "finish", never)
    fit = fo.fit(fo.models.PoissonHMM(4), x)
    assert not fit.ok
    assert len(seen) > 1
    assert (np.diff(np.sort(seen)) > 1e-3).all()
    assert fit.value == pytest.approx(seen[0])
    assert "found by 0 of" in fit.optima.sentence


def test_rates_that_go_to_zero_end_in_sentences_not_in_errors():
    """Counts of widely different sizes, and more states than there are: it ended in ArpackError."""
    x = made("poisson", 9).x
    found = fo.select({str(k): fo.models.PoissonHMM(k) for k in (3, 4, 5)}, x, fo.folds.kfold(len(x), 6))
    assert not found.skipped
    assert list(found.table["fit"]) == ["stationary"] * 3
    assert found.table["estimate"].notna().all()
