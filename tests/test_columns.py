"""Names of columns say which is which, at every door that takes data for a fit: they are put in the
order of the fit, others are refused by name, and data without names go by position."""

from __future__ import annotations

import io
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fitonce as fo
from fitonce.cli import app

NAMES = ["depth", "heat", "speed"]


def drawn(seed, steps=60):
    rng = np.random.default_rng(seed)
    level = np.repeat(rng.integers(0, 2, steps // 10), 10)
    means = np.array([[0.0, 5.0, 40.0], [3.0, 9.0, 10.0]])
    table = means[level] + rng.normal(size=(steps, 3))
    return pd.DataFrame(table, columns=NAMES)


@pytest.fixture(scope="module")
def chain():
    return fo.fit(fo.models.GaussianHMM(2), drawn(0), restarts=1, optima=0)


@pytest.fixture(scope="module")
def space():
    return fo.fit(fo.models.DynamicFactor(1), drawn(0), restarts=1, optima=0)


@pytest.fixture(scope="module")
def product():
    parts = {"speed": "gamma", ("heat", "depth"): "gaussian"}
    return fo.fit(fo.models.HMM(2, fo.models.Product(parts)), drawn(0), restarts=1, optima=0)


@pytest.fixture(scope="module")
def labels():
    rng = np.random.default_rng(3)
    tables = [drawn(seed, 10) for seed in range(6)]
    tags = [np.where(table["depth"] + rng.normal(size=10) > 1.5, "b", "a").tolist() for table in tables]
    return fo.fit(fo.models.LinearChainCRF(), fo.labelled(tables, tags))


@pytest.fixture(scope="module")
def tagger(labels):
    estimator = fo.sklearn.Estimator(labels.model)
    tables = [drawn(seed, 10) for seed in range(6)]
    return estimator.fit(tables, [["a", "b"] * 5 for _ in tables])


@pytest.fixture(scope="module")
def estimator():
    return fo.sklearn.Estimator(fo.models.GaussianHMM(2), restarts=1, optima=0).fit([drawn(0)])


def saved(fit, new, tmp_path):
    path = fit.save(tmp_path / "fit.json", force=True)
    return fo.load(path).log_likelihood_of(new)


TAGS = [["a", "b"] * 10]
DOORS = {
    "score": ("chain", lambda fit, new, _: fit.score(new)),
    "score, read before": ("chain", lambda fit, new, _: fit.score(fo.sequences(new))),
    "score, several": ("chain", lambda fit, new, _: fit.score([new, new])),
    "score, by name": ("chain", lambda fit, new, _: fit.score({"a": pd.DataFrame(new)})),
    "score, lengths": ("chain", lambda fit, new, _: fit.score(new, lengths=[5, 15])),
    "log_likelihood_of": ("chain", lambda fit, new, _: fit.log_likelihood_of(new)),
    "decode": ("chain", lambda fit, new, _: fit.decode(new)),
    "predict": ("chain", lambda fit, new, _: fo.predict(fit, new)),
    "marginals": ("chain", lambda fit, new, _: fo.marginals(fit, new)),
    "saved": ("chain", saved),
    "score of a product": ("product", lambda fit, new, _: fit.score(new)),
    "decode of a product": ("product", lambda fit, new, _: fit.decode(new)),
    "score of factors": ("space", lambda fit, new, _: fit.score(new)),
    "smoothed": ("space", lambda fit, new, _: fit.smoothed(new).mean),
    "smoothed, lengths": ("space", lambda fit, new, _: fit.smoothed(new, lengths=[5, 15]).mean),
    "predict of tags": ("labels", lambda fit, new, _: fo.predict(fit, [new])),
    "marginals of tags": ("labels", lambda fit, new, _: fo.marginals(fit, [new])),
    "score of tags": ("labels", lambda fit, new, _: fit.score(([new], TAGS))),
    "score of tags, read before": ("labels", lambda fit, new, _: fit.score(fo.labelled([new], TAGS))),
    "score of tags, estimator": ("tagger", lambda est, new, _: est.score([new], TAGS)),
    "predict of tags, estimator": ("tagger", lambda est, new, _: est.predict([new])),
    "Estimator.score": ("estimator", lambda est, new, _: est.score([new])),
    "Estimator.predict": ("estimator", lambda est, new, _: est.predict([new])),
    "Estimator.predict_proba": ("estimator", lambda est, new, _: est.predict_proba([new])),
    "Estimator.transform": ("estimator", lambda est, new, _: est.transform([new])),
}  # fmt: skip


def plain(found):
    parts = found if isinstance(found, list) else [found]
    return np.concatenate([np.asarray(part).ravel() for part in parts])


@pytest.mark.parametrize("door", DOORS)
def test_columns_of_new_data_are_told_by_name_at_every_door(door, request, tmp_path):
    kind, work = DOORS[door]
    fit, new = request.getfixturevalue(kind), drawn(1, 20)
    right = plain(work(fit, new, tmp_path))
    again = plain(work(fit, new[["speed", "depth", "heat"]], tmp_path))
    np.testing.assert_array_equal(again, right)
    for other, words in [
        (new.rename(columns={"heat": "warmth"}), "without heat and with warmth besides"),
        (new.drop(columns="heat"), "without heat"),
        (new.assign(number=1.0), "with number besides"),
    ]:
        with pytest.raises(ValueError, match=re.escape(words)) as refused:
            work(fit, other, tmp_path)
        assert "must have the columns of the fit" in str(refused.value)
        assert all(name in str(refused.value) for name in [*NAMES, *other.columns])
    if kind == "product":
        return
    np.testing.assert_array_equal(plain(work(fit, new.to_numpy(), tmp_path)), right)


def test_a_door_read_by_position_gave_another_answer(chain):
    new = drawn(1, 20)
    by_position = chain.score(new[["speed", "depth", "heat"]].to_numpy())
    assert chain.score(new) > by_position + 1000  # so that the tests above can fail


def test_tables_of_sequences_are_put_in_the_order_of_the_first():
    one, two, array = drawn(0, 20), drawn(1, 10), drawn(2, 10).to_numpy()
    right = fo.sequences([one, two, array])
    read = fo.sequences([one, two[["heat", "speed", "depth"]], array])
    assert read.channels == right.channels == tuple(NAMES)
    np.testing.assert_array_equal(read.values, right.values)
    wrong = two.rename(columns={"heat": "warmth"})
    words = "data: sequence 1 must have the columns of sequence 0, depth, heat, speed, in any order"
    with pytest.raises(ValueError, match=words):
        fo.sequences({"a": one, "b": wrong})
    beside = [
        pd.DataFrame({"u": np.arange(20.0), "v": 1.0}),
        pd.DataFrame({"v": 1.0, "u": np.zeros(10)}),
    ]
    read = fo.sequences([one, two], covariates=beside)
    assert read.covariate_names == ("u", "v")
    np.testing.assert_array_equal(read.covariates[1, :10], [[0.0, 1.0]] * 10)


def regression(table):
    emission = fo.models.LinearRegression(regressors=("rain", "wind"))
    data = fo.sequences(table, covariates=["rain", "wind"])
    return fo.fit(fo.models.HMM(1, emission), data, restarts=1, optima=0)


def test_tables_that_hold_the_covariates_of_the_fit_need_not_say_so():
    rng = np.random.default_rng(5)
    known = pd.DataFrame(rng.normal(size=(40, 2)), columns=["rain", "wind"])
    table = known.assign(flow=known["rain"] - 3 * known["wind"] + rng.normal(size=40))
    fit, new = regression(table), table.iloc[::-1].reset_index(drop=True)
    right = fit.score(fo.sequences(new, covariates=["rain", "wind"]))
    assert fit.score(new[["wind", "flow", "rain"]]) == right
    assert fit.score(new, lengths=[40]) == right
    assert fit.score(fo.sequences(new[["flow"]], covariates=new[["wind", "rain"]])) == right
    arrays = fo.sequences(new["flow"].to_numpy(), covariates=new[["rain", "wind"]].to_numpy())
    assert fit.score(arrays) == right
    with pytest.raises(ValueError, match="the model needs a covariate 'wind' in the data, but it has"):
        fit.score(new[["flow", "rain"]])


def test_one_table_for_an_estimator_is_refused_as_scikit_learn_does(chain):
    estimator = fo.sklearn.Estimator(chain.model, restarts=1, optima=0).fit(drawn(0))
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        estimator.score(drawn(1)[["speed", "depth", "heat"]])


def test_numbers_that_columns_have_in_place_of_names_are_positions(chain):
    new = drawn(1, 20)
    numbered = pd.DataFrame(new.to_numpy())
    assert chain.score(numbered) == chain.score(new)
    fit = fo.fit(chain.model, drawn(0).to_numpy(), restarts=1, optima=0)
    assert fit.score(new) == fit.score(new.to_numpy()) == fit.score(numbered)
    named = pd.DataFrame(new.to_numpy(), columns=["x0", "x1", "x2"])
    assert fit.score(named[["x2", "x0", "x1"]]) == fit.score(new)


def test_columns_called_alike_twice_are_refused(chain):
    twice = drawn(1, 20).set_axis(["depth", "heat", "heat"], axis=1)
    sentence = "columns that are called differently, but 'heat' occurs twice in data"
    with pytest.raises(ValueError, match=sentence):
        chain.score(twice)
    ways = {
        "alone": lambda: fo.sequences(twice),
        "group": lambda: fo.sequences(twice, group="heat"),
        "index": lambda: fo.sequences(twice, index="heat"),
        "covariates": lambda: fo.sequences(twice, covariates=["depth", "heat"]),
        "list": lambda: fo.sequences([drawn(0, 20), twice]),
        "dict": lambda: fo.sequences({"one": twice, "other": twice}),
        "fit": lambda: fo.fit(fo.models.GaussianHMM(1), twice),
    }
    for read in ways.values():
        with pytest.raises(ValueError, match=sentence):
            read()
    with pytest.raises(ValueError, match="but '1' occurs twice in data"):
        fo.sequences(twice.set_axis([1, "heat", "1"], axis=1))
    with pytest.raises(ValueError, match="'heat' occurs twice in features"):
        fo.labelled([twice], [["a", "b"] * 10])


def test_columns_that_come_alone_are_told_by_name_unless_these_name_sequences():
    table = drawn(0, 20)
    fit = fo.fit(fo.models.GaussianHMM(1), table["heat"])
    assert fit.score(table[["heat"]]) == fit.score(table["heat"]) == fit.score(table["heat"].to_numpy())
    with pytest.raises(ValueError, match="the fit, heat, in any order, got depth: without heat"):
        fit.score(table["depth"])
    several = fo.fit(fo.models.GaussianHMM(1), [table["heat"], table["depth"]])
    assert several.data.channels == ("x0",)
    assert several.score([table["heat"], table["depth"]]) == pytest.approx(several.log_likelihood)


def test_columns_of_a_product_may_be_numbers():
    """Keys of other kinds ended in "'int' object is not iterable"."""
    table = drawn(0)
    named = fo.models.Product({"heat": "gamma", ("speed", "depth"): "gaussian"})
    right = fo.fit(fo.models.HMM(1, named), table, restarts=1, optima=0).log_likelihood
    numbered = table.set_axis([7, 0, "speed"], axis=1)
    emission = fo.models.Product({0: "gamma", ("speed", 7): "gaussian"})
    assert [names for names, _ in emission.parts] == [("0",), ("speed", "7")]
    fit = fo.fit(fo.models.HMM(1, emission), numbered, restarts=1, optima=0)
    assert fit.log_likelihood == right
    assert fit.score(numbered[["speed", 7, 0]]) == pytest.approx(right)
    with pytest.raises(ValueError, match="a channel can be in one part only"):
        fo.models.Product({0: "gamma", "0": "gaussian"})


def test_long_and_empty_names_leave_a_sentence(chain):
    """A name of 300 characters came four times, and an empty one could not be seen."""
    called = drawn(1, 20).set_axis(["x" * 300, "", "speed"], axis=1)
    with pytest.raises(ValueError, match=r"and with x{60}\.\.\., '' besides") as refused:
        chain.score(called)
    assert len(str(refused.value)) < 300


def test_tables_of_features_are_put_in_the_order_of_the_first(labels):
    tables = [drawn(seed, 10) for seed in range(6)]
    mixed = [
        table if seed % 2 else table[["speed", "heat", "depth"]] for seed, table in enumerate(tables)
    ]
    tags = [["a", "b"] * 5 for _ in tables]
    right, read = fo.labelled(tables, tags), fo.labelled(mixed, tags)
    assert right.attributes == tuple(NAMES)
    assert read.attributes == ("speed", "heat", "depth")
    np.testing.assert_array_equal(read.features, right.features[:, ::-1])
    assert labels.score(read) == labels.score(right)
    mixed[3] = mixed[3].drop(columns="heat")
    words = "features: sequence 3 must have the columns of sequence 0, speed, heat, depth, in any order"
    with pytest.raises(ValueError, match=words):
        fo.labelled(mixed, tags)
    with pytest.raises(ValueError, match="the model was fitted with 3 features, got 2"):
        labels.decode([table.to_numpy()[:, :2] for table in tables])


@pytest.mark.parametrize("kind", ["chain", "product", "space", "labels"])
def test_a_fit_that_was_saved_without_its_data_knows_their_names(kind, request, tmp_path):
    fit = request.getfixturevalue(kind)
    path = fit.save(tmp_path / "fit.json", data=False)
    if kind == "labels":
        tables = [drawn(seed, 10)[["speed", "heat", "depth"]] for seed in range(6)]
        tags = np.split(np.array(fit.data.tags)[fit.data.labels], 6)
        given, others = (fo.labelled([t.set_axis(names, axis=1) for t in tables], tags) for names in (
            ["speed", "heat", "depth"], ["speed", "warmth", "depth"]))  # fmt: skip
    else:
        given = drawn(0)[["heat", "speed", "depth"]]
        others = given.rename(columns={"heat": "warmth"})
    found = fo.load(path, data=given)
    assert found.log_likelihood == pytest.approx(fit.log_likelihood, rel=1e-12)
    with pytest.raises(ValueError, match="without heat and with warmth besides"):
        fo.load(path, data=others)


def test_a_file_to_decode_is_read_by_the_names_of_the_fit_or_as_columns_says(chain, tmp_path):
    path, new = chain.save(tmp_path / "fit.json"), drawn(1, 20)
    right = chain.decode(new)[0]
    moved = new[["speed", "heat", "depth"]]
    moved.assign(note="a", more=2.0).to_csv(tmp_path / "moved.csv", index=False)
    moved.set_axis(["s", "h", "d"], axis=1).to_csv(tmp_path / "renamed.csv", index=False)
    for words in (["moved.csv"], ["moved.csv", "--columns", "speed,depth,heat"]):
        assert decoded(path, tmp_path / words[0], *words[1:]) == right.tolist()
    assert decoded(path, tmp_path / "renamed.csv", "--columns", "d,h,s") == right.tolist()
    with pytest.raises(AssertionError, match="'depth' is not a column; columns are s, h, d"):
        decoded(path, tmp_path / "renamed.csv")


def decoded(*words):
    found = CliRunner().invoke(app, ["decode", *map(str, words), "--csv"])
    assert found.exit_code == 0, found.stderr
    return pd.read_csv(io.StringIO(found.stdout))["state"].tolist()


def test_columns_of_tables_that_are_called_as_those_of_arrays_are_told_by_name(tmp_path):
    numbers = np.random.default_rng(0).normal(size=(40, 4))
    table = pd.DataFrame(numbers, columns=["x0", "x1", "x2", "x3"])
    fit = fo.fit(fo.models.GaussianHMM(1), table[["x0", "x1"]])
    path = fit.save(tmp_path / "fit.json")
    for one in (fit, fo.load(path)):
        with pytest.raises(
            ValueError, match=r"columns of the fit, x0, x1, .* got x1, x2: without x0 and w"
        ):
            one.log_likelihood_of(table[["x1", "x2"]])
    known = fo.sequences(table[["x0"]].set_axis(["y"], axis=1), covariates=table[["x1", "x2"]])
    chain = fo.fit(fo.models.HMM(1, fo.models.LinearRegression(["x1", "x2"])), known)
    other = fo.sequences(table[["x0"]].set_axis(["y"], axis=1), covariates=table[["x2", "x3"]])
    with pytest.raises(ValueError, match="the model needs a covariate 'x1' in the data"):
        chain.score(other)
    # Numbers in arrays stand for any names, and columns of arrays for those of any table.
    assert fit.score(numbers[:, :2]) == fit.score(table[["x0", "x1"]])
    named = table[["x0", "x1"]].set_axis(["a", "b"], axis=1)
    assert fo.fit(fo.models.GaussianHMM(1), named).score(numbers[:, :2]) == fit.score(numbers[:, :2])
