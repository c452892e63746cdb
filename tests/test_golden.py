"""Nothing has changed unseen: each registered model answers what the golden record holds.

A change that is meant to alter a number or a sentence alters the record (`python tests/golden_record.py
NAME`) in a commit of its own that says why.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

import fitonce as fo
from documents import differences
from fitonce import schemes
from golden_record import (
    FACES,
    FOLDER,
    RECORDED,
    STANDARD_ERRORS,
    Case,
    disagreement,
    has_a_sweep,
    kernels_of,
    saved_fit,
    schemes_of,
    standard_errors,
)


@lru_cache(maxsize=2)  # tests come model by model
def case_of(name):
    with np.load(FOLDER / f"{name}.npz") as file:
        point = file["point"]
    return Case(RECORDED[name], saved_fit(name), point)


@lru_cache(maxsize=2)
def record_of(name):
    with np.load(FOLDER / f"{name}.npz") as file:
        return dict(file)


FROM_NEARBY = ("transition-regression-support",)  # random starts end elsewhere on other machines
COMPILED = {"gaussian-full", "gaussian-tied", "linear-regression", "iid-mixture", "custom-mixture"}
SLOW = {"dynamic-factors", "neural-autoregression", "gaussian-mixture-tied"}  # seconds each


def is_slow(name, scheme=None, kernel=None):
    """Programs of JAX are compiled for it, or it takes long."""
    compiled = name in COMPILED | SLOW or name.startswith(("potts", "custom"))
    return compiled or kernel is not None or getattr(scheme, "normalised", False)


def cases(*others, left_out=False):
    """The registered models, with each of their paths, engines or neither."""
    found = []
    for name, entry in RECORDED.items():
        for scheme in schemes_of(entry) if "scheme" in others else [None]:
            if left_out and isinstance(scheme, schemes.Increments):
                continue  # which are resampled
            for kernel in kernels_of(entry) if "kernel" in others else [None]:
                marks = [pytest.mark.xdist_group(name)]
                marks += [pytest.mark.slow] if is_slow(name, scheme, kernel) else []
                chosen = {"scheme": scheme, "kernel": kernel}
                values = (name, *(chosen[other] for other in others))
                found.append(pytest.param(*values, marks=marks, id="-".join(map(str, values))))
    return found


def agree(name, part, found):
    """Compare the arrays of a part with those of the record."""
    record, fit = record_of(name), case_of(name).fit
    assert {f"{part}/{key}" for key in found} == {key for key in record if key.startswith(f"{part}/")}
    wrong = [disagreement(part, key, array, record, fit) for key, array in found.items()]
    assert not list(filter(None, wrong))


@pytest.mark.parametrize(("name", "scheme"), cases("scheme"))
def test_derivatives_are_those_of_the_record(name, scheme):
    agree(name, f"derivatives {scheme or 'own'}", case_of(name).derivatives(scheme))


@pytest.mark.parametrize(("name", "scheme"), cases("scheme", left_out=True))
def test_exact_folds_are_those_of_the_record(name, scheme):
    agree(name, f"exact {scheme or 'own'}", case_of(name).exact(scheme))


@pytest.mark.parametrize("name", cases())
def test_sweeps_and_states_are_those_of_the_record(name):
    case = case_of(name)
    if has_a_sweep(case.entry):
        agree(name, "sweep", case.sweep())
    agree(name, "latent", case.latent())


@pytest.mark.parametrize("name", cases())
def test_answers_are_those_of_the_record(name):
    case = case_of(name)
    for part, found in case.tables():
        agree(name, part, found)
    expected = (FOLDER / f"{name}.txt").read_text()
    assert not differences(expected, case.printed())


@pytest.mark.parametrize("name", cases())
def test_a_new_fit_is_that_of_the_record(name):
    case = case_of(name)
    kept, again = case.fit, {"restarts": 2}
    if name in FROM_NEARBY:
        again = {"init": kept.objective.space.params_at(case.point)}
    fit = fo.fit(case.entry.model, kept.data, **again)
    assert fit.value == pytest.approx(kept.value, rel=1e-9)
    assert fit.model == kept.model
    assert standard_errors(kept, (fit.theta - kept.theta)[None]) < STANDARD_ERRORS


@pytest.mark.parametrize("name", cases())
def test_fits_of_the_record_are_of_the_registered_models(name):
    kept, entry = case_of(name).fit, RECORDED[name]
    assert (kept.model == entry.model) or name in FACES
    assert kept.ok


@pytest.mark.parametrize(("name", "kernel"), cases("kernel"))
def test_engines_agree_with_the_record(name, kernel):
    case = case_of(name)
    for scheme in schemes_of(case.entry):
        agree(name, f"derivatives {scheme}", case.derivatives(scheme, kernel))
    usual = schemes_of(case.entry)[0]
    agree(name, f"exact {usual}", case.exact(usual, kernel))
    agree(name, "sweep", case.sweep(kernel))


@pytest.mark.parametrize("name", RECORDED)
def test_all_parts_of_the_record_are_compared(name):
    entry = RECORDED[name]
    parts = {
        f"{kind} {scheme or 'own'}" for scheme in schemes_of(entry) for kind in ("derivatives", "exact")
    }
    parts -= {"exact Increments()"}
    parts |= {"auto"} | ({"auto of sequences"} if entry.sequences else set())
    parts |= {"sweep", "loo", "influence"} if has_a_sweep(entry) else set()
    assert {key.split("/")[0] for key in record_of(name) if "/" in key} - {"latent"} == parts


def test_the_record_is_of_the_registered_models_and_small():
    endings = (".json", ".npz", ".txt")
    expected = {f"{name}{ending}" for name in RECORDED for ending in endings}
    assert {path.name for path in FOLDER.iterdir()} == expected
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 10e6


@pytest.mark.parametrize(
    ("key", "change", "wrong"),
    [
        ("value", 1e-7, "differs by"),
        ("gradient", np.nan, "finite elsewhere"),
        ("H", None, "has shape"),
    ],
)
def test_a_change_is_told(key, change, wrong):
    record, part = record_of("poisson"), "derivatives A()"
    found = record[f"{part}/{key}"] * 1.0
    found = found[1:] if change is None else found * (1.0 + change)
    assert wrong in disagreement(part, key, found, record, case_of("poisson").fit)
