"""A family registered from outside (`mixture_family`) is fitted, cross-validated and reported as any.

Its properties (derivatives, refits, the ladder) are in test_models.py: it is an entry of the registry.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from typer.testing import CliRunner

import fitonce as fo
from fitonce.cli import app
from fitonce.objectives.families import register
from fitonce.objectives.family import Family
from mixture_family import MIXTURES, IidMixture
from registry import two_clusters

ROOT = Path(__file__).parents[1]


@cache
def fitted():
    return fo.fit(IidMixture(2), two_clusters())


@cache
def validated():
    return fo.cross_validate(fitted(), fo.folds.iid(fitted().data, percent=10, n=6, seed=0))


def test_the_package_does_not_know_it():
    sources = [path.read_text() for path in (ROOT / "src").rglob("*.py")]
    assert not [text for text in sources if "IidMixture" in text or "mixture_family" in text]


def test_losses_are_those_of_the_mixture():
    cv = fo.cross_validate(fitted(), fo.folds.points(fitted().data), method="exact")
    x = two_clusters()
    for fold in (0, 30, 60):
        params = cv.params(fold)
        site = int(cv.pointwise["site"][fold])
        density = params["share"] @ norm.pdf(x[site], params["centre"])
        assert cv.folds["loss"][fold] == pytest.approx(-np.log(density), rel=1e-9)


def test_auto_is_close_to_exact_refits():
    exact = fo.cross_validate(
        fitted(), fo.folds.iid(fitted().data, percent=10, n=6, seed=0), method="exact"
    )
    assert exact.folds["status"].eq("stationary").all()
    assert abs(validated().estimate - exact.estimate) <= validated().tolerance
    assert validated().scheme == "A"


def test_loo_and_influence():
    loo = fo.loo(fitted())
    assert len(loo.folds) == int(fitted().objective.base.sum())
    found = fo.influence(fitted())
    assert "site" in repr(found)
    assert set(fitted().names) <= set(found.table.columns)


def test_bootstrap_draws_single_sites_and_nothing_else():
    drawn = fo.bootstrap(fitted(), "iid", n=200, seed=1)
    ratio = drawn.table["se"] / drawn.table["control"]
    assert ratio.between(0.6, 1.6).all()
    with pytest.raises(
        ValueError, match=r"kind must be one of \('iid',\) for IidMixture of 2, got 'block'"
    ):
        fo.bootstrap(fitted(), "block")


def test_predict_and_marginals():
    (states,) = fo.predict(fitted())
    (shares,) = fo.marginals(fitted())
    assert (states == shares.argmax(1)).all()
    (far,) = fo.predict(fitted(), np.array([-9.0, 9.0]))
    assert sorted(far) == [0, 1]


def test_it_is_saved_and_reported(tmp_path):
    cv = validated()
    again = fo.load(cv.save(tmp_path / "cv.json"))
    assert again.estimate == cv.estimate
    assert again.fit.model == "IidMixture of 2"
    page = cv.to_html(tmp_path / "cv.html").read_text()
    assert "IidMixture of 2" in page


def test_the_command_line_has_it(tmp_path):
    pd.DataFrame({"x": two_clusters()}).to_csv(tmp_path / "x.csv", index=False)
    words = ["cv", str(tmp_path / "x.csv"), "--model", "iid-mixture", "--n", "4", "--json", "--no-cache"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["left_out"].startswith("4 folds, 10 % of points at random")
    done = CliRunner().invoke(app, [*words, "--folds", "future"])
    assert done.exit_code == 2
    assert "--folds must be one of iid, points, kfold for this model, got 'future'" in done.stderr


def test_what_is_no_family_or_known_already_is_refused():
    with pytest.raises(ValueError, match="register takes a Family, got str"):
        register("mixture")
    with pytest.raises(ValueError, match="a family called 'mixture' is already registered"):
        register(MIXTURES)
    assert isinstance(MIXTURES, Family)


def test_contributing_names_the_files_of_a_family():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for name in ("layout.py", "programs.py", "objective.py", "family.py"):
        assert f"`{name}`" in text
