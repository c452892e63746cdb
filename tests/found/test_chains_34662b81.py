"""Found by `make fuzz`; it was: warning: RuntimeWarning: divide by zero encountered in log."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "emission": "full",
    "states": 3,
    "options": {"stationary": True},
    "data": [[[0.0], [0.0], [0.0], [0.0], [0.0], [42.74222183227539], [-39.62894821166992], [0.0]]],
    "form": "arrays",
    "folds": {"kind": "points", "options": {}},
    "fit": "none",
    "loss": "pointwise",
    "seed": 0,
    "far": 1.0,
    "zeros": 0.0,
    "plain": False,
}


def test_chains_34662b81():
    require_sound("chains", RECIPE)
