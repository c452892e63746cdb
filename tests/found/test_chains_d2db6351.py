"""Found by `make fuzz`; it was: refused what is right: ValueError: theta must be 11 finite n."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "emission": "binomial",
    "states": 3,
    "options": {},
    "data": [
        [[0.0], [20.0]],
        [[21.0], [0.0]],
        [[0.0], [15.0], [20.0], [0.0], [0.0], [0.0], [0.0], [0.0]],
    ],
    "form": "arrays",
    "folds": {"kind": "points", "options": {}},
    "fit": "newton",
    "loss": "joint",
    "seed": 0,
    "far": 1.0,
    "zeros": 0.0,
    "plain": True,
}


def test_chains_d2db6351():
    require_sound("chains", RECIPE)
