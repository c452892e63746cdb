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
    ENTRIES,
    FOLDER,
    Case,
    has_a_sweep,
    kernels_of,
    saved_fit,
    schemes_of,
)

CLOSED, ROUGH = 1e-9, 1e-6  # of an array's largest entry: what is derived, and what is from differences
STANDARD_ERRORS = 1e-6  # by which parameters of folds may differ
NATS, SHARE = 1e-9, 0.01  # by which estimated errors may differ
REFITTED = 1e-6  # nats: losses at parameters of folds


@lru_cache(maxsize=2)  # tests come model by model
def case_of(name):
    with np.load(FOLDER / f"{name}.npz") as file:
        point = file["point"]
    return Case(ENTRIES[name], saved_fit(name), point)


@lru_cache(maxsize=2)
def record_of(name):
    with np.load(FOLDER / f"{name}.npz") as file:
        return dict(file)


COMPILED = {"gaussian-full", "gaussian-tied", "linear-regression", "iid-mixture", "custom-mixture"}
SLOW = {"dynamic-factors", "neural-autoregression", "gaussian-mixture-tied"}  # seconds each


def is_slow(name, scheme=None, kernel=None):
    """Programs of JAX are compiled for it, or it takes long."""
    compiled = name in COMPILED | SLOW or name.startswith(("potts", "custom"))
    return compiled or kernel is not None or isinstance(scheme, schemes.B)


def cases(*others):
    """The registered models, with each of their paths, engines or neither."""
    found = []
    for name, entry in ENTRIES.items():
        for scheme in schemes_of(entry) if "scheme" in others else [None]:
            for kernel in kernels_of(entry) if "kernel" in others else [None]:
                marks = [pytest.mark.xdist_group(name)]
                marks += [pytest.mark.slow] if is_slow(name, scheme, kernel) else []
                chosen = {"scheme": scheme, "kernel": kernel}
                values = (name, *(chosen[other] for other in others))
                found.append(pytest.param(*values, marks=marks, id="-".join(map(str, values))))
    return found


def agree(name, part, found, rough=False):
    """Compare the arrays of a part with those of the record."""
    record = record_of(name)
    assert {f"{part}/{key}" for key in found} == {key for key in record if key.startswith(f"{part}/")}
    for key, array in found.items():
        expected, by_differences = record[f"{part}/{key}"], key in record["by_differences"]
        told = f"{name}, {part}: {key}"
        if key == "theta":
            agree_in_standard_errors(case_of(name).fit, array, expected, told)
        elif array.dtype.kind in "US":
            np.testing.assert_array_equal(array, expected, told)
        elif key == "error":
            atol = np.maximum(NATS, SHARE * np.abs(expected))
            assert np.array_equal(np.isnan(array), np.isnan(expected)), told
            assert (np.nan_to_num(np.abs(array - expected)) <= atol).all(), told
        else:
            scale = np.abs(expected[np.isfinite(expected)]).max(initial=1e-300)
            atol = scale * (ROUGH if by_differences or rough else CLOSED)
            atol = max(atol, REFITTED) if key in ("loss", "estimate") and rough else atol
            np.testing.assert_allclose(array, expected, rtol=0, atol=atol, err_msg=told)


def agree_in_standard_errors(fit, found, expected, told):
    assert np.array_equal(np.isnan(found), np.isnan(expected)), told
    moves = np.nan_to_num(found - expected).reshape(-1, len(fit.theta))
    squares = np.einsum("fd,de,fe->f", moves, fit.H, moves)
    assert np.sqrt(np.maximum(squares, 0.0)).max() < STANDARD_ERRORS, told


@pytest.mark.parametrize(("name", "scheme"), cases("scheme"))
def test_derivatives_are_those_of_the_record(name, scheme):
    agree(name, f"derivatives {scheme or 'own'}", case_of(name).derivatives(scheme))


@pytest.mark.parametrize(("name", "scheme"), cases("scheme"))
def test_exact_folds_are_those_of_the_record(name, scheme):
    agree(name, f"exact {scheme or 'own'}", case_of(name).exact(scheme), rough=True)


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
        agree(name, part, found, rough=True)
    expected = (FOLDER / f"{name}.txt").read_text()
    assert not differences(expected, case.printed())


@pytest.mark.parametrize("name", cases())
def test_a_new_fit_is_that_of_the_record(name):
    entry, kept = ENTRIES[name], case_of(name).fit
    fit = fo.fit(entry.model, entry.data, restarts=2)
    assert fit.value == pytest.approx(kept.value, rel=1e-9)
    agree_in_standard_errors(kept, fit.theta, kept.theta, name)


@pytest.mark.parametrize(("name", "kernel"), cases("kernel"))
def test_engines_agree_with_the_record(name, kernel):
    case = case_of(name)
    usual = schemes_of(case.entry)[0]
    agree(name, f"derivatives {usual}", case.derivatives(usual, kernel))
    agree(name, f"exact {usual}", case.exact(usual, kernel), rough=True)
    agree(name, "sweep", case.sweep(kernel))


def test_the_record_is_of_the_registered_models_and_small():
    endings = (".json", ".npz", ".txt")
    expected = {f"{name}{ending}" for name in ENTRIES for ending in endings}
    assert {path.name for path in FOLDER.iterdir()} == expected
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 10e6
