"""Found by `make fuzz`; it was: wrong answer: pointwise losses of fold 1: finite, must not b."""

from math import inf, nan  # noqa: F401

from fuzzing.kinds import require_sound

RECIPE = {
    "emission": "negative-binomial",
    "states": 2,
    "options": {},
    "data": [
        [
            [10.0, 0.0, 1.0],
            [20.0, nan, nan],
            [nan, 19.0, nan],
            [nan, 2.0, nan],
            [nan, nan, 0.0],
            [18.0, nan, nan],
            [nan, nan, 16.0],
            [nan, nan, nan],
        ]
    ],
    "form": "one array",
    "folds": {"kind": "iid", "options": {"seed": 604, "n": 3, "percent": 34.5}},
    "fit": "auto",
    "loss": "pointwise",
    "seed": 1271,
    "far": 1.0,
    "zeros": 0.0,
    "plain": True,
}


def test_chains_dd24c102():
    require_sound("chains", RECIPE)
