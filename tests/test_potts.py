"""Hidden fields from data to result: fits, losses, one sweep, and what is refused."""

from __future__ import annotations

import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from scipy import stats

import enumeration
import fitonce as fo
from fitonce.data.graph import partition

GRID = nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 4))
COUNTS = np.array([3, 5, 2, 9, 4, 6, 11, 10, 2, 12, 9, 14])
BETA = 0.7


def edges():
    return fo.graph(GRID).edges


def field_density(rates, beta, x, links, exposure=None):
    """log p(x) of the sites with a finite x, by enumeration; edges `links` only."""
    seen = np.isfinite(x)
    mean = np.outer(np.ones(12) if exposure is None else exposure, rates)
    unary = np.where(seen[:, None], stats.poisson.logpmf(np.nan_to_num(x)[:, None], mean), 0.0)
    tables = [beta * np.eye(len(rates))] * len(links)
    states = (len(rates),) * 12
    joint = enumeration.field_scores(states, unary, links, tables)
    prior = enumeration.field_scores(states, np.zeros_like(unary), links, tables)
    return np.logaddexp.reduce(joint) - np.logaddexp.reduce(prior)


def without(x, sites):
    left = np.array(x, float)
    left[list(sites)] = np.nan
    return left


@pytest.fixture(scope="module")
def fit():
    return fo.fit(fo.models.PottsMixture(GRID, beta=BETA), COUNTS)


@pytest.fixture(scope="module")
def learned():
    model = fo.models.PottsMixture(GRID, beta="learned", beta_scale=1.0)
    return fo.fit(model, COUNTS)


def test_the_objective_is_the_log_density_of_the_data(fit, learned):
    rates = fit.params["rate"]
    assert -fit.value == pytest.approx(field_density(rates, BETA, COUNTS, edges()), rel=1e-12)
    beta = float(learned.params["beta"])
    density = field_density(learned.params["rate"], beta, COUNTS, edges())
    assert -learned.value == pytest.approx(density - 0.5 * beta**2, rel=1e-12)


def test_missing_sites_keep_their_place_in_the_field():
    x = without(COUNTS, [2, 7])
    found = fo.fit(fo.models.PottsMixture(GRID, beta=BETA), x)
    density = field_density(found.params["rate"], BETA, x, edges())
    assert -found.value == pytest.approx(density, rel=1e-12)


def test_exposure_scales_the_mean():
    exposure = np.linspace(0.5, 2.0, 12)
    found = fo.fit(fo.models.PottsMixture(GRID, beta=BETA, exposure=exposure), COUNTS)
    density = field_density(found.params["rate"], BETA, COUNTS, edges(), exposure)
    assert -found.value == pytest.approx(density, rel=1e-12)


def test_binomial_counts_out_of_their_exposure():
    out_of = np.full(12, 20.0)
    model = fo.models.PottsMixture(GRID, emission="binomial", beta=BETA, exposure=out_of)
    found = fo.fit(model, COUNTS)
    unary = stats.binom.logpmf(COUNTS[:, None], 20, found.params["rate"])
    tables = [BETA * np.eye(2)] * len(edges())
    scores = [
        np.logaddexp.reduce(enumeration.field_scores((2,) * 12, part, edges(), tables))
        for part in (unary, np.zeros_like(unary))
    ]
    assert -found.value == pytest.approx(scores[0] - scores[1], rel=1e-12)
    assert found.ok


@pytest.mark.parametrize("which", ["fit", "learned"])
def test_scheme_b_at_its_ends_is_the_graph_without_the_sites(which, request):
    """With learned coupling the normaliser of what is left is part of it."""
    found = request.getfixturevalue(which)
    gone = {1, 6, 7}
    links = [edge for edge in edges().tolist() if not gone & set(edge)]
    weights = np.ones(12)
    weights[list(gone)] = 0.0
    objective = fo.curvature(found, "B").objective
    theta = found.theta + 0.1
    one = objective(theta, weights) - objective(found.theta, weights)
    ends = []
    for point in (theta, found.theta):
        here = found.params_at(point)
        coupling = float(here.get("beta", BETA))
        prior = 0.5 * coupling**2 if "beta" in here else 0.0
        ends.append(prior - field_density(here["rate"], coupling, without(COUNTS, gone), links))
    assert one == pytest.approx(ends[0] - ends[1], rel=1e-9)


@pytest.mark.parametrize("scheme", ["A", "B"])
def test_losses_are_differences_of_log_densities(fit, scheme):
    """On the full graph with the fold's observations missing, however parameters were trained."""
    folds = fo.folds.sites([[0], [5, 6], [1, 2, 8]], COUNTS)
    single = fo.cross_validate(fit, folds, method="exact", scheme=scheme)
    joint = fo.cross_validate(fit, folds, method="exact", scheme=scheme, loss="joint")
    for fold, sites in enumerate(folds.dropped):
        rates = single.params(fold)["rate"]
        left = without(COUNTS, sites)
        base = field_density(rates, BETA, left, edges())
        every = field_density(rates, BETA, COUNTS, edges())
        assert joint.pointwise["loss"][fold] == pytest.approx(base - every, rel=1e-9)
        rows = single.pointwise[single.pointwise["fold"] == fold]
        for site, loss in zip(rows["site"], rows["loss"], strict=True):
            back = left.copy()
            back[site] = COUNTS[site]
            density = field_density(rates, BETA, back, edges())
            assert loss == pytest.approx(base - density, rel=1e-9)


def test_a_fold_that_cuts_the_graph_in_two():
    """Trained on both parts; each left-out site is scored on the whole path."""
    counts = np.array([2, 3, 9, 2, 8, 9, 10, 12, 3, 4, 11, 9])
    path = nx.path_graph(12)
    found = fo.fit(fo.models.PottsMixture(path, beta=0.5), counts)
    gone = [4, 5, 6]
    cv = fo.cross_validate(found, fo.folds.sites([gone], counts), scheme="B", method="exact")
    links = [(t, t + 1) for t in range(11)]
    kept = [link for link in links if not set(gone) & set(link)]
    rates = cv.params(0)["rate"]
    here = field_density(rates, 0.5, without(counts, gone), kept)
    for nudge in np.concatenate([np.eye(2), -np.eye(2)]) * 0.02:
        assert field_density(rates * np.exp(nudge), 0.5, without(counts, gone), kept) < here
    base = field_density(rates, 0.5, without(counts, gone), links)
    back = without(counts, [4, 6])
    loss = cv.pointwise.set_index("site")["loss"][5]
    assert loss == pytest.approx(base - field_density(rates, 0.5, back, links), rel=1e-9)


def test_one_sweep_is_close_to_refits_and_knows_its_error(fit):
    swept = fo.loo(fit, refine=False)
    exact = fo.cross_validate(fit, fo.folds.points(COUNTS), method="exact")
    off = (swept.folds["loss"] - exact.folds["loss"]).abs()
    without_moving = (exact.folds["control"] - exact.folds["loss"]).abs()
    assert off.mean() < 0.5 * without_moving.mean()
    assert (off <= 3 * swept.folds["error"] + 1e-9).all()


def test_a_class_carried_by_one_site_is_not_called_good():
    """Its rate is that site's count: without the site nothing holds it, and no gradient shows that."""
    counts = np.random.default_rng(0).poisson(np.where(np.arange(40) < 20, 3.0, 12.0)).astype(float)
    counts[5] = 200
    found = fo.fit(fo.models.PottsMixture(nx.path_graph(40), n_classes=3, beta=0.6), counts)
    folds = fo.folds.points(counts)
    for method in ("none", "ij", "onestep"):
        cv = fo.cross_validate(found, folds, method=method, check="all")
        assert cv.folds["verdict"][5] == "bad"
        assert "nearly all observations of one latent state" in cv.folds["status"][5]
    for cv in (fo.cross_validate(found, folds, tolerance=0.05, optima=0), fo.loo(found, optima=0)):
        assert not cv.folds["ok"][5]
        assert "flat" in cv.folds["status"][5]
        assert cv.folds["ok"].sum() >= 38
    searched = fo.cross_validate(found, folds, tolerance=0.05).folds
    assert searched["ok"][5]  # the third class is of use elsewhere
    assert searched["rung"][5] == "other"


def test_a_class_of_zeros_leaves_most_folds_usable():
    """Its rate wants to be zero, where nothing is ever stationary."""
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 8))
    counts = np.where(np.arange(32) < 16, 0, np.random.default_rng(1).poisson(12, 32))
    found = fo.fit(fo.models.PottsMixture(grid, beta=0.5), counts)
    swept = fo.loo(found)
    plain = fo.cross_validate(found, fo.folds.points(counts), method="onestep", check=False)
    assert swept.n_failed == 0
    assert swept.estimate == pytest.approx(plain.estimate, rel=0.05)


def test_couplings_share_a_compiled_program():
    programs = [
        fo.fit(fo.models.PottsMixture(GRID, beta=beta), COUNTS, restarts=1).objective.program
        for beta in (0.3, 0.9)
    ]
    assert programs[0] == programs[1]
    assert hash(programs[0]) == hash(programs[1])


def test_factors_that_leave_nothing_possible_are_refused():
    differ = np.where(np.eye(2), -np.inf, 0.0)
    model = fo.models.CustomField(
        [(0, 1), (1, 2), (2, 0)],
        [differ] * 3,
        lambda params, x: -((x[:, None] - params) ** 2),
        np.array([0.0, 1.0]),
    )
    with pytest.raises(ValueError, match="rule out every configuration"):
        fo.fit(model, np.zeros(3))


def test_data_thousands_of_nats_apart_is_no_trouble():
    counts = np.where(np.arange(12) % 4 < 2, 20, 9000)
    counts[5] = 9000  # an outlier among low neighbours
    found = fo.fit(fo.models.PottsMixture(GRID, beta=3.0), counts)
    assert found.ok
    density = field_density(found.params["rate"], 3.0, counts, edges())
    assert -found.value == pytest.approx(density, rel=1e-10)
    values, _ = found.objective.leave_one_out(found.theta)
    for site in (0, 5, 11):
        left = field_density(found.params["rate"], 3.0, without(counts, [site]), edges())
        assert values[site] == pytest.approx(density - left, rel=1e-8)


def test_a_hard_constraint_gives_right_losses():
    """Equal neighbours by decree: p(z_t | rest) is 0 or 1 to far beyond what doubles hold."""
    model = fo.models.CustomField(
        [(0, 1), (1, 2)],
        [np.where(np.eye(2), 0.0, -2000.0)] * 2,
        lambda params, x: -0.5 * (x[:, None] - params["level"]) ** 2,
        {"level": np.array([-30.0, 30.0])},
        log_prior=lambda params: -0.5 * ((params["level"] - np.array([-30.0, 30.0])) ** 2).sum(),
    )
    x = np.array([-30.0, 30.5, -29.0])
    found = fo.fit(model, x)
    cv = fo.cross_validate(found, fo.folds.points(x), method="none", check=False)
    level = found.params["level"]
    for site in range(3):
        others = [t for t in range(3) if t != site]
        unary = -0.5 * (x[:, None] - level) ** 2
        scores = []
        for keep in (range(3), others):
            part = np.zeros((3, 2))
            part[list(keep)] = unary[list(keep)]
            table = np.where(np.eye(2), 0.0, -2000.0)
            links = [(0, 1), (1, 2)]
            scores.append(
                np.logaddexp.reduce(enumeration.field_scores((2,) * 3, part, links, [table] * 2))
            )
        assert cv.folds["loss"][site] == pytest.approx(scores[1] - scores[0], rel=1e-10)


def test_losses_do_not_depend_on_which_folds_share_a_chunk():
    """Couplings so strong that products lose digits, next to data that almost excludes a class."""
    first = np.array([[-640.0, 0.0], [-750.0, -200.0]])
    data = np.array([[-400.0, 0.0], [0.0, -700.0], [0.0, 0.0]])
    model = fo.models.CustomField(
        [(0, 1), (1, 2)],
        [first, np.zeros((2, 2))],
        lambda params, x: jnp.asarray(data) + 0.0 * params,
        {"nothing": np.array(0.0)}["nothing"],
        log_prior=lambda params: -0.5 * params**2,
    )
    found = fo.fit(model, np.zeros(3))
    scores = []
    for keep in ([1, 2], [0, 1, 2]):
        part = np.zeros((3, 2))
        part[keep] = data[keep]
        every = enumeration.field_scores((2,) * 3, part, model.scopes, [first, np.zeros((2, 2))])
        scores.append(np.logaddexp.reduce(every))
    for sets in ([[0]], [[0], [1]], [[0], [1], [2]]):
        folds = fo.folds.sites(sets, np.zeros(3))
        single = fo.cross_validate(found, folds, method="none", check=False)
        assert single.folds["loss"][0] == pytest.approx(scores[0] - scores[1], rel=1e-12)


def test_many_folds_are_one_trace(fit):
    traced = []

    class Watched(fo.models.Poisson):
        def log_density(self, params, sites):
            traced.append(1)
            return super().log_density(params, sites)

    found = fo.fit(fo.models.PottsMixture(GRID, emission=Watched(), beta=BETA), COUNTS, restarts=1)
    fo.cross_validate(found, fo.folds.sites([[0], [7]], COUNTS), method="exact", chunk=2)
    few = len(traced)
    assert few > 0
    fo.cross_validate(found, fo.folds.points(COUNTS), method="exact", chunk=2)
    assert len(traced) == few


def test_one_class_is_a_plain_poisson():
    found = fo.fit(fo.models.PottsMixture(GRID, n_classes=1, beta=1.0), COUNTS)
    assert found.params["rate"][0] == pytest.approx(COUNTS.mean())


def test_posterior_classes_sum_to_one(fit):
    shares = fit.posterior()
    assert shares.shape == (12, 2)
    np.testing.assert_allclose(shares.sum(1), 1.0)
    assert shares[11, 1] > 0.9


def test_posterior_states_of_a_chain_agree_with_enumeration():
    found = fo.fit(fo.models.PoissonHMM(2), [2.0, 3.0, np.nan, 9.0, 11.0, 8.0], restarts=1)
    params = found.params
    x = np.array([2, 3, 0, 9, 11, 8])
    unary = stats.poisson.logpmf(x[:, None], params["rate"][:, 0])
    unary[2] = 0.0
    unary[0] += np.log(params["initial"])
    expected = enumeration.marginals(unary, np.log(params["transition"]))
    np.testing.assert_allclose(found.posterior(), expected, atol=1e-12)


def test_a_custom_density_has_no_posterior():
    model = fo.models.Custom(lambda p, x, w: -jnp.sum(w * (x - p) ** 2), 0.0)
    with pytest.raises(ValueError, match="has no hidden states"):
        fo.fit(model, np.arange(4.0)).posterior()


def test_standard_errors_come_from_regions_of_the_graph():
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 33))
    counts = np.random.default_rng(0).poisson(np.where(np.arange(99) < 50, 4.0, 12.0))
    found = fo.fit(fo.models.PottsMixture(grid, beta=0.5), counts, restarts=1)
    cv = fo.cross_validate(found, fo.folds.points(counts), method="none", check=False)
    regions = cv.pointwise["cluster"].to_numpy()
    count = len(np.unique(regions))
    np.testing.assert_array_equal(regions, partition(fo.graph(grid), count))
    assert count < 32  # half of the map is like its neighbours
    losses = cv.pointwise["loss"].to_numpy()
    mass = np.bincount(regions) / 99
    residual = np.bincount(regions, losses) / 99 - mass * losses.mean()
    assert mass.max() > 1 / 99
    alike = 1.0 / np.sum(mass**2)  # regions of equal size that have as little noise
    assert cv.se == pytest.approx(np.sqrt(alike / (alike - 1) * np.sum(residual**2)), rel=1e-12)


def test_the_plan_is_known_before_anything_runs():
    text = str(fo.plan(fo.models.PottsMixture(GRID, beta=1.0)))
    assert "width 3" in text
    assert "table entries" in text


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fo.models.PottsMixture(np.triu(np.ones((3, 3)), 1), beta=1.0), "symmetric"),
        (lambda: fo.models.PottsMixture(GRID, 0, beta=1.0), "n_classes must be a positive integer"),
        (lambda: fo.models.PottsMixture(GRID, emission="poison", beta=1.0), "got 'poison'"),
        (
            lambda: fo.models.PottsMixture(GRID, emission=fo.models.Poisson, beta=1.0),
            "such as Poisson()",
        ),
        (
            lambda: fo.models.PottsMixture(GRID, emission=fo.models.ARHMM(2).emission),
            "needs steps in time",
        ),
        (
            lambda: fo.models.PottsMixture(GRID, beta="big"),
            "at most 1e.06, got 'big'",
        ),
        (
            lambda: fo.models.PottsMixture(GRID, beta=np.nan),
            "at most 1e.06, got nan",
        ),
        (
            lambda: fo.models.PottsMixture(GRID, exposure=[1.0]),
            r"one entry per site, shape \(12,\), got shape \(1,\)",
        ),
        (lambda: fo.models.PottsMixture(GRID, exposure=-np.ones(12)), "got -1 at site 0"),
        (lambda: fo.models.PottsMixture(GRID, emission="gaussian", exposure=np.ones(12)), "no exposure"),
        (lambda: fo.models.PottsMixture(GRID, beta_scale=0.0), "beta_scale must be a positive number"),
        (lambda: fo.models.PottsMixture(GRID, exposure=["a"] * 12), "exposure must be numeric"),
        (lambda: fo.models.PottsMixture(GRID, 1), "one class has no coupling to learn"),
        (lambda: fo.models.PottsMixture(GRID, memory_limit=0), "memory_limit must be a positive number"),
        (lambda: fo.models.Gaussian(strength=-1), "strength must be a non-negative number"),
        (lambda: fo.models.Gaussian(scale=0), "scale must be a positive number"),
        (lambda: fo.models.Poisson(0.0), "shape must be a positive number"),
        (lambda: fo.models.Binomial(0.0), "a must be a positive number"),
    ],
)
def test_bad_models(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        ({}, COUNTS[:5], "data has 5 sites, the graph has 12"),
        ({"adjacency": edges() + 1}, COUNTS, r"the graph has 13 \(are its edges numbered from 1\?\)"),
        ({}, -COUNTS, "needs non-negative integer counts, got -3"),
        ({}, COUNTS + 0.5, "needs non-negative integer counts, got 3.5"),
        ({}, np.tile(COUNTS, (2, 1)).T, "one value for each site, got 1 sequence of 2 channels"),
        ({}, np.full(12, np.nan), "at least one observation"),
        ({"emission": "gaussian"}, np.ones(12), "is constant"),
        ({"emission": "binomial"}, COUNTS, "exposure="),
        ({"emission": "binomial", "exposure": np.full(12, 5.0)}, COUNTS, "site 3 has 9 of 5"),
        ({"emission": "binomial", "exposure": np.full(12, 20.5)}, COUNTS, "integer, got 20.5 at site 0"),
        (
            {"memory_limit": 100.0},
            COUNTS,
            "12 sites with 2 classes needs .* and 100 bytes are allowed; .* memory_limit=",
        ),
    ],
)
def test_bad_data(model, data, message):
    with pytest.raises(ValueError, match=message):
        fo.fit(fo.models.PottsMixture(**({"adjacency": GRID, "beta": 1.0} | model)), data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scopes": [(0, 0)]}, "scopes must name each of their sites once, but number 0"),
        ({"scopes": 3}, "must be a list of sets of sites"),
        ({"scopes": [(0, 5)], "n_states": [2, 2]}, "site 5, outside the 2 sites"),
        ({"factors": []}, "one table per scope, 1 in all, got 0"),
        ({"factors": [np.zeros((2, 3))]}, r"factors: number 0 must have shape \(2, 2\), got \(2, 3\)"),
        ({"n_states": 0}, "n_states must be an integer of at least 1"),
        ({"n_states": 2.9}, "n_states must be an integer"),
        ({"scopes": [(0, 1.7)]}, "scopes must hold integers, but number 0 has 1.7"),
        ({"scopes": [("a", "b")]}, "scopes must hold integers, but number 0 has 'a'"),
        ({"factors": [np.full((2, 2), np.nan)]}, "numbers or -inf .impossible., but number 0 has nan"),
        ({"memory_limit": -1.0}, "memory_limit must be a positive number"),
        ({"memory_limit": None}, "memory_limit must be a positive number"),
        ({"factors": None}, "factors must be a function or a list of tables, got None"),
        ({"n_sites": 2.5}, "n_sites must be an integer of at least 2 or None, got 2.5"),
        ({"n_states": [2, 2], "n_sites": 3}, "n_sites=3, but n_states has 2"),
        ({"emission": 1}, "emission must be a function"),
        ({"log_prior": 1}, "log_prior must be a function"),
    ],
)
def test_bad_custom_fields(change, message):
    good = {
        "scopes": [(0, 1)],
        "factors": [np.zeros((2, 2))],
        "emission": lambda params, x: -((x[:, None] - params) ** 2),
        "init": np.array([0.0, 1.0]),
    }
    with pytest.raises(ValueError, match=message):
        fo.models.CustomField(**(good | change))


def test_data_of_another_size_than_the_factors_is_refused():
    model = fo.models.CustomField(
        [(0, 1)], [np.zeros((2, 2))], lambda params, x: -((x[:, None] - params) ** 2), np.zeros(2)
    )
    with pytest.raises(ValueError, match=r"the graph.s 2 sites, got 1 sequence with 3 sites"):
        fo.fit(model, np.zeros(3))


def test_a_custom_emission_of_the_wrong_shape_is_refused():
    model = fo.models.CustomField(
        [(0, 1)], [np.zeros((2, 2))], lambda params, x: -((x - params[0]) ** 2), np.zeros(2)
    )
    with pytest.raises(ValueError, match=r"must return shape \(2, 2\), got \(2,\)"):
        fo.fit(model, np.array([0.1, 0.4]))


def test_whole_structures_and_bootstraps_are_refused(fit):
    with pytest.raises(ValueError, match="a graph is one structure"):
        fo.curvature(fit, "structures")
    with pytest.raises(ValueError, match="got PottsMixture"):
        fo.bootstrap(fit)


def test_the_plan_of_a_chain_needs_its_data():
    with pytest.raises(ValueError, match=r"a plan of HMM, .* needs the data"):
        fo.plan(fo.models.PoissonHMM(2))


def test_rates_under_exposure_are_printed_in_readable_units():
    edges = [(k, k + 1) for k in range(19)]
    births = np.full(20, 20_000.0)
    counts = np.random.default_rng(0).poisson(np.repeat([0.0005, 0.004], 10) * births)
    fit = fo.fit(fo.models.PottsMixture(edges, beta=1.0, exposure=births), counts)
    (said,) = [line for line in str(fit).splitlines() if "rate per 1,000 of exposure: [" in line]
    shown = [float(word) for word in said.split("[")[1].rstrip("]").split()]
    np.testing.assert_allclose(shown, 1000 * fit.params["rate"], atol=1e-4)
    plain = fo.fit(fo.models.PottsMixture(edges, beta=1.0), counts)
    assert "  rate: [" in str(plain)
