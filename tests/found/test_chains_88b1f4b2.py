"""Found by `make fuzz`; it was: warning: RuntimeWarning: invalid value encountered in reduce."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "emission": "categorical",
    "states": 2,
    "options": {},
    "data": [
        [[0.0, 0.0], [0.0, 3.0], [2.0, 2.0], [0.0, 0.0], [0.0, 1.0], [0.0, 2.0], [0.0, 0.0], [0.0, 0.0]]
    ],
    "form": "arrays",
    "folds": {"kind": "points", "options": {}},
    "fit": "newton",
    "loss": "pointwise",
    "seed": 0,
    "far": 1.0,
    "zeros": 0.0,
    "plain": False,
}


def test_chains_88b1f4b2():
    require_sound("chains", RECIPE)
