"""Found by `make fuzz`; it was: warning: RuntimeWarning: overflow encountered in exp."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "emission": "binomial",
    "states": 3,
    "options": {"transition_concentration": 4.0},
    "data": [[[0.0], [25.0], [nan], [6.0], [20.0], [nan], [nan], [nan]], [[6.0], [nan], [20.0]]],
    "form": "arrays",
    "folds": {"kind": "points", "options": {}},
    "fit": "exact",
    "loss": "pointwise",
    "seed": 0,
    "far": 1.0,
    "zeros": 0.0,
    "plain": False,
}


def test_chains_9e26cae2():
    require_sound("chains", RECIPE)
