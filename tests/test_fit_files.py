"""Saved fits: every model comes back, cross-validates to the same digits, and damage is noticed."""

from __future__ import annotations

import json

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import fitonce as fo
from fitonce.fitting.encoding import decoded, encoded
from golden_record import ENTRIES, saved_fit

# Whose models are code of the user's own.
OWN = ("custom-mixture", "custom-field", "iid-mixture", "own-state-space")
LARGE = ("custom-field",)  # its programs take long to compile
EVERY = [
    pytest.param(
        entry, id=entry.name, marks=[pytest.mark.slow] if entry.slow or entry.name in LARGE else []
    )
    for entry in ENTRIES.values()
]


def quick(entry):
    return saved_fit(entry.name)


@pytest.mark.parametrize("entry", EVERY)
def test_every_model_comes_back(entry, tmp_path):
    fit = quick(entry)
    path = fit.save(tmp_path / "fit.json")
    own = {"model": entry.model} if entry.name in OWN else {}
    if own:
        with pytest.raises(ValueError, match=r"fit of your own model, .*: pass the model, fo.load"):
            fo.load(path)
    found = fo.load(path, **own)
    assert repr(found) == repr(fit)
    assert found.model == fit.model
    assert found.objective(fit.theta) == fit.value
    assert found.values_of_starts == fit.values_of_starts
    assert found.optima.sentence == fit.optima.sentence
    for name in ("theta", "gradient"):
        np.testing.assert_array_equal(getattr(found, name), getattr(fit, name))
    np.testing.assert_array_equal(found.H, fit.H)
    np.testing.assert_array_equal(found.optima.thetas, fit.optima.thetas)
    there = np.flatnonzero(fit.objective.base)
    folds = fo.folds.sites([there[20:21], there[30:32]], len(fit.objective.base))
    method = "onestep" if fit.objective.traits.compiles else "auto"  # which would compile for long
    before, after = (fo.cross_validate(one, folds, method=method, optima=2) for one in (fit, found))
    assert after.estimate == before.estimate
    np.testing.assert_array_equal(after.pointwise["loss"], before.pointwise["loss"])
    np.testing.assert_array_equal(after.theta, before.theta)
    again = found.save(tmp_path / "again.json")
    assert again.read_bytes() == path.read_bytes()


WITHOUT_A_DAY = pd.offsets.CustomBusinessDay(holidays=["2024-01-03"], weekmask="Mon Tue Wed Thu")


@pytest.fixture(scope="module")
def fit():
    days = pd.date_range("2024-03-30", periods=60, freq="D", tz="Europe/Berlin")
    counts = np.random.default_rng(0).poisson(np.resize(np.repeat([2.0, 9.0], 10), 60))
    return fo.fit(fo.models.PoissonHMM(2), pd.DataFrame({"calls": counts}, index=days), restarts=2)


@pytest.fixture
def saved(fit, tmp_path):
    return fit.save(tmp_path / "fit.json", about={"who": "me"})


def test_data_keep_their_names(fit, saved):
    found = fo.load(saved)
    assert found.data.channels == ("calls",)
    assert found.data.names.sites == fit.data.names.sites
    assert found.data.fingerprint == fit.data.fingerprint
    assert json.loads(saved.read_text())["about"]["who"] == "me"


def test_without_data_the_file_is_smaller_and_asks_for_them(fit, saved, tmp_path):
    path = fit.save(tmp_path / "bare.json", data=False)
    assert path.stat().st_size < saved.stat().st_size
    with pytest.raises(ValueError, match=r"saved without its data: pass them, fo.load\(path, data="):
        fo.load(path)
    counts = fit.data.values[0, :, 0]  # noqa: PD011 - not of pandas
    found = fo.load(path, data=counts)
    assert found.score() == fit.score()
    with pytest.raises(ValueError, match=r"they are not those of the fit"):
        fo.load(path, data=counts[::-1])
    with pytest.raises(ValueError, match=r"has 5 parameters \(.*\), but model and data give 7"):
        fo.load(path, data=np.ones((60, 2)) * [[1, 3]])
    with pytest.raises(ValueError, match="data must be True or False, got ndarray"):
        fit.save(tmp_path / "other.json", data=np.ones(3))


def test_another_model_is_refused(saved):
    with pytest.raises(ValueError, match=r"is a fit of HMM, 2 states.* got HMM, 3 states"):
        fo.load(saved, model=fo.models.PoissonHMM(3))
    assert fo.load(saved, model=fo.models.PoissonHMM(2)).ok


def test_a_changed_density_is_noticed(tmp_path):
    def density(params, data, weights):
        return -jnp.sum(weights * (data - params["centre"]) ** 2)

    def other(params, data, weights):
        return -2.0 * jnp.sum(weights * (data - params["centre"]) ** 2)

    init = {"centre": np.zeros(())}
    table = pd.DataFrame({"x": [1.0, 2.0, 4.0]})
    path = fo.fit(fo.models.Custom(density, init), table["x"]).save(tmp_path / "fit.json")
    found = fo.load(path, model=fo.models.Custom(density, init))
    assert float(found.params["centre"]) == pytest.approx(7 / 3)
    with pytest.raises(ValueError, match="they are not those of the fit"):
        fo.load(path, model=fo.models.Custom(other, init))


def test_data_that_no_file_can_hold_are_refused(tmp_path):
    def density(params, data, weights):
        return -jnp.sum(weights * (data["x"] - params["centre"]) ** 2)

    class Odd(dict):
        pass

    import jax

    jax.tree_util.register_pytree_node(Odd, lambda d: ((d["x"],), None), lambda _, v: Odd(x=v[0]))
    fit = fo.fit(fo.models.Custom(density, {"centre": np.zeros(())}), Odd(x=np.arange(3.0)))
    with pytest.raises(ValueError, match="cannot be saved, as they hold a Odd; pass data=False"):
        fit.save(tmp_path / "fit.json")
    assert not (tmp_path / "fit.json").exists()
    path = fit.save(tmp_path / "fit.json", data=False)
    assert fo.load(path, model=fit.model, data=fit.data).ok


def test_an_emission_of_your_own_is_asked_for(tmp_path):
    class Mine(fo.models.Poisson):
        pass

    path = fo.fit(fo.models.HMM(2, Mine()), np.arange(12) % 5, restarts=1).save(tmp_path / "fit.json")
    with pytest.raises(ValueError, match="files hold no code"):
        fo.load(path)
    assert fo.load(path, model=fo.models.HMM(2, Mine())).model.emission == Mine()


def changed(path, **new):
    document = json.loads(path.read_text())
    document.update(new)
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    ("new", "words"),
    [
        ({"version": 99}, "has format version 99, this fitonce reads 1"),
        ({"format": "x"}, "must be a saved result or a saved fit, but is not marked as"),
        ({"format": ["x"]}, "is not marked as"),
        ({"value": 3.0}, "damaged fit: it was changed after it was written"),
        ({"digest": 3}, "damaged fit: it was changed"),
    ],
)
def test_damage_is_said(saved, new, words):
    with pytest.raises(ValueError, match=words):
        fo.load(changed(saved, **new))


def test_half_a_file_is_refused(saved):
    saved.write_bytes(saved.read_bytes()[:2000])
    with pytest.raises(ValueError, match=r"fit.json must be .* but is not JSON, or was cut short"):
        fo.load(saved)
    with pytest.raises(ValueError, match="expected a saved result or a saved fit, got no file at"):
        fo.load(saved.with_name("none.json"))


def test_a_byte_order_mark_is_passed_over(fit, saved):
    saved.write_bytes(b"\xef\xbb\xbf" + saved.read_bytes())
    np.testing.assert_array_equal(fo.load(saved).theta, fit.theta)


def test_a_file_that_is_there_stays(fit, saved):
    with pytest.raises(ValueError, match="exists; pass force=True"):
        fit.save(saved)
    fit.save(saved, force=True)


def test_results_need_neither_model_nor_data(fit, tmp_path):
    path = fo.cross_validate(fit, fo.folds.blocks(fit.data, percent=10, n=3)).save(tmp_path / "cv.json")
    with pytest.raises(ValueError, match=r"model and data are for saved fits, but cv.json is a"):
        fo.load(path, model=fit.model)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"is": "Popen"}, "has a 'Popen', which this version of fitonce does not know"),
        ({"is": "Option"}, "has a 'Option'"),
        ({"what": 1}, "an entry of unknown kind"),
        ({"float": "1e999"}, "expected a number"),
        ({"index": {"kind": "x", "name": None, "values": {}}}, "dtype"),
    ],
)
def test_only_plain_things_are_made_again(found, words):
    with pytest.raises((ValueError, KeyError), match=words):
        decoded(found)


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, 2.5, float("inf"), "a", (1, (2.0, "b")), [1, (2,)], {"a": (1,), 2: None},
        tuple(f"name {n}" for n in range(30)), fo.models.HMM(2, "gamma", frozen={"mean": [1.0, 2.0]}),
    ],
)  # fmt: skip
def test_plain_things_come_back(value):
    assert decoded(json.loads(json.dumps(encoded(value)))) == value


@pytest.mark.parametrize(
    "index",
    [
        pd.RangeIndex(3, 9, 2),
        pd.Index([1.5, 2.5], name="t"),
        pd.Index(["a", "b"], name="who"),
        pd.date_range("2024-10-26", periods=5, freq="12h", tz="Europe/Berlin", name="day"),
        pd.DatetimeIndex(["2024-01-01", "2024-01-05"]),
        pd.period_range("2024-01", periods=3, freq="Q"),
        pd.date_range("2024-01-01", periods=6, freq=WITHOUT_A_DAY),
        pd.date_range("2024-01-01", periods=6, freq=2 * WITHOUT_A_DAY, tz="Europe/Berlin"),
        pd.date_range("2024-03-30", periods=60, freq="h", tz="dateutil/Europe/Berlin"),
        pd.date_range("2024-03-30", periods=3, tz="dateutil/UTC"),
        pd.timedelta_range("1h", periods=4, freq="2h", name="since"),
        pd.TimedeltaIndex(["1h", "4h", None]).as_unit("s"),
        pd.MultiIndex.from_product([["a", "b"], pd.date_range("2024", periods=2)], names=["who", "day"]),
        pd.CategoricalIndex(["a", "b", None], ["b", "a"], ordered=True),
        pd.Index([1, 2], dtype="Int64"),
        pd.Index(["a", "b"], dtype="string"),
        pd.Index([1, 2], name=("a", 1)),
    ],
    ids=lambda index: type(index).__name__,
)
def test_indices_come_back(index):
    found = decoded(json.loads(json.dumps(encoded(index))))
    pd.testing.assert_index_equal(found, index, exact=True)
    assert getattr(found, "freq", None) == getattr(index, "freq", None)


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (pd.date_range("2024", periods=3, freq=pd.DateOffset(months=1, days=2)), "<DateOffset: days=2"),
        (pd.date_range("2024", periods=3, freq=pd.offsets.BusinessHour(start="11:00")), "bh=11:00"),
        (pd.Index(["a", 1, 2.5], dtype=object), "Index of object"),
        (pd.Index([("a", 1), ("b", 2), ("c", 3)], tupleize_cols=False), "Index of object"),
        (pd.interval_range(0, 3), "IntervalIndex of interval"),
        (pd.Index([1, 2, 3], name=pd.Timestamp("2024")), "Index of int64"),
    ],
)
def test_indices_that_are_not_kept_are_said(index, words, tmp_path):
    at = {"rate": [[3.0]], "initial": [1.0], "transition": [[1.0]]}
    table = pd.DataFrame({"calls": [1.0, 2.0, 5.0]}, index=index)
    fit = fo.fit_at(fo.models.PoissonHMM(1), table, at)
    sentence = rf"hold an index that files do not keep \(.*{words}.*\); pass data=False, and the data to"
    with pytest.raises(ValueError, match=sentence):
        fit.save(tmp_path / "fit.json")
    found = fo.load(fit.save(tmp_path / "fit.json", data=False), data=table)
    pd.testing.assert_index_equal(found.posterior().index, index)


def test_forecasts_of_saved_fits_know_holidays(tmp_path):
    days = pd.date_range("2023-12-26", periods=4, freq=WITHOUT_A_DAY)
    at = {"rate": [[3.0]], "initial": [1.0], "transition": [[1.0]]}
    fit = fo.fit_at(fo.models.PoissonHMM(1), pd.Series([1.0, 2.0, 5.0, 3.0], index=days), at)
    found = fo.load(fit.save(tmp_path / "fit.json")).forecast(2, n=5)
    assert [str(day.date()) for day in found.index] == ["2024-01-02", "2024-01-04"]


def test_forecasts_go_on_with_weekdays_where_steps_were():
    """Friday 12 January and eleven days on which markets are open before it."""
    days = pd.bdate_range("2023-12-28", "2024-01-12")
    plain = pd.DatetimeIndex(
        days.to_numpy(), name="date"
    )  # as columns of files are, without a frequency
    at = {"rate": [[3.0]], "initial": [1.0], "transition": [[1.0]]}
    fit = fo.fit_at(fo.models.PoissonHMM(1), pd.Series(np.arange(12.0), index=plain), at)
    ahead = fit.forecast(3, n=5).index
    assert [str(day.date()) for day in ahead] == ["2024-01-15", "2024-01-16", "2024-01-17"]
    with pytest.warns(UserWarning, match="lack 1 step, the first of them 2024-01-05"):
        gap = fo.fit_at(fo.models.PoissonHMM(1), pd.Series(np.arange(11.0), index=plain.delete(6)), at)
    assert gap.forecast(3, n=5).index is None
