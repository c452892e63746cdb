"""Hidden chains with covariates in transitions, a stationary beginning, or ends of their own."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

import enumeration
import fitonce as fo
from fitonce.cli import app
from fitonce.core.numerics import in_float64
from fitonce.models.hidden.stationary import stationary
from fitonce.objectives.chain.native import best_objective
from fitonce.objectives.schemes import A, B, Increments, Structures

SUPPORT = np.array([[True, True, False], [True, True, True], [False, True, True]])
KINDS = {
    "covariates": {"transition_covariates": ["u0", "u1"], "stickiness": 2.0},
    "covariates-support": {"transition_covariates": ["u1"], "support": SUPPORT},
    "covariates-frozen": {
        "transition_covariates": ["u1"],
        "frozen": {"transition": np.full((3, 3), 1 / 3)},
    },
    "stationary": {"stationary": True},
    "stationary-support": {"stationary": True, "support": SUPPORT},
    "stationary-covariates": {"stationary": True, "transition_covariates": ["u0"], "support": SUPPORT},
    "durations": {"durations": "negative-binomial", "stages": 3},
    "durations-one-stage": {"durations": "negative-binomial", "stages": 1},
    "durations-poisson": {"durations": "poisson", "stages": 4, "support": SUPPORT},
    "durations-frozen": {
        "durations": "negative-binomial",
        "stages": 2,
        "frozen": {"dwell_size": np.array([1.0, 2.0, 3.0])},
    },
    "ends": {"end_prior": (1.1, 1.2)},
    "ends-covariates": {"end_prior": (1.1, 1.2), "transition_covariates": ["u0"]},
}
SCHEMES = [A(), B(), B(per_transition=True), Structures(), Increments()]


def _data(lengths=(7, 4, 1, 6), seed=0):
    rng, parts, known = np.random.default_rng(seed), [], []
    for steps in lengths:
        z = np.cumsum(rng.random(steps) < 0.3) % 3
        parts.append(rng.poisson(np.array([2.0, 7.0, 15.0])[z]).astype(float))
        known.append(rng.normal(size=(steps, 2)))
    parts[0][3] = np.nan
    return fo.sequences(parts, covariates=known)


def _at(kind, data, kernel=None, seed=1):
    model = fo.models.HMM(3, "poisson", **KINDS[kind])
    objective, rng = best_objective(model, data, kernel), np.random.default_rng(seed)
    start = objective.space.to_free(model.start(objective.prepared, rng))
    return objective, start + 0.3 * rng.normal(size=len(start))


def _by_paths(kind, data, params):
    """log p(x) from sums over all paths, written as the documents say it."""
    options, total = KINDS[kind], 0.0
    if "durations" in options:
        return _by_durations(options, data, params)
    base = np.asarray(params["transition"])
    names = options.get("transition_covariates", [])
    ends = np.asarray(params["end"]) if "end" in params else None
    for n, steps in enumerate(data.lengths):
        unary = np.zeros((steps, 3))
        for t in range(steps):
            if data.observed[n, t, 0]:
                unary[t] = _log_densities(data, n, params)[t]
        moves = np.zeros((steps, 3, 3))
        for t in range(steps):
            odds = base.copy()
            for q, name in enumerate(names):
                u = data.covariates[n, t, data.covariate_names.index(name)]
                odds = odds * np.exp(u * np.asarray(params["transition_coefficients"])[..., q])
            odds = odds / odds.sum(1, keepdims=True)
            moves[t] = odds if ends is None else odds * (1 - ends)[:, None]
        if "initial" in params:
            first = np.asarray(params["initial"])
        else:
            values, vectors = np.linalg.eig(moves[0].T)
            first = np.real(vectors[:, np.argmax(np.real(values))])
            first = first / first.sum()
        unary[0] += np.log(first)
        if ends is not None:
            unary[-1] += np.log(ends)
        with np.errstate(divide="ignore"):
            total += enumeration.log_partition(unary, np.log(moves[1:]))
    return total


def _log_densities(data, n, params):
    """(T, K) of one sequence, zero where missing."""
    x, rate = data.values[n, : data.lengths[n]], np.asarray(params["rate"])[:, 0]
    found = stats.poisson.logpmf(x, rate)
    return np.where(data.observed[n, : data.lengths[n]], found, 0.0)


def _durations(options, params, state, longest):
    """(longest,) probabilities of lasting 1, 2, ... steps; after the stages as the last one has it."""
    mean, m = np.asarray(params["dwell"])[state], options["stages"]
    if options["durations"] == "poisson":
        law = stats.poisson(mean - 1)
    else:
        size = np.asarray(params["dwell_size"])[state]
        law = stats.nbinom(size, size / (size + mean - 1))
    hazard = np.array([law.pmf(r - 1) / law.sf(r - 2) for r in range(1, m + 1)])
    hazard = np.append(hazard, np.full(longest, hazard[-1]))[:longest]
    return hazard * np.cumprod(np.append(1.0, 1.0 - hazard[:-1])), np.cumprod(1.0 - hazard)


def _by_durations(options, data, params):
    """log p(x) from sums over all ways to cut sequences into states that last: no stages."""
    initial, follow = np.asarray(params["initial"]), np.asarray(params["transition"])
    total = 0.0
    for n, steps in enumerate(data.lengths):
        density = _log_densities(data, n, params)
        laws = [_durations(options, params, k, steps) for k in range(3)]

        @lru_cache
        def rest(begin, state, density=density, laws=laws, steps=steps):
            """p(x from `begin` on), if a state begins there."""
            found = 0.0
            for lasts in range(1, steps - begin + 1):
                here = np.exp(density[begin : begin + lasts, state].sum())
                if begin + lasts == steps:  # it may last longer
                    found += here * (laws[state][0][lasts - 1] + laws[state][1][lasts - 1])
                else:
                    after = [follow[state, j] * rest(begin + lasts, j) for j in range(3)]
                    found += here * laws[state][0][lasts - 1] * sum(after)
            return found

        total += np.log(sum(initial[k] * rest(0, k) for k in range(3)))
    return total


@pytest.mark.parametrize("kind", KINDS)
def test_the_likelihood_is_that_of_all_paths(kind):
    data = _data()
    objective, theta = _at(kind, data)
    params = objective.space.params_at(theta)
    found = objective.log_likelihoods(theta[None], objective.base[None])[0]
    assert found == pytest.approx(_by_paths(kind, data, params), abs=1e-10)


def _differences(function, theta, step=1e-5):
    unit = step * np.eye(len(theta))
    ahead, behind = (function(theta + sign * unit) for sign in (1.0, -1.0))
    return (ahead - behind) / (2.0 * step)


@pytest.mark.parametrize("scheme", SCHEMES[:-1], ids=["A", "B", "B transitions", "structures"])
@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_are_limits_of_differences(kind, scheme):
    objective, theta = _at(kind, _data())
    objective = objective.with_scheme(scheme)
    rng = np.random.default_rng(2)
    weights = objective.base * rng.choice([0.0, 1.0], len(objective.base), p=[0.2, 0.8])

    def values(thetas):
        return objective.values_and_gradients(thetas, np.tile(weights, (len(thetas), 1)))

    slope = values(theta[None])[1][0]
    np.testing.assert_allclose(slope, _differences(lambda t: values(t)[0], theta), atol=2e-7)
    hessian = objective.hessians(theta[None], weights[None])[0]
    np.testing.assert_allclose(hessian, _differences(lambda t: values(t)[1], theta), atol=2e-6)
    if scheme == B(per_transition=True):
        return  # its coordinates are not the weights
    base = objective.base
    moved = np.flatnonzero(base)[:4]
    up, down = (np.tile(base, (len(moved), 1)) for _ in range(2))
    up[np.arange(len(moved)), moved] += 1e-5
    down[np.arange(len(moved)), moved] -= 1e-5
    thetas = np.tile(theta, (len(moved), 1))
    along = [objective.values_and_gradients(thetas, w)[1] for w in (up, down)]
    np.testing.assert_allclose(
        objective.cross(theta)[:, moved], ((along[0] - along[1]) / 2e-5).T, atol=2e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@in_float64
def test_the_native_engine_agrees_with_jax(kind):
    data = _data((30, 12, 1, 25))
    native, theta = _at(kind, data)
    compiled, _ = _at(kind, data, "scan")
    for scheme in SCHEMES if native.traits.resampling[0] == "block" else SCHEMES[:-1]:
        ours, theirs = native.with_scheme(scheme), compiled.with_scheme(scheme)
        at = (theta[None], ours.base[None])
        for one, other in (
            *zip(ours.values_and_gradients(*at), theirs.values_and_gradients(*at), strict=True),
            (ours.hessians(*at), theirs.hessians(*at)),
            (ours.cross(theta), theirs.cross(theta)),
        ):
            np.testing.assert_allclose(one, other, atol=1e-9)
    for one, other in zip(native.leave_one_out(theta), compiled.leave_one_out(theta), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)
    np.testing.assert_allclose(
        native.state_probabilities(theta), compiled.state_probabilities(theta), atol=1e-12
    )
    for one, other in zip(native.decode(theta), compiled.decode(theta), strict=True):
        np.testing.assert_array_equal(one, other)
    value, new = native.m_step(theta)
    by_jax, also = compiled.m_step(theta)
    assert value == pytest.approx(by_jax, abs=1e-9)
    np.testing.assert_allclose(new, also, atol=1e-7)


def test_steps_of_sequences_that_end_are_resampled_only_if_all_are_observed():
    data = _data((9, 6, 8))
    model = fo.models.HMM(3, "poisson", end_prior=(1.1, 1.2))
    fit = fo.fit(model, data, restarts=1)
    with pytest.raises(ValueError, match=r"kind must be one of \('structures',\) .*, got 'block'"):
        fo.bootstrap(fit, kind="block", n=4)
    complete = best_objective(model, fo.sequences([data.values[n, :6] for n in range(3)]), None)
    theta = complete.space.to_free(model.start(complete.prepared, np.random.default_rng(0)))
    assert complete.traits.resampling[0] == "block"
    steps = complete.with_scheme(Increments())
    at = (theta[None], complete.base[None])
    for one, other in zip(
        (*complete.values_and_gradients(*at), complete.hessians(*at)),
        (*steps.values_and_gradients(*at), steps.hessians(*at)),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_em_steps_lower_the_objective(kind):
    objective, theta = _at(kind, _data((30, 12, 1, 25)))
    values = []
    for _ in range(6):
        value, theta = objective.m_step(theta)
        values.append(value)
    assert (np.diff(values) < 1e-9).all()


def test_a_stationary_distribution_stays_what_it_is():
    rng = np.random.default_rng(0)
    for states in (1, 2, 5):
        moves = rng.dirichlet(np.full(states, 0.3), states)
        share = stationary(moves, np)
        np.testing.assert_allclose(share @ moves, share, atol=1e-13)
        assert share.sum() == pytest.approx(1.0)


def _simulated(steps, seed, slope=1.5):
    """Two states; a covariate changes how often they change, each way by its own slope."""
    rng = np.random.default_rng(seed)
    u, z = rng.normal(size=steps), np.zeros(steps, int)
    for t in range(1, steps):
        logit = (-2.0 + slope * u[t]) if z[t - 1] == 0 else (-1.0 - 0.8 * u[t])
        z[t] = z[t - 1] ^ (rng.random() < 1 / (1 + np.exp(-logit)))
    return fo.sequences(rng.normal(3.0 * z, 1.0), covariates={"heat": u})


def test_coefficients_of_transitions_are_recovered_within_their_standard_errors():
    fit = fo.fit(fo.models.HMM(2, "gaussian", transition_covariates=["heat"]), _simulated(3000, 0))
    found = fit.params["transition_coefficients"][..., 0]
    first = int(np.argmin(np.ravel(fit.params["mean"])))
    table = fit.to_dataframe()
    errors = dict(zip(table["name"], table["se"], strict=True))
    for here, true in ((first, 1.5), (1 - first, -0.8)):
        se = errors[f"transition_coefficients[{here},{1 - here},0]"]
        assert abs(found[here, 1 - here] - true) < 3.0 * se
        assert se < 0.3
    assert (np.diag(found) == 0).all()


def test_units_of_covariates_in_transitions_do_not_matter():
    data = _simulated(200, 3)
    scaled = fo.sequences(data.values[0, :, 0], covariates={"heat": 1e6 * data.covariates[0, :, 0]})
    model = fo.models.HMM(2, "gaussian", transition_covariates=["heat"])
    plain, other = (fo.fit(model, given, restarts=2, optima=0) for given in (data, scaled))
    assert plain.ok, plain.status
    assert other.ok, other.status
    assert plain.value == pytest.approx(other.value, abs=1e-7)
    np.testing.assert_allclose(
        plain.params["transition_coefficients"], 1e6 * other.params["transition_coefficients"], rtol=1e-4
    )


def test_folds_of_a_model_with_covariates_in_transitions_are_those_of_refits():
    data = _simulated(150, 5)
    fit = fo.fit(fo.models.HMM(2, "gaussian", transition_covariates=["heat"]), data, restarts=1)
    folds = fo.folds.blocks(data, percent=10, n=5, seed=0)
    quick, exact = (fo.cross_validate(fit, folds, method=m, optima=0) for m in ("auto", "exact"))
    good = quick.folds["verdict"] == "good"
    assert good.any()
    np.testing.assert_allclose(quick.folds["loss"][good], exact.folds["loss"][good], atol=1e-4)


def test_states_ahead_follow_the_covariates_of_the_future():
    fit = fo.fit(fo.models.HMM(2, "gaussian", transition_covariates=["heat"]), _simulated(800, 1))
    calm = fit.forecast(3, covariates={"heat": [-2.0] * 3}).state_probabilities
    hot = fit.forecast(3, covariates={"heat": [2.0] * 3}).state_probabilities
    high = int(np.argmax(np.ravel(fit.params["mean"])))
    assert (hot[:, high] > calm[:, high]).all()
    moves = fit.model.chain.moves_at(fit.params, np.array([[2.0]]))[0]
    np.testing.assert_allclose(hot[1] @ moves, hot[2], atol=1e-12)
    assert len(fit.sample(5, covariates={"heat": np.zeros(5)}).states) == 5
    assert fit.simulate(0).values.shape == fit.data.values.shape
    with pytest.raises(ValueError, match=r"depends on \['heat'\]: give covariates"):
        fit.forecast(2)


def _lasting(steps=600, seed=2):
    """Two states that last 8 and 4 steps, give or take two."""
    rng, z = np.random.default_rng(seed), []
    while len(z) < steps:
        state = len(z) and 1 - z[-1]
        z += [state] * (1 + rng.poisson([7.0, 3.0][state]))
    return np.array(z[:steps]), rng.normal(2.5 * np.array(z[:steps]))


@lru_cache
def _lasting_fit():
    model = fo.models.HMM(2, "gaussian", durations="poisson", stages=16)
    return fo.fit(model, _lasting()[1], restarts=1, optima=0)


def test_durations_are_recovered_and_beat_geometric_ones():
    z, x = _lasting()
    fit = _lasting_fit()
    assert fit.ok, fit.status
    first = int(np.argmin(np.ravel(fit.params["mean"])))
    table = fit.to_dataframe().set_index("name")
    for state, true in ((first, 8.0), (1 - first, 4.0)):
        row = table.loc[f"dwell[{state}]"]
        assert abs(row["value"] - true) < 3.0 * row["se"]
    assert fit.log_likelihood > fo.fit(fo.models.GaussianHMM(2), x).log_likelihood + 10
    posterior, path = fit.posterior(), fit.decode()[0]
    assert posterior.shape == (600, 2)
    np.testing.assert_allclose(posterior.sum(1), 1.0)
    assert ((path == first) == (z == 0)).mean() > 0.95
    np.testing.assert_allclose(fit.states()["dwell"], fit.params["dwell"], rtol=0.01)  # but for the tail


def test_paths_ahead_of_states_with_durations_last_as_long():
    fit = _lasting_fit()
    drawn = fit.sample(4000, seed=1).states
    ends = np.flatnonzero(np.diff(drawn))
    lasted, which = np.diff(ends), drawn[ends[1:]]
    for state in (0, 1):
        mean = fit.params["dwell"][state]
        here = lasted[which == state]
        assert abs(here.mean() - mean) < 4.0 * np.sqrt(mean / len(here))
        assert here.var() < 0.5 * mean**2  # a geometric distribution has more than mean (mean - 1)
    forecast = fit.forecast(3, n=4000, seed=0)
    shares = np.stack([(forecast.states == k).mean(0) for k in (0, 1)], 1)
    np.testing.assert_allclose(shares, forecast.state_probabilities, atol=0.03)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"transition_covariates": "heat"},
            "transition_covariates must be a list of names of covariates, got 'heat'",
        ),
        ({"transition_covariates": ["a", "a"]}, "transition_covariates must differ"),
        ({"transition_covariates": [1]}, "must be a list of names of covariates, got \\[1\\]"),
        ({"transition_scale": -1.0}, "transition_scale must be a positive number or None, got -1"),
        ({"end_prior": (0.0, 1.0)}, "end_prior must be two positive numbers or None"),
        ({"stickiness": -1}, r"stickiness must be a number from 0 to 1e\+06, got -1"),
        ({"stickiness": 1e7}, r"stickiness must be a number from 0 to 1e\+06, got 10000000.0"),
        ({"transition_concentration": 2e6}, r"at most 1e\+06, got 2000000.0"),
        ({"durations": "gamma"}, "durations must be one of negative-binomial, poisson or None"),
        ({"durations": "poisson", "stages": 0}, "stages must be a positive integer, got 0"),
        ({"durations": "poisson", "stationary": True}, "durations cannot be combined with"),
        ({"durations": "poisson", "support": np.eye(2)}, "a state to go to from each state"),
        ({"stationary": True, "end_prior": (1.1, 1.1)}, "cannot be combined with end_prior"),
        ({"stationary": True, "frozen": {"initial": [0.5, 0.5]}}, "derives the initial distribution"),
        ({"stationary": True, "support": np.triu(np.ones((2, 2), bool))}, "all states reach each other"),
    ],
)
def test_chains_that_make_no_sense_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        fo.models.HMM(2, "poisson", **options)


def test_covariates_that_are_missing_or_constant_are_refused():
    model = fo.models.HMM(2, "poisson", transition_covariates=["heat"])
    with pytest.raises(ValueError, match="needs a covariate 'heat' in the data, but it has none"):
        fo.fit(model, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"covariate 'heat' is constant \(2\); leave it out"):
        fo.fit(model, fo.sequences([1.0, 2.0, 3.0], covariates={"heat": [2.0] * 3}))


@pytest.fixture
def command(tmp_path):
    """What a command says of a file, and its exit code."""
    data, path = _simulated(250, 0, slope=2.5), tmp_path / "x.csv"
    columns = np.stack([data.values[0, :, 0], data.covariates[0, :, 0]], 1)
    np.savetxt(path, columns, delimiter=",", header="x,heat", comments="")
    usual = [str(path), "--model", "gaussian-hmm", "--columns", "x"]

    def run(name, *words):
        found = CliRunner().invoke(app, [name, *usual, *words])
        return " ".join(found.output.split()), found.exit_code

    return run


def test_the_command_line_has_chains_with_covariates_and_durations(command):
    quick = ["--n", "5", "--restarts", "1", "--optima", "0"]
    said, code = command("cv", "--transition-covariates", "heat", *quick)
    assert (code, "1 covariate" in said) == (0, True), said
    said, code = command("cv", "--durations", "poisson", "--stages", "3", *quick)
    assert (code, "estimate" in said) == (0, True), said
    said, code = command("cv", "--durations", "gamma")
    assert code == 2
    assert "durations must be one of negative-binomial, poisson or None, got 'gamma'" in said


@pytest.mark.slow
def test_the_command_line_chooses_covariates_of_transitions(command):
    said, code = command("select", "--states", "2", "--transition-covariates", ",heat")
    assert code == 0, said
    assert "transition covariates none" in said
    assert "chosen: transition covariates heat" in said


def test_zeros_that_are_given_stay_zeros():
    x = np.random.default_rng(0).poisson(np.repeat([2.0, 8.0, 15.0], 30)).astype(float)
    model = fo.models.PoissonHMM(3)
    given = {
        "initial": np.array([1.0, 0.0, 0.0]),
        "transition": np.array([[0.9, 0.1, 0.0], [0.0, 0.9, 0.1], [0.0, 0.0, 1.0]]),
        "rate": np.array([[2.0], [8.0], [15.0]]),
    }
    there = fo.fit_at(model, x, given)
    np.testing.assert_allclose(there.params["transition"], given["transition"], rtol=1e-14)
    assert (there.params["transition"][given["transition"] == 0] == 0).all()
    assert np.array_equal(there.model.support, given["transition"] > 0)
    fit = fo.fit(model, x, init=given, restarts=1)
    assert fit.ok, fit.status
    assert (fit.params["transition"][given["transition"] == 0] == 0).all()
    left_right = fo.models.PoissonHMM(
        3, support=given["transition"] > 0, initial_support=given["initial"] > 0
    )
    assert fit.value == pytest.approx(fo.fit(left_right, x).value, abs=1e-8)


def test_known_probabilities_of_ends_are_kept():
    model = fo.models.HMM(3, "poisson", end_prior=(1.1, 1.2), frozen={"end": [0.1, 0.2, 0.3]})
    fit = fo.fit(model, _data((30, 12, 1, 25)), restarts=1)
    np.testing.assert_array_equal(fit.params["end"], [0.1, 0.2, 0.3])
    assert fit.ok, fit.status
    by_sequence = fit.objective.with_scheme(Structures()).cross(fit.theta)
    assert by_sequence.shape == (len(fit.theta), 4)


def test_states_last_as_long_as_their_stages_say():
    fit = _lasting_fit()
    params = {**fit.params, "dwell": np.array([20.0, 3.0])}  # more than 16 stages can tell
    moves = fit.model.chain.moves_at(params, np.zeros((1, 0)))[0]
    lasts = 1.0 / (1.0 - np.diag(fit.model.chain.mean_moves(params, None)))
    rng, state, counted = np.random.default_rng(0), 0, []
    for _ in range(400):
        stage, steps = state * 16, 0
        while stage // 16 == state:
            steps += 1
            stage = int(rng.choice(32, p=moves[stage]))
        counted.append(steps)
    assert lasts[0] > 22
    assert abs(np.mean(counted) - lasts[0]) < 4 * np.std(counted) / 20


def test_constant_covariates_may_be_predicted():
    fit = fo.fit(fo.models.HMM(2, "gaussian", transition_covariates=["heat"]), _simulated(150, 5))
    calm = fo.sequences(np.arange(6.0), covariates={"heat": np.zeros(6)})
    assert len(fit.decode(calm)[0]) == 6
