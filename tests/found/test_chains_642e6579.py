"""Found by `make fuzz`; it was: warning: RuntimeWarning: invalid value encountered in subtra."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "emission": "binomial",
    "states": 2,
    "options": {"initial_concentration": 1e-300},
    "data": [[[0.0], [0.0], [13.0], [8.0], [23.0], [23.0], [15.0], [3.0]], [[0.0], [7.0], [3.0]]],
    "form": "arrays",
    "folds": {"kind": "points", "options": {}},
    "fit": "newton",
    "loss": "pointwise",
    "seed": 0,
    "far": 1.0,
    "zeros": 0.0,
    "plain": False,
}


def test_chains_642e6579():
    require_sound("chains", RECIPE)
