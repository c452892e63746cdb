"""Found by `make fuzz`; it was: wrong answer: fold 1: a loss without parameters."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "emission": "spherical",
    "states": 3,
    "options": {},
    "data": [
        [
            [0.0, 0.0, 0.0],
            [0.0, 0.0, 15.42789077758789],
            [0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0],
        ]
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


def test_chains_5baadb2c():
    require_sound("chains", RECIPE)
