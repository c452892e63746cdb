"""select: the default folds and loss, the rule, and what it says."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pkgutil import resolve_name

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import fitonce as fo
from fitonce.analysis.choosing import judged, simplest_of
from fitonce.analysis.select import usual_loss
from fitonce.fitting import time_limit
from fitonce.fitting.time_limit import TimeUpError
from fitonce.objectives.chain.native import NativeChainObjective
from test_report_doubts import said


@pytest.fixture(scope="module")
def data():
    return np.random.default_rng(1).poisson(np.tile(np.repeat([2.0, 9.0], 10), 3)).astype(float)


@pytest.fixture(scope="module")
def models():
    return {str(k): fo.models.PoissonHMM(k) for k in (1, 2, 3)}


@pytest.fixture(scope="module")
def found(models, data):
    return fo.select(models, data)


def test_by_default_stretches_cover_the_data_and_are_scored_as_a_whole(found):
    cv = found.results["2"]
    assert cv.loss == "joint"
    assert cv.left_out.startswith("20 folds, 20-fold over time")
    assert cv.folds["size"].sum() == 60


def test_nats_are_those_of_all_data(found):
    losses = {name: cv.folds["loss"] * cv.folds["size"] for name, cv in found.results.items()}
    worse = (losses["1"] - losses[found.best]).sum()
    assert found.table.loc["1", "nats"] == pytest.approx(worse, rel=1e-9)
    assert found.table.loc[found.best, "nats"] == 0.0


def test_the_truth_is_chosen_and_the_sentence_says_why(found):
    assert found.simplest == "2"
    assert "1" not in found.as_good
    rule = f"worse, by more than the margin of {found.margin:.1f} nats and one standard error"
    assert f"{rule}: 1 ({found.table.loc['1', 'nats']:.1f} nats in all, p = " in found.sentence
    assert "(with the likelihood at fits with priors, not at its maximum)" in found.sentence
    assert ("no clear winner" in found.sentence) == (len(found.as_good) > 1)


@pytest.mark.parametrize(
    ("nats", "p", "near", "as_good"),
    [
        (4.9, 1e-6, True, True),  # few nats, whatever their standard error says
        (5.1, 0.31, False, False),
        (5.1, 0.33, False, True),  # within one standard error: no clear winner
        (np.nan, 0.33, True, True),  # a loss that is not in nats
        (np.nan, 0.1, False, False),
        (5.1, np.nan, False, False),  # nothing is known about chance: nats decide
        (np.nan, np.nan, True, True),  # nothing is known
    ],
)
def test_the_choice_is_by_nats_and_a_clear_winner_by_standard_errors_too(nats, p, near, as_good):
    table = pd.DataFrame({"nats": [nats, 0.0], "p": [p, np.nan]}, index=["small", "large"])
    found = judged(table, "large", 5.0)
    assert found[0] == (["small", "large"] if near else ["large"])
    assert found[1] == (["small", "large"] if as_good else ["large"])


def test_more_candidates_need_more_nats(models, data, found):
    assert found.margin == pytest.approx(np.log(2 / 0.05))
    two = fo.select({"1": models["1"], "2": models["2"]}, data, restarts=1, optima=0)
    assert two.margin == pytest.approx(np.log(20.0))


def test_nats_leave_out_what_is_missing():
    x = np.random.default_rng(1).poisson(np.tile(np.repeat([2.0, 9.0], 10), 4)).astype(float)
    x[30:53] = np.nan
    found = fo.select({str(k): fo.models.PoissonHMM(k) for k in (1, 2)}, x, optima=0)
    losses = [cv.folds["loss"] * cv.folds["size"] for cv in found.results.values()]
    assert found.results["1"].folds["size"].sum() == 57
    assert found.table.loc["1", "nats"] == pytest.approx((losses[0] - losses[1]).sum(), rel=1e-9)


def test_maps_with_missing_sites_have_folds():
    edges = [(k, k + 1) for k in range(59)]
    counts = np.random.default_rng(0).poisson(np.repeat([3.0, 12.0], 30)).astype(float)
    counts[10:25] = np.nan
    models = {"1": fo.models.PottsMixture(edges, n_classes=1, emission="poisson", beta=0.5)}
    found = fo.select(models, counts, optima=0)
    assert found.results["1"].folds["size"].sum() == 45
    assert found.sentence.startswith("1 is the only model")


def test_bad_folds_and_losses_are_refused_before_anything_is_fitted(models, data):
    from sklearn.model_selection import KFold

    for folds in (KFold(3), lambda data: [1, 2]):
        with pytest.raises(ValueError, match=r"folds must come from fo\.folds, got (KFold; wrap|list)"):
            fo.select(models, data, folds)
    with pytest.raises(ValueError, match="loss must be one of"):
        fo.select(models, data, loss="nats")


def test_unfinished_models_are_not_compared(models, data):
    begun = []
    stop = lambda: begun[-1] == "3"  # noqa: E731
    found = fo.select(models, data, told=begun.append, stop=stop)
    assert list(found.results) == ["1", "2"]
    assert found.skipped["3"] == "interrupted before a start of its fit had ended"


def test_names_must_differ_and_fits_be_of_the_data(models, data):
    with pytest.raises(ValueError, match="candidates must have different names, got 1, 1"):
        fo.select({1: models["1"], "1": models["2"]}, data)
    with pytest.raises(ValueError, match="'a' must be a fit of the data given"):
        fo.select({"a": fo.fit(models["1"], data)}, data[::-1] + 3)


def test_nats_count_each_point_once_whichever_channel_is_missing():
    rng, z = np.random.default_rng(0), np.repeat([0, 1, 0, 1], 15)
    x = rng.normal(np.stack([z * 0.0, z * 3.0], 1))
    x[np.arange(60) % 6 != 0, 0] = np.nan
    models = {str(k): fo.models.GaussianHMM(k) for k in (1, 2)}
    a, b = (fo.select(models, y, optima=0).table.loc["1", "nats"] for y in (x, x[:, ::-1]))
    assert a == pytest.approx(b, rel=1e-9)
    future = fo.folds.future(x, steps=[4, 8])
    found = fo.select(models, x, future, loss="pointwise", optima=0)
    assert found.results["1"].n_scored == 8
    losses = [cv.folds["loss"] * cv.folds["size"] for cv in found.results.values()]
    expected = (losses[0] - losses[1]).sum() * 8 / 12
    assert abs(found.table["nats"]).max() == pytest.approx(abs(expected), rel=1e-9)


def test_a_model_without_a_usable_fold_does_not_take_the_others_with_it(data):
    def impossible(params, x, weights):
        return jnp.full(len(weights), jnp.nan)

    models = {"1": fo.models.PoissonHMM(1)}
    with pytest.raises(
        ValueError, match="only 0 of 4 folds have a usable number: the loss is not finite"
    ):
        fo.select(models, data, fo.folds.kfold(data, 4), loss=impossible, optima=0)


def test_fits_are_candidates_too(models, data, found):
    fits = {name: fo.fit(model, data) for name, model in models.items()}
    again = fo.select(fits, data)
    pd.testing.assert_frame_equal(again.table, found.table, rtol=1e-9)
    assert again.results["2"].fit is fits["2"]


def test_folds_suit_the_highest_order():
    x = np.random.default_rng(0).normal(size=(60, 1))
    models = {str(p): fo.models.ARHMM(1, p) for p in (1, 3)}
    for folds in (None, lambda data: fo.folds.blocks(data, percent=10, n=6)):
        chosen = fo.select(models, x, folds, restarts=1)
        assert not chosen.skipped
        scored = chosen.results["1"].folds["size"]
        assert scored.sum() == 57 if folds is None else scored.max() == 6


def test_criteria_of_autoregressions_are_of_the_same_points():
    rng, x = np.random.default_rng(3), np.zeros(400)
    for t in range(2, 400):
        x[t] = 0.5 * x[t - 1] - 0.3 * x[t - 2] + rng.normal()
    fits = {str(p): fo.fit(fo.models.ARHMM(1, p), x[:, None]) for p in (1, 2, 4)}
    table = fo.select(fits, x[:, None], optima=0).table
    for order in (1, 2, 4):
        params = fits[str(order)].params
        weights, shift = np.ravel(params["weight"]), float(np.ravel(params["bias"])[0])
        scale = np.sqrt(float(np.ravel(params["variance"])[0]))
        past = np.stack([x[4 - lag : 400 - lag] for lag in range(1, order + 1)], 1)
        likelihood = stats.norm.logpdf(x[4:], past @ weights + shift, scale).sum()
        size = len(fits[str(order)].theta)
        assert table.loc[str(order), "aic"] == pytest.approx(2 * size - 2 * likelihood)
    assert table["aic"].idxmin() == "2"


def test_maps_are_left_out_in_regions():
    edges = [(k, k + 1) for k in range(39)]
    counts = np.random.default_rng(0).poisson(np.repeat([3.0, 12.0], 20))
    models = {
        str(k): fo.models.PottsMixture(edges, n_classes=k, emission="poisson", beta=0.5) for k in (1, 2)
    }
    chosen = fo.select(models, counts, optima=0)
    assert chosen.results["2"].folds["size"].sum() == 40
    assert chosen.simplest == "2"


@pytest.mark.parametrize(
    ("folds", "n_sequences", "loss"),
    [
        (lambda x: fo.folds.blocks(x, percent=10, n=5), 1, "joint"),  # overlapping, contiguous
        (lambda x: fo.folds.kfold(x, 5, blocks=False), 1, "joint"),  # scattered, disjoint
        (lambda x: fo.folds.iid(x, percent=10, n=5), 1, "pointwise"),  # scattered, overlapping
        (lambda x: fo.folds.points(x), 1, "pointwise"),
        (lambda x: fo.folds.structures(x), 2, "pointwise"),
        (lambda x: fo.folds.blocks(x, percent=10, n=30), 10, "joint"),  # one sequence after another
        (lambda x: fo.folds.kfold(x, 20), 10, "joint"),
    ],
)
@pytest.mark.parametrize("gap", [False, True])
def test_the_loss_is_joint_where_that_has_a_standard_error(folds, n_sequences, loss, gap):
    data = [np.random.default_rng(n).poisson(3.0, 60).astype(float) for n in range(n_sequences)]
    if gap:
        data[0][25:27] = np.nan
    fit = fo.fit(fo.models.PoissonHMM(1), fo.sequences(data))
    made = folds(fit.data)
    assert usual_loss(fit.objective, made) == loss
    if loss == "joint":
        assert np.isfinite(fo.cross_validate(fit, made, loss=loss, optima=0).se)


def test_short_data_have_fewer_folds(models):
    chosen = fo.select(models, np.array([1.0, 2, 9, 8, 1, 2, 9, 9]), restarts=1, optima=0)
    assert len(chosen.results["1"].folds) == 4


def test_nothing_that_can_be_fitted_is_an_error_that_says_why():
    with pytest.raises(ValueError, match=r"no model could be fitted: .*categor"):
        fo.select({"a": fo.models.CategoricalHMM(1, 2)}, np.array([0.5, 1.5, 7.0] * 5))


@pytest.mark.parametrize("names", [["b", "a", "c"], ["c", "a", "b"], ["a", "c", "b"]])
def test_of_models_of_equal_size_the_better_is_chosen_whatever_their_order(names):
    table = pd.DataFrame(
        {"parameters": [3, 3, 5], "estimate": [1.2, 1.1, 1.0]}, index=["a", "b", "c"]
    ).loc[names]
    none = dict.fromkeys(names, 0)
    assert simplest_of(table, names, none) == "b"
    assert simplest_of(table, [name for name in names if name != "b"], none) == "a"
    assert simplest_of(table, ["c"], none) == "c"
    assert simplest_of(table, names, none | {"b": 9}) != "b"  # a fixed slope is as good as a parameter


def test_the_order_of_the_list_does_not_decide(models, data, found):
    turned = fo.select({name: models[name] for name in reversed(models)}, data)
    assert (turned.simplest, turned.best) == (found.simplest, found.best)
    assert list(turned.table.index) == ["3", "2", "1"]


def test_a_best_model_at_the_end_of_those_asked_for_says_so(models, data, found):
    two = fo.select({name: models[name] for name in ("1", "2")}, data, restarts=1, optima=0)
    assert two.at_the_end == ["the best, 2, has the largest number of states asked for; try more"]
    assert two.at_the_end[0] in two.sentence
    assert bool(found.at_the_end) == (found.best == "3")
    assert not fo.select({"2": models["2"]}, data, restarts=1, optima=0).at_the_end


def test_when_the_time_is_up_the_models_that_are_done_are_compared(models, data, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("fitonce.analysis.select.time.perf_counter", lambda: now[0])

    def told(name):
        now[0] += 4.0

    ended = fo.select(models, data, restarts=1, optima=0, told=told, max_seconds=10.0)
    assert list(ended.results) == ["1", "2"]
    assert "not compared: 3" in ended.sentence
    now[0] = 0.0
    ended = fo.select(models, data, restarts=1, optima=0, told=told, max_seconds=4.0)
    assert list(ended.results) == ["1"]
    assert ended.skipped == dict.fromkeys("23", "the 4 seconds asked for were over before it began")
    assert "to compare all: more seconds (max_seconds=, --max-seconds), or fewer starts" in repr(ended)
    for wrong in (0, "soon"):
        with pytest.raises(ValueError, match="max_seconds must be a positive number or None"):
            fo.select(models, data, max_seconds=wrong)


@pytest.mark.parametrize(
    ("where", "calls", "why"),
    [
        ("fitonce.fitting.time_limit.check", 3, "before a start of its fit had ended"),
        ("fitonce.fitting.time_limit.start_ended", 1, "before its folds were begun"),
        ("fitonce.crossval.batches.Batches.spent", 2, "of its 20 folds were finished"),
    ],
)
def test_a_model_for_which_the_time_ends_says_what_is_known_of_it(
    models, data, monkeypatch, where, calls, why
):
    """By a clock that jumps when something is called for the third model so many times."""
    now, left, after = [0.0], [np.inf], []
    monkeypatch.setattr("fitonce.analysis.select.time.perf_counter", lambda: now[0])
    module, name = where.rsplit(".", 1)
    owner = resolve_name(module)
    real = getattr(owner, name)

    def counted(*given):
        left[0] -= 1
        if left[0] <= 0:
            now[0] = 100.0
        return real(*given)

    def check():
        after.extend([None] * (now[0] > 60.0))
        return time_limit_check()

    time_limit_check = counted if name == "check" else time_limit.check
    monkeypatch.setattr(owner, name, counted)
    monkeypatch.setattr(time_limit, "check", check)

    def told(model):
        left[0] = calls if model == "3" else np.inf

    ended = fo.select(models, data, restarts=2, optima=0, told=told, max_seconds=60.0)
    assert list(ended.results) == ["1", "2"]
    assert ended.skipped["3"].startswith("the 60 seconds asked for were over ")
    assert ended.skipped["3"].endswith(why)
    assert len(after) <= 1  # a fit ends at once
    assert list(ended.not_compared.index) == ([] if name == "check" else ["3"])
    if name != "check":
        alone = fo.fit(models["3"], data, restarts=2, optima=0)
        row = ended.not_compared.loc["3"]
        assert row["aic"] == pytest.approx(2 * alone.n_parameters - 2 * alone.log_likelihood)
        assert row["fit"] == "stationary"
        assert f"its fit, stationary, has {alone.n_parameters} parameters, AIC {row['aic']:.1f}" in repr(
            ended
        )
    assert "more seconds (max_seconds=, --max-seconds)" in repr(ended)


def test_a_model_whose_gradients_are_used_up_says_so(data):
    """Where one of the models needs no more."""
    candidates = {"one": fo.models.PoissonHMM(1), "two": fo.models.PoissonHMM(2)}
    folds = fo.folds.kfold(data, 8)
    ended = fo.select(candidates, data, folds, restarts=1, optima=0, max_gradients=80)
    assert list(ended.results) == ["one"]
    why = "the 80 gradients asked for were over when 0 of its 8 folds were finished"
    assert ended.skipped == {"two": why}
    assert ended.short_of == {"gradients"}
    assert ended.skipped_words[0].startswith(f"two was skipped: {why}; its fit, stationary, has ")
    assert ended.skipped_words[1] == "to compare all: more gradients (max_gradients=)"
    card = said(ended._repr_html_())
    assert all(line in card for line in ended.skipped_words)


def test_a_fit_whose_time_is_up_keeps_the_further_starts_that_ended(monkeypatch):
    """Starts that end apart are followed by more of them."""
    x = np.random.default_rng(0).normal(size=(60, 2))
    model, ended = fo.models.ARHMM(2, 1), []
    real = time_limit.start_ended
    monkeypatch.setattr(time_limit, "start_ended", lambda: (ended.append(1), real()))
    monkeypatch.setattr(NativeChainObjective, "traits", property(_one_at_a_time))
    with time_limit.until(lambda: len(ended) >= 5):
        part = fo.fit(model, x, restarts=3)
    assert len(part.values_of_starts) == len(ended) == 5
    whole = fo.fit(model, x, restarts=3)
    assert part.values_of_starts == whole.values_of_starts[:5]


def test_a_fit_whose_time_is_up_has_the_starts_that_ended(monkeypatch):
    x = np.random.default_rng(0).normal(size=(60, 2))
    model, up = fo.models.ARHMM(2, 1), [False]
    whole = fo.fit(model, x, restarts=3, optima=0)
    assert len(whole.values_of_starts) == 3
    real = time_limit.start_ended
    monkeypatch.setattr(time_limit, "start_ended", lambda: (up.__setitem__(0, True), real()))
    monkeypatch.setattr(NativeChainObjective, "traits", property(_one_at_a_time))
    with time_limit.until(lambda: up[0]):
        part = fo.fit(model, x, restarts=3, optima=0)
    assert len(part.values_of_starts) == 1
    assert part.ok
    with time_limit.until(lambda: True), pytest.raises(TimeUpError):
        fo.fit(model, x, restarts=3)
    with time_limit.until(lambda: True, one_start=True):
        assert fo.fit(model, x, restarts=3).ok
    assert len(fo.fit(model, x, restarts=3, optima=0).values_of_starts) == 3


_TRAITS = NativeChainObjective.traits.fget


def _one_at_a_time(objective):
    return replace(_TRAITS(objective), together=1)


def test_a_candidate_on_which_an_own_loss_fails_is_skipped_with_its_reason(data):
    def of_two(params, x, weights):
        if params["rate"].shape[0] != 2:
            raise KeyError("only two states")
        return weights

    models = {"one": fo.models.PoissonHMM(1), "two": fo.models.PoissonHMM(2)}
    found = fo.select(models, data, fo.folds.kfold(data, 3), loss=of_two, restarts=1, optima=0)
    assert found.skipped == {"one": "loss, the function 'of_two', failed: KeyError: 'only two states'"}
    assert list(found.results) == ["two"]


def test_models_whose_tables_are_too_large_are_named_before_anything_is_fitted():
    edges = [(i, j) for i in range(12) for j in range(i)]
    counts = np.random.default_rng(0).poisson(3.0, 12)
    candidates = {
        f"{k} classes": fo.models.PottsMixture(edges, k, beta=0.3, memory_limit=2.0**20)
        for k in (1, 2, 3)
    }
    order = []
    with pytest.warns(UserWarning, match=r"skipped, for their .* fit in memory: 3 classes; exact inf"):
        found = fo.select(
            candidates,
            counts,
            fo.folds.points(12),
            told=order.append,
            stop=lambda: False,
            restarts=1,
            optima=0,
        )
    assert order == ["1 classes", "2 classes"]
    assert "3 classes" in found.skipped
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=UserWarning)
        with pytest.raises(UserWarning, match="skipped"):  # and nothing was fitted on the way
            fo.select(candidates, counts, fo.folds.points(12), told=pytest.fail)
