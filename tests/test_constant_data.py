"""Data in which nothing varies: fits refuse them, and predictions do not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fitonce as fo
from fitonce import models
from fitonce.cli import app

RNG = np.random.default_rng(0)
STATES = np.repeat([0, 1, 0], 20)
X = RNG.normal(3.0 * STATES, 1.0).round(2)
HEAT = RNG.normal(size=60).round(2)
KINDS = {
    "gaussian": (models.HMM(2, "gaussian"), X),
    "full": (models.GaussianHMM(2, covariance="full"), np.column_stack([X, HEAT])),
    "mixture": (models.HMM(2, models.GaussianMixture(2)), X),
    "student": (models.HMM(2, models.StudentT(["heat"])), X),
    "log-normal": (models.HMM(2, models.LogNormal(["heat"])), np.exp(X)),
    "gaussian regression": (models.HMM(2, models.GaussianRegression(["heat"])), X),
    "linear regression": (models.HMM(2, models.LinearRegression(["heat"])), X),
    "switching": (models.HMM(2, models.SwitchingRegression(["heat"])), X),
    "autoregression": (models.ARHMM(2, 1), X),
    "counts": (models.PoissonHMM(2, covariates=["heat"]), np.floor(np.exp(0.5 * X))),
    "categories": (models.HMM(2, models.CategoricalRegression(2, ["heat"])), STATES.astype(float)),
    "product": (
        models.HMM(2, models.Product({"x0": models.StudentT(["heat"]), "x1": "gaussian"})),
        np.column_stack([X, HEAT]),
    ),
}


def read(values, heat):
    """Sequences of these values, and at all steps of each the heat given for it."""
    tables = [{"heat": np.full(len(steps), at)} for steps, at in zip(values, heat, strict=True)]
    return fo.sequences(values, covariates=tables)


SLOW = ("linear regression",)  # of channels by themselves it is the Gaussian regression


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] if kind in SLOW else []) for kind in KINDS]
)
def test_constant_data_are_predicted_but_not_fitted(kind):
    model, values = KINDS[kind]
    fit = fo.fit(model, fo.sequences(values, covariates={"heat": HEAT}), restarts=1, optima=0)
    flat = np.repeat(values[:1], 5, 0)
    constant, beside = read([flat], [0.5]), read([flat, values], [0.5, 0.7])
    expected = fit.log_likelihood_of(beside)[0]
    assert fit.score(constant) == pytest.approx(expected, rel=1e-10)
    np.testing.assert_array_equal(fit.decode(constant)[0], fit.decode(beside)[0])
    np.testing.assert_allclose(fo.marginals(fit, constant)[0], fo.marginals(fit, beside)[0], atol=1e-10)
    for refuse in (
        lambda: fo.fit(model, constant),
        lambda: fo.fit_at(model, constant, fit.params),
        lambda: fo.plan(model, constant),
    ):
        with pytest.raises(ValueError, match=r"(channel|covariate) '.*' is constant|data are constant"):
            refuse()


def test_single_steps_are_predicted():
    fit = fo.fit(models.GaussianHMM(2), X, restarts=1, optima=0)
    density = np.exp(fit.log_likelihood_of([[3.0]])[0])
    mean, variance = fit.params["mean"][:, 0], fit.params["variance"][:, 0]
    by_state = np.exp(-0.5 * (3.0 - mean) ** 2 / variance) / np.sqrt(2 * np.pi * variance)
    assert density == pytest.approx(fit.params["initial"] @ by_state, rel=1e-10)


def test_maps_that_are_constant_are_refused():
    model = models.PottsMixture([(0, 1), (1, 2)], 2, "gaussian", beta=0.5)
    params = {"mean": np.arange(2.0), "variance": np.ones(2)}
    for refuse in (lambda: fo.fit(model, np.zeros(3)), lambda: fo.fit_at(model, np.zeros(3), params)):
        with pytest.raises(ValueError, match="channel 'x0' is constant"):
            refuse()


def test_the_command_line_decodes_constant_data(tmp_path):
    pd.DataFrame({"x": X}).to_csv(tmp_path / "x.csv", index=False)
    pd.DataFrame({"x": [3.0, 3.0]}).to_csv(tmp_path / "new.csv", index=False)
    fo.fit(models.GaussianHMM(2), pd.DataFrame({"x": X}), restarts=1, optima=0).save(tmp_path / "f.json")
    words = ["decode", str(tmp_path / "f.json"), str(tmp_path / "new.csv"), "--csv"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert len(done.stdout.strip().split("\n")) == 3
