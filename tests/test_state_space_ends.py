"""Passes that end where nothing more is kept or wanted."""

from __future__ import annotations

import numpy as np
import pytest

import fitonce as fo
from fitonce.objectives.space.evaluated import evaluated
from fitonce.objectives.space.layout import Paths


@pytest.mark.parametrize("end", [None, 8])
@pytest.mark.parametrize("kind", ["weights", "shares"])
def test_steps_that_no_fold_keeps_add_nothing_not_even_rounding(kind, end):
    rng = np.random.default_rng(0)
    model = fo.models.Structural("trend", ar=1)
    values = {"level": 0.5, "slope": 0.01, "noise": 0.2, "ar_noise": 0.3, "ar": [0.6]}
    fit = fo.fit_at(model, [np.cumsum(rng.normal(size=length)) for length in (40, 30)], values)
    layout, lasts = fit.objective.layout, [12, 25, 39]
    kept = np.ones((70, len(lasts)))
    for fold, last in enumerate(lasts):
        kept[last + 1 : 40, fold] = 0.0
    kept[60:] = 0.0  # of the second sequence, in all folds
    ones, coefficients = np.ones_like(kept), np.ones((2, len(lasts)))
    thetas = np.repeat(fit.theta[None], len(lasts), 0)

    def of(folds, wanted):
        chosen = kept[:, folds]
        weights, shares = (chosen, ones[:, folds]) if kind == "weights" else (ones[:, folds], chosen)
        return evaluated(
            layout, thetas[folds], Paths(weights, shares, coefficients[:, folds]), end, wanted=wanted
        )

    nothing = np.zeros(0, int)
    for folds in ([0], [1], [0, 1], [0, 1, 2]):
        short, whole = of(folds, nothing), of(folds, None)
        np.testing.assert_array_equal(short.log_likelihoods, whole.log_likelihoods)
        np.testing.assert_array_equal(short.slopes(), whole.slopes())
        if kind == "weights":
            wanted = np.array([30, 65])
            found = of(folds, wanted).heldout(wanted)
            np.testing.assert_array_equal(found, whole.heldout(wanted))
            assert np.isfinite(found).all()


def test_a_pass_ends_with_what_is_kept_or_wanted():
    fit = fo.fit_at(fo.models.Structural(), np.arange(50.0) % 7, {"level": 1.0, "noise": 1.0})
    weights = np.ones((50, 1))
    weights[20:] = 0.0
    paths = Paths(weights, np.ones((50, 1)), np.ones((1, 1)))
    for wanted, end in ([], 20), ([33], 34), (None, 50):
        steps = None if wanted is None else np.array(wanted, int)
        one = evaluated(fit.objective.layout, fit.theta[None], paths, wanted=steps)
        (stretch,) = one._one._stretches
        assert stretch.spans[0, 1] == end
