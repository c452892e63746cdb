"""Native chains: loops against enumeration of all paths, closed forms against derivatives by JAX."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import fields, replace
from decimal import Context, Decimal, localcontext
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.stats import poisson

import enumeration
import fitonce as fo
from fitonce import schemes
from fitonce.core.constraints import (
    Covariance,
    Free,
    Frozen,
    Ordered,
    Positive,
    Proportion,
    Scores,
    Simplex,
)
from fitonce.core.parameters import ParameterSpace
from fitonce.core.units import in_units
from fitonce.engines import native_chain
from fitonce.models import Binomial, Categorical, Gaussian, Poisson
from fitonce.models.emissions.closed_forms import Observations
from fitonce.objectives.chain import passes
from fitonce.objectives.chain.native import NativeChainObjective, best_objective
from fitonce.objectives.chain.objective import ChainObjective
from fitonce.objectives.chain.steps import Potentials, Steps
from fuzzing.engine_strategies import native_chains

CONSTRAINTS = [
    Free((2, 3)),
    Positive((4,)),
    Proportion((3,)),
    Simplex((2, 3)),
    Simplex((2, 3), ((True, False, True), (True, True, True))),
    Scores((2, 2), ((True, False), (True, True))),
    Ordered((2, 3)),
    Covariance((2, 3, 3)),
    Frozen.at([1.0, 2.0]),
    in_units(Free((2, 3)), [0.5, 1.0, 4.0], [1.0, 0.0, -8.0]),
    in_units(Positive((2, 3)), [0.25, 1.0, 16.0]),
    in_units(Covariance((2, 3, 3)), np.outer([0.5, 1.0, 4.0], [0.5, 1.0, 4.0])),
]


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda c: type(c).__name__)
def test_values_in_numpy_are_those_of_jax(constraint):
    free = np.random.default_rng(0).normal(size=(4, len(constraint.coordinates())))
    with jax.enable_x64(True):
        expected = np.stack([np.asarray(constraint.to_value(jnp.asarray(row))) for row in free], -1)
    np.testing.assert_allclose(constraint.values(np.ascontiguousarray(free.T)), expected, rtol=1e-14)


class Squares:
    """A user's constraint, which has no `values`: positive numbers by their roots."""

    shape = (3,)

    def coordinates(self):
        return [(0,), (1,), (2,)]

    def to_free(self, value):
        return np.sqrt(value)

    def to_value(self, free):
        return free**2

    def violation(self, value):
        return None


def test_constraints_without_values_in_numpy_have_values_and_slopes():
    space = ParameterSpace({"a": Squares(), "b": Positive((2,))})
    theta = np.array([1.0, 2.0, 3.0, 0.5, -0.5])
    np.testing.assert_allclose(space.named_values(theta[None])[0], [1, 4, 9, *np.exp([0.5, -0.5])])
    slopes = [2.0, 4.0, 6.0, *np.exp([0.5, -0.5])]
    np.testing.assert_allclose(space.named_slopes(theta).toarray(), np.diag(slopes), rtol=1e-14)


# --- loops against enumeration -------------------------------------------------------------------------


def chain(seed, lengths, states, spread, zeros, varying, links=None, folds=3):
    """Random potentials of several sequences and folds, each with a possible path; weights of links are
    drawn from `links`."""
    rng = np.random.default_rng(seed)
    steps = sum(lengths)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    rows = spread * rng.normal(size=(steps, states, folds))
    moves = rng.normal(size=(steps if varying else 1, states, states, folds))
    initial = rng.normal(size=(1, states, folds))
    if zeros:
        moves[:, 0, 1:] = -np.inf
        rows[rng.random(rows.shape) < 0.2] = -np.inf
        rows[:, 0] = np.where(np.isfinite(rows[:, 0]), rows[:, 0], 0.0)
    weights = rng.choice([0.0, 1.0, 0.4], size=(steps, folds))
    coefficients = rng.choice([0.0, 1.0, 2.5], size=(len(lengths), folds))
    drawn = None if links is None else rng.choice(links, size=(steps, folds))
    given = Potentials(rows, weights, initial, moves, coefficients, drawn)
    ones = np.ones(steps)
    observations = Observations(ones[:, None], ones[:, None], ones, ones, np.ones((steps, 0)))
    return Steps(observations, np.arange(steps), starts, ones, np.arange(steps)), given


def unary_of(given, fold, begin, end):
    weight = given.weights[begin:end, None, fold]
    with np.errstate(invalid="ignore"):
        unary = np.where(weight == 0, 0.0, weight * given.rows[begin:end, :, fold])
    unary[0] += power(given.links_of(fold)[begin], given.initial[0, :, fold])
    return unary


def power(weight, logs):
    return np.zeros_like(logs) if weight == 0 else weight * logs


def moves_of(given, fold, begin, end):
    moves, links = given.moves[..., fold], given.links_of(fold)
    into = range(begin + 1, end)
    found = [power(links[t], moves[t if len(moves) > 1 else 0]) for t in into]
    return np.array(found).reshape(-1, *moves.shape[1:])


@given(**native_chains)
@settings(max_examples=150, deadline=None)
def test_counts_are_those_of_all_paths(seed, lengths, states, spread, zeros, varying, links):
    steps, given = chain(seed, lengths, states, spread, zeros, varying, links)
    found = passes.posterior(steps, given)
    for fold in range(3):
        value, pairs, firsts = 0.0, np.zeros((states, states)), np.zeros(states)
        for n, (begin, end) in enumerate(zip(steps.starts, steps.starts[1:], strict=False)):
            unary, moves = unary_of(given, fold, begin, end), moves_of(given, fold, begin, end)
            scale, links = given.coefficients[n, fold], given.links_of(fold)[begin:end]
            nodes = enumeration.marginals(unary, moves)
            np.testing.assert_allclose(found.nodes[begin:end, :, fold], nodes, atol=1e-11)
            value += scale * enumeration.log_partition(unary, moves)
            firsts += scale * links[0] * nodes[0]
            pairs += scale * enumeration.transitions(unary, moves, links[1:])
        assert found.values[fold] == pytest.approx(value, rel=1e-12, abs=1e-10)
        np.testing.assert_allclose(found.firsts[..., fold].sum(0), firsts, atol=1e-10)
        np.testing.assert_allclose(found.pairs[..., fold].sum(0), pairs, atol=1e-10)
        scale = given.weights[:, fold] * given.coefficients[steps.sequence, fold]
        np.testing.assert_allclose(
            found.shares[..., fold], scale[:, None] * found.nodes[..., fold], atol=1e-11
        )


@given(**native_chains)
@settings(max_examples=60, deadline=None)
def test_both_arithmetics_agree_where_both_are_safe(
    seed, lengths, states, spread, zeros, varying, links
):
    steps, given = chain(seed, lengths, states, spread, False, varying, links, folds=20)
    if zeros:  # increments
        given = replace(given, coefficients=np.ones_like(given.coefficients), increments=given.weights)
    parts = []
    for some in (slice(0, 16), slice(16, 20)):
        part = replace(
            given,
            **{
                field.name: array[..., some]
                for field in fields(given)
                if (array := getattr(given, field.name)) is not None
            },
        )
        found = passes.posterior(steps, part)
        parts.append(deepcopy(found))  # the next pass writes into the same arrays
    logs = passes._by_logarithms(steps, given)
    for name in ("values", "nodes", "shares", "firsts", "pairs"):
        together = np.concatenate([getattr(part, name) for part in parts], -1)
        np.testing.assert_allclose(together, getattr(logs, name), rtol=1e-9, atol=1e-10)


@given(**native_chains)
@settings(max_examples=60, deadline=None)
def test_increments_are_differences_of_prefixes(seed, lengths, states, spread, zeros, varying, links):
    steps, given = chain(seed, lengths, states, spread, zeros, varying, links)
    weights = np.random.default_rng(seed).choice([0.0, 1.0, 2.0], size=given.weights.shape)
    ones = np.ones_like(given.coefficients)
    found = passes.posterior(steps, replace(given, coefficients=ones, increments=weights))
    for fold in range(3):
        value, pairs, firsts = 0.0, np.zeros((states, states)), np.zeros(states)
        nodes = np.zeros((len(steps.index), states))
        for begin, end in zip(steps.starts, steps.starts[1:], strict=False):
            unary, moves = unary_of(given, fold, begin, end), moves_of(given, fold, begin, end)
            links = given.links_of(fold)[begin:end]
            for stop in range(1, end - begin + 1):
                last = begin + stop == end
                change = weights[begin + stop - 1, fold] - (0 if last else weights[begin + stop, fold])
                part = (unary[:stop], moves[: stop - 1])
                value += change * enumeration.log_partition(*part)
                given_prefix = enumeration.marginals(*part)
                nodes[begin : begin + stop] += change * given_prefix
                firsts += change * links[0] * given_prefix[0]
                pairs += change * enumeration.transitions(*part, links[1:stop])
        assert found.values[fold] == pytest.approx(value, rel=1e-11, abs=1e-9)
        np.testing.assert_allclose(found.nodes[..., fold], nodes, atol=1e-10)
        np.testing.assert_allclose(found.firsts[..., fold].sum(0), firsts, atol=1e-10)
        np.testing.assert_allclose(found.pairs[..., fold].sum(0), pairs, atol=1e-10)


@pytest.mark.parametrize("links", [None, (0.0, 1.0)])
@pytest.mark.parametrize("lengths", [(1000,), (300, 7, 128, 129, 1), (127, 257), (256, 256)])
def test_messages_that_are_made_again_are_the_same(lengths, links):
    steps, given = chain(1, lengths, 3, 2.0, False, False, links, folds=5)
    given.weights[:] = given.weights > 0.5
    kept = deepcopy(passes.posterior(steps, given))
    again = passes.posterior(steps, given, nodes=False)
    logs = passes._by_logarithms(steps, given)
    for name in ("values", "shares", "firsts", "pairs"):
        np.testing.assert_array_equal(getattr(again, name), getattr(kept, name))
        np.testing.assert_allclose(getattr(kept, name), getattr(logs, name), rtol=1e-9, atol=1e-10)


def test_densities_far_below_one_are_not_lost():
    """A state that only a rare transition reaches, and a density of exp(-50) in the usual one."""
    steps, given = chain(0, (3,), 2, 1.0, False, False, folds=1)
    given.weights[:], given.coefficients[:], given.initial[0, :, 0] = 1.0, 1.0, (0.0, -100.0)
    given.moves[0, ..., 0] = [[0.0, -48.0], [-48.0, 0.0]]
    given.rows[..., 0] = [[0.0, -60.0], [-50.0, 0.0], [0.0, 0.0]]
    nodes = enumeration.marginals(unary_of(given, 0, 0, 3), moves_of(given, 0, 0, 3))
    np.testing.assert_allclose(passes.posterior(steps, given).nodes[..., 0], nodes, rtol=1e-12)


@pytest.mark.parametrize(("coefficient", "value"), [(1.0, -np.inf), (0.0, 0.0)])
def test_an_impossible_sequence_has_no_likelihood_and_no_states(coefficient, value):
    steps, given = chain(0, (3,), 2, 1.0, False, False, folds=1)
    given.rows[1], given.weights[:], given.coefficients[:] = -np.inf, 1.0, coefficient
    found = passes.posterior(steps, given)
    assert found.values[0] == value
    assert (found.nodes == 0).all()


# --- the objective against JAX ------------------------------------------------------------------------


def counts(seed=0):
    rng = np.random.default_rng(seed)
    z = np.repeat([0, 1, 0, 1], 8)
    x = rng.poisson(np.where(z, 9.0, 2.0)).astype(float)
    x[[4, 20]] = np.nan
    return x


def counts_of_three():
    """Sequences, the second of two steps."""
    x = counts()
    return [x[:14], x[14:16], x[16:]]


def two_channels(seed=0, missing=True):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(32, 2)) + 2.0 * np.repeat([0, 1, 0, 1], 8)[:, None]
    if missing:
        x[3], x[9, 1] = np.nan, np.nan
    return [x[:14], x[14:16], x[16:]]


def in_other_units(data):
    """Coordinates of the parameters are then in units that are not one."""
    return [x * np.array([100.0, 1e-3]) + np.array([300.0, 0.0]) for x in data]


MODELS = {
    "poisson": (fo.models.HMM(2, Poisson(2.0, 0.1)), counts_of_three()),
    "zeros": (fo.models.HMM(3, Poisson(), support=[[1, 1, 0], [0, 1, 1], [1, 0, 1]]), counts()),
    "frozen": (fo.models.HMM(2, Poisson(), frozen={"transition": [[0.9, 0.1], [0.2, 0.8]]}), counts()),
    "binomial": (fo.models.HMM(2, Binomial(1.5, 1.2, trials=30)), counts()),
    "categorical": (fo.models.HMM(2, Categorical(20)), counts()),
    "one state": (fo.models.HMM(1, Poisson(2.0, 0.1)), counts()),
    "diag": (fo.models.HMM(2, Gaussian(mean_scale=3.0)), two_channels()),
    "spherical": (fo.models.HMM(2, Gaussian("spherical", scale=0.5)), in_other_units(two_channels())),
    "fixed": (fo.models.HMM(2, Gaussian("fixed", fixed_variance=(0.5, 2.0))), two_channels()),
    "full": (fo.models.HMM(2, Gaussian("full", mean_scale=3.0)), two_channels(missing=False)),
    "tied": (
        fo.models.HMM(2, Gaussian("tied", mean_scale=300.0)),
        in_other_units(two_channels(missing=False)),
    ),
}
MODELS |= {
    "events": (fo.models.EventCounts(steps_per_day=4), counts()),
    "autoregression": (fo.models.ARHMM(2, 1), two_channels()),
    "longer memory": (fo.models.ARHMM(2, 2, noise="state"), in_other_units(two_channels()[::2])),
    "no memory": (fo.models.ARHMM(2, 0, noise="fixed", bias_scale=None), two_channels()),
    "network": (fo.models.NeuralARHMM(2, 1, hidden=3), in_other_units(two_channels())),
    "networks": (fo.models.NeuralARHMM(2, 1, hidden=2, noise="state"), two_channels(missing=False)),
    "missing": (fo.models.HMM(2, Gaussian("full", mean_scale=3.0)), two_channels()),
    "integers": (
        fo.models.HMM(2, Gaussian("full", mean_scale=3.0)),
        [np.round(x) for x in two_channels()],
    ),
    "integer walk": (fo.models.ARHMM(2, 1), [np.round(x) for x in two_channels()]),
    "known rate": (fo.models.HMM(2, Poisson(), frozen={"rate": [[2.0], [9.0]]}), counts()),
}
# Programs of JAX take most of the time here: the fast tests have one model of each kind, and every
# scheme with the one whose programs are smallest.
_FAST = ("poisson", "diag", "autoregression", "known rate")
every_model = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in _FAST else [pytest.mark.slow]) for n in MODELS]
)
combinations = [
    pytest.param(name, scheme, id=f"{name}-{scheme}", marks=[pytest.mark.slow] if slow else [])
    for name in MODELS
    for scheme, slow in (
        (schemes.A(), name not in _FAST),
        (schemes.Structures(), name != "poisson"),
        (schemes.B(), name != "poisson"),
        (schemes.B(per_transition=True), name != "poisson"),
        (schemes.Increments(), name != "poisson"),
    )
]


@lru_cache
def both(name):
    model, data = MODELS[name]
    native, other = best_objective(model, data), best_objective(model, data, "scan")
    assert isinstance(native, NativeChainObjective)
    assert type(other) is ChainObjective
    rng = np.random.default_rng(1)
    theta = other.start(None) + 0.1 * rng.normal(size=other.space.size)
    return native, other, theta + 0.05 * rng.normal(size=(3, len(theta)))


def same(found, expected, digits=10):
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=0, atol=10.0**-digits * scale)


@pytest.mark.parametrize(("name", "scheme"), combinations)
def test_f_and_its_derivatives_are_those_of_jax(name, scheme):
    native, other, thetas = both(name)
    native, other = native.with_scheme(scheme), other.with_scheme(scheme)
    kept = np.random.default_rng(2).random((2, len(other.base)))
    weights = other.base * np.stack([np.ones(len(other.base)), kept[0] < 0.6, kept[1]])
    for one, two in zip(
        native.values_and_gradients(thetas, weights),
        other.values_and_gradients(thetas, weights),
        strict=True,
    ):
        same(one, two)
    same(native.hessians(thetas, weights), other.hessians(thetas, weights), 9)
    same(
        native.products(thetas, thetas[::-1], weights), other.products(thetas, thetas[::-1], weights), 9
    )
    if native.coordinates(native.base).shape == other.base.shape:
        same(native.cross(thetas[0]), other.cross(thetas[0]))
    along = (
        one.slopes_along(thetas[0], np.asarray(one.coordinates(weights) - one.coordinates(one.base)))
        for one in (native, other)
    )
    same(*along)


@every_model
def test_states_and_losses_are_those_of_jax(name):
    native, other, thetas = both(name)
    weights = other.base * (np.random.default_rng(3).random((3, len(other.base))) < 0.7)
    scored = np.flatnonzero(other.base)[np.array([[0, 5, 7], [1, 2, 3], [-1, -2, 9]])]
    same(native.log_likelihoods(thetas, weights), other.log_likelihoods(thetas, weights))
    same(
        native.pointwise_losses(thetas, weights, scored), other.pointwise_losses(thetas, weights, scored)
    )
    for one, two in zip(native.leave_one_out(thetas[0]), other.leave_one_out(thetas[0]), strict=True):
        same(one, two)
    same(native.state_probabilities(thetas[0]), other.state_probabilities(thetas[0]))
    for one, two in zip(native.decode(thetas[0]), other.decode(thetas[0]), strict=True):
        np.testing.assert_array_equal(one, two)
    same(native.log_prior(thetas[0]), other.log_prior(thetas[0]))
    if other.traits.m_steps == "all":
        for one, two in zip(native.m_step(thetas[0]), other.m_step(thetas[0]), strict=True):
            same(one, two)


def test_losses_of_sequences_are_those_of_jax():
    native, other, thetas = both("poisson")
    native, other = (o.with_scheme(schemes.Structures()) for o in (native, other))
    weights, scored = np.ones((3, 3)), np.array([[0, 1], [2, 0], [1, 1]])
    same(
        native.pointwise_losses(thetas, weights, scored), other.pointwise_losses(thetas, weights, scored)
    )


@pytest.mark.parametrize("apart", [0.409, 0.412, 0.415, 3.0])
def test_normalisers_of_either_sign_keep_their_digits(apart):
    """States that are drawn anew at every step: the likelihood is a product of 1,024 mixtures,
    each between one and three times its largest term, or hardly more than that."""
    counted, even = np.random.default_rng(0).poisson(3, size=(1024, 1)).astype(float), np.full(3, 1 / 3)
    frozen = {"initial": even, "transition": np.tile(even, (3, 1))}
    params = {**frozen, "rate": 3.0 * np.exp(apart * np.array([[-1.0], [0.0], [1.0]]))}
    fit = fo.fit_at(fo.models.PoissonHMM(3, frozen=frozen), counted, params)
    expected = np.log(poisson.pmf(counted, params["rate"].T).mean(1)).sum()
    assert fit.log_likelihood == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("scale", [1e3, 1e5, 1e7, 1e9])
def test_h_of_large_counts_keeps_its_digits(scale):
    """States that are certain: H of a logarithm of a rate is the sum of the counts of its state."""
    counted = scale * np.random.default_rng(0).poisson(np.repeat([2.0, 9.0, 2.0, 12.0], 30))
    fit = fo.fit(fo.models.PoissonHMM(2), counted)
    assert fit.ok, fit.status
    rates = [place for place, name in enumerate(fit.names) if name.startswith("rate")]
    sums = fit.objective.state_probabilities(fit.theta).T @ counted
    np.testing.assert_allclose(np.diag(fit.H)[rates], sums, rtol=1e-7)


class Doubled(Poisson):
    """A user's change of a built-in emission."""

    def log_density(self, params, rows):
        return super().log_density(params, rows) - jnp.log(2.0)


def test_a_changed_density_is_not_replaced_by_the_closed_form_of_the_old_one():
    def value(emission, kernel):
        objective = best_objective(fo.models.HMM(2, emission), counts(), kernel)
        return objective.log_likelihoods(objective.start(None)[None], objective.base[None])[0]

    halves = np.isfinite(counts()).sum() * np.log(2.0)
    for kernel in ("native", "scan"):
        assert value(Doubled(), kernel) == pytest.approx(value(Poisson(), kernel) - halves)


def test_tangents_are_taken_where_they_are_faster():
    rng = np.random.default_rng(0)
    wide = best_objective(fo.models.GaussianHMM(2, covariance="full"), rng.normal(size=(500, 12)))
    assert wide.traits.exact_hessians
    assert not wide.with_scheme(schemes.Increments()).traits.exact_hessians  # by JAX
    long = best_objective(fo.models.PoissonHMM(2), rng.poisson(3.0, 20_000).astype(float))
    assert not long.traits.exact_hessians


def test_what_has_no_native_form_is_left_to_jax():
    native = best_objective(fo.models.HMM(2, Poisson()), counts())
    assert type(native.with_scheme(schemes.B(normalised=True))) is ChainObjective
    assert isinstance(native.with_scheme(schemes.B()), NativeChainObjective)
    assert isinstance(native.with_scheme(schemes.Structures()), NativeChainObjective)
    network = fo.models.NeuralARHMM(2, hidden=60)
    assert type(best_objective(network, two_channels())) is ChainObjective
    with pytest.raises(
        ValueError, match=r"closed forms \(for autoregressions, at most 500 parameters\)"
    ):
        best_objective(network, two_channels(), "native")
    with pytest.raises(ValueError, match=r"kernel must be 'native', 'scan', 'tree' or None, got 'gpu'"):
        best_objective(fo.models.HMM(2, Poisson()), counts(), "gpu")


@pytest.mark.parametrize(
    ("name", "scheme", "tempered"),
    [
        ("poisson", schemes.A(), False),
        ("poisson", schemes.A(), True),
        ("poisson", schemes.B(), False),
        ("poisson", schemes.B(), True),
        ("poisson", schemes.Increments(), True),
        ("diag", schemes.Structures(), True),
        ("events", schemes.A(), False),
        ("autoregression", schemes.A(), False),
    ],
)
def test_folds_that_fill_the_lanes_several_times_are_those_of_one_at_a_time(name, scheme, tempered):
    native, _, thetas = both(name)
    native = native.with_scheme(scheme)
    rng = np.random.default_rng(3)
    many = thetas[0] + 0.05 * rng.normal(size=(37, thetas.shape[1]))
    drawn = rng.random((37, len(native.base)))
    weights = native.base * (drawn if tempered else drawn < 0.7)
    scored = np.tile(np.flatnonzero(native.base > 0)[:5], (37, 1))
    values, slopes = native.values_and_gradients(many, weights)
    losses = native.pointwise_losses(many, weights, scored)
    for fold in (0, 15, 16, 31, 36):
        row = slice(fold, fold + 1)
        value, slope = native.values_and_gradients(many[row], weights[row])
        np.testing.assert_allclose(values[row], value, rtol=1e-13)
        np.testing.assert_allclose(slopes[row], slope, rtol=1e-10, atol=1e-12)
        alone = native.pointwise_losses(many[row], weights[row], scored[row])
        np.testing.assert_allclose(losses[row], alone, rtol=1e-12)


def test_event_counts_far_from_what_is_expected_keep_their_digits():
    """Probabilities of exp(-3000), by logarithms, beside others by plain sums; the peer is JAX."""
    x = counts()
    x[[2, 25]] = 1900.0, 150.0
    native, other = (best_objective(fo.models.EventCounts(4), x, k) for k in (None, "scan"))
    theta = other.start(None)
    params = dict(other.space.params_at(theta)) | {"rate": 0.5, "b": 4.0}
    theta = other.space.to_free(params)[None]
    assert other(theta[0]) > 3000  # most of it by one count
    for one, two in zip(
        native.values_and_gradients(theta, native.base[None]),
        other.values_and_gradients(theta, other.base[None]),
        strict=True,
    ):
        same(one, two)
    same(native.hessians(theta, native.base[None]), other.hessians(theta, other.base[None]), 9)


def test_only_the_folds_that_need_logarithms_go_by_them():
    """One fold with transitions 400 nats apart, and one with an impossible sequence."""
    steps, given = chain(0, (9, 4), 3, 1.0, False, False, folds=20)
    given.weights[:] = given.weights > 0.5
    given.weights[2] = given.coefficients[:] = 1.0
    given.moves[:, 0, 1, 7] -= 400.0
    given.rows[2, :, 11] = -np.inf
    logs = passes._by_logarithms(steps, given)
    for nodes in (True, False):
        found = deepcopy(passes.posterior(steps, given, nodes=nodes))
        for name in ("values", "shares", "firsts", "pairs", *(["nodes"] if nodes else [])):
            np.testing.assert_allclose(getattr(found, name), getattr(logs, name), rtol=1e-9, atol=1e-10)
    assert found.values[11] == -np.inf


def test_losses_of_impossible_and_unknown_densities():
    nodes = np.array([[[0.0], [1.0]], [[0.5], [0.5]], [[0.5], [0.5]], [[1e-320], [1.0]]])
    rows = np.array([[[5.0], [-3.0]], [[-np.inf], [-np.inf]], [[np.nan], [1.0]], [[0.0], [-900.0]]])
    losses = np.empty((1, 4))
    assert native_chain.held_out_losses(nodes, rows, np.arange(4), np.arange(4)[None], losses).all()
    assert losses[0, 0] == 3.0
    assert losses[0, 1] == np.inf
    assert np.isnan(losses[0, 2])
    assert losses[0, 3] == pytest.approx(-np.log(1e-320), rel=1e-12)  # 1e-320 has few digits of its own


@pytest.mark.parametrize("kernel", [None, "scan", pytest.param("tree", marks=pytest.mark.slow)])
def test_losses_count_states_whose_posterior_underflows(kernel):
    """A step is 1800 nats likelier in a state that the next step makes 1800 nats improbable. Against
    sums over all paths in 60 digits."""
    x, mean = np.array([0.0, 60.0, 59.9, 0.0, 60.2, 59.9, 0.0]), np.array([[0.0], [60.0]])
    moves, steps = np.array([[0.9, 0.1], [1.0, 0.0]]), np.arange(7)
    params = {"initial": np.array([0.5, 0.5]), "transition": moves, "mean": mean}
    fit = fo.fit_at(fo.models.HMM(2, fo.models.Gaussian("fixed")), x, params, kernel=kernel)
    sets = [[t] for t in steps] + [[1, 5]]
    cv = fo.cross_validate(fit, fo.folds.sites(sets, x), method="none", check=False, optima=0)
    table = -0.5 * (x[:, None] - mean[:, 0]) ** 2 - 0.5 * np.log(2 * np.pi)
    routes = enumeration.paths(*table.shape)
    chain = 0.5 * moves[routes[:, :-1], routes[:, 1:]].prod(1)
    losses = iter(cv.pointwise["loss"])
    for out in sets:
        kept = np.setdiff1d(steps, out)
        paths = table[kept, routes[:, kept]].sum(1)
        for t in out:
            together = _log_sum(chain, paths + table[t, routes[:, t]])
            assert next(losses) == pytest.approx(float(_log_sum(chain, paths) - together), abs=1e-9)


def _log_sum(factors, logs):
    with localcontext(Context(prec=60)):
        return sum(Decimal(f) * Decimal(one).exp() for f, one in zip(factors, logs, strict=True)).ln()


def test_counts_that_all_differ_have_the_hessian_of_the_scan():
    """Equal rows are one; where none are equal, rows are still in another order than the steps."""
    x = np.array([3.0, 14.0, 1.0, 9.0, 5.0, 0.0, 22.0, 7.0, 11.0, 2.0, 17.0, 4.0])
    fit = fo.fit(fo.models.PoissonHMM(2), x, restarts=1)
    other = fo.fit_at(fo.models.PoissonHMM(2), x, fit.params, kernel="scan")
    np.testing.assert_allclose(fit.H, other.H, rtol=1e-9, atol=1e-10)
