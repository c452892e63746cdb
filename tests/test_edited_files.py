"""A journal after the user has edited an imported file: what it holds is of other code, and not read."""

from __future__ import annotations

import importlib
import itertools
import sys

import numpy as np
import pytest

import fitonce as fo
from fitonce.crossval.identity import digest

X = np.random.default_rng(0).normal(size=20)
FOLDS = fo.folds.kfold(20, 4)
HELPER = "POWER = 2\n"
MODULE = """
import jax.numpy as jnp
import own_helper
from own_helper import POWER

SCALE = 1.0

def spread(x, sharp=1.0, *, wide=1.0):
    return sharp * wide * jnp.square(x)

def scaled(by):
    def inner(x):
        return by * x
    return inner

twice = scaled(2.0)

def log_density(params, data, weights):
    return -0.5 * jnp.sum(weights * (data - params["mean"]) ** 2)

def heldout(params, data, weights):
    return SCALE * twice(spread(data - params["mean"])) + 0.0 * own_helper.POWER * POWER
"""
EDITS = {
    "a constant": ("SCALE = 1.0", "SCALE = 3.0"),
    "square to abs": ("jnp.square(x)", "jnp.abs(x)"),
    "a default": ("sharp=1.0", "sharp=2.0"),
    "a keyword's default": ("wide=1.0", "wide=2.0"),
    "a closure": ("scaled(2.0)", "scaled(4.0)"),
    "the density": ("-0.5 * jnp", "-0.7 * jnp"),
}
EMISSION = """
from dataclasses import dataclass
import jax.numpy as jnp
import fitonce as fo
from fitonce.core.constraints import Free
from fitonce.models.emissions import spread_levels, sum_channels

@dataclass(frozen=True)
class Own(fo.models.Emission):
    def parameters(self, n_states, rows):
        return {"mean": Free((n_states, rows.x.shape[1]))}

    def start(self, n_states, rows, rng):
        return {"mean": spread_levels(n_states, rows, rng)}

    def log_prior(self, params, rows):
        return -0.5 * jnp.sum(params["mean"] ** 2) / 9.0

    def log_density(self, params, rows):
        return sum_channels(-0.5 * (rows.x[:, None] - params["mean"]) ** 2, rows)
"""
_numbers = itertools.count(1)


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """Imports a module from a file with this text, as a new process would."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def load(text, helper=HELPER):
        for name, content in (("own_module", text), ("own_helper", helper)):
            (tmp_path / f"{name}.py").write_text(f"{content}# {next(_numbers)}\n")
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        for kept in (tmp_path / "__pycache__").glob("*.pyc"):
            kept.unlink()  # edits within a second have the same time
        return importlib.import_module("own_module")

    yield load
    for name in ("own_module", "own_helper"):
        sys.modules.pop(name, None)


def estimate(module, journal):
    model = fo.models.Custom(module.log_density, {"mean": 0.0}, heldout=module.heldout)
    return fo.cross_validate(fo.fit(model, X), FOLDS, method="onestep", journal=journal)


def found_of(result):
    return int(result.about["journal"].split()[0])


@pytest.mark.parametrize("edit", ["a constant", "square to abs"])
def test_an_edited_function_of_a_custom_model_gives_the_new_numbers(tmp_path, imported, edit):
    before = estimate(imported(MODULE), tmp_path / "journal")
    same = estimate(imported(MODULE), tmp_path / "journal")
    assert same.estimate == before.estimate
    assert found_of(same) > 0
    edited = MODULE.replace(*EDITS[edit])
    fresh = estimate(imported(edited), tmp_path / "other")
    after = estimate(imported(edited), tmp_path / "journal")
    assert after.estimate == fresh.estimate != before.estimate
    assert found_of(after) == 0


@pytest.mark.parametrize("edit", EDITS)
def test_every_edit_that_counts_changes_the_key(imported, edit):
    def key(text, helper=HELPER):
        module = imported(text, helper)
        return digest((module.log_density, module.heldout))

    before = key(MODULE)
    assert key(MODULE) == before
    assert key(MODULE + "\ndef unused():\n    return 1\n") == before
    assert MODULE.replace(*EDITS[edit]) != MODULE
    assert key(MODULE.replace(*EDITS[edit])) != before
    assert key(MODULE, "POWER = 3\n") != before


def test_an_edited_emission_gives_the_new_numbers(tmp_path, imported):
    def result(text, journal):
        fit = fo.fit(fo.models.HMM(2, imported(text).Own()), X, restarts=1, optima=0)
        folds = fo.folds.kfold(fit.data, 4)
        return fo.cross_validate(fit, folds, method="onestep", journal=journal)

    before = result(EMISSION, tmp_path / "journal")
    edited = EMISSION.replace("-0.5 * (rows", "-0.8 * (rows")
    fresh = result(edited, tmp_path / "other")
    after = result(edited, tmp_path / "journal")
    assert after.estimate == fresh.estimate != before.estimate
    assert found_of(after) == 0
