"""Found by `make fuzz`; it was: wrong answer: fold 4: a loss without parameters."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "emission": "full",
    "states": 3,
    "options": {},
    "data": [
        [[26.815353393554688], [0.0], [nan], [nan], [0.0], [0.0], [nan], [nan]],
        [[-39.185455322265625], [44.35446548461914], [nan], [nan], [0.0]],
        [[0.0]],
    ],
    "form": "arrays",
    "folds": {"kind": "points", "options": {}},
    "fit": "newton",
    "loss": "pointwise",
    "seed": 0,
    "far": 1.0,
    "zeros": 0.0,
    "plain": True,
}


def test_chains_85b38f45():
    require_sound("chains", RECIPE)
