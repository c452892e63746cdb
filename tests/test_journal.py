"""Journals: what a run has computed, another finds; what was asked otherwise, it does not."""

from __future__ import annotations

import fcntl
import threading

import numpy as np
import pandas as pd
import pytest
from benchmarks.injections import Disk

import fitonce as fo
from fitonce.crossval import cross_validate as crossval
from fitonce.crossval.journal import DamagedError, Journal, packed, unpacked
from fitonce.objectives.chain.native import NativeChainObjective
from registry import _unequal

pytestmark = pytest.mark.xdist_group("journal")  # one worker fits and compiles once
METHODS = ["ij", "onestep", "newton", "exact", "auto"]
DATA = _unequal()[:3]


@pytest.fixture(scope="module")
def fit():
    return fo.fit(fo.models.GaussianHMM(2, scale=0.5), DATA, restarts=1)


@pytest.fixture(scope="module")
def folds(fit):
    return fo.folds.kfold(fit.data, 5)


@pytest.fixture
def counts(monkeypatch):
    """What each journal counted, one after the other."""
    made, of = [], Journal.of
    monkeypatch.setattr(
        crossval.Journal, "of", lambda *given: made.append(of(*given)) or made[-1]
    )  # fmt: skip
    return lambda run: made[run].counts


def validate(fit, folds, folder, method="exact", **options):
    return fo.cross_validate(fit, folds, method=method, chunk=2, journal=folder, **options)


def assert_identical(found, expected):
    np.testing.assert_array_equal(found.theta, expected.theta)
    pd.testing.assert_frame_equal(found.pointwise, expected.pointwise, check_exact=True)
    same = ["loss", "control", "error", "distance", "ok", "status", "verdict"]
    pd.testing.assert_frame_equal(found.folds[same], expected.folds[same], check_exact=True)


@pytest.mark.parametrize("method", METHODS)
def test_a_second_run_finds_everything(tmp_path, fit, folds, counts, method):
    first = validate(fit, folds, tmp_path, method)
    again = validate(fit, folds, tmp_path, method)
    assert counts(0)["written"] > 0
    assert counts(1)["found"] == sum(counts(0).values())
    assert counts(1)["written"] == 0
    assert len(list(tmp_path.glob("*.entry"))) == counts(0)["written"]
    assert_identical(again, first)


def test_a_journal_changes_no_number(tmp_path, fit, folds):
    kept = validate(fit, folds, tmp_path)
    assert_identical(kept, fo.cross_validate(fit, folds, method="exact", chunk=2))


def test_a_folder_is_made_where_there_is_none(tmp_path, fit, folds):
    deep = tmp_path / "not" / "there"
    validate(fit, folds, str(deep), "onestep")
    assert list(deep.glob("*.entry"))
    assert not list(deep.glob("*.part"))


@pytest.mark.parametrize("after", [1, 3, 6])
def test_an_interrupted_run_goes_on_from_where_it_was(tmp_path, monkeypatch, fit, folds, counts, after):
    expected = fo.cross_validate(fit, folds, method="exact", chunk=2)
    asked, real = [0], NativeChainObjective.values_and_gradients

    def interrupted(*given):
        asked[0] += 1
        if asked[0] > after:
            raise KeyboardInterrupt
        return real(*given)

    with monkeypatch.context() as patch:
        patch.setattr(NativeChainObjective, "values_and_gradients", interrupted)
        with pytest.raises(KeyboardInterrupt):
            validate(fit, folds, tmp_path)
    written = counts(0)["written"]
    assert 1 <= written <= after
    found = validate(fit, folds, tmp_path)
    assert counts(1)["found"] >= written
    assert counts(1)["written"] > 0
    assert_identical(found, expected)


@pytest.mark.parametrize("keep", [0, 0.5, 0.95])
def test_an_entry_that_is_not_whole_is_computed_again(tmp_path, fit, folds, counts, keep):
    expected = validate(fit, folds, tmp_path, "onestep")
    broken = sorted(tmp_path.glob("*.entry"))[0]
    content = broken.read_bytes()
    broken.write_bytes(content[: int(keep * len(content))])
    found = validate(fit, folds, tmp_path, "onestep")
    assert counts(1)["written"] == 1
    assert_identical(found, expected)
    assert broken.stat().st_size == len(content)


def test_an_entry_of_other_bytes_is_computed_again(tmp_path, fit, folds, counts):
    expected = validate(fit, folds, tmp_path, "onestep")
    sorted(tmp_path.glob("*.entry"))[0].write_bytes(b"not a result" * 100)
    assert_identical(validate(fit, folds, tmp_path, "onestep"), expected)
    assert counts(1)["written"] == 1


def others(fit, folds):
    """Runs that have nothing in common with a run of "onestep" on this fit."""
    shifted = fo.fit_at(fit.model, [x + 0.1 for x in DATA], fit.params)
    stronger = fo.fit_at(fo.models.GaussianHMM(2, scale=0.6), DATA, fit.params)
    return {
        "data": (shifted, folds, {}),
        "model": (stronger, folds, {}),
        "scheme": (fit, folds, {"scheme": "B"}),
        "folds": (fit, fo.folds.kfold(fit.data, 5, blocks=False), {}),
    }


@pytest.mark.parametrize("other", ["data", "model", "scheme", "folds"])
def test_another_question_finds_nothing(tmp_path, fit, folds, counts, other):
    validate(fit, folds, tmp_path, "onestep")
    there, theirs, options = others(fit, folds)[other]
    validate(there, theirs, tmp_path, "onestep", damping=50.0, **options)
    assert counts(1)["found"] == 0


@pytest.mark.parametrize("method", ["ij", "onestep"])
def test_other_parameters_of_the_same_model_do_not_share_steps(tmp_path, fit, folds, method):
    """A fit that stopped early is expanded around where it stopped."""
    early = fo.fit(fit.model, DATA, init=fit.params_at(fit.theta + 0.02), max_iterations=1)
    validate(fit, folds, tmp_path, method)
    expected = fo.cross_validate(early, folds, method=method, chunk=2)
    found = validate(early, folds, tmp_path, method)
    np.testing.assert_array_equal(found.theta, expected.theta)


def test_a_residual_that_is_not_corrected_for_is_another_question(tmp_path, fit, folds):
    early = fo.fit(fit.model, DATA, init=fit.params_at(fit.theta + 0.02), max_iterations=1)
    validate(early, folds, tmp_path, "ij")
    expected = fo.cross_validate(early, folds, method="ij", chunk=2, residual=False)
    found = validate(early, folds, tmp_path, "ij", residual=False)
    np.testing.assert_array_equal(found.theta, expected.theta)


def spread(params, data, weights):
    return params["mean"].sum() + 0.0 * weights


@pytest.mark.parametrize("loss", ["joint", spread])
def test_another_loss_is_another_question(tmp_path, fit, folds, loss):
    validate(fit, folds, tmp_path, "none", check=False)
    expected = fo.cross_validate(fit, folds, method="none", chunk=2, check=False, loss=loss)
    found = validate(fit, folds, tmp_path, "none", check=False, loss=loss)
    pd.testing.assert_frame_equal(found.pointwise, expected.pointwise)


def test_other_chunks_are_computed_anew_with_the_same_result(tmp_path, fit, folds):
    expected = validate(fit, folds, tmp_path, "onestep")
    found = fo.cross_validate(fit, folds, method="onestep", chunk=3, journal=tmp_path)
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-9)


def test_a_file_is_not_a_folder(tmp_path, fit, folds):
    place = tmp_path / "journal"
    place.write_text("something else")
    with pytest.raises(ValueError, match=r"journal must be a folder, but .* is a file"):
        validate(fit, folds, place)
    assert place.read_text() == "something else"
    with pytest.raises(ValueError, match="journal must be the path of a folder, got 3"):
        validate(fit, folds, 3)


@pytest.mark.parametrize("wrong", [np.zeros(()), np.zeros((1, 1)), np.zeros((9, 4))], ids=str)
def test_entries_of_another_shape_are_not_there(tmp_path, fit, folds, wrong):
    expected = validate(fit, folds, tmp_path, "onestep")
    for path in tmp_path.glob("*.entry"):
        np.savez(path, wrong)
    assert_identical(validate(fit, folds, tmp_path, "onestep"), expected)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path, fit, folds):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="journal must be a folder that can be created"):
        validate(fit, folds, tmp_path / "file" / "below")


SOURCE = """
import jax.numpy as jnp

SCALE = {scale}

def spread(x):
    return {spread}

def log_density(params, data, weights):
    return -0.5 * jnp.sum(weights * (data - params["mean"]) ** 2)

def heldout(params, data, weights):
    return SCALE * spread(data - params["mean"])
"""


def own_model(scale="1.0", spread="0.5 * x**2"):
    """A custom density from a module of the user's, as it is after an edit."""
    space = {"__name__": "users_module"}
    exec(SOURCE.format(scale=scale, spread=spread), space)
    return fo.models.Custom(space["log_density"], {"mean": 0.0}, heldout=space["heldout"])


@pytest.mark.parametrize("edit", [{"scale": "10.0"}, {"spread": "5.0 * x**2"}])
def test_an_edited_constant_or_function_is_another_question(tmp_path, edit):
    x = np.random.default_rng(0).normal(size=20)
    before, after = fo.fit(own_model(), x), fo.fit(own_model(**edit), x)
    folds = fo.folds.kfold(20, 4)
    first = validate(before, folds, tmp_path)
    assert validate(before, folds, tmp_path).estimate == first.estimate
    fresh = validate(after, folds, tmp_path / "other")
    assert validate(after, folds, tmp_path).estimate == fresh.estimate
    assert fresh.estimate == pytest.approx(10.0 * first.estimate)


EMISSION = """
from dataclasses import dataclass
import jax.numpy as jnp
import fitonce as fo
from fitonce.core.constraints import Free
from fitonce.models.emissions import spread_levels, sum_channels

@dataclass(frozen=True)
class Laplace(fo.models.Emission):
    def parameters(self, n_states, rows):
        return {{"mean": Free((n_states, rows.x.shape[1]))}}

    def start(self, n_states, rows, rng):
        return {{"mean": spread_levels(n_states, rows, rng)}}

    def log_prior(self, params, rows):
        return -0.5 * jnp.sum(params["mean"] ** 2) / 9.0

    def log_density(self, params, rows):
        return sum_channels(-0.5 * {sharp} * (rows.x[:, None] - params["mean"]) ** 2, rows)
"""


def test_an_edited_emission_is_another_question(tmp_path, folds, counts):
    def fitted(sharp):
        space = {"__name__": "users_module"}
        exec(EMISSION.format(sharp=sharp), space)
        return fo.fit(fo.models.HMM(2, space["Laplace"]()), DATA, restarts=1)

    validate(fitted("1.0"), folds, tmp_path, "ij")
    validate(fitted("4.0"), folds, tmp_path, "ij")
    assert counts(1)["found"] == 0
    assert counts(1)["written"] == counts(0)["written"]


def test_an_own_loss_is_kept_and_an_edited_one_is_another_question(tmp_path, fit, folds, counts):
    def loss_of(scale):
        return lambda params, data, weights: scale * (1.0 + weights + params["mean"][0, 0] ** 2)

    first, second = (
        validate(fit, folds, tmp_path, "none", loss=loss_of(scale)).estimate for scale in (1.0, 2.0)
    )
    assert second == pytest.approx(2.0 * first)
    assert counts(1)["written"] > 0  # the losses; gradients are the same question
    validate(fit, folds, tmp_path, "none", loss=loss_of(2.0))
    assert counts(2)["written"] == 0


def test_what_cannot_be_told_apart_from_an_edited_one_is_not_kept(tmp_path):
    lock = threading.Lock()

    def heldout(params, data, weights):
        return (1.0 + lock.locked()) * (data - params["mean"]) ** 2

    base = own_model()
    x = np.random.default_rng(0).normal(size=20)
    fit = fo.fit(fo.models.Custom(base.log_density, {"mean": 0.0}, heldout=heldout), x)
    with pytest.warns(
        UserWarning, match="journal: results are not stored; the model could be edited without"
    ):
        validate(fit, fo.folds.kfold(20, 4), tmp_path)
    assert not list(tmp_path.glob("*.entry"))


def test_a_flipped_bit_is_noticed_wherever_it_is(tmp_path):
    arrays = (np.arange(4.0), np.arange(8).reshape(4, 2))
    entry = bytearray(packed(arrays))
    for place in range(len(entry)):
        entry[place] ^= 1 << place % 8
        with pytest.raises(DamagedError):
            unpacked(bytes(entry))
        entry[place] ^= 1 << place % 8
    for found, expected in zip(unpacked(bytes(entry)), arrays, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_damaged_entries_are_counted_in_the_printed_result(tmp_path, fit, folds):
    expected = validate(fit, folds, tmp_path, "onestep")
    entries = sorted(tmp_path.glob("*.entry"))
    damaged = bytearray(entries[0].read_bytes())
    damaged[-30] ^= 4
    entries[0].write_bytes(damaged)
    found = validate(fit, folds, tmp_path, "onestep")
    assert_identical(found, expected)
    text = (
        f"journal   {len(entries) - 1} pieces found, 1 computed, 1 of them as the entries were damaged"
    )
    assert text in str(found)


def test_a_folder_in_the_place_of_an_entry_costs_only_that_entry(tmp_path, fit, folds):
    expected = validate(fit, folds, tmp_path, "onestep")
    entry = sorted(tmp_path.glob("*.entry"))[0]
    entry.unlink()
    entry.mkdir()
    with pytest.warns(UserWarning, match="cannot be written: Is a directory; the run goes on"):
        found = validate(fit, folds, tmp_path, "onestep")
    assert_identical(found, expected)
    assert "1 could not be stored" in str(found)


def test_a_full_disk_costs_the_journal_but_not_the_result(tmp_path, fit, folds):
    expected = fo.cross_validate(fit, folds, method="onestep", chunk=2)
    with (
        Disk(0),
        pytest.warns(UserWarning, match="No space left on device; the run goes on without it") as got,
    ):
        found = validate(fit, folds, tmp_path, "onestep")
    assert len(got) == 1
    assert_identical(found, expected)
    assert not list(tmp_path.iterdir())


def test_drafts_of_runs_that_were_killed_are_removed(tmp_path, fit, folds):
    left, held = tmp_path / ".a.entry.12345678.part", tmp_path / ".b.entry.12345678.part"
    left.write_bytes(b"half")
    with open(held, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as the process that writes it does
        validate(fit, folds, tmp_path, "onestep")
        assert not left.exists()
        assert held.exists()
    validate(fit, folds, tmp_path, "onestep")
    assert not held.exists()


def test_a_journal_without_a_name_is_refused(fit, folds):
    with pytest.raises(ValueError, match="journal must be the path of a folder, got ''"):
        validate(fit, folds, "")
