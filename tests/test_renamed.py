"""What 0.2 renamed works for one more version, and says where it is now; what 0.1 saved still loads."""

from __future__ import annotations

import importlib
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import fitonce as fo
from registry import _counts

SAVED = Path(__file__).parent / "saved" / "result-0.1.json"


@cache
def fitted():
    return fo.fit(fo.models.PoissonHMM(2), _counts(), restarts=1)


@pytest.mark.parametrize(
    ("old", "new"),
    [("problem", "objective"), ("hessian", "H"), ("second", "hessian_operator")],
)
def test_attributes_of_a_fit(old, new):
    with pytest.warns(DeprecationWarning, match=f"Fit.{old} is now Fit.{new}"):
        found = getattr(fitted(), old)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(getattr(fitted(), new)))


def test_the_operator_of_a_curvature():
    curve = fo.curvature(fitted())
    with pytest.warns(DeprecationWarning, match=r"Curvature.hessian is now Curvature.hessian_operator"):
        assert curve.hessian is curve.hessian_operator
    np.testing.assert_array_equal(curve.H, fitted().H)


def test_the_objective_is_a_function_as_it_was():
    weights = fitted().objective.base.copy()
    weights[:5] = 0.0
    values = fitted().objective.values_and_gradients(fitted().theta[None], weights[None])[0]
    assert fitted().objective(fitted().theta, weights) == values[0]
    assert fitted().objective(fitted().theta) == pytest.approx(fitted().value)
    with pytest.raises(ValueError, match=r"theta must have shape \(5,\), got \(2,\)"):
        fitted().objective([0.0, 1.0])
    with pytest.raises(ValueError, match=r"weights must have shape \(60,\), got \(3,\)"):
        fitted().objective(fitted().theta, np.ones(3))


@pytest.mark.parametrize(
    ("old", "name", "new"),
    [
        ("fitonce.constraints", "Positive", "fitonce.core.constraints"),
        ("fitonce.weighting", "B", "fitonce.objectives.schemes"),
        ("fitonce.compile_cache", "use", "fitonce.core.compile_cache"),
        ("fitonce.report", "html_report", "fitonce.results.report"),
    ],
)
def test_modules_that_moved(old, name, new):
    module = importlib.import_module(old)
    with pytest.warns(DeprecationWarning, match=f"{old} is now {new}; the old name will be removed"):
        assert getattr(module, name) is getattr(importlib.import_module(new), name)
    with (
        pytest.warns(DeprecationWarning, match=old),
        pytest.raises(AttributeError, match="no_such_thing"),
    ):
        module.no_such_thing


def test_from_imports_of_what_moved_warn_once_they_are_used():
    code = (
        "import warnings; warnings.simplefilter('always')\n"
        "with warnings.catch_warnings(record=True) as said:\n"
        "    from fitonce.constraints import Positive\n"
        "    import fitonce as fo; fo.weighting.A()\n"
        "print([str(one.message) for one in said if one.category is DeprecationWarning])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "fitonce.constraints is now fitonce.core.constraints" in found.stdout
    assert "fitonce.weighting is now fitonce.objectives.schemes" in found.stdout


def test_importing_says_nothing():
    subprocess.run([sys.executable, "-W", "error", "-c", "import fitonce"], check=True)


def test_a_result_of_the_first_version_loads():
    cv = fo.load(SAVED)
    assert cv.estimate == pytest.approx(1.2735, abs=5e-5)
    assert cv.about["versions"]["fitonce"] == "0.1.0"
    assert dict(cv.folds["rung"].value_counts()) == {"refine": 5, "refine-own": 3}
    assert "5 refine, 3 refine-own" in repr(cv)


def test_what_it_becomes_is_the_same_result(tmp_path):
    cv = fo.load(SAVED)
    again = fo.load(cv.save(tmp_path / "again.json"))
    assert again.folds.equals(cv.folds)
    page = cv.to_html(tmp_path / "cv.html").read_text()
    assert "refined towards the fold&#x27;s own optimum with the fold&#x27;s own Hessian" in page
