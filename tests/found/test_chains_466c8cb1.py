"""Found by `make fuzz`; it was: refused what is right: ValueError: theta must be 2 finite nu."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "emission": "full",
    "states": 1,
    "options": {},
    "data": [[[0.0], [0.0], [0.0], [0.0], [0.0], [0.0], [5.0], [1.0]]],
    "form": "arrays",
    "folds": {"kind": "points", "options": {}},
    "fit": "newton",
    "loss": "joint",
    "seed": 0,
    "far": 1.0,
    "zeros": 0.0,
    "plain": True,
}


def test_chains_466c8cb1():
    require_sound("chains", RECIPE)
